r"""One step of the recursion: the window before is the numerator, the new one the denominator.

1. Fit the increment :math:`\varphi` of the model's functions between the two windows (convex).
2. Add the scores of all other functions to the ledger.
3. If some of them leave the noise, they join: with the drift they have missed so far, which the ledger knows, and with
   a new fit of the step. Back to 1.
4. Add up: :math:`\psi_t = \psi_{t-1} + \varphi`, the constant, and the factors of their errors.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._engine._basis import Basis, freeze
from driftline._engine._blocks import Columns, Products
from driftline._engine._groups import GROUPS
from driftline._engine._ledger import Ledger, chance_of_all, chances
from driftline._engine._mixtures import mixture_ratio
from driftline._engine._window import Kept, Window, kept
from driftline._inputs import Floats, as_rows
from driftline.fitting import (
    Dense,
    Density,
    Integers,
    Objective,
    Tangents,
    WindowSums,
    fit_convex,
    fit_sums,
    linear_scores,
    log_mean_exp,
    logistic,
    loss_of,
    moved_density,
    part_of,
    softmax,
    unnormalised,
    weigh,
)

__all__ = ["Info", "State", "forget", "start", "step"]

_LEVEL = 1e-4  # chance of a false function in a window, over all families
_MISSES = 1e-3  # chance of a false doubt that the model leaves something out
_WORSE = 1e-3  # odds below which the mixtures' log-ratio is left out of a step
_LOOKS = 4  # fits of a step, at most
_ROWS_EACH = 20.0  # effective rows for each function that joins by itself
_ROWS_EACH_OF_ALL = 5.0  # the same if all products join at once
_MOST = 16  # families that join at once
_SPREAD = 6  # functions of one kind; fewer are tested one by one
_EFFECT = 2.5  # nats: prior standard deviation of the effect of a function that few rows have
_RARE = 25.0  # fourth moment, in units of the squared variance, from which few rows have a function
_SPREAD_OF_SUMS = 1.2  # standard deviation of a step's log-ratio from which sums of its numerator do not do
_BEYOND = 0.01  # share of rows beyond the linear weight, for the same reason
_NARROW = 0.5  # of its variance that a function must keep in a step, for the same reason
_SECOND = 0.5  # standard errors that a correction to second order may have
_NEWTON = 0.3  # standard deviation of a log-ratio that joins without a fit
_STILL = 1e-18  # variance of a function that does not vary in a step


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
        lift: what errors of functions that joined add to the constant on average.
        misses: whether random units have shown that the model leaves something out.
        large: whether a step was too large for the sums that it began from.
        unmet: whether functions stand out that the rows cannot pay for.
        support: fewest rows that both windows of a step have in common for each parameter, over all steps.
        first_rows: effective rows of the original.
        seed: of the places and signs of groups.
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
    window: Window | Kept
    freedom: int
    own: Floats
    lift: float = 0.0
    misses: bool = False
    large: bool = False
    unmet: bool = False
    support: float = math.inf
    first_rows: float = 0.0
    seed: int = 0
    t: int = 0


class Info(NamedTuple):
    """How a step went: whether the fit converged, how many functions joined, whether units still show drift."""

    converged: bool
    joined: int
    misses: bool


def start(x: Floats, model: str = "auto", *, seed: int = 0) -> State:
    """Begin tracing at an original's rows (n, D)."""
    x = as_rows(x, "original")
    basis = freeze(x, model, seed=seed)
    window, p = Window(basis, x, seed, 0), basis.size
    none, begins = np.zeros((p + 1, GROUPS)), basis.begins
    if begins.sum() * _ROWS_EACH_OF_ALL > window.effective:
        begins = np.zeros(p, dtype=bool)  # few rows for so many: they join, too
    return State(
        basis,
        begins,
        np.zeros(p),
        0.0,
        none,
        Ledger.empty(p),
        basis.density,
        float(len(window.distinct)),
        window,
        window.groups.number - 1,
        none,
        first_rows=window.effective,
        seed=seed,
    )


def forget(state: State) -> State:
    """Return the state with sums of its window instead of rows: all that the next step needs, and no answer."""
    window = state.window
    return state if isinstance(window, Kept) else state._replace(window=kept(window, state.active))


