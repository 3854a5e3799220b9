"""Frames: an anchor expressed in coordinates that suit its window and the next one.

A log-linear psi stays the same function when its columns are shifted and scaled, if its coefficients, their errors and
the sums of scores are carried over. So a step is fitted in features that are centred and scaled near its own two
windows: the prior has no preferred scale, and Gram matrices in single precision are as good far from the original as
near it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from driftline import inference
from driftline._inputs import Floats
from driftline.fitting import Features, Integers, LogLinear, LogLinearDesign
from driftline.recursion._evidence import reframed
from driftline.recursion._kept import Sums, moved_sums
from driftline.recursion._state import Anchor

__all__ = [
    "RARE",
    "STRAY",
    "TAIL",
    "Framed",
    "awakened",
    "follow",
    "follow_sums",
    "frame_of",
    "moved_anchor",
    "place_of",
]

_ROWS = 2048  # rows of a window that suffice to place a frame
TAIL = 0.005  # share of rows at each end of a column that do not count for its place and spread
RARE = 0.02  # share of rows with another value than most below which they all count
# A frame stays while both windows lie within: then designs can be used again, and the prior is off by little.
_FAR = 0.5  # standard deviations
_WIDE = 1.4  # factor of a standard deviation
STRAY = 3.0  # standard deviations of a window by which the sums of the other may place and scale its features


class Framed(NamedTuple):
    """An anchor in the frame of a step, and both windows in that frame, (n, D) and (m, D)."""

    anchor: Anchor
    z_num: Floats
    z_den: Floats


def follow(anchor: Anchor, window: Floats) -> Framed:
    """Take in columns that come alive, and move the frame if the windows have left it; psi stays the same function."""
    psi, known = anchor.psi, anchor.design
    assert isinstance(psi, LogLinear)
    z_num = known.z if isinstance(known, LogLinearDesign) else psi.standardizer(anchor.window)
    z_den = psi.standardizer(window)
    anchor = _wakened(anchor, psi, z_num, z_den)
    psi = anchor.psi
    assert isinstance(psi, LogLinear)
    sample = _sample(z_num, z_den)
    place = _frame(psi.features.linear, sample)
    if place is None:
        return Framed(anchor, z_num, z_den)
    shift, rate = place
    anchor = moved_anchor(anchor, psi, shift, rate, psi.features.framed(shift, rate, (sample.rows - shift) / rate))
    return Framed(anchor, anchor.psi.standardizer(anchor.window), anchor.psi.standardizer(window))


def follow_sums(anchor: Anchor, window: Floats) -> tuple[Anchor, Floats]:
    """Do what :func:`follow` does where only sums are left of the anchor's window; also return the new one's rows.

    Where the rows were is known by their centre and spread, which the new rows are given to stand for them.
    """
    psi, sums = anchor.psi, anchor.sums
    assert isinstance(psi, LogLinear)
    assert sums is not None
    z_den = psi.standardizer(window)
    rows = _sample(z_den).rows
    center, spread = _Sample(rows).place
    like = (rows - center) / np.where(spread > 0.0, spread, 1.0)
    like[:, spread == 0.0] = np.where(np.arange(len(rows)) % 2, 1.0, -1.0)[:, None]
    like = (sums.center + sums.spread * like - psi.standardizer.shift) / psi.standardizer.rate
    sample = _Sample(np.concatenate([like, rows]))
    place = _frame(psi.features.linear, sample)
    if place is None:
        return anchor, z_den
    anchor = moved_anchor(anchor, psi, *place, _framed(psi.features, sums, rows, *place))
    return anchor, anchor.psi.standardizer(window)


def _framed(features: Features, sums: Sums, rows: Floats, shift: Floats, rate: Floats) -> Features:
    """Return features in a frame, centred and scaled on rows of one window and on the sums of the other."""
    z = (rows - shift) / rate
    into = features.framed(shift, rate, z)
    back = into.express(np.eye(features.size + 1), features, -shift / rate, 1.0 / rate)
    mean, here = (sums.moments.mean @ back)[:-1], into.design(z)[:, :-1].var(0)
    there = (back.T @ sums.moments.gram @ back).diagonal()[:-1] - mean * mean
    # sums know of no quantiles: a stray value must not set the scale where the rows can
    most = np.where(here > 0.0, STRAY, np.inf)
    mean, there = np.clip(mean, -most, most), np.clip(there, 0.0, most * most)
    spread = 0.5 * (here + there) + 0.25 * mean * mean
    scale = np.where(spread > 1e-14, np.sqrt(spread), 1.0)
    return into._replace(center=into.center + 0.5 * into.scale * mean, scale=into.scale * scale)


def place_of(z: Floats) -> tuple[Floats, Floats]:
    """Return centre and spread of the columns of rows (n, D), without what lies far out, (D,) each."""
    return _sample(z).place


def awakened(features: Features, still: npt.NDArray[np.bool_], z_num: Floats, z_den: Floats) -> Features:
    """Take in columns that have been constant until now, and squares of columns that have had two values.

    A column that was constant in the original (``still``) is 0 there. Its features are centred on that, as they would
    have been from the start; else the original's mean of a square that joins later would be unknown.
    """
    linear, squares = features.awake(z_num, z_den)
    if len(linear) + len(squares) == 0:
        return features
    wider = features.extend(z_num, linear=linear, squares=squares)
    joined = np.concatenate([np.isin(wider.linear, linear), np.isin(wider.squares, squares)])
    known = joined & still[np.concatenate([wider.linear, wider.squares])]
    center = wider.center.copy()
    center[: wider.base][known] = 0.0
    return wider._replace(center=center)


def _wakened(anchor: Anchor, psi: LogLinear, z_num: Floats, z_den: Floats) -> Anchor:
    still = psi.standardizer.still
    features = awakened(psi.features, still, z_num, z_den)
    if features is psi.features:
        return anchor
    at, coef = psi.features.positions(features), np.zeros(features.size)
    coef[at] = psi.coef
    uncertainty, wide = anchor.uncertainty, anchor.wide
    known = np.flatnonzero(np.concatenate([still[features.linear], still[features.squares]]))
    there = -psi.standardizer.shift / psi.standardizer.rate  # where all of the original's rows were
    means = features.design(there[None])[0, known]
    if uncertainty is not None:
        uncertainty = inference.placed(uncertainty, at, features.size + 1, (known, means))
    if wide is not None:
        origin = np.zeros(features.size)  # the centre of a feature that joins: its mean in the anchor's window
        origin[known] = means
        wide = inference.placed_wide(wide, at, origin)
    wider = psi._replace(features=features, coef=coef)
    return anchor._replace(
        psi=wider, uncertainty=uncertainty, design=None, known=None, wide=wide, wide_step=None, seen=None
    )


class _Sample(NamedTuple):
    """Some rows of both windows, with values beyond the outermost quantiles brought back to them: (n, D).

    A stray value far away must not set the scale of a column, which would hide all else in it.
    """

    rows: Floats

    @property
    def place(self) -> tuple[Floats, Floats]:
        """Centre and spread of each column, (D,)."""
        center = self.rows.mean(0)
        return center, np.sqrt(np.square(self.rows - center).mean(0))


def _sample(*windows: Floats) -> _Sample:
    """Draw as many rows from each window."""
    size = min(_ROWS, *(len(z) for z in windows))
    rows = np.concatenate([z[np.linspace(0, len(z) - 1, size).astype(np.int64)] for z in windows])
    low, middle, high = _places(rows)
    # a column with a rare second value, or a few of them: the quantile may lie between it and the common one
    rare = (rows != middle).mean(0) < RARE
    low[rare], high[rare] = -np.inf, np.inf
    return _Sample(np.clip(rows, low, high))


def _places(rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Return a middle value of each column between its outermost quantiles, (D,) each; sorting columns is fast."""
    ordered = np.sort(np.ascontiguousarray(rows.T), axis=1)
    below, share = divmod(TAIL * (len(rows) - 1), 1.0)
    k = int(below)
    low = ordered[:, k] + share * (ordered[:, k + 1] - ordered[:, k])
    high = ordered[:, -1 - k] - share * (ordered[:, -1 - k] - ordered[:, -2 - k])
    return low, ordered[:, len(rows) // 2], high


def _frame(columns: Integers, sample: _Sample) -> tuple[Floats, Floats] | None:
    """Return centre and spread of both windows together, (D,) each, if one of these columns has left its frame."""
    return frame_of(columns, *sample.place)


def frame_of(columns: Integers, center: Floats, spread: Floats) -> tuple[Floats, Floats] | None:
    """Return centre and spread of columns (D,) as a frame, if one of those in the model has left its frame."""
    real = np.zeros(len(center), dtype=np.bool_)
    real[columns] = True
    real &= spread > 1e-12 * (1.0 + np.abs(center))
    center, spread = np.where(real, center, 0.0), np.where(real, spread, 1.0)
    if not ((np.abs(center) > _FAR * spread) | (spread > _WIDE) | (spread < 1.0 / _WIDE)).any():
        return None
    return center, spread


def moved_anchor(anchor: Anchor, psi: LogLinear, shift: Floats, rate: Floats, into: Features) -> Anchor:
    """Express an anchor in the frame around ``shift`` with spread ``rate``, with the features ``into`` in it."""
    features = psi.features
    coef = features.express(np.append(psi.coef, 0.0)[:, None], into, shift, rate)[:, 0]
    uncertainty, sums = anchor.uncertainty, anchor.sums
    if uncertainty is not None or sums is not None:
        one = np.eye(features.size + 1)
        onto, back = features.express(one, into, shift, rate), into.express(one, features, -shift / rate, 1.0 / rate)
        uncertainty = None if uncertainty is None else inference.reframed(uncertainty, onto, back)
        sums = None if sums is None else moved_sums(sums, onto, back)
    wide = anchor.wide
    if wide is not None:
        same = features.express(np.append(wide.coef, 0.0)[:, None], into, shift, rate)[:, 0]
        wide = inference.reframed_wide(wide, same, features.carry(wide.origin, into, shift, rate))
    evidence = anchor.evidence
    return anchor._replace(
        psi=psi._replace(standardizer=psi.standardizer.moved(shift, rate), features=into, coef=coef[:-1]),
        log_normalizer=anchor.log_normalizer - float(coef[-1]),
        uncertainty=uncertainty,
        evidence=None if evidence is None else reframed(evidence, shift, rate),
        design=None,
        known=None,  # as it would be after loading, to the last bit
        seen=None,
        wide=wide,
        wide_step=None,
        sums=sums,
    )
