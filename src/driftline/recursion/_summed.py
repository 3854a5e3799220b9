"""An original, and each window after a step, as sums: where tracing without rows begins, and what is kept for later."""

from __future__ import annotations

import numpy as np

from driftline import inference
from driftline._inputs import Floats
from driftline.fitting import (
    Features,
    LogLinear,
    LogLinearDesign,
    Summary,
    SumsFit,
    find_repeats,
    fit_standardizer,
    linear_scores,
    sums_of_window,
    weigh,
)
from driftline.inference import Dependence
from driftline.recursion._auditor import Auditor, Singles, start_auditor
from driftline.recursion._candidates import NOTHING, Candidates, fixed
from driftline.recursion._floor import started
from driftline.recursion._frames import place_of
from driftline.recursion._kept import Sums
from driftline.recursion._log_linear import start_features, summary_of
from driftline.recursion._rare import heaps
from driftline.recursion._rows import Curved, depends, reach
from driftline.recursion._settings import NEWTON_FEATURES, StepSettings
from driftline.recursion._state import Anchor, Track
from driftline.recursion._watched import affords, watched

__all__ = ["SUMMED", "FewForSumsError", "check_rows", "depends_of", "kept_sums", "rows_for_sums", "start_sums"]

SUMMED = ("auto", "linear", "quadratic", "quadratic-full")
"""Models that can do with sums."""
_EACH = 10  # rows for each parameter: sums of fewer would nearly be rows
_AUDITED = 200  # rows of an original, as where rows are kept
_CLUSTERED = 6  # features for each column at the start, with those of clusters: a file grows with their square
_FEWER = (
    {"shapes": True, "clusters": True},
    {"shapes": False, "clusters": True},
    {"shapes": False, "clusters": False},
)


class FewForSumsError(ValueError):
    """A window has so few rows that their sums would nearly be the rows."""


