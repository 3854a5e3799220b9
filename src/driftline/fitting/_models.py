"""Models of psi, the log-ratio up to a constant: the log-linear one, and psi of columns that have been replaced.

A model is a frozen value: it maps raw rows to psi and is replaced, never changed. A log-linear psi may be expressed in
any frame of its columns; it stays the same function.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting._chunks import chunks, rows_in_cache, score_rows
from driftline.fitting._densities import Summaries
from driftline.fitting._features import Features
from driftline.fitting._scores import NormalScores

__all__ = ["LogLinear", "Psi", "Stacked", "Standardizer", "fit_standardizer", "plain_standardizer"]


class Standardizer(NamedTuple):
    """Coordinates of a model: columns in units of the original, then in the frame of the latest windows.

    ``mean`` and ``scale`` are those of the first window of an original and stay. ``shift`` and ``rate`` are the place
    and spread, in these units, around which a model is expressed now: they follow the stream, so that a fit is as well
    conditioned far from the original as near it. With ``scores``, some columns are replaced by normal scores of the
    original before that. Further columns of rows are ignored, see :class:`Stacked`.

    Shapes: mean, scale, shift and rate (D,).
    """

    mean: Annotated[Floats, "D"]
    scale: Annotated[Floats, "D"]
    shift: Annotated[Floats, "D"]
    rate: Annotated[Floats, "D"]
    scores: NormalScores | None = None

    def __call__(self, x: Floats) -> Floats:
        """Return rows in the present frame, (n, D)."""
        if self.scores is not None:
            z = self.scores(self.plain(x))
            z -= self.shift
            z /= self.rate
            return z
        z = x[:, : self.mean.shape[0]] - (self.mean + self.scale * self.shift)
        z /= self.scale * self.rate
        return z

    def plain(self, x: Floats) -> Floats:
        """Return rows in standard deviations from the original's means, (n, D)."""
        z = x[:, : self.mean.shape[0]] - self.mean
        z /= self.scale
        return z

    def original(self, z: Floats) -> Floats:
        """Return rows of the present frame in the coordinates of the original, (n, D)."""
        out = z * self.rate
        out += self.shift
        return out

    def moved(self, shift: Floats, rate: Floats) -> Standardizer:
        """Return the frame around ``shift`` with spread ``rate``, both in units of the present one."""
        return self._replace(shift=self.shift + self.rate * shift, rate=self.rate * rate)

    @property
    def still(self) -> npt.NDArray[np.bool_]:
        """Whether each column was constant, (D,)."""
        return np.asarray(self.scale == 1.0)


def fit_standardizer(x: Floats) -> Standardizer:
    """Return means and standard deviations; a constant column, and no other, gets scale 1: it is 0 until it moves."""
    low, high = x.min(0), x.max(0)
    mean = np.where(low == high, low, x.mean(0))  # a mean is rounded, and a constant column must be 0 to the last bit
    size = np.maximum(np.maximum(high, -low), 1e-290)  # divided out, so that squares of tiny numbers do not underflow
    spread = np.sqrt(_variance(x, mean, size)) * size
    constant = spread <= 1e-12 * np.abs(mean)
    spread = np.where(spread == 1.0, np.nextafter(1.0, 2.0), spread)
    return plain_standardizer(mean, np.where(constant, 1.0, spread))


def plain_standardizer(mean: Floats, scale: Floats) -> Standardizer:
    """Return a standardisation whose frame is still that of the original."""
    return Standardizer(mean, scale, np.zeros_like(mean), np.ones_like(mean))


def _variance(x: Floats, mean: Floats, size: Floats) -> Floats:
    """Return the variances of the columns in units of their size, (D,), a chunk of rows at a time."""
    total = np.zeros(x.shape[1])
    for at in chunks(len(x)):
        part = x[at] - mean
        part /= size
        total += np.einsum("ij,ij->j", part, part)
    return total / len(x)


class Psi(Protocol):
    """A model as the recursion sees it: psi of raw rows (n, D), in double precision (n,)."""

    @property
    def standardizer(self) -> Standardizer:
        """Its frozen standardisation."""
        ...

    def __call__(self, x: Floats) -> Floats:
        """Return psi of raw rows, (n,)."""
        ...


class LogLinear(NamedTuple):
    r"""The log-linear model :math:`\psi(x) = \theta^\top T(x)`, with summary densities plus their log-ratio."""

    standardizer: Standardizer
    features: Features
    coef: Annotated[Floats, "P"]
    summaries: Summaries | None = None

    def __call__(self, x: Floats) -> Floats:
        """Return psi of raw rows, (n,)."""
        features = self.features
        weights = self.coef / features.scale
        linear, square = features.by_column(weights)
        out = np.empty(x.shape[0])
        for at in chunks(len(x), rows_in_cache(features.columns)):
            z = self.standardizer(x[at])
            score_rows(z, linear, square if len(features.squares) else square[:0], out[at])
            if features.size > features.base:
                out[at] += features.beyond_squares(z, weights)
            if self.summaries is not None:
                out[at] += self.summaries(self.standardizer.original(z))
        out -= float((features.center * weights).sum())
        return out


class Stacked(NamedTuple):
    """Psi of encoded columns that have been replaced, on rows that hold the new columns first and then the old ones.

    A step starts from it when the columns have been replaced: the fit sees the new ones, psi those it was made for.
    """

    standardizer: Standardizer
    before: Psi

    def __call__(self, x: Floats) -> Floats:
        """Return psi of stacked rows (n, D_new + D_old)."""
        return self.before(self.old(x))

    def old(self, x: Floats) -> Floats:
        """Return the old columns of stacked rows, (n, D_old)."""
        return x[:, self.standardizer.mean.shape[0] :]
