"""Competition on held-out rows: after a step that carries signal, what does not predict new rows better does not join.

Score tests let in whatever moves; after a break that is a great deal at once, and a fit with all of it follows the few
rows with the largest ratios. So the features so far, those that the tests propose, and boosted trees are compared by
their loss on rows that they have not been fitted to. On slow drift nobody is asked: the tests are strict there, and
trees learn nothing from a small step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import (
    Dense,
    FitDivergedError,
    Integers,
    Learned,
    Lessers,
    LogLinear,
    LogLinearDesign,
    Loss,
    Monomials,
    Repeats,
    Trees,
    fit_convex,
    fit_crossed,
    helps,
    row_losses,
)
from driftline.recursion._problem import Problem, Solved, prior, solve
from driftline.recursion._settings import StepSettings

__all__ = [
    "approximates",
    "carries_signal",
    "choose_offset",
    "compete",
    "held_out",
    "only_trees",
]

_SIGNAL = 0.2  # nats of a step, beyond what noise shows, from which features have to win
_FAINT = 0.05  # the same from which trees are asked; in smaller steps they did not win
_FOLDS = 4
_STRETCHES = 10  # stretches of neighbouring rows in a fold: neighbours often depend on each other
_ROWS = 10_000  # rows of a window that suffice to compare, and to grow trees on
_FEWEST = 500  # rows of a window; with fewer, trees have too little to grow on
_SURE = 3.0  # standard errors by which trees must be better: they cost time, and say less about columns


def carries_signal(solved: Solved, least: float = _SIGNAL) -> bool:
    """Say whether a step is large enough for a competition."""
    problem = solved.problem
    return float(-solved.fit.log_den.mean()) - problem.features.size / problem.rows > least


def choose_offset(solved: Solved, psi: LogLinear, loss: Loss, settings: StepSettings) -> Solved:
    """Return the fit in which clusters move, or one in which they stay if that predicts new rows better.

    Clusters are a guess of what rows have in common; after a break another guess may be better.
    """
    if solved.problem.offset_num is None or psi.summaries is None or not carries_signal(solved):
        return solved
    plain = solve(_still(solved.problem, psi), loss, settings)
    if held_out(plain, loss, settings).mean() < held_out(solved, loss, settings).mean():
        return plain
    return solved


def _still(problem: Problem, psi: LogLinear) -> Problem:
    """Return the problem with clusters that stay where they are."""
    if psi.summaries is None:
        return problem
    size = sum(other.size for other in psi.features.others if not isinstance(other.map, Monomials | Lessers))
    return problem._replace(offset_num=None, offset_den=None, summaries=psi.summaries, frozen=size)


def compete(
    base: Solved, wider: Solved, psi: LogLinear, loss: Loss, settings: StepSettings, seed: int, *, missed: bool = False
) -> tuple[Solved, str, bool]:
    """Return the best of a fit with the features so far, one with those that tests propose, and one with trees.

    The second value says what won, if it is not the wider fit; the third, whether anybody was asked. Where something
    moves that the features do not hold, tests propose units, or the auditor speaks (``missed``): trees are asked then
    whatever the features so far have found.
    """
    signal = carries_signal(base)
    rough = approximates(wider.problem) > approximates(base.problem)
    moves = wider is not base or _is_mixed(base.problem)
    if not (missed or rough or (moves and (carries_signal(base, _FAINT) or carries_signal(wider, _FAINT)))):
        return wider, "", False
    best, note, least = wider, "", held_out(wider, loss, settings)
    if signal and wider is not base:
        without = held_out(base, loss, settings)
        if without.mean() <= least.mean():
            best, note, least = base, "not kept, new rows are predicted as well without", without
    if base.problem.rows >= _FEWEST:
        if psi.summaries is not None:  # clusters stay beside trees: these are to win by themselves, not by that
            still = held_out(solve(_still(base.problem, psi), loss, settings), loss, settings)
            least = still if still.mean() < least.mean() else least
        grown = _grown(base, psi, loss, settings, seed)
        found = held_out(grown, loss, settings)
        if found.mean() < least.mean() and helps(least, found, _SURE * math.sqrt(base.problem.time)):
            return grown, "boosted trees predict new rows better", True
    return best, note, True


def approximates(problem: Problem) -> int:
    """Count the features that stand for a shape which no other holds: ridge units of several columns, and trees."""
    features = problem.features
    units = int((np.count_nonzero(features.weight, axis=0) > 1).sum()) if len(features.bias) else 0
    return units + sum(isinstance(other.map, Trees) for other in features.others)


def _is_mixed(problem: Problem) -> bool:
    """Say whether some columns have two values, as the indicators of a table have: these move together, and at once."""
    features = problem.features
    return features.curved and len(features.squares) < len(features.linear)


def _grown(base: Solved, psi: LogLinear, loss: Loss, settings: StepSettings, seed: int) -> Solved:
    """Fit with boosted trees as one more feature, which for rows they have grown on comes from those that have not.

    Trees find what rows have in common by themselves: clusters stay where they are.
    """
    problem, standardizer = _still(base.problem, psi), psi.standardizer
    copies = problem.rows_num.repeats, problem.rows_den.repeats
    windows = [  # copies of a row count as one that weighs more, so that none is scored by trees that have seen another
        standardizer.original(z if of is None else z[of.first])
        for z, of in zip((problem.z_num, problem.z_den), copies, strict=True)
    ]
    every = [max(1, math.ceil(len(window) / _ROWS)) for window in windows]
    weights = [None if of is None else of.counts[::step] for of, step in zip(copies, every, strict=True)]
    crossed = fit_crossed(
        windows[0][:: every[0]], windows[1][:: every[1]], weight_num=weights[0], weight_den=weights[1], seed=seed
    )
    values = [crossed.trees(window) for window in windows]
    for value, step, known in zip(values, every, (crossed.num, crossed.den), strict=True):
        value[::step, 0] = known
    values = [value if of is None else value[of.place] for value, of in zip(values, copies, strict=True)]
    learned = Learned(crossed.trees, standardizer.shift, standardizer.rate)
    before = problem.crossed_num
    grown = problem._replace(
        features=problem.features.extend(problem.z_num, others=(learned,)),
        crossed_num=values[0] if before is None else np.concatenate([before, values[0]], 1),
        crossed_den=values[1],
    )
    return solve(grown, loss, settings)


def held_out(solved: Solved, loss: Loss, settings: StepSettings) -> Floats:
    """Return the logistic loss of each row, by fits to other stretches of rows; infinite if one has no minimum.

    Copies of a row are fitted or held out together, and their losses summed up.
    """
    problem = solved.problem
    sides = [
        _side(design, offset, rows.repeats)
        for design, offset, rows in (
            (solved.num, problem.offset_num, problem.rows_num),
            (solved.den, problem.offset_den, problem.rows_den),
        )
    ]
    ridge = settings.ridge * prior(solved.num, solved.den, solved.events, problem.frozen)
    logs = [np.empty(len(side.rows)) for side in sides]
    for fold in range(_FOLDS):
        fitted = [side.part(fold, inside=False) for side in sides]
        try:
            fit = fit_convex(
                Dense(fitted[0].rows),
                Dense(fitted[1].rows),
                loss,
                offset_num=fitted[0].offset,
                offset_den=fitted[1].offset,
                ridge=ridge,
                start=solved.fit.coef,
            )
        except FitDivergedError:
            return np.full(sum(map(len, logs)), np.inf)
        for side, log in zip(sides, logs, strict=True):
            log[side.folds == fold] = side.part(fold, inside=True).log_ratio(fit.coef)
    losses = np.split(row_losses(*logs), [len(logs[0])])
    return np.concatenate([side.summed(part) for side, part in zip(sides, losses, strict=True)])


class _Side(NamedTuple):
    """Rows of a window with their features (n, p + 1), offsets, the fold that each belongs to, and copies (n,)."""

    rows: Floats
    offset: Floats | None
    folds: Integers
    copies: Integers | None

    def part(self, fold: int, *, inside: bool) -> _Side:
        """Return the rows of a fold, or all others."""
        at = (self.folds == fold) == inside
        return _Side(self.rows[at], None if self.offset is None else self.offset[at], self.folds[at], None)

    def summed(self, values: Floats) -> Floats:
        """Return the sums of values (n,) over copies."""
        return values if self.copies is None else np.asarray(np.bincount(self.copies, values), dtype=np.float64)

    def log_ratio(self, coef: Floats) -> Floats:
        """Return the log-ratio of the rows, (n,)."""
        log = self.rows @ coef
        return log if self.offset is None else log + self.offset


def _side(design: LogLinearDesign, offset: Floats | None, repeats: Repeats | None) -> _Side:
    """Return as many rows of a window as suffice, in folds of stretches."""
    rows = design.shape[0]
    step = max(1, math.ceil(rows / _ROWS))
    taken = design.take(0, rows, step)
    copies, places, count = None, np.arange(len(taken)), len(taken)
    if repeats is not None:
        distinct, copies = np.unique(repeats.place[::step], return_inverse=True)
        places, count = copies.ravel(), len(distinct)
    folds = (places * _FOLDS * _STRETCHES // max(count, 1)) % _FOLDS
    return _Side(taken, None if offset is None else offset[::step], folds, copies)


def only_trees(before: Problem, after: Problem) -> bool:
    """Say whether a problem has trees, and no other features, beyond those of another."""
    joined = after.features.others[len(before.features.others) :]
    grown = sum(other.size for other in joined if isinstance(other.map, Trees))
    return after.features.size - before.features.size == grown