def step(
    state: State, x: Floats, *, objective: Objective = logistic, ridge: float = 1.0, keep: str = "rows"
) -> tuple[State, Info]:
    """Advance to the next window (n, D), whose rows stay in the state until :func:`forget` is called.

    With ``keep="sums"`` the state is made ready for that.

    Without rows, functions that join cannot take part in the step in which they are found: they get its drift from the
    ledger, too.
    """
    if keep not in ("rows", "sums"):
        raise ValueError(f"keep={keep!r} is unknown: choose 'rows' or 'sums'")
    x = as_rows(x, "window", width=len(state.basis.heaps))
    window = Window(state.basis, x, state.seed, state.t + 1)
    state = state._replace(freedom=min(state.freedom, window.groups.number - 1), unmet=False)
    density, rows, offsets = _offsets(state, window)
    joined, taken = 0, _take(state, window, offsets, objective, ridge)
    if offsets is not None:  # in tables that are no mixture at all the first guess can be worse than none
        without = _take(state, window, None, objective, ridge)
        nats = (taken.fit.loss - without.fit.loss) * (state.window.effective + window.effective)
        if nats > -math.log(_WORSE):
            taken, density, rows, offsets = without, state.density, state.density_rows, None
    last = state.window
    if isinstance(last, Window):
        for _ in range(_LOOKS - 1):
            join, unmet = _joining(state, taken.ledger, window)
            state = state._replace(unmet=unmet)
            if not len(join):
                break
            joined += len(join)
            state = _recalled(state, taken, last, taken.second_num, join, ridge)
            taken = _take(state, window, offsets, objective, ridge)
    state = _advanced(state, taken, window)._replace(density=density, density_rows=rows)
    if keep == "sums":
        join, unmet = _joining(state, state.ledger, window)
        state = state._replace(unmet=unmet)
        joined += len(join)
        if len(join):
            state = _recalled(state, taken, window, taken.second_den, join, ridge)
    heard = np.flatnonzero(~state.basis.joins & ~state.active)
    misses = chance_of_all(state.ledger, heard, state.freedom) < math.log(_MISSES)
    info = Info(taken.fit.converged, joined, misses)
    return state._replace(misses=misses), info


class _Fit(NamedTuple):
    """A fit of a step: coefficients (p + 1,), curvature with the prior, and what both windows add to its equations.

    ``first``, ``second`` and ``third`` are derivatives of the loss of the denominator's rows. Of the numerator, there
    are sums of scores over groups, of the model's functions (groups, p + 1) and of all (groups, P), and the sum of
    second derivatives, ``unit``. Rows have ``second_num`` and ``third_num``; sums have ``pull`` instead, the second
    derivative of a row times its score. ``large`` says that the step is too large for sums.
    """

    coef: Floats
    hessian: Floats
    weight: Floats
    converged: bool
    loss: float
    first: Floats
    second: Floats
    scores: Floats
    tally: Floats
    unit: float
    second_num: Floats
    third_num: Floats
    third: Floats
    pull: float
    large: bool


def _fit_rows(
    num: Window, rows_num: Floats, rows_den: Floats, offsets: Any, objective: Objective, prior: Floats
) -> _Fit:
    """Fit a step to the rows of both windows."""
    off_num, off_den = (None, None) if offsets is None else offsets
    loss = loss_of(unnormalised(objective))
    fit = fit_convex(Dense(rows_num), Dense(rows_den), loss, offset_num=off_num, offset_den=off_den, ridge=prior)
    first, second = fit.num.first, fit.num.second
    return _Fit(
        fit.coef,
        fit.hessian,
        fit.weight,
        fit.info.converged,
        fit.info.loss,
        fit.den.first,
        fit.den.second,
        num.groups.sums(-first[:, None] * rows_num),
        num.tally(-first),
        float(second.sum()),
        second,
        fit.num.third,
        fit.den.third,
        0.0,
        False,
    )


