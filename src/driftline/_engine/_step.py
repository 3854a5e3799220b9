r"""One step of the recursion: the window before is the numerator, the new one the denominator.

1. Fit the increment :math:`\varphi` of the model's functions between the two windows (convex).
2. Add the scores of all other functions to the ledger.
3. If some of them leave the noise, they join: with the drift they have missed so far, which the ledger knows, and with
   a new fit of the step. Back to 1.
4. Add up: :math:`\psi_t = \psi_{t-1} + \varphi`, the constant, and the factors of their errors.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._engine._basis import Basis, freeze
from driftline._engine._blocks import Products
from driftline._engine._groups import GROUPS
from driftline._engine._ledger import Ledger, chance_of_all, chances
from driftline._engine._window import Window
from driftline._inputs import Floats
from driftline.fitting import (
    ConvexFit,
    Dense,
    Density,
    Integers,
    Objective,
    fit_convex,
    log_mean_exp,
    logistic,
    loss_of,
    moved_density,
    softmax,
    unnormalised,
)

__all__ = ["Info", "State", "start", "step"]

_LEVEL = 1e-4  # chance of a false function in a window, over all families
_MISSES = 1e-3  # chance of a false doubt that the model leaves something out
_LOOKS = 4  # fits of a step, at most
_ROWS_EACH = 20.0  # effective rows for each function that joins by itself
_ROWS_EACH_OF_ALL = 5.0  # the same if all products join at once
_MOST = 16  # families that join at once
_SPREAD = 6  # products; fewer are tested one by one
_EFFECT = 2.5  # nats: prior standard deviation of the effect of a function that few rows have
_RARE = 25.0  # fourth moment, in units of the squared variance, from which few rows have a function
_STILL = 1e-9


class State(NamedTuple):
    """What the recursion carries for one original; nothing in it grows with t.

    Attributes:
        basis: all functions.
        active: which are in the model, (P,).
        coef: coefficients, (P,); 0 outside the model.
        constant: log-normaliser c: the log-ratio is ``coef @ T - c``, plus that of the mixtures.
        factors: factors of the errors of coefficients and constant, (P + 1, GROUPS).
        ledger: what the model has left out.
        density: mixture of the current window, if the original has clusters.
        density_rows: rows that it was fitted to.
        window: the current window.
        freedom: degrees of freedom of the factors: the fewest groups of a window so far.
        own: the part of ``factors`` that comes from the current window.
        lift: what errors add to the constant on average.
        misses: whether random units have shown that the model leaves something out.
        first_rows: effective rows of the original.
        t: number of steps.
    """

    basis: Basis
    active: npt.NDArray[np.bool_]
    coef: Floats
    constant: float
    factors: Floats
    ledger: Ledger
    density: Density | None
    density_rows: float
    window: Window
    freedom: int
    own: Floats
    lift: float = 0.0
    misses: bool = False
    first_rows: float = 0.0
    t: int = 0


class Info(NamedTuple):
    """How a step went: the fit, functions that joined, whether random units say that something is left out."""

    fit: ConvexFit
    joined: int
    misses: bool
    log_num: Floats
    log_den: Floats


def start(x: Floats, model: str = "auto", *, seed: int = 0) -> State:
    """Begin tracing at an original's rows (n, D)."""
    basis = freeze(x, model, seed=seed)
    window, p = Window(basis, x, seed, 0), basis.size
    none = np.zeros((p + 1, GROUPS))
    return State(
        basis,
        basis.begins,
        np.zeros(p),
        0.0,
        none,
        Ledger.empty(p),
        basis.density,
        float(len(window.distinct)),
        window,
        window.groups.count,
        none,
        first_rows=window.effective,
    )


def step(
    state: State, x: Floats, *, objective: Objective = logistic, ridge: float = 1.0, seed: int = 0
) -> tuple[State, Info]:
    """Advance to the next window (n, D)."""
    t, basis = state.t + 1, state.basis
    window = Window(basis, x, seed, t)
    density, rows, offsets = _offsets(state, window)
    freedom = min(state.freedom, window.groups.count)
    state = state._replace(freedom=freedom)
    joined, taken = 0, _take(state, window, offsets, objective, ridge)
    for _ in range(_LOOKS - 1):
        join = _joining(state, taken, window)
        if not len(join):
            break
        joined += len(join)
        state = _recalled(state, taken, join)
        taken = _take(state, window, offsets, objective, ridge)
    return _advanced(state, taken, window, density, rows, offsets, joined, t)


