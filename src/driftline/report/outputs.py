"""Outputs: a file is there as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from driftline.report.histories import ReportError

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write so that the path holds either the old file or the whole new one; :class:`ReportError` if it cannot."""
    target = Path(path).resolve()  # a link stays a link, to the new file
    if target.is_dir():
        raise ReportError(f"{os.fspath(path)} is a directory: name a file")
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).chmod(_mode(target))
        os.replace(temporary, target)
    except OSError as error:
        raise ReportError(f"{os.fspath(path)} cannot be written: {error.strerror or error}") from None
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def _mode(target: Path) -> int:
    """What the file had, or what open() would have given it."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
