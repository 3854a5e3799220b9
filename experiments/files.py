"""Files that are whole or not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["write_arrays", "write_atomically"]


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file of the same folder, then move it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        write(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_arrays(path: Path, **arrays: npt.NDArray[Any]) -> None:
    """Write arrays by name as one npz file, without pickle."""

    def write(draft: Path) -> None:
        with draft.open("wb") as file:  # savez would add .npz to a name without it
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    write_atomically(path, write)
