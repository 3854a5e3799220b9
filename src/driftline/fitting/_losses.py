"""Losses as solvers need them: value and derivatives with respect to the log-ratio of each row.

Built-in objectives have closed forms. A user's pair of NumPy functions brings its first derivatives; those of a tensor
function come from PyTorch (:mod:`driftline.fitting._autograd`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from driftline._extras import needs
from driftline._inputs import Floats
from driftline.fitting._derivatives import Loss, Rows, second_differences
from driftline.fitting._objectives import (
    OBJECTIVES,
    Objective,
    constraint_residual,
    kliep,
    log_mean_exp,
    logistic,
    lsif,
    nwj,
)

__all__ = ["loss_of", "penalised", "resolve_objective", "softmax"]

_PAIR = "or pass a pair of NumPy functions (loss, derivatives)"
_WIDTH = 1e-4  # of central differences of first derivatives
_PRODUCT = 256  # numbers between 1 and 2 whose product still fits in double precision, with room to spare


class _Closed:
    """A sum over rows whose derivatives are known in closed form: first ones come with the second ones."""

    separable = True

    def rows(self, num: Floats, den: Floats) -> Rows:
        raise NotImplementedError

    def slopes(self, num: Floats, den: Floats) -> tuple[float, Floats, Floats]:
        found = self.rows(num, den)
        return found.loss, found.first_num, found.first_den


class _Logistic(_Closed):
    """Closed forms of :func:`~driftline.fitting.logistic`."""

    def rows(self, num: Floats, den: Floats) -> Rows:
        n, m = len(num), len(den)
        shift, rate = math.log(n / m), 1.0 / (n + m)
        loss_num, chance_num, second_num = _logistic(-num - shift, rate)
        loss_den, chance_den, second_den = _logistic(den + shift, rate)
        return Rows(
            rate * (loss_num + loss_den), np.negative(chance_num, out=chance_num), chance_den, second_num, second_den
        )

    def third(self, num: Floats, den: Floats) -> tuple[Floats, Floats]:
        n, m = len(num), len(den)
        shift, rate = math.log(n / m), 1.0 / (n + m)
        out = []
        for values, sign in ((-num - shift, -1.0), (den + shift, 1.0)):
            small = np.exp(-np.abs(values))
            one = 1.0 / (small + 1.0)
            small *= one
            chance = np.where(values >= 0.0, one, small)
            out.append(sign * rate * (one * small) * (1.0 - 2.0 * chance))
        return out[0], out[1]


def _logistic(values: Floats, rate: float) -> tuple[float, Floats, Floats]:
    """Return the sum of softplus of the values, and ``rate`` times its first and second derivatives by row."""
    small = np.abs(values)
    np.exp(np.negative(small, out=small), out=small)
    one = small + 1.0
    total = float(np.maximum(values, 0.0).sum()) + _log_product(one)
    np.divide(1.0, one, out=one)  # the larger of the two chances
    np.multiply(small, one, out=small)  # the smaller
    second = one * small
    chance = np.where(values >= 0.0, one, small)
    if rate != 1.0:
        second *= rate
        chance *= rate
    return total, chance, second


def _log_product(values: Floats) -> float:
    """Return the sum of logarithms of numbers from 1 to 2; one logarithm of a product replaces many."""
    whole = len(values) // _PRODUCT * _PRODUCT
    products = np.multiply.reduce(values[:whole].reshape(-1, _PRODUCT), axis=1)
    return float(np.log(products).sum() + np.log(values[whole:]).sum())


class _Nwj(_Closed):
    """Closed forms of :func:`~driftline.fitting.nwj`."""

    def rows(self, num: Floats, den: Floats) -> Rows:
        with np.errstate(over="ignore"):
            ratio = np.exp(den) / len(den)
        loss = float(ratio.sum() - num.mean() - 1.0)
        return Rows(loss, np.full(len(num), -1.0 / len(num)), ratio, np.zeros(len(num)), ratio)

    def third(self, num: Floats, den: Floats) -> tuple[Floats, Floats]:
        return np.zeros(len(num)), self.rows(num, den).second_den


class _Lsif(_Closed):
    """Closed forms of :func:`~driftline.fitting.lsif`."""

    def rows(self, num: Floats, den: Floats) -> Rows:
        with np.errstate(over="ignore", invalid="ignore"):
            pull, push = -np.exp(num) / len(num), np.exp(2.0 * den) / len(den)
            return Rows(float(0.5 * push.sum() + pull.sum() + 0.5), pull, push, pull, 2.0 * push)

    def third(self, num: Floats, den: Floats) -> tuple[Floats, Floats]:
        found = self.rows(num, den)
        return found.first_num, 4.0 * found.first_den


class Slopes:
    """A loss known by its value and first derivatives; second and third ones are differences of these."""

    def __init__(self, slopes: Callable[[Floats, Floats], tuple[float, Floats, Floats]]) -> None:
        self._slopes = slopes

    @property
    def separable(self) -> bool:
        """Whether it is a sum over rows, judged on a small example: a row's derivative is its own affair."""
        rng = np.random.default_rng(0)
        num, den = 0.3 * rng.normal(size=6), 0.3 * rng.normal(size=6)
        _, base_num, base_den = self._slopes(num, den)
        moved_num, moved_den = num.copy(), den.copy()
        moved_num[0] += 0.1
        moved_den[0] -= 0.1
        _, after_num, after_den = self._slopes(moved_num, moved_den)
        rest = np.abs(np.concatenate([after_num[1:] - base_num[1:], after_den[1:] - base_den[1:]]))
        return bool(rest.max() <= 1e-9 * max(np.abs(base_num).max(), np.abs(base_den).max()))

    def slopes(self, num: Floats, den: Floats) -> tuple[float, Floats, Floats]:
        """Return the loss and its first derivatives."""
        return self._slopes(num, den)

    def rows(self, num: Floats, den: Floats) -> Rows:
        """Return the loss, its first and its second derivatives."""
        loss, first_num, first_den = self._slopes(num, den)
        _, upper_num, upper_den = self._slopes(num + _WIDTH, den + _WIDTH)
        _, lower_num, lower_den = self._slopes(num - _WIDTH, den - _WIDTH)
        width = 2.0 * _WIDTH
        return Rows(loss, first_num, first_den, (upper_num - lower_num) / width, (upper_den - lower_den) / width)

    def third(self, num: Floats, den: Floats) -> tuple[Floats, Floats]:
        """Return the third derivatives."""
        return second_differences(self.rows, num, den)


