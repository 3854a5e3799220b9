"""Streams on which alarms are compared, made from numpy and scipy alone so that any environment can replay them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

RUN_LENGTH = 20
"""Promised run length: windows from the first watched row to the first alarm, on average without drift."""


@dataclass(frozen=True)
class Scenario:
    """Standard normal columns, AR(1) along rows if ``rho``; at ``change`` the first ``columns`` move by ``shift``."""

    name: str
    dim: int
    rows: int
    reference: int
    rho: float = 0.0
    shift: float = 0.0
    columns: int = 0
    change: int = 0

    def stream(self, seed: int) -> tuple[NDArray[np.float64], Iterator[NDArray[np.float64]]]:
        """Return the reference (reference, dim) and the endless windows (rows, dim) after it.

        Scenarios that differ only in the change have the same rows up to it for each seed.
        """
        rng = np.random.default_rng(seed)
        memory = self.rho * rng.standard_normal((1, self.dim))
        reference, memory = self._rows(self.reference, rng, memory)
        return reference, self._windows(rng, memory)

    def _rows(
        self, count: int, rng: np.random.Generator, memory: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the next rows, and rho times the last of them."""
        noise = np.sqrt(1.0 - self.rho**2) * rng.standard_normal((count, self.dim))
        rows, memory = lfilter([1.0], [1.0, -self.rho], noise, axis=0, zi=memory)
        return rows, memory

    def _windows(self, rng: np.random.Generator, memory: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
        index = 0
        while True:
            window, memory = self._rows(self.rows, rng, memory)
            if index >= self.change:
                window[:, : self.columns] += self.shift
            yield window
            index += 1


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("iid", dim=5, rows=500, reference=2500),
        Scenario("ar1", dim=5, rows=500, reference=2500, rho=0.6),
        Scenario("clean", dim=64, rows=500, reference=2500),
        Scenario("shift", dim=64, rows=500, reference=2500, shift=0.2, columns=8, change=2),
    )
}