def _fit_kept(
    num: Kept, live: npt.NDArray[np.bool_], center: Floats, scale: Floats, rows_den: Floats, prior: Floats
) -> _Fit:
    """Fit a step to sums of the numerator, with a linear weight (:func:`driftline.fitting.fit_sums`)."""
    at, n, m = np.flatnonzero(num.active)[live], num.rows, len(rows_den)
    # coordinates of the step: functions centred and scaled, and a one
    onto = np.concatenate([np.diag(1.0 / scale), [-center / scale]])
    inside = num.gram[np.ix_(live, live)]
    mean = num.sums.sum(0)
    means = np.append(mean[at] @ onto[:-1] + onto[-1], 1.0)
    gram = np.empty((len(means), len(means)))
    shifted = np.outer(mean[at], onto[-1])
    gram[:-1, :-1] = onto[:-1].T @ (inside @ onto[:-1] + shifted) + np.outer(onto[-1], means[:-1])
    gram[-1], gram[:, -1] = means, means
    fit = fit_sums(WindowSums(float(n), means, gram), lambda *q: part_of(Dense(rows_den), *q), float(m), prior)
    kappa, c, coef = weigh(n, m), fit.c, fit.coef
    of = linear_scores(rows_den @ coef, c)
    cross = np.concatenate([onto[:-1].T @ num.cross[live] + np.outer(onto[-1], mean), [mean]])
    share = num.groups.sizes[:, None] / n
    groups = np.concatenate([num.sums[:, at] @ onto[:-1] + share * onto[-1], share], 1)
    # a row's weight at the mean of the log-ratio; its change with the log-ratio counts in the totals alone
    rate, weight = kappa / (2.0 * c), kappa * (c - float(coef @ means)) / (2.0 * c)

    def scores(sums: Floats, total: Floats) -> Floats:
        return np.asarray(weight * (sums - share * sums.sum(0)) + share * total)

    return _Fit(
        coef,
        fit.hessian,
        fit.weight,
        fit.info.converged,
        fit.info.loss,
        kappa * of.first / m,
        kappa * of.second / m,
        scores(groups, rate * (c * means - gram @ coef)),
        scores(num.sums, rate * (c * mean - coef @ cross)),
        rate,
        np.zeros(0),
        np.zeros(0),
        kappa * of.third / m,
        rate * weight,
        fit.spread > _SPREAD_OF_SUMS or fit.beyond > _BEYOND,
    )


class _Taken(NamedTuple):
    """A step of the model's functions ``at``, and the ledger with the scores of the functions ``outside``.

    ``regress`` (p, k) are the coefficients of these on those in the model, ``own`` the part of the factors that comes
    from the new window.
    """

    fit: _Fit
    at: Integers
    coef: Floats
    constant: float
    factors: Floats
    own: Floats
    outside: Integers
    regress: Floats
    ledger: Ledger
    large: bool
    support: float

    @property
    def second_num(self) -> Floats:
        """Second derivatives of the numerator's rows."""
        return self.fit.second_num

    @property
    def second_den(self) -> Floats:
        """Second derivatives of the denominator's rows."""
        return self.fit.second


def _offsets(state: State, window: Window) -> tuple[Density | None, float, tuple[Floats, Floats] | None]:
    """Return the mixture of the new window, the rows it was fitted to, and the step's log-ratio of both mixtures."""
    before, last = state.density, state.window
    if before is None or not isinstance(last, Window):
        return before, state.density_rows, None
    worth = max(last.groups.worth, window.groups.worth)
    after = moved_density(before, state.density_rows, last.distinct, window.distinct, worth=worth)
    if after is None:
        return before, state.density_rows, None
    num, den = (mixture_ratio(before, after, z) for z in (last.z, window.z))
    return after, float(len(window.distinct)), (num, den)


