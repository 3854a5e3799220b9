"""Warnings: the one place where doubts, which are values everywhere else, are raised for a user to see."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

from driftline.inference import Doubt

__all__ = ["UntrustedEstimateWarning", "warn_of"]

_PACKAGE = str(Path(__file__).parents[1]) + os.sep


class UntrustedEstimateWarning(UserWarning):
    """Warning that an estimate should not be relied on, for the reason given."""


def warn_of(doubts: Iterable[Doubt], prefix: str = "") -> None:
    """Warn of each doubt at the line outside this package that asked for the number.

    Arguments:
        doubts: doubts to warn of.
        prefix: words before each sentence, such as the name of an original.
    """
    for doubt in doubts:
        warnings.warn(f"{prefix}{doubt}", UntrustedEstimateWarning, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the stack level, as :func:`warn_of` sees it, of the first frame whose code is not in this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