def rows_for_sums(model: str, columns: int) -> int:
    """Return the least number of rows of a window of which sums are kept; ``columns`` are all, constant ones too.

    >>> rows_for_sums("linear", 4), rows_for_sums("quadratic", 4), rows_for_sums("quadratic-full", 4)
    (50, 90, 150)
    """
    features = {"linear": columns, "quadratic-full": columns * (columns + 3) // 2}.get(model, 2 * columns)
    return _EACH * (features + 1)


def start_sums(samples: Floats, settings: StepSettings, tau: int) -> Track:
    """Begin to trace an original, of whose rows nothing but sums is kept."""
    psi, summary = _first(samples, settings)
    z, features = psi.standardizer(samples), psi.features
    check_rows(len(samples), features.size + 1, "the original")
    depend = depends_of(samples, Curved(z), settings)
    density = None if summary is None else summary.density
    auditor = start_auditor(z, density, depend, seed=settings.seed) if len(z) >= _AUDITED else None
    if auditor is not None and not affords(auditor, z, features.size + 1):
        auditor = None
    design = LogLinearDesign(features, z)
    candidates = fixed(z, features, depend) if settings.model == "auto" else NOTHING
    sums = summed(design, samples, psi, auditor, depend, candidates)
    anchor = Anchor(psi, 0.0, samples[:0].copy(), lag=depend.lag, auditor=auditor, sums=sums)
    return Track(tau, anchor, anchor, np.zeros(0), 0, partitions=started(samples, depend))


def _first(samples: Floats, settings: StepSettings) -> tuple[LogLinear, Summary | None]:
    """Return psi where tracing begins, and the summary that its shapes of columns and features of clusters are from.

    Where features would be too many for the rows, or for a small file, shapes of clusters go first, then clusters, and
    shapes of columns last.
    """
    standardizer, repeats = fit_standardizer(samples), find_repeats(samples)
    rows = samples if repeats is None else samples[repeats.first]
    summary = summary_of(standardizer(rows), settings)
    for options in _FEWER if summary is not None else ():
        assert summary is not None
        mapped = standardizer._replace(scores=summary.scores)
        features = _features(mapped(rows), settings, summary, **options)
        small = not options["clusters"] or features.size <= _CLUSTERED * rows.shape[1]
        if small and len(samples) >= _EACH * (features.size + 1):
            return LogLinear(mapped, features, np.zeros(features.size)), summary
    features = _features(standardizer(rows), settings, None)
    return LogLinear(standardizer, features, np.zeros(features.size)), None


def _features(z: Floats, settings: StepSettings, summary: Summary | None, **options: bool) -> Features:
    """Return the features of a start: columns that do not vary yet are among them, since sums know of no new ones."""
    features = start_features(z, settings.model, summary, sparing=False, **options)
    if features.size >= NEWTON_FEATURES:
        raise ValueError(
            f"keep='sums' is for fewer than {NEWTON_FEATURES} features, model={settings.model!r} has {features.size} "
            "of them: take a smaller model or fewer columns, or keep='rows'"
        )
    return features


def check_rows(rows: int, parameters: int, what: str) -> None:
    if rows < _EACH * parameters:
        raise FewForSumsError(
            f"{what} has {rows} rows, and keep='sums' needs {_EACH * parameters}, {_EACH} for each of {parameters} "
            "parameters, since sums of fewer rows would reveal them: enlarge the windows, take fewer columns or "
            "model='linear', or keep='rows'"
        )


def depends_of(x: Floats, rows: Curved, settings: StepSettings) -> Dependence:
    """Return whether rows, which are at hand, repeat or depend on each other."""
    repeats = find_repeats(x)
    return depends(rows, reach(rows, settings, repeats), repeats, settings)


def summed(
    design: LogLinearDesign,
    x: Floats,
    psi: LogLinear,
    auditor: Auditor | None,
    depend: Dependence,
    candidates: Candidates,
    seen: Singles | None = None,
) -> Sums:
    """Return the sums of a window that has not been in a step; ``seen`` are values of the auditor's functions."""
    center, spread = place_of(design.z)
    shift, rate, heap = psi.standardizer.shift, psi.standardizer.rate, heaps(x)
    means, products = watched(auditor, design, psi.standardizer.original, seen)
    nothing = np.zeros((design.shape[1],) * 2, dtype=np.float32)
    return Sums(
        moments=sums_of_window(design),
        coef=np.zeros(design.shape[1]),
        c=3.0,
        kappa=0.0,
        scored=nothing,
        squared=nothing,
        heap=heap,
        off=np.asarray((x != heap).sum(0), dtype=np.float64),
        center=center * rate + shift,
        spread=spread * rate,
        watched=means,
        crossed=products,
        dependent=depend.endless,
        copies=depend.worth,
        time=depend.time,
        swell=inference.swelling(design, depend),
        candidates=candidates,
        hidden=np.zeros(2),
    )


def kept_sums(
    arrived: Anchor, window: Floats, depend: Dependence, fit: SumsFit, before: Anchor, seen: Singles | None
) -> Sums:
    """Return the sums of a window after a step from an anchor; ``seen`` are values of the auditor's functions."""
    psi, design, sums = arrived.psi, arrived.own_design(), before.sums
    assert isinstance(psi, LogLinear)
    assert isinstance(before.psi, LogLinear)
    assert sums is not None
    found = summed(design, window, psi, arrived.auditor, depend, sums.candidates, seen)
    at, coef = before.psi.features.positions(psi.features), np.zeros(design.shape[1])
    coef[np.append(at, len(coef) - 1)] = fit.coef
    first = linear_scores(design.dot(coef), fit.c).first / len(window)
    return found._replace(
        coef=coef,
        c=fit.c,
        kappa=weigh(sums.moments.rows, len(window)),
        scored=design.gram(first).astype(np.float32),
        squared=design.gram(len(window) * first * first).astype(np.float32),
    )
