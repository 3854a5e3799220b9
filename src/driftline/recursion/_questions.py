"""What is asked of a place that holds rows.

A place needs nothing but its rows: each question says all that there is to say, so that one may be asked again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import (
    Features,
    Standardizer,
)
from driftline.recursion._answers import ANSWERS, CELLS, SIZES, numbers
from driftline.recursion._contrast import Contrast
from driftline.recursion._partitions import Partitions, Tally

__all__ = [
    "EACH",
    "GRID",
    "LEARNING",
    "ROOM",
    "SCALE",
    "Basis",
    "Question",
    "RowsWithheldError",
    "bare_partitions",
    "check_question",
    "finer",
    "least_rows",
    "sizes_of",
]

EACH = 10
"""Rows for each parameter, at least: sums of fewer would nearly be rows."""
ROOM = 2.0
"""Numbers in the rows for each number in an answer, at least."""
_STEP = 0.25
_ENDS = (np.arange(CELLS - 1) - 0.5 * (CELLS - 2)) * _STEP
GRID: Floats = np.sinh(_ENDS)
"""Edges of the fixed grid, in units of the frame: cells of a quarter near 0, wider outside."""

SCALE: Floats = np.exp2(np.linspace(0.0, 40.0, SIZES - 1))
"""Edges between cells of the size of a row's features, the one included."""
LEARNING = ("levels", "look", "rest", "near", "level")
"""Kinds of questions that models alone are asked whose features may be learned, and may be joined by others."""


class RowsWithheldError(ValueError):
    """Error raised by a place whose answer would reveal rows."""


_CELLS = {"live": "c", "edges": "c 19", "groups": "c 3", "pairs": "k 2"}
_AT = {"coef": "q", "c": ""}
_CURVED = {"spread": "q q", "share": "", "beyond": "2"}
_JOINING = {"products": "a 2", "hinged": "h", "knots": "h"}
GIVEN: dict[str, dict[str, str]] = {
    "moments": {},
    "scales": {"heaps": "s D"},
    "sums": {},
    "counts": _CELLS,
    "window": {"heap": "D"},
    "levels": {**_JOINING, "heaps": "s D"},
    "place": {"low": "D", "high": "D"},
    "slope": _AT,
    "scores": {**_AT, "all": "q", "past": "q", "past_c": "", "odds": "", "heaps": "s D", **_CELLS},
    "bends": {**_AT, "spread_num": "q q", "spread_den": "q q"},
    "look": {"all": "q", **_JOINING},
    "rest": {"all": "q", **_JOINING, "slopes": "q k", "level": "", "bottom": "", "top": ""},
    "near": {"all": "q", "limit": ""},
    "level": {"all": "q", "read": "q", "limit": ""},
    "curves": {
        **_AT,
        "all": "q",
        "inverse": "q q",
        **{f"{name}_{of}": shape for name, shape in _CURVED.items() for of in ("all", "step")},
    },
}
"""Arrays that questions hold beside the basis, with their shapes; cells only where there are some."""
_OPEN = ("heap", "heaps", "edges", "low", "high")  # may be infinite, or nan where there is no such value


class Basis(NamedTuple):
    """Coordinates and features of a model: the functions T that are summed up."""

    standardizer: Standardizer
    features: Features


class Question(NamedTuple):
    """A question: its kind, the basis if there is one yet, and further arrays by name.

    ``parameters`` is the number of parameters of the model, ``lag`` the reach of dependence, None if it is to be found.
    """

    kind: str
    parameters: int
    basis: Basis | None
    given: dict[str, Floats]
    lag: int | None = None


def check_question(question: Question, columns: int) -> None:
    """Raise a ValueError unless a question holds exactly what one of its kind needs, of the right shapes."""
    if question.kind not in GIVEN:
        raise ValueError(f"a question of kind {question.kind!r} is unknown")
    if (question.basis is None) != (question.kind == "moments"):
        raise ValueError(f"a question of kind {question.kind!r} needs a model, and no other does")
    given, wanted = question.given, dict(GIVEN[question.kind])
    if question.kind == "scores" and "edges" not in given:
        wanted = {name: shape for name, shape in wanted.items() if name not in _CELLS}
    if set(given) != set(wanted):
        raise ValueError(f"a question of kind {question.kind!r} holds {sorted(given)} instead of {sorted(wanted)}")
    sizes = {"D": columns, "q": 0 if question.basis is None else question.basis.features.size + 1}
    if "knots" in given:
        sizes["k"] = len(given["products"]) + len(given["knots"])
    for name, shape in wanted.items():
        value, words = given[name], shape.split()
        fits = value.dtype == np.float64 and value.ndim == len(words)
        for word, size in zip(words, value.shape, strict=False):
            fits &= size == (int(word) if word.isdigit() else sizes.setdefault(word, size))
        if not fits or not (np.isfinite(value).all() or name in _OPEN):
            raise ValueError(f"{name} of the question is {value.dtype} of shape {value.shape}, or not finite")
    places = ("live", columns), ("groups", 19), ("pairs", sizes.get("c", 0)), ("products", columns), ("hinged", columns)
    for name, most in places:
        whole = given.get(name, np.zeros(0))
        if whole.size and not (whole.min() >= 0 and whole.max() < most and (whole == np.round(whole)).all()):
            raise ValueError(f"{name} of the question are not places among {most}")


def sizes_of(question: Question, columns: int) -> dict[str, int]:
    """Return the sizes that the shapes of an answer are made of."""
    heaps = question.given.get("heaps", np.zeros((1, 0)))
    sizes = {"D": columns, "s": len(heaps), "counts": 0}  # no counts where no column varies
    if "knots" in question.given:
        sizes["k"] = len(question.given["products"]) + len(question.given["knots"])
    if question.basis is not None:
        sizes["l"] = sum(other.size for other in question.basis.features.others)
        sizes |= {"p": question.basis.features.size, "q": question.basis.features.size + 1}
    if "edges" in question.given:
        sizes["counts"] = question.given["edges"].size + 16 * len(question.given["pairs"])
    return sizes


def least_rows(parameters: int, columns: int, learned: int = 0, candidates: int | None = None) -> int:
    """Return the number of rows that a place needs, at least, for all questions of a step to be answered.

    Of the parameters so many are of features that were ``learned``; ``candidates`` may join, None for other models.

    >>> least_rows(9, 4)
    496
    """
    sizes = {"D": columns, "s": 1, "counts": 0, "p": parameters - 1, "q": parameters}
    sizes |= {"l": learned, "k": candidates or 0}
    most = max(numbers(kind, sizes) for kind in ANSWERS if candidates is not None or kind not in LEARNING)
    return max(EACH * parameters, math.ceil(ROOM * most / columns))


def bare_partitions(given: dict[str, Floats], standardizer: Standardizer) -> Partitions:
    """Return partitions without counts, as a question names them."""
    live, nothing = given["live"].astype(np.int64), np.zeros((0, 0), dtype=np.int32)
    none = Tally(nothing, nothing, nothing)
    center, unit = standardizer.mean[live], standardizer.scale[live]
    contrast = Contrast(live, center, unit, np.zeros((0, 2), dtype=np.int64), np.zeros(2 * len(live)))
    groups, pairs = given["groups"].astype(np.int64), given["pairs"].astype(np.int64)
    levels = np.full(32, np.inf)
    return Partitions(live, given["edges"], groups, pairs, contrast, levels, none, none, none, np.zeros(2))


def finer(bottom: float, top: float) -> Floats:
    """Return the edges between finer cells of the size of a row's features."""
    return np.linspace(bottom, top, SIZES - 1)
