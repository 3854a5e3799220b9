"""Tails: whether the mean of a divergence's terms is decided by a few rows, or by rows that no window has shown."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.inference._divergences import Generator, curvature, slope, terms

__all__ = ["Tail", "beyond", "effective_sample_size", "excesses", "tail_from", "tail_of"]

_BEYOND = 1.28  # standard deviations, beyond which lies about a tenth of the rows
_POWERS = {"kl": 1.0, "pearson": 2.0, "neyman": -1.0}  # of the ratio, as terms grow in their tail
_HEAVIEST = 0.5  # tail index from which the variance is infinite, so that means have no normal error
_EVEN = 0.95  # share of rows that a mean rests on, from which no tail decides it


class Tail(NamedTuple):
    """How heavy the tail of a divergence's terms is.

    Attributes:
        heaviness: tail index h, with which terms exceed x in a share of the rows like x^(-1/h); 0 if they have no tail,
            infinite if it is not known.
        even: share of the rows that the mean of the terms rests on.
    """

    heaviness: float
    even: float

    @property
    def decides(self) -> bool:
        """Whether rows that the window does not show may decide the mean: its variance is infinite."""
        return self.heaviness > _HEAVIEST and not self.even >= _EVEN


def beyond(mean: float, std: float) -> tuple[float, float]:
    """Return the limits of log-ratios beyond which their tails begin."""
    return mean - _BEYOND * std, mean + _BEYOND * std


def excesses(log_r: Floats, low: float, high: float, least: int = 0) -> Floats:
    """Return the number of log-ratios above a limit, the sum of what they exceed it by, and 0; the same below; (6,).

    Of a tail of fewer rows than ``least``, which would be revealed, the last number is their count, the others are 0.
    """
    tails = log_r[log_r > high] - high, low - log_r[log_r < low]
    return np.array([n for t in tails for n in ((t.size, t.sum(), 0) if t.size >= least else (0, 0.0, t.size))], float)


def tail_from(kind: str, found: Floats, total: float, square: float, rows: int) -> Tail:
    """Return the tail of a named divergence's terms f, given :func:`excesses`, their sum and their sum of squares."""
    power = _POWERS.get(kind, 0.0)
    many, by, unseen = found[:3] if power > 0.0 else found[3:]
    heaviness = 0.0 if power == 0.0 else np.inf if unseen > many else abs(power) * float(by / max(many, 1.0))
    heaviness *= 1.0 + 1.0 / max(float(many), 1.0) ** 0.5  # its standard error on top
    mean, mean_square = total / rows, square / rows
    even = (1.0 + mean) * (1.0 + mean) / max(1.0 + 2.0 * mean + mean_square, 1e-300)  # nan if the squares overflow
    return Tail(heaviness, even)


def tail_of(log_r: Floats, kind: str | Generator) -> Tail:
    """Return the tail of a divergence's terms over rows with these log-ratios; with f(r) of one's own, of log(1+|f|).

    >>> steps = np.random.default_rng(0).normal(size=2000)
    >>> tail_of(0.3 * steps, "pearson").decides, tail_of(1.5 * steps, "pearson").decides
    (False, True)
    """
    values = terms(log_r, kind)
    if callable(kind):
        none = np.zeros(1)
        bend = float((curvature(none, kind) - slope(none, kind))[0])  # f''(1): its scale
        values = np.abs(values) * (2.0 / bend if bend > 0.0 else 1.0)
        logs = np.log1p(values)
        log_r, kind = logs, "kl"  # its power of 1, for logarithms of terms
    found = excesses(log_r, *beyond(float(log_r.mean()), float(log_r.std())))
    return tail_from(kind, found, float(values.sum()), float(values @ values), len(log_r))


def effective_sample_size(log_weights: Floats) -> float:
    r"""Return Kish's effective sample size :math:`(\sum w)^2/\sum w^2`.

    >>> effective_sample_size(np.zeros(10))
    10.0
    """
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (weights @ weights))
