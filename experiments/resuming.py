"""Rows of an unfinished unit, and the estimator that made the last of them: a killed run loses one step at most."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from driftline import ContinualDensityRatio
from driftline.fitting import Progress
from experiments.experiment import Row
from experiments.files import write_atomically

__all__ = ["Kept", "tidy"]

_ROWS = "rows.json"


class Kept:
    """What a unit's folder keeps until the unit is finished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[Row] = []
        self._estimator = ""
        if (folder / _ROWS).exists():
            kept = json.loads((folder / _ROWS).read_text(encoding="utf-8"))
            self.rows, self._estimator = kept["rows"], kept["estimator"]

    def estimator(self, progress: Progress | None = None, device: str | None = None) -> ContinualDensityRatio | None:
        """Load the estimator that made the last row; None if there is no row yet."""
        if not self._estimator:
            return None
        return ContinualDensityRatio.load(self.folder / self._estimator, progress=progress, device=device)

    def add(self, row: Row, estimator: ContinualDensityRatio) -> None:
        """Save the estimator first, then the rows, which name it; then the one before is not needed any more."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.rows, self._estimator = [*self.rows, row], f"step-{estimator.t_}.safetensors"
        estimator.save(self.folder / self._estimator)
        text = json.dumps({"estimator": self._estimator, "rows": self.rows})
        write_atomically(self.folder / _ROWS, lambda draft: draft.write_text(text, encoding="utf-8"))
        for old in self.folder.glob("step-*.safetensors"):
            if old.name != self._estimator:
                old.unlink()


def tidy(args: Any, folder: Path) -> None:
    """Delete what a finished unit had kept."""
    shutil.rmtree(folder, ignore_errors=True)
