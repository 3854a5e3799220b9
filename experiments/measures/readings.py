"""Readings of two samples: FID, KID, precision and recall, and f-divergences by several ratio estimators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from driftline import ContinualDensityRatio, DensityRatio
from driftline.evaluation.metrics import fid, kid, neighbours, prd
from driftline.fitting import FitDivergedError
from experiments.experiment import Report, Row
from experiments.measures.cases import TRUTHS
from experiments.methods import Floats, ckliep

__all__ = [
    "CODE",
    "CURVE",
    "DEFAULT",
    "HELD",
    "HELD_OUT",
    "KLIEP",
    "LINEAR",
    "NONE",
    "SAMPLES",
    "by_ratio",
    "by_samples",
    "held_out",
]

DEFAULT, LINEAR, KLIEP, CODE = "driftline", "linear", "KLIEP", "KLIEP, code"
NONE = "-"
"""The estimator of measures that need no ratio; not empty, which a CSV would read as nan."""
SAMPLES = ("fid", "kid", "f_8", "f_1_8", "precision", "recall")
CURVE = "prd"
"""Points of the curve: ``value`` is the precision, ``at`` the recall."""
HELD_OUT = ("kl", "reverse_kl", "js")
HELD = "held_"
"""Before the name of a divergence: from rows that were not fitted on."""
_NEAREST = 5000  # rows of each sample that neighbours are sought in


def by_samples(p: Floats, q: Floats, *, subsets: int, angles: int, seed: int) -> Iterator[Row]:
    """Rows of what needs no ratio; the curve, F-scores and neighbours for ``angles`` above 0."""
    yield _row(NONE, "fid", fid(p, q))
    yield _row(NONE, "kid", kid(p, q, subsets=subsets, random_state=seed).mean)
    if not angles:
        return
    curve = prd(p, q, angles=angles, random_state=seed)
    near = neighbours(p[:_NEAREST], q[:_NEAREST])
    for measure, value in (
        ("f_8", curve.f_8),
        ("f_1_8", curve.f_1_8),
        ("precision", near.precision),
        ("recall", near.recall),
    ):
        yield _row(NONE, measure, value)
    for precision, recall in zip(curve.precision, curve.recall, strict=True):
        yield _row(NONE, CURVE, float(precision), at=float(recall))


def by_ratio(
    name: str,
    p: Floats,
    q: Floats,
    held_p: Floats,
    held_q: Floats,
    *,
    truths: Mapping[str, float],
    epochs: int,
    rate: float,
    seed: int,
    report: Report,
) -> Iterator[Row]:
    """The four divergences by one estimator, as the library gives them and from held-out rows; nan if it diverges."""
    try:
        ratio = _fitted(name, p, q, epochs, rate, seed, report)
        found = {measure: ratio.divergence(measure).value for measure in TRUTHS}
        held = held_out(np.asarray(ratio.log_ratio(held_p)), np.asarray(ratio.log_ratio(held_q)))
    except FitDivergedError:
        found, held = (dict.fromkeys(kinds, float("nan")) for kinds in (TRUTHS, HELD_OUT))
    for measure, value in found.items():
        yield _row(name, measure, value, truth=truths[measure])
    for measure, value in held.items():
        yield _row(name, HELD + measure, value, truth=truths[measure])


def _fitted(
    name: str, p: Floats, q: Floats, epochs: int, rate: float, seed: int, report: Report
) -> DensityRatio | ContinualDensityRatio:
    """P is the original, Q the current sample."""
    if name in (KLIEP, CODE):
        variant = "code" if name == CODE else "printed"
        return ckliep(epochs, rate, seed, report, variant=variant, penalty=0.0).fit(p).partial_fit(q)
    return DensityRatio(model="linear" if name == LINEAR else "auto", random_state=seed).fit(p, q)


def held_out(log_p: Floats, log_q: Floats) -> dict[str, float]:
    """Divergences from log-ratios p/q of rows of both, each KL as a mean over the rows of its first argument.

    ``js`` is the bound from below that both samples give: a ratio that is wrong on new rows makes it smaller, even
    negative. Hellinger's has a tail that a single row can blow up, and is left out.
    """
    js = np.log(2.0) - 0.5 * (np.logaddexp(0.0, -log_p).mean() + np.logaddexp(0.0, log_q).mean())
    return {"kl": float(log_p.mean()), "reverse_kl": float(-log_q.mean()), "js": float(js)}


def _row(estimator: str, measure: str, value: float, *, at: float = np.nan, truth: float = np.nan) -> Row:
    return {"estimator": estimator, "measure": measure, "value": value, "truth": truth, "at": at}
