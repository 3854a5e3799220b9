"""Where rows come from: the commit, and the numbers of the engine that made them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from driftline import ContinualDensityRatio
from experiments.methods import untrusted

__all__ = ["commit", "engine", "is_stale"]

_CLOSE = 0.005  # relative: processors differ in far later digits, and a change of method in earlier ones


@cache
def commit() -> str:
    """Return the commit of this checkout, with a plus if files differ from it; empty outside a checkout."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--exclude=*"], cwd=here, capture_output=True, text=True
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@cache
def engine() -> tuple[float, ...]:
    """Return a few estimates of driftline's default on fixed streams: they change when the engine's numbers do.

    The streams are a Gaussian that moves, two clusters that trade rows, and a skewed column.
    """
    rng = np.random.default_rng(20_210_413)
    normal, share = rng.normal(size=(4, 600, 3)), rng.random((4, 600, 1))
    streams = (
        [normal[t] + 0.15 * t for t in range(4)],
        [normal[t] + 4.0 * (share[t] < 0.5 - 0.06 * t) for t in range(4)],
        [np.exp(0.8 * normal[t] + 0.1 * t * (normal[t] > 1)) for t in range(4)],
    )
    found = []
    for windows in streams:
        est = ContinualDensityRatio(random_state=0).fit(windows[0])
        with untrusted():
            for window in windows[1:]:
                est.partial_fit(window)
            found += [(drift := est.divergence("reverse_kl")).value, drift.std_error]
    return tuple(float(f"{value:.6g}") for value in found)


def is_stale(made: Sequence[float]) -> bool:
    """Say whether the engine's numbers have changed since rows were made by one with the numbers ``made``."""
    return len(made) != len(engine()) or not np.allclose(made, engine(), rtol=_CLOSE, atol=0.0)
