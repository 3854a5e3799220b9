"""What ``auto`` asks of rows in several places once a step is fitted: what its features lack, and how it is read.

Its dictionary was fixed beforehand: features that may join are looked at as :mod:`_joining` does where rows are at
hand, and none joins. Log-ratios are drawn towards zero as :mod:`_reading` does. Both rest on sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from driftline import inference
from driftline._inputs import Floats
from driftline._wording import counted as tally
from driftline.fitting import LogLinear
from driftline.inference import Doubt, DoubtCode, Estimate, Uncertainty, largest
from driftline.recursion._answers import Answer
from driftline.recursion._candidates import Candidates, Found, alive, judged
from driftline.recursion._doubts import doubted
from driftline.recursion._kept import between
from driftline.recursion._questions import SCALE, Basis, Question, finer
from driftline.recursion._reading import NEAR, change_of, orthogonal

__all__ = ["Asked", "Look", "Reading", "dictionary", "hidden_in", "looked", "overlooked", "reading_of", "unjoined"]

Ask = Callable[[Question], Answer]

_NEWTON = 8  # rounds for the constant, at most; two or three as a rule
_EXACT = 1e-10  # nats of it
_LEFT = (
    "products or hinges of columns have moved since the original and cannot join over several sites: if they moved in "
    "this step, that is not read"
)


class Asked(NamedTuple):
    """What is asked about: the basis, coefficients of log original/current with the constant's last, the lag."""

    basis: Basis
    total: Floats
    parameters: int
    lag: int | None

    def __call__(self, kind: str, **given: Floats | float) -> Question:
        """Return a question."""
        arrays = {name: np.asarray(value, dtype=np.float64) for name, value in given.items()}
        return Question(kind, self.parameters, self.basis, arrays, self.lag)


class Look(NamedTuple):
    """What is found: candidates that the ratio lacks, and the size of features beyond which rows are far out.

    ``found`` is None where nobody could look.
    """

    found: Found | None
    limit: float


class Reading(NamedTuple):
    """The ratio as it is read: coefficients (p,), normaliser, the logarithm of its mean, and effective rows behind."""

    coef: Floats
    log_normalizer: float
    log_mean: float
    behind: float


def dictionary(candidates: Candidates) -> dict[str, Floats]:
    """Return candidates as questions name them."""
    parts = {"products": candidates.pairs, "hinged": candidates.columns, "knots": candidates.knots}
    return {name: np.asarray(value, dtype=np.float64) for name, value in parts.items()}


def looked(ask: Ask, asked: Asked, psi: LogLinear, candidates: Candidates, errors: Uncertainty) -> Look | None:
    """Look for candidates that the ratio lacks; None where weights rest on too few rows of some place."""
    if errors.slack < inference.LEAST_SLACK:
        return None
    names = dictionary(candidates)
    first = ask(asked("look", all=asked.total, **names))
    if first["few"]:
        return None
    gram, rows = first["gram"].copy(), first.rows
    gram[np.diag_indices_from(gram)] += 1e-7 * max(float(np.trace(gram)), 1e-300) / len(gram)
    slopes: Floats = np.asarray(np.linalg.solve(gram, first["cross"].T), dtype=np.float64)
    wanted = math.floor(NEAR * (rows - 1)) + 1  # rows up to that quantile
    cell = int(np.searchsorted(np.cumsum(first["sizes"]), wanted))
    bottom = float(SCALE[cell - 1]) if cell else 0.0
    top = float(SCALE[cell]) if cell < len(SCALE) else 2.0 * float(SCALE[-1])
    level = float(first["log_v"]) - math.log(rows)
    rest = ask(asked("rest", all=asked.total, **names, slopes=slopes, level=level, bottom=bottom, top=top))
    below = np.cumsum(rest["sizes"])[:-1]
    limit = float(finer(bottom, top)[int(np.abs(below - wanted).argmin())])
    found = judged(candidates, psi, *_differences(candidates, rest, slopes, level, errors), float(rows))
    return Look(found, limit)


def _differences(
    candidates: Candidates, rest: Answer, slopes: Floats, level: float, errors: Uncertainty
) -> tuple[Floats, Floats, Floats]:
    """Return how far the weighted window is from the original, the variance of that, and rows that carry it; (k,)."""
    n, mean = rest.rows, math.exp(min(level, 350.0))
    whole = rest["value_square"] / n - np.square(rest["value"] / n)
    spread, own = rest["spread"] / n, rest["own"]
    apart = mean * rest["pulled"] / n - (candidates.mean - np.append(errors.mean, 1.0) @ slopes)
    carriers = np.square(own) / np.maximum(rest["fourth"], 1e-300)
    carriers = np.where(alive(spread, whole, own), carriers, 0.0)
    return apart, mean * mean * own / n**2 + spread / max(candidates.rows, 1.0), carriers


def reading_of(ask: Ask, asked: Asked, psi: LogLinear, limit: float, errors: Uncertainty) -> Reading | None:
    """Return the ratio drawn towards zero; None where it is read as it was fitted."""
    near = ask(asked("near", all=asked.total, limit=limit))
    n = near.rows
    gram = 0.5 * (near["gram"] + near["plain"] / n)
    gram = gram / max(float(gram[-1, -1]), 1e-300)
    mean = gram[-1, :-1]
    lower = orthogonal(gram[:-1, :-1] - np.outer(mean, mean))
    if lower is None:
        return None
    coef = asked.total[:-1]
    change = change_of(psi, coef, lower, inference.covariance(errors)[:-1, :-1])
    constant, base = float(change @ mean), float(asked.total[-1])
    for _ in range(_NEWTON):
        read = np.append(coef + change, base - constant)
        found = ask(asked("level", all=asked.total, read=read, limit=limit))
        if not float(found["bend"]) > 0.0:
            return None
        step = (float(found["after"]) - float(found["before"])) / float(found["bend"])
        constant += step
        if abs(step) < _EXACT:
            break
    behind = math.exp(min(2.0 * float(found["log_w"]) - float(found["twice_w"]), 700.0))
    return Reading(coef + change, constant - base, float(found["log_w"]) - step - math.log(n), behind)


def unjoined(look: Look | None, doubts: tuple[Doubt, ...]) -> tuple[Doubt, ...]:
    """Return the doubts of a step, with the one that candidates have moved and cannot join."""
    left = 0 if look is None or look.found is None else look.found.left
    if not left or any(doubt.code == DoubtCode.MODEL_MISSES for doubt in doubts):
        return doubts
    sentence = (
        f"{tally(left, 'product or hinge', 'products or hinges')} of columns moved, and cannot join over several "
        "sites: the drift in them is not read; take a step in one place, where they can, or begin from a new original"
    )
    return (*doubts, Doubt(DoubtCode.MODEL_MISSES, sentence))


def hidden_in(look: Look | None) -> Floats:
    """Return what is hidden in a window, see :class:`Sums`."""
    return np.zeros(2) if look is None or look.found is None else np.array([look.found.hidden, look.found.spread])


def overlooked(look: Look | None, then: Floats, estimate: Estimate, kind: str, *, of_step: bool) -> Estimate:
    """Return an estimate whose interval allows for what the features lack; ``then`` is what the numerator hid."""
    if look is None or look.found is None:
        return estimate
    now = hidden_in(look)
    estimate = inference.overlooked(estimate, kind, *(between(then, now) if of_step else now.tolist()))
    if not of_step or not look.found.left:
        return estimate
    return inference.opened(doubted(estimate, (Doubt(DoubtCode.MODEL_MISSES, _LEFT),)), largest(kind))