class _Taken(NamedTuple):
    """A step of the model's functions ``at``, and the ledger with the scores of the others.

    ``means`` are those of functions over both windows weighted by the curvature, ``regress`` (p, k) the coefficients of
    functions ``outside`` on those in the model, ``second`` the second derivatives of the numerator's rows.
    """

    fit: ConvexFit
    at: Integers
    coef: Floats
    constant: float
    factors: Floats
    outside: Integers
    regress: Floats
    ledger: Ledger
    second: Floats
    own: Floats
    lift: float
    ridge: float


def _offsets(state: State, window: Window) -> tuple[Density | None, float, tuple[Floats, Floats] | None]:
    """Return the mixture of the new window, the rows it was fitted to, and the step's log-ratio of both mixtures."""
    before, last = state.density, state.window
    if before is None:
        return None, 0.0, None
    worth = max(last.groups.worth, window.groups.worth)
    after = moved_density(before, state.density_rows, last.distinct, window.distinct, worth=worth)
    if after is None:
        return before, state.density_rows, None
    num, den = (before.log_density(z) - after.log_density(z) for z in (last.z, window.z))
    return after, float(len(window.distinct)), (num, den)


def _take(
    state: State, window: Window, offsets: tuple[Floats, Floats] | None, objective: Objective, ridge: float
) -> _Taken:
    """Fit the step, and score all functions outside the model."""
    basis, last = state.basis, state.window
    num, den = (w.functions(state.active) for w in (last, window))
    center = 0.5 * (num.mean(0) + den.mean(0))
    num -= center
    den -= center
    square = 0.5 * (np.square(num).mean(0) + np.square(den).mean(0))
    live, scale = square > _STILL, np.sqrt(square)
    at = np.flatnonzero(state.active)[live]
    center, scale = center[live], scale[live]
    num, den = (np.concatenate([v[:, live] / scale, np.ones((len(v), 1))], 1) for v in (num, den))
    heavy = 0.5 * sum(np.square(np.square(v[:, :-1])).mean(0) for v in (num, den))
    prior = ridge * np.where(heavy > _RARE, np.maximum(1.0, heavy / _EFFECT**2), 1.0)
    off_num, off_den = (None, None) if offsets is None else offsets
    fit = fit_convex(
        Dense(num),
        Dense(den),
        loss_of(unnormalised(objective)),
        offset_num=off_num,
        offset_den=off_den,
        ridge=np.append(prior, 0.0),
    )
    # scores of the model's functions and of all others, by groups of rows
    inverse, unit = np.linalg.inv(fit.hessian), float(fit.num.second.sum() + fit.den.second.sum())
    errors, noise, score, gram, cross, lift, own = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, num[:0]
    for w, rows, of in ((last, num, fit.num), (window, den, fit.den)):
        own = inverse @ w.groups.placed(w.groups.sums(-of.first[:, None] * rows))
        errors = errors + own
        # to second order: errors times what the same rows add to the equation of the constant
        lift += float((w.groups.placed(w.groups.sums(of.second[:, None] * rows)) * own).sum()) / unit
        tally = w.tally(-of.first)
        noise, score = noise + w.groups.placed(tally), score + tally.sum(0)
        products = w.regression(rows, of.second, len(at))
        gram, cross = gram + products[0], cross + products[1]
    coef = fit.coef[:-1] / scale
    factors, own = (
        np.concatenate([e[:-1] / scale[:, None], [(center / scale) @ e[:-1] - e[-1]]]) for e in (errors, own)
    )
    constant = float(center @ coef - fit.coef[-1])
    outside = np.flatnonzero(~state.active)
    gram[np.diag_indices(len(gram))] += fit.weight + 1e-9 * gram.diagonal().mean()
    regress = np.linalg.solve(gram, cross[:, outside])
    # the fit's own scores are not quite 0, where a prior holds them
    score = score[outside] - regress.T @ (fit.weight * fit.coef)
    ledger = state.ledger.plus(outside, score / unit, (noise[outside] - regress.T @ (fit.hessian @ errors)) / unit)
    regress = regress[:-1] / scale[:, None]
    return _Taken(fit, at, coef, constant, factors, outside, regress, ledger, fit.num.second, own, lift, ridge)