def _take(
    state: State, window: Window, offsets: tuple[Floats, Floats] | None, objective: Objective, ridge: float
) -> _Taken:
    """Fit the step, and score all functions outside the model."""
    last, den = state.window, window.functions(state.active)
    mean_num, spread_num, fourth_num = last.moments(state.active)
    mean_den, spread_den, fourth_den = window.moments(state.active)
    center = 0.5 * (mean_num + mean_den)
    square = 0.5 * (spread_num + spread_den) + 0.25 * np.square(mean_num - mean_den)
    live = square > _STILL
    at, center, scale = np.flatnonzero(state.active)[live], center[live], np.sqrt(square[live])

    def design(values: Floats) -> Floats:
        return np.concatenate([(values[:, live] - center) / scale, np.ones((len(values), 1))], 1)

    den = design(den)
    heavy = 0.5 * (fourth_num + fourth_den)[live] / np.square(square[live])
    # the prior on a function that few rows have is on its effect
    share = state.basis.rarity(0.5 * (last.events + window.events))[at]
    learned = np.array([isinstance(block, Tangents) for block in state.basis.blocks])[state.basis.block[at]]
    few = np.where(learned & (heavy > _RARE), heavy, 1.0 / np.maximum(share, 1.0 / len(den)))
    prior = np.append(ridge * np.maximum(1.0, few / _EFFECT**2), 0.0)
    rows_num = den[:0]
    if isinstance(last, Window):
        rows_num = design(last.functions(state.active))
        fit = _fit_rows(last, rows_num, den, offsets, objective, prior)
    else:
        fit = _fit_kept(last, live, center, scale, den, prior)
    narrow = (spread_den < _NARROW * spread_num)[live] & (share == 1.0)
    large = fit.large or (isinstance(last, Kept) and bool(narrow.any()))
    inverse = np.asarray(np.linalg.inv(fit.hessian), dtype=np.float64)
    unit, groups = fit.unit + float(fit.second.sum()), window.groups
    tally = window.tally(-fit.first)
    factors_num = inverse @ last.groups.placed(fit.scores)
    factors_den = inverse @ groups.placed(groups.sums(-fit.first[:, None] * den))
    factors = factors_num + factors_den
    # where nothing moves, second derivatives add up to a quarter
    support = 4.0 * unit * min(last.effective, window.effective) / (len(at) + 1)
    bends = _second_order(state, window, fit, rows_num, den, factors_num, factors_den, inverse)
    # a correction as large as the error itself says that the expansion does not hold: functions that few rows have
    most = _SECOND * np.sqrt(np.square(factors[:-1]).sum(1))
    bias = np.clip(-(inverse @ bends)[:-1], -most, most)
    bias = np.append(bias, -(bends[-1] + fit.hessian[-1, :-1] @ bias) / fit.hessian[-1, -1])
    outside = np.flatnonzero(~state.active)
    gram, cross = window.regression(den, fit.second)
    gram[np.diag_indices(len(gram))] += fit.weight + 1e-9 * gram.diagonal().mean()
    regress = np.linalg.solve(gram, cross[:, outside])
    # the fit's own scores are not quite 0, where a prior holds them
    score = (fit.tally.sum(0) + tally.sum(0))[outside] - regress.T @ (fit.weight * fit.coef)
    noise = (last.groups.placed(fit.tally) + groups.placed(tally))[outside] - regress.T @ (fit.hessian @ factors)
    ledger = state.ledger.plus(outside, score / unit, noise / unit)
    plain = fit.coef - bias
    coef = plain[:-1] / scale

    def raw(errors: Floats) -> Floats:
        return np.concatenate([errors[:-1] / scale[:, None], [(center / scale) @ errors[:-1] - errors[-1]]])

    constant = float(center @ coef - plain[-1])
    regress = regress[:-1] / scale[:, None]
    return _Taken(fit, at, coef, constant, raw(factors), raw(factors_den), outside, regress, ledger, large, support)


def _second_order(
    state: State,
    window: Window,
    fit: _Fit,
    num: Floats,
    den: Floats,
    factors_num: Floats,
    factors_den: Floats,
    inverse: Floats,
) -> Floats:
    r"""Return what errors add to the equations of a fit on average, (p + 1,); the bias is minus its inverse curvature.

    With second and third derivatives :math:`b_i, d_i` of the loss and errors e of covariance C it is
    :math:`\sum_i b_i (T_i^\top e_{(i)})T_i + \frac12\sum_i d_i (T_i^\top C T_i) T_i`, where :math:`e_{(i)}` is the part
    of the errors that comes from the rows of i's own group.
    """
    factors, last = factors_num + factors_den, state.window
    out = (fit.second * window.groups.own(den, factors_den)) @ den
    out += 0.5 * (fit.third * np.square(den @ factors).sum(1)) @ den
    if isinstance(last, Window):
        out += (fit.second_num * last.groups.own(num, factors_num)) @ num
        return np.asarray(out + 0.5 * (fit.third_num * np.square(num @ factors).sum(1)) @ num)
    # of rows that are gone their own part is known on average alone, from rows that look alike
    leverage = np.einsum("ij,ij->i", den @ inverse, den)
    return np.asarray(out + fit.pull / last.effective * (leverage @ den) / len(den))


