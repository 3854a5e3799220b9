"""Replacements: the features that the ratio so far needs once its own are replaced, and the clusters it began with."""

from __future__ import annotations

import numpy as np

from driftline import inference
from driftline._inputs import Floats
from driftline.fitting import (
    Features,
    Integers,
    Learned,
    LogLinear,
    LogLinearDesign,
    Monomials,
    monomials,
    refit_density,
    softmax,
)
from driftline.inference import Uncertainty, effective_sample_size
from driftline.recursion._recall import recalled
from driftline.recursion._rows import own_rows
from driftline.recursion._settings import NEWTON_FEATURES, StepSettings
from driftline.recursion._state import Anchor

__all__ = ["drawn_by", "summarised", "widened_for", "with_candidates"]

_ROWS = 4000  # of the window, on which candidates are tested
_PRODUCTS = 40  # columns with at most so many of which all products are candidates
_ROWS_PER_PRODUCT = 40.0  # effective rows for each feature from which on all products join
_HINTS = 3.0  # standard errors beyond which a candidate may hold drift
_ERRORS = 4.0  # the same, but hardly by chance
_WORTH = 2e-4  # nats that a candidate adds, at least
_CLUSTERED = 200.0  # effective rows of the weighted window from which it shows where clusters have been


def with_candidates(before: Anchor, settings: StepSettings) -> tuple[Anchor, bool]:
    """Let candidates join, with their drift so far, as long as the original's means of them are known; else say so.

    In the new features these means will be gone. All products join if there are rows enough, of the others those whose
    scores look like drift, long before they would be sure of it.
    """
    psi, evidence = before.psi, before.evidence
    assert isinstance(psi, LogLinear)
    if evidence is None or settings.model != "auto" or psi.features.size >= NEWTON_FEATURES:
        return before, False
    features, z = psi.features, before.own_design().z
    rows = own_rows(before, settings).effective(len(z))
    pairs = _other_pairs(features)
    likely = _likely(evidence.pair_score, evidence.pair_variance)[pairs[:, 0], pairs[:, 1]]
    every = _affordable(features, pairs, rows)
    bent = _likely(evidence.curve_score, evidence.curve_variance)
    curves, top = np.flatnonzero(bent > _HINTS), max(float(part.max(initial=0.0)) for part in (likely, bent))
    others: tuple[Learned, ...] = ()
    if before.crossed is None and len(curves):  # values of trees for their own rows are those of the last features
        others = (Learned(Monomials(monomials(z.shape[1])[curves]), evidence.shift, evidence.rate),)
    wider = features.extend(z, pairs=pairs if every else pairs[likely > _HINTS], others=others)
    if wider.size == features.size:
        return before, False
    found = recalled(before, LogLinearDesign(wider, z, before.crossed), evidence, settings.ridge)
    if found is None:
        return before, top > _ERRORS
    return found._replace(uncertainty=_placed(before.uncertainty, found.uncertainty, features.positions(wider))), False


