"""Outputs: a file is there as a whole or not at all."""

from __future__ import annotations

import os

from driftline.files import replacing
from driftline.report._histories import ReportError

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write so that the path holds either the old file or the whole new one; :class:`ReportError` if it cannot."""
    try:
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise ReportError(f"{os.fspath(path)} cannot be written: {error.strerror or error}") from None
