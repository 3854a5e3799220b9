"""The new engine behind the public names that a worker uses, as far as it has them.

It has no floors, no alarms and no file format yet: those gates are not for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import pyarrow as pa

from driftline import _engine as engine
from driftline.inference import Estimate
from driftline.tables import TableEncoder

GATES = ("streams", "real", "coverage", "auditor", "cost")
"""Gates that it can pass."""


class ContinualDensityRatio:
    """Follows a stream; with ``keep="sums"`` each step begins from sums of the window before."""

    def __init__(self, model: str = "auto", keep: str = "rows", random_state: int = 0) -> None:
        self.model, self.keep, self.seed = model, keep, random_state

    def fit(self, x: Any) -> Self:
        self.state = engine.start(np.asarray(x, dtype=np.float64), self.model, seed=self.seed)
        return self

    def partial_fit(self, x: Any) -> Self:
        before = engine.forget(self.state) if self.keep == "sums" else self.state
        self.state, _ = engine.step(before, np.asarray(x, dtype=np.float64), keep=self.keep)
        return self

    def divergence(self, kind: str) -> Estimate:
        return engine.divergence(self.state, kind)

    def log_ratio(self, x: Any) -> Any:
        return engine.log_ratio(self.state, np.asarray(x, dtype=np.float64))

    def save(self, path: Path) -> None:
        """Write the arrays that the next step needs, as they would be stored."""
        state = engine.forget(self.state) if self.keep == "sums" else self.state
        window = [state.window.rows] if self.keep == "rows" else list(state.window[3:])
        single = [state.factors, state.own, state.ledger.factors, *window[self.keep == "rows" :]]
        basis = [part for block in state.basis.blocks for part in block if isinstance(part, np.ndarray)]
        double = [state.coef, state.ledger.scores, state.basis.mean, state.basis.scale, *basis]
        double += window if self.keep == "rows" else []
        with path.open("wb") as file:
            np.savez(file, *double, *(np.asarray(part, dtype=np.float32) for part in single))


class Record(NamedTuple):
    """A window as the monitor would have it."""

    window: int
    drift: Estimate

    @property
    def doubts(self) -> Any:
        return self.drift.doubts


class Monitor:
    """Encodes windows of a table and follows them."""

    def __init__(self, window: int, keep: str = "rows", model: str = "auto") -> None:
        self.ratio = ContinualDensityRatio(model, keep)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def watch(self, frames: Iterator[pd.DataFrame]) -> Iterator[Record]:
        tables = (pa.Table.from_pandas(frame, preserve_index=False) for frame in frames)
        first = next(tables)
        encoder = TableEncoder.fit(first)
        self.ratio.fit(encoder.transform(first).values)
        for number, table in enumerate(tables, 1):
            self.ratio.partial_fit(encoder.transform(table).values)
            yield Record(number, self.ratio.divergence("reverse_kl"))


def compare(first: pd.DataFrame, second: pd.DataFrame) -> Record:
    """Compare two tables directly."""
    return next(Monitor(len(first)).watch(iter([first, second])))
