"""The paper's method as the experiments run it, and what they measure of any method."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from driftline import ContinualDensityRatio, UntrustedEstimateWarning
from driftline.fitting import FitInfo, Progress
from experiments.experiment import Report

__all__ = [
    "PAPER_EPOCHS",
    "PAPER_RATE",
    "Floats",
    "ckliep",
    "epochs_to",
    "errors",
    "fit_columns",
    "untrusted",
    "without_validation",
]

Floats = npt.NDArray[np.float64]

PAPER_EPOCHS, PAPER_RATE = 500, 1e-5  # of the authors, for one original; up to 5000 epochs for several
_VALIDATION = 1 / 6  # their 10,000 rows beside 50,000


def ckliep(
    epochs: int, rate: float, seed: int, report: Report, *, variant: str = "printed", **params: Any
) -> ContinualDensityRatio:
    """CKLIEP in the paper's configuration but for epochs and learning rate; one step of it from p is static KLIEP.

    With the authors' epochs it stops as theirs: after 100 at least, when two bring nothing on the validation rows.
    """
    estimator = ContinualDensityRatio.paper(
        variant=variant, epochs=epochs, random_state=seed, progress=epochs_to(report), **params
    )
    assert estimator.training is not None
    estimator.set_params(training=estimator.training._replace(lr=rate))
    return estimator


def without_validation(rows: int) -> int:
    """Rows of a window of which ``rows`` are trained on, once the paper's validation rows are taken off."""
    return round(rows / (1.0 - _VALIDATION))


def epochs_to(report: Report) -> Progress:
    """A network's progress in words."""
    return lambda epoch, epochs, loss, held_out: report(f"epoch {epoch}/{epochs}, held-out {held_out:.4f}")


def errors(log_ratio: Floats, truth: Floats) -> dict[str, float]:
    """Over rows of the current distribution: mean absolute error, and KL(current‖original) as estimated and true."""
    return {
        "mae": float(np.abs(log_ratio - truth).mean()),
        "kl": float(-log_ratio.mean()),
        "true_kl": float(-truth.mean()),
    }


def fit_columns(fit: FitInfo) -> dict[str, float]:
    """Columns on a network's training: epochs run, held-out loss, 1 if it converged, seconds."""
    return {
        "epochs": fit.iterations,
        "held_out": fit.held_out,
        "converged": int(fit.converged),
        "seconds": round(fit.seconds, 1),
    }


@contextmanager
def untrusted() -> Iterator[None]:
    """Warnings that an estimate cannot be trusted are silent: the experiments show by how much it is off.

    This changes the whole process, of which each unit has one to itself; doubts are read from estimates.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        yield
