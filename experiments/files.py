"""Files that are whole or not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file of the same folder, then move it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        write(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