class _Coupled(Slopes):
    """A loss that is known not to be a sum over rows."""

    separable = False


def softmax(values: Floats) -> Floats:
    """Return weights that sum to 1, in proportion to the exponentials of the values."""
    weights = np.exp(values - values.max())
    return np.asarray(weights / weights.sum())


def _kliep_slopes(num: Floats, den: Floats) -> tuple[float, Floats, Floats]:
    return float(log_mean_exp(den) - num.mean()), np.full(len(num), -1.0 / len(num)), softmax(den)


_BUILT_IN: dict[Any, Loss] = {logistic: _Logistic(), nwj: _Nwj(), lsif: _Lsif(), kliep: _Coupled(_kliep_slopes)}


def _built_in(objective: Any) -> Loss | None:
    """Return the closed forms of a built-in objective; None for a user's own, which need not be hashable."""
    return next((loss for own, loss in _BUILT_IN.items() if own is objective), None)


def loss_of(objective: Objective) -> Loss:
    """Return the loss behind an objective: in closed form, by a user's derivative, or by PyTorch's."""
    if isinstance(objective, tuple):
        return Slopes(_pair_slopes(objective))
    built_in = _built_in(objective)
    if built_in is not None:
        return built_in
    needs("torch", "an objective of tensors", advice=_PAIR)
    from driftline.fitting._autograd import AutogradLoss

    return AutogradLoss(objective)