def _joining(state: State, ledger: Ledger, window: Window) -> tuple[Integers, bool]:
    """Return the functions that join, and whether others stand out that the rows cannot pay for.

    Families join that leave the noise or, if none does, all functions of a kind that leaves it as a whole.
    """
    basis = state.basis
    may = np.flatnonzero(basis.joins & ~state.active)
    none = may[:0]
    if not len(may):
        return none, False
    freedom, active = state.freedom, int(state.active.sum())
    rows = min(state.window.effective, window.effective)
    names, family = np.unique(basis.family[may], return_inverse=True)
    found = chances(ledger, may, family, freedom)
    strong = np.flatnonzero(found < math.log(_LEVEL / len(names)))
    if not len(strong):
        # a change spread over many means, variances or correlations stands out in none of them
        for kind in np.unique(basis.kind[may]):
            own: Integers = may[basis.kind[may] == kind]
            if len(own) < _SPREAD or not isinstance(basis.blocks[basis.block[own[0]]], Columns | Products):
                continue
            if chance_of_all(ledger, own, freedom) < math.log(_LEVEL):
                fits = active + len(own) < rows / _ROWS_EACH_OF_ALL
                return (own, False) if fits else (none, True)
        return none, False
    # the block that explains most joins first: the next fit shows what is left for the others
    of = basis.block[may][np.unique(family, return_index=True)[1]]
    chosen = strong[of[strong] == of[found.argmin()]]
    chosen = chosen[np.argsort(found[chosen], kind="stable")][:_MOST]
    fitting = chosen[np.cumsum(np.bincount(family)[chosen]) <= max(int(rows / _ROWS_EACH) - active, 0)]
    return np.asarray(may[np.isin(family, fitting)]), len(fitting) < len(chosen)


def _recalled(state: State, taken: _Taken, at: Window, second: Floats, join: Integers, ridge: float) -> State:
    r"""Let functions join, with the drift up to the window ``at`` that they have missed: :math:`\delta = G^{-1} S`.

    G is the curvature of these functions beside the model's, by rows of that window and their second derivatives, S
    their sums in the ledger.
    """
    share, k = second / second.sum(), np.isin(taken.outside, join)
    inside = at.functions(_among(state.basis, taken.at))
    left = at.functions(~state.active) - inside @ taken.regress
    mean = left[:, k].mean(0)
    left -= share @ left
    cross = left.T @ (left[:, k] * share[:, None])
    curvature = cross[k] + (ridge / len(at) + 1e-9) * np.eye(len(join))
    delta = np.linalg.solve(curvature, state.ledger.scores[join])
    errors = np.linalg.solve(curvature, state.ledger.factors[join])
    # the constant keeps the mean of the ratio over the window as it is
    joining = left[:, k] - left[:, k].mean(0)
    drift = joining @ delta
    slope = mean + softmax(drift) @ joining
    spread = at.groups.placed(at.groups.sums(joining)) / len(at)
    noise = float((spread * errors).sum()) + 0.5 * float(((curvature @ errors) * errors).sum())
    regress, coef, factors = taken.regress[:, k], state.coef.copy(), state.factors.copy()
    coef[join] += delta
    coef[taken.at] -= regress @ delta
    factors[join] += errors
    factors[taken.at] -= regress @ errors
    factors[-1] += slope @ errors
    return state._replace(
        active=state.active | _among(state.basis, join),
        coef=coef,
        constant=state.constant + float(mean @ delta) + float(log_mean_exp(drift)),
        factors=factors,
        # the others' scores hold the same drift as far as they look alike
        ledger=state.ledger.plus(taken.outside, -cross @ delta, -cross @ errors).without(join),
        lift=state.lift + noise,
        # one Newton step from nothing goes astray where the drift is large
        large=state.large or (at is state.window and not len(taken.second_num) and float(drift.std()) > _NEWTON),
    )


def _among(basis: Basis, at: Integers) -> npt.NDArray[np.bool_]:
    out = np.zeros(basis.size, dtype=bool)
    out[at] = True
    return out


def _advanced(state: State, taken: _Taken, window: Window) -> State:
    """Return the state after a step: sums of coefficients, constants and factors."""
    coef, factors, own, at = state.coef.copy(), state.factors.copy(), np.zeros_like(state.factors), taken.at
    own[at], own[-1] = taken.own[:-1], taken.own[-1]
    coef[at] += taken.coef
    factors[at] += taken.factors[:-1]
    factors[-1] += taken.factors[-1]
    return state._replace(
        coef=coef,
        constant=state.constant + taken.constant,
        factors=factors,
        own=own,
        ledger=taken.ledger,
        large=state.large or taken.large,
        support=min(state.support, taken.support),
        window=window,
        t=state.t + 1,
    )