def widened_for(
    features: Features, z: Floats, values: Floats, old: LogLinearDesign, errors: Floats, rows: float
) -> Features:
    """Add products and curved products that the previous log-ratio needs in the new features.

    All products join if there are ``rows`` enough: a turned square is a sum of these. Otherwise a candidate joins if
    its coefficient, alone, is larger than the errors of that log-ratio explain.
    """
    d, every = z.shape[1], max(1, len(z) // _ROWS)
    some, target, past = z[::every], values[::every], old.take(0, old.shape[0], every)
    pairs = _other_pairs(features)
    if _affordable(features, pairs, rows):
        features = features.extend(z, pairs=pairs)
    elif d <= _PRODUCTS and len(pairs):
        found = _needed(features, some, some[:, pairs[:, 0]] * some[:, pairs[:, 1]], target, past, errors)
        features = features.extend(z, pairs=pairs[found]) if len(found) else features
    factors = monomials(d)
    if len(factors):
        found = _needed(features, some, Monomials(factors)(some), target, past, errors)
        if len(found):
            learned = Learned(Monomials(factors[found]), np.zeros(d), np.ones(d))
            features = features.extend(z, others=(learned,))
    return features


def summarised(psi: LogLinear, z: Floats, log_r: Floats) -> tuple[LogLinear, Floats]:
    """Let clusters have been elsewhere in the original, if that explains more of the log-ratio; also return that part.

    The window's rows, drawn by their ratio, are rows of the original; so its clusters are fitted to these.
    """
    nothing = np.zeros(len(z))
    if psi.summaries is None or effective_sample_size(log_r) < _CLUSTERED:
        return psi, nothing
    rows = z[drawn_by(log_r)]
    summaries = psi.summaries._replace(start=refit_density(psi.summaries.start, rows))
    offset = summaries(z)
    design = LogLinearDesign(psi.features, z)
    if _unexplained(design, log_r - offset) < _unexplained(design, log_r):
        return psi._replace(summaries=summaries), offset
    return psi, nothing


def drawn_by(log_r: Floats) -> Integers:
    """Return as many places of rows as there are, each as often as its ratio says (systematic resampling)."""
    places = (np.arange(len(log_r)) + 0.5) / len(log_r)
    return np.minimum(np.searchsorted(np.cumsum(softmax(log_r)), places), len(log_r) - 1)


def _placed(before: Uncertainty | None, after: Uncertainty | None, at: Integers) -> Uncertainty:
    """Return the uncertainty after features have joined, with what belongs to the last step alone in place, too."""
    assert before is not None
    assert after is not None
    size = len(after.bias)
    places = np.append(at, size - 1)
    meats = []
    for part in (before.meat, before.meat_num):
        meats.append(np.zeros((size, size)))
        meats[-1][np.ix_(places, places)] = part
    bias = np.zeros(size)
    bias[places] = before.step_bias
    return after._replace(meat=meats[0], meat_num=meats[1], step_bias=bias)


def _likely(score: Floats, variance: Floats) -> Floats:
    """Return sums of scores in units of their noise."""
    return np.asarray(np.abs(score) / np.sqrt(np.maximum(variance, 1e-300)) * (variance > 0.0))


def _other_pairs(features: Features) -> Integers:
    """Return all pairs of columns whose products are not features, (k, 2)."""
    known = {tuple(sorted(pair)) for pair in features.pairs.tolist()}
    columns = np.sort(features.linear)
    found = [(a, b) for i, a in enumerate(columns) for b in columns[i + 1 :] if (a, b) not in known]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _affordable(features: Features, pairs: Integers, rows: float) -> bool:
    """Say whether there are rows enough for all of these pairs."""
    return rows >= _ROWS_PER_PRODUCT * (features.size + len(pairs))


def _unexplained(design: LogLinearDesign, values: Floats) -> float:
    rows = design.take(0, design.shape[0], 1)
    return float(np.square(values - rows @ inference.projection(rows, values[:, None])[:, 0]).mean())


def _needed(
    features: Features, z: Floats, candidates: Floats, values: Floats, past: Floats, errors: Floats
) -> Integers:
    """Return the candidates (n, k) that hold a part of the log-ratio which the features do not, beyond its errors."""
    rows = features.design(z)
    if len(z) < 5 * rows.shape[1]:
        return np.zeros(0, dtype=np.int64)
    rest = candidates - rows @ inference.projection(rows, candidates)
    square = np.einsum("ij,ij->j", rest, rest)
    real = square > 1e-6 * np.einsum("ij,ij->j", candidates, candidates)
    square = np.where(real, square, np.inf)
    left = values - rows @ inference.projection(rows, values[:, None])[:, 0]
    coef, by = (rest.T @ left) / square, (rest.T @ past) / square[:, None]
    noise = np.einsum("ij,ij->i", by @ errors, by)
    worth = 0.5 * coef**2 * square / len(z)
    return np.flatnonzero(real & (coef**2 > _HINTS**2 * noise) & (worth > _WORTH))