def _pair_slopes(pair: tuple[Any, Any]) -> Callable[[Floats, Floats], tuple[float, Floats, Floats]]:
    value, derivative = pair

    def slopes(num: Floats, den: Floats) -> tuple[float, Floats, Floats]:
        first_num, first_den = derivative(num, den)
        return float(value(num, den)), np.asarray(first_num, dtype=float), np.asarray(first_den, dtype=float)

    return slopes


def penalised(loss: Loss, penalty: float, prev_num: Floats, prev_den: Floats) -> Loss:
    """Add the paper's penalty on the step constraint, ``penalty * (constraint_residual - 1) ** 2``."""

    def slopes(num: Floats, den: Floats) -> tuple[float, Floats, Floats]:
        value, first_num, first_den = loss.slopes(num, den)
        residual = constraint_residual(den, prev_num, prev_den)
        pull = residual * (softmax(den + prev_den) - softmax(den))
        return (
            value + penalty * (residual - 1.0) ** 2,
            first_num,
            first_den + 2.0 * penalty * (residual - 1.0) * pull,
        )

    return _Coupled(slopes)


def resolve_objective(objective: Any) -> Objective:
    """Return the objective of that name, or a user's own after checking that it is a loss."""
    if isinstance(objective, str):
        if objective not in OBJECTIVES:
            raise ValueError(
                f"objective={objective!r} is unknown: choose one of {sorted(OBJECTIVES)}, or pass a pair of NumPy "
                "functions (loss, derivatives) or a tensor function (log_r_num, log_r_den) -> scalar loss"
            )
        return OBJECTIVES[objective]
    if isinstance(objective, tuple):
        _check_pair(objective)
    elif not callable(objective):
        raise ValueError(f"objective={objective!r} must be one of {sorted(OBJECTIVES)}, a function or a pair of them")
    elif _built_in(objective) is None:
        needs("torch", "an objective of tensors", advice=_PAIR)
        from driftline.fitting._autograd import check_objective

        check_objective(objective)
    return objective  # type: ignore[no-any-return]


def _check_pair(pair: tuple[Any, ...]) -> None:
    """Check on small samples of unequal size that a pair is a finite loss with its derivatives in both samples."""
    if len(pair) != 2 or not all(callable(part) for part in pair):
        raise ValueError("the objective must be a pair of functions: the loss, and its derivatives in the log-ratios")
    num, den = np.linspace(-0.2, 0.3, 6), np.linspace(-0.3, 0.2, 5)
    value = np.asarray(pair[0](num, den), dtype=float)
    if value.ndim != 0:
        raise ValueError(f"the objective must return a number, got shape {value.shape}")
    if not np.isfinite(value):
        raise ValueError(f"the objective is {float(value)} for log-ratios near 0: it must be finite there")
    found = pair[1](num, den)
    if not isinstance(found, tuple) or len(found) != 2:
        raise ValueError("the objective's derivative must return two arrays, one for each sample")
    width = 1e-6
    for side, first, sample, other in (("numerator", found[0], num, den), ("denominator", found[1], den, num)):
        slope = np.asarray(first, dtype=float)
        if slope.shape != sample.shape:
            raise ValueError(
                f"the objective's derivative on the {side} has shape {slope.shape} for {len(sample)} log-ratios"
            )
        if not slope.any():
            raise ValueError(f"the objective does not depend on the log-ratios of the {side}")
        way = np.linspace(1.0, 2.0, len(sample))
        moved = [(sample + s * width * way, other) for s in (1.0, -1.0)]
        values = [float(pair[0](*(m if side == "numerator" else m[::-1]))) for m in moved]
        numeric = (values[0] - values[1]) / (2.0 * width)
        if not math.isclose(numeric, float(slope @ way), rel_tol=1e-4, abs_tol=1e-7):
            raise ValueError(
                f"the objective's derivative on the {side} does not belong to its loss: {float(slope @ way):.4g} "
                f"along a line where differences of the loss give {numeric:.4g}"
            )