def _joining(state: State, taken: _Taken, window: Window) -> Integers:
    """Return the functions that join: families that leave the noise, or all products at once."""
    basis, ledger = state.basis, taken.ledger
    may = taken.outside[basis.joins[taken.outside]]
    if not len(may):
        return may
    freedom, active = state.freedom, int(state.active.sum())
    rows = min(state.window.effective, window.effective)
    room = int(rows / _ROWS_EACH) - active
    names, family = np.unique(basis.family[may], return_inverse=True)
    found = chances(ledger, may, family, freedom)
    strong = found < math.log(_LEVEL / len(names))
    products = may[np.isin(basis.block[may], [k for k, b in enumerate(basis.blocks) if isinstance(b, Products)])]
    if not strong.any():
        # a change spread over many correlations stands out in none of them
        fits = len(products) >= _SPREAD and active + len(products) < rows / _ROWS_EACH_OF_ALL
        return products if fits and chance_of_all(ledger, products, freedom) < math.log(_LEVEL) else may[:0]
    # the block that explains most joins first: the next fit shows what is left for the others
    best = basis.block[may][np.argmax(family == int(found.argmin()))]
    own = np.flatnonzero(strong)
    own = own[basis.block[may][np.unique(family, return_index=True)[1]][own] == best]
    own = own[np.argsort(found[own], kind="stable")][:_MOST]
    sizes = np.cumsum(np.bincount(family)[own])
    own = own[sizes <= max(room, 0)]
    return may[np.isin(family, own)]


def _recalled(state: State, taken: _Taken, join: Integers) -> State:
    r"""Let functions join, with the drift that they have missed before this step: :math:`\delta = G^{-1} S`.

    G is the curvature of these functions beside the model's, S their sums in the ledger.
    """
    basis, last, second = state.basis, state.window, taken.second
    share, k = second / second.sum(), np.isin(taken.outside, join)
    left = last.functions(~state.active) - last.functions(_among(basis, taken.at)) @ taken.regress
    left -= share @ left
    cross = left.T @ (left[:, k] * share[:, None])
    curvature = cross[k] + (taken.ridge / len(last) + 1e-9) * np.eye(len(join))
    delta = np.linalg.solve(curvature, state.ledger.scores[join])
    errors = np.linalg.solve(curvature, state.ledger.factors[join])
    # the constant keeps the mean of the ratio over the window as it is
    regress, joining = taken.regress[:, k], last.functions(_among(basis, join))
    joining -= last.functions(_among(basis, taken.at)) @ regress
    mean = joining.mean(0)
    drift = (joining - mean) @ delta
    slope = mean + softmax(drift) @ (joining - mean)
    spread = last.groups.placed(last.groups.sums(joining)) / len(last)
    noise = float((spread * errors).sum()) + 0.5 * float(((curvature @ errors) * errors).sum())
    coef, factors = state.coef.copy(), state.factors.copy()
    coef[join] += delta
    coef[taken.at] -= regress @ delta
    factors[join] += errors
    factors[taken.at] -= regress @ errors
    factors[-1] += slope @ errors
    return state._replace(
        active=state.active | _among(basis, join),
        coef=coef,
        constant=state.constant + float(mean @ delta) + float(log_mean_exp(drift)),
        factors=factors,
        # the others' scores hold the same drift as far as they look alike
        ledger=state.ledger.plus(taken.outside, -cross @ delta, -cross @ errors).without(join),
        lift=state.lift + noise,
    )


def _among(basis: Basis, at: Integers) -> npt.NDArray[np.bool_]:
    out = np.zeros(basis.size, dtype=bool)
    out[at] = True
    return out


def _advanced(
    state: State,
    taken: _Taken,
    window: Window,
    density: Density | None,
    rows: float,
    offsets: tuple[Floats, Floats] | None,
    joined: int,
    t: int,
) -> tuple[State, Info]:
    """Return the state after a step."""
    coef, factors, at = state.coef.copy(), state.factors.copy(), taken.at
    own = np.zeros_like(factors)
    own[at], own[-1] = taken.own[:-1], taken.own[-1]
    coef[at] += taken.coef
    factors[at] += taken.factors[:-1]
    factors[-1] += taken.factors[-1]
    heard = taken.outside[~state.basis.joins[taken.outside]]
    misses = chance_of_all(taken.ledger, heard, state.freedom) < math.log(_MISSES)
    info = Info(taken.fit, joined, misses, taken.fit.log_num, taken.fit.log_den)
    after = state._replace(
        coef=coef,
        constant=state.constant + taken.constant,
        factors=factors,
        ledger=taken.ledger,
        density=density,
        density_rows=rows,
        window=window,
        own=own,
        lift=state.lift + taken.lift,
        misses=misses or (state.misses and not joined),
        t=t,
    )
    return after, info
