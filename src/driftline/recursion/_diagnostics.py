"""Diagnostics of a step: how far it went, what it rests on, and the reasons not to trust it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import FitInfo, Lessers, LogLinear, Monomials, Psi, Tangents, Trees, log_mean_exp, logistic
from driftline.inference import Dependence, Doubt, DoubtCode, effective_sample_size
from driftline.recursion._rows import unsupported
from driftline.recursion._state import Anchor, Step

__all__ = [
    "Info",
    "OriginalInfo",
    "apart",
    "carries",
    "constants_moved",
    "describe",
    "diagnose",
    "exponential",
    "mean_off",
    "missing",
    "unvaried",
]

_BEHIND = 10.0  # effective rows; a mean that rests on fewer has no error to be compared with
_LITTLE_FOR_NETWORKS = 0.1  # nats; with steps of this size the paper's network was a quarter too low after 20 of them

_WORSE = 0.01  # nats of logistic loss: an error of 0.3 in the log-ratio, far above the noise of a network's start


class OriginalInfo(NamedTuple):
    """Diagnostics of a step for one original.

    Attributes:
        rows: number of rows in the window.
        step_divergence: KL(window‖window of the anchor) in nats.
        mean_ratio: mean of original/current on the window; 1 where weights can be trusted.
        step_mean_ratio: mean of the step ratio on the window; 1 where the step can be trusted.
        constraint_residual: value of the paper's constraint; 1 where it holds.
        effective_sample_size: Kish's effective sample size of the weights on the window.
        overlap: effective rows in which the two windows overlap, the data the fit really had.
        lag: number of rows over which neighbours in the window depend on each other, as used in the errors; 0 for none.
            Copies of a row count as one.
        effective_rows: number of independent rows that say as much as those of the window.
        held_out: expected loss on new rows (network: validation split; convex: Takeuchi's correction).
        fit: diagnostics of the fit.
        advanced: whether the anchor moved on to this window.
        reason: reason for that choice, and the features added.
        model: the model in words: columns, clusters, normal scores, features that joined.
        doubts: reasons not to trust the estimate; empty if there are none.
    """

    rows: int
    step_divergence: float
    mean_ratio: float
    step_mean_ratio: float
    constraint_residual: float
    effective_sample_size: float
    overlap: float
    lag: int
    effective_rows: float
    held_out: float
    fit: FitInfo
    advanced: bool
    reason: str
    model: str
    doubts: tuple[Doubt, ...]


class Info(NamedTuple):
    """The time t after a step, and its diagnostics for each original that had a window."""

    t: int
    originals: dict[str, OriginalInfo]


def diagnose(
    anchor: Anchor, taken: Step, advanced: bool, reason: str, rows: Dependence, names: Sequence[str] | None
) -> OriginalInfo:
    """Return the diagnostics of a step from an anchor; ``rows`` says how those of its window depend on each other."""
    window = taken.anchor.window
    log_r = taken.anchor.on_window()
    overlap = _overlap(taken.log_num, taken.log_den)
    # Psi_t / (Phi_t Psi_{t-1}); psi and phi are known up to constants, which cancel against the normalisers
    step_mean = log_mean_exp(taken.log_den)
    mean = log_mean_exp(log_r)
    log_psi_now = mean + taken.anchor.log_normalizer - taken.telescoped
    log_psi_before = log_mean_exp(anchor.on_window())
    residual = exponential(log_psi_now - step_mean - log_psi_before)
    return OriginalInfo(
        rows=window.shape[0],
        step_divergence=taken.divergence,
        mean_ratio=exponential(mean),
        step_mean_ratio=exponential(step_mean),
        constraint_residual=residual,
        effective_sample_size=effective_sample_size(log_r),
        overlap=overlap,
        lag=taken.anchor.lag,
        effective_rows=rows.effective(window.shape[0]),
        held_out=taken.fit.held_out,
        fit=taken.fit,
        advanced=advanced,
        reason=reason,
        model=describe(taken.anchor.psi, names),
        doubts=tuple(_doubts(anchor, taken, overlap, rows, names)),
    )


def _overlap(log_num: Floats, log_den: Floats) -> float:
    """Return the effective number of overlapping rows: the sum of 4 P(num|x) P(den|x), at most all rows."""
    shift = math.log(log_num.shape[0] / log_den.shape[0])
    small = np.exp(-np.abs(np.concatenate([log_num, log_den]) + shift))
    return float((4.0 * small / (1.0 + small) ** 2).sum())


def exponential(value: float) -> float:
    """Return e to a power, without overflow."""
    return math.exp(min(max(value, -700.0), 700.0))


def _doubts(
    anchor: Anchor, taken: Step, overlap: float, depend: Dependence, names: Sequence[str] | None
) -> list[Doubt]:
    """List reasons not to trust the step, in words a user can act on."""
    doubts = [*_unvaried(taken.anchor), *unsupported(taken.anchor, depend)]
    if not taken.fit.converged:
        doubts.append(Doubt(DoubtCode.NOT_CONVERGED, f"the fit did not converge ({taken.fit.message})"))
    log_linear = isinstance(taken.anchor.psi, LogLinear)
    if not log_linear and taken.fit.converged and _untrained(taken.log_num, taken.log_den):
        undertrained = (
            "the network tells the two windows apart worse than no step at all would: it is undertrained, or lambda_c "
            "outweighs the objective; train for more epochs, set warm_start=True, or lower the penalty"
        )
        doubts.append(Doubt(DoubtCode.NOT_CONVERGED, undertrained))
    rows = min(taken.log_num.shape[0], taken.log_den.shape[0])
    total = taken.log_num.shape[0] + taken.log_den.shape[0]
    if log_linear and rows < 5 * taken.parameters and not any(d.code == DoubtCode.FEW_ROWS for d in doubts):
        few = f"{rows} rows are few for {taken.parameters} parameters: enlarge the window"
        doubts.append(Doubt(DoubtCode.FEW_ROWS, few))
    wanted = 10.0 * taken.parameters if log_linear else 200.0
    if overlap < min(wanted, 0.5 * rows):
        doubts.append(apart(overlap, total, taken.divergence))
    else:
        ratio = np.exp(np.minimum(taken.log_den, 350.0))
        error = float(ratio.std(ddof=1)) / math.sqrt(depend.effective(len(ratio)))
        doubts.extend(mean_off(float(ratio.mean()), error, effective_sample_size(taken.log_den)))
    doubts.extend(_outlier(anchor, taken, names))
    if not log_linear and taken.divergence < _LITTLE_FOR_NETWORKS:
        tiny = (
            f"a step of {taken.divergence:.2g} nats gives a network little to learn from, and what it misses adds up: "
            "use step='adaptive', fewer and longer steps, or model='auto'"
        )
        doubts.append(Doubt(DoubtCode.SMALL_STEP, tiny))
    if taken.missed:
        lost = (
            f"{taken.missed} features joined whose drift before this window is not known: the estimate is too low by "
            "as much as they had moved; take an original nearer to this window"
        )
        doubts.append(Doubt(DoubtCode.DRIFT_MISSED, lost))
    doubts.extend(missing(taken.anchor))
    doubts.extend(constants_moved(_moved_constants(anchor, taken.anchor.window), names))
    return doubts


def _untrained(log_num: Floats, log_den: Floats) -> bool:
    """Say whether a step ratio separates its own two windows worse than the ratio 1: a minimum never does."""
    still = float(logistic(np.zeros_like(log_num), np.zeros_like(log_den)))
    return float(logistic(log_num, log_den)) > still + _WORSE


def apart(overlap: float, total: int, size: float) -> Doubt:
    """Return the doubt that two windows of ``total`` rows hardly overlap, for a step of ``size`` nats."""
    sentence = (
        f"the two windows hardly overlap ({overlap:.0f} of {total} rows are informative, "
        f"step of {size:.3g} nats): take smaller steps"
    )
    return Doubt(DoubtCode.LITTLE_OVERLAP, sentence)


def mean_off(mean: float, error: float, behind: float) -> tuple[Doubt, ...]:
    """Return the doubt that the mean of a step ratio is not 1, if it is off; it rests on ``behind`` rows."""
    off = abs(mean - 1.0)
    if off <= max(0.2, 5.0 * error) and (off <= 0.2 or behind >= _BEHIND):
        return ()
    sentence = (
        f"the step ratio averages {mean:.3g} on the window instead of 1, and this rests on {behind:.1f} of its rows"
    )
    return (Doubt(DoubtCode.STEP_MEAN_OFF, sentence),)


def constants_moved(moved: Sequence[int], names: Sequence[str] | None) -> tuple[Doubt, ...]:
    """Return the doubt that these columns were constant in the original, if there are any."""
    if not moved:
        return ()
    columns = ", ".join(_label(j, names) for j in moved[:5])
    infinite = (
        f"column(s) {columns} were constant in the original and are not now: the true ratio of the rows with new "
        "values is zero, so how far these are cannot be measured; judge the column by itself"
    )
    return (Doubt(DoubtCode.CONSTANT_MOVED, infinite, tuple(_name(j, names) for j in moved)),)


def unvaried() -> Doubt:
    """Return the doubt that no column varies."""
    sentence = "no column varies, neither then nor now: there is nothing to measure; look at what is written to them"
    return Doubt(DoubtCode.NOTHING_VARIES, sentence)


def carries(row: str, column: int, share: float, distance: float, names: Sequence[str] | None) -> Doubt:
    """Return the doubt that a row alone carries this share of a step."""
    sentence = (
        f"{row} alone carries {share:.0%} of the step: column {_label(column, names)} lies {distance:.2g} standard "
        "deviations away from the original"
    )
    return Doubt(DoubtCode.OUTLIER, sentence, (_name(column, names),))


def missing(current: Anchor) -> tuple[Doubt, ...]:
    """Return the doubt that the model does not hold all of the drift, if the auditor has found so."""
    auditor = current.auditor
    if auditor is None or not auditor.since:
        return ()
    sentence = (
        f"the data have changed in a way that the model does not hold, or only roughly (seen since step "
        f"{auditor.since}): the value is a lower bound; take an original nearer to this window, or add columns that "
        "show the change"
    )
    return (Doubt(DoubtCode.MODEL_MISSES, sentence),)


def _unvaried(current: Anchor) -> tuple[Doubt, ...]:
    """Return the doubt that no column varies, in the original and in the window alike."""
    standardizer, window = current.psi.standardizer, current.window[:, : len(current.psi.standardizer.mean)]
    if not standardizer.still.all() or (np.abs(window - standardizer.mean) > 1e-9 * np.abs(standardizer.mean)).any():
        return ()
    return (unvaried(),)


def describe(psi: Psi, names: Sequence[str] | None = None) -> str:
    """Return a model in words.

    >>> from driftline.fitting import fit_features, fit_standardizer
    >>> rows = np.random.default_rng(0).normal(size=(100, 3))
    >>> describe(LogLinear(fit_standardizer(rows), fit_features(rows), np.zeros(6)))
    '3 columns and 3 squares'
    """
    if not isinstance(psi, LogLinear):
        return "a network"
    features, scores = psi.features, psi.standardizer.scores
    hinges = int((np.count_nonzero(features.weight, axis=0) == 1).sum())
    parts = [f"{len(features.linear)} columns and {len(features.squares)} squares"]
    if scores is not None:
        shown = [_label(int(j), names) for j in scores.columns[:5]] + ["..."] * (len(scores.columns) > 5)
        parts.append(f"normal scores of {len(scores.columns)} columns ({', '.join(shown)})")
    if psi.summaries is not None:
        parts.append(psi.summaries.start.words)
    trees = sum(isinstance(other.map, Trees) for other in features.others)
    curves = sum(other.size for other in features.others if isinstance(other.map, Monomials))
    clusters = sum(other.size for other in features.others if isinstance(other.map, Tangents))
    lessers = sum(len(other.map.of) for other in features.others if isinstance(other.map, Lessers))
    counts = (
        (len(features.pairs), "products"),
        (hinges, "hinges"),
        (curves, "curved products"),
        (lessers, "pairs' lessers"),
        (clusters if psi.summaries is None else 0, "features of clusters"),
        (len(features.bias) - hinges, "ridge units"),
    )
    parts += [f"{count} {what}" for count, what in (*counts, (trees, "sets of boosted trees")) if count]
    return "; ".join(parts)


def _name(column: int, names: Sequence[str] | None) -> str:
    return str(column) if names is None else names[column]


def _label(column: int, names: Sequence[str] | None) -> str:
    return str(column) if names is None else repr(names[column])


def _outlier(anchor: Anchor, taken: Step, names: Sequence[str] | None) -> list[Doubt]:
    """Name the row that alone carries more than a tenth of the step, if there is one."""
    size = np.abs(taken.log_den)
    if len(size) < 50 or float(size.max()) <= 0.1 * float(size.sum()):  # <=: both are 0 for a repeated window
        return []
    row = int(size.argmax())
    z = np.abs(anchor.psi.standardizer.plain(taken.anchor.window[row : row + 1])[0])
    j = int(z.argmax())
    return [carries(f"row {row}", j, float(size[row] / size.sum()), float(z[j]), names)]


def _moved_constants(anchor: Anchor, window: Floats) -> list[int]:
    standardizer = anchor.psi.standardizer
    flat = standardizer.still
    if not flat.any():
        return []
    columns, mean = np.flatnonzero(flat), standardizer.mean[flat]
    after = (np.abs(window[:, columns] - mean) > 1e-9 * np.abs(mean)).sum(0)
    found: list[int] = columns[after > max(1, len(window) // 1000)].tolist()  # more than a stray row
    return found
