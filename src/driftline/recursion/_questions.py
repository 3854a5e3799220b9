"""What is asked of a place that holds rows, and how it answers: pure functions of a question and of rows.

A place needs nothing but its rows: each question says all that there is to say, so that one may be asked again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import (
    Dense,
    Features,
    LogLinearDesign,
    Standardizer,
    linear_scores,
    log_mean_exp,
    part_of,
    sums_of_window,
)
from driftline.inference import curves_of, scored, shrinking, terms_of
from driftline.recursion._answers import ANSWERS, CELLS, Answer, numbers
from driftline.recursion._by_sums import depends_of
from driftline.recursion._contrast import Contrast
from driftline.recursion._log_linear import check_extremes
from driftline.recursion._partitions import Partitions, Tally, count
from driftline.recursion._rare import heaps
from driftline.recursion._rows import Curved
from driftline.recursion._settings import StepSettings

__all__ = [
    "GRID",
    "Basis",
    "Question",
    "RowsWithheldError",
    "answer",
    "bare_partitions",
    "check_question",
    "least_rows",
    "sizes_of",
]

_EACH = 10  # rows for each parameter, at least: sums of fewer would nearly be rows
_ROOM = 2.0  # numbers in the rows for each number in an answer, at least
_BEHIND = 2.0  # effective rows for each parameter behind weighted sums
_STEP = 0.25
_ENDS = (np.arange(CELLS - 1) - 0.5 * (CELLS - 2)) * _STEP
GRID: Floats = np.sinh(_ENDS)
"""Edges of the fixed grid, in units of the frame: cells of a quarter near 0, wider outside."""


class RowsWithheldError(ValueError):
    """Error raised by a place whose answer would reveal rows."""


_CELLS = {"live": "c", "edges": "c 19", "groups": "c 3", "pairs": "k 2"}
_AT = {"coef": "q", "c": ""}
GIVEN: dict[str, dict[str, str]] = {
    "moments": {},
    "scales": {"heaps": "s D"},
    "sums": {},
    "counts": _CELLS,
    "window": {"heap": "D"},
    "place": {"low": "D", "high": "D"},
    "slope": _AT,
    "scores": {**_AT, "all": "q", "past": "q", "past_c": "", "odds": "", "heaps": "s D", **_CELLS},
    "bends": {**_AT, "spread_num": "q q", "spread_den": "q q"},
    "curves": {
        **_AT,
        "all": "q",
        "inverse": "q q",
        **{f"{name}_{of}": shape for of in ("all", "step") for name, shape in (("spread", "q q"), ("share", ""))},
    },
}
"""Arrays that questions hold beside the basis, with their shapes; cells only where there are some."""
_OPEN = ("heap", "heaps", "edges", "low", "high")  # may be infinite, or nan where there is no such value


class Basis(NamedTuple):
    """Coordinates and features of a model, without what was learned: the functions T that are summed up."""

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
    for name, shape in wanted.items():
        value, words = given[name], shape.split()
        fits = value.dtype == np.float64 and value.ndim == len(words)
        for word, size in zip(words, value.shape, strict=False):
            fits &= size == (int(word) if word.isdigit() else sizes.setdefault(word, size))
        if not fits or not (np.isfinite(value).all() or name in _OPEN):
            raise ValueError(f"{name} of the question is {value.dtype} of shape {value.shape}, or not finite")
    for name, most in (("live", columns), ("groups", 19), ("pairs", sizes.get("c", 0))):
        whole = given.get(name, np.zeros(0))
        if whole.size and not (whole.min() >= 0 and whole.max() < most and (whole == np.round(whole)).all()):
            raise ValueError(f"{name} of the question are not places among {most}")


def sizes_of(question: Question, columns: int) -> dict[str, int]:
    """Return the sizes that the shapes of an answer are made of."""
    heaps = question.given.get("heaps", np.zeros((1, 0)))
    sizes = {"D": columns, "s": len(heaps), "counts": 0}  # no counts where no column varies
    if question.basis is not None:
        sizes |= {"p": question.basis.features.size, "q": question.basis.features.size + 1}
    if "edges" in question.given:
        sizes["counts"] = question.given["edges"].size + 16 * len(question.given["pairs"])
    return sizes


def answer(question: Question, x: Floats) -> Answer:
    """Answer a question from rows (n, D), or raise :class:`RowsWithheldError` if that would reveal them."""
    _check(question, x)
    sums = _ANSWERS[question.kind](question, x)
    return Answer(question.kind, len(x), {name: np.asarray(value, dtype=np.float64) for name, value in sums.items()})


def _check(question: Question, x: Floats) -> None:
    """Raise an error if the rows are too few for what is asked."""
    remedy = "pool it with another site, enlarge the windows, or take fewer columns or model='linear'"
    n, parameters = len(x), question.parameters
    if n < _EACH * parameters:
        raise RowsWithheldError(
            f"it has {n} rows, and sums need {_EACH * parameters}, {_EACH} for each of {parameters} parameters, since "
            f"sums of fewer rows would reveal them: {remedy}"
        )
    asked = numbers(question.kind, sizes_of(question, x.shape[1]))
    if x.size < _ROOM * asked:
        raise RowsWithheldError(
            f"it has {n} rows of {x.shape[1]} columns, and {asked} sums of them are asked for, which would reveal rows "
            f"unless there are {math.ceil(_ROOM * asked / x.shape[1])}: {remedy}"
        )


def least_rows(parameters: int, columns: int) -> int:
    """Return the number of rows that a place needs, at least, for all questions of a step to be answered.

    >>> least_rows(9, 4)
    478
    """
    sizes = {"D": columns, "s": 1, "counts": 0, "p": parameters - 1, "q": parameters}
    most = max(numbers(kind, sizes) for kind in ANSWERS)
    return max(_EACH * parameters, math.ceil(_ROOM * most / columns))


def _basis(question: Question, x: Floats) -> Basis:
    basis = question.basis
    if basis is None or basis.features.columns != x.shape[1]:
        raise ValueError(f"the question is not about rows of {x.shape[1]} columns")
    return basis


def _rows(question: Question, x: Floats) -> tuple[Basis, Floats]:
    """Return the basis and the features of rows with a one, (n, q)."""
    basis = _basis(question, x)
    return basis, basis.features.design(basis.standardizer(x))


def _behind(question: Question, log_weights: Floats) -> None:
    """Raise an error if weighted sums rest on a few rows, which they would reveal."""
    weights = np.exp(log_weights - log_weights.max())
    rows = float(weights.sum() ** 2 / (weights @ weights))
    if rows < _BEHIND * question.parameters:
        raise RowsWithheldError(
            f"weighted sums would rest on {rows:.0f} of its rows, and need {_BEHIND * question.parameters:.0f} not to "
            "reveal them: take smaller steps, enlarge the windows, or pool it with another site"
        )


def _cells(z: Floats) -> Floats:
    """Count standardised rows (n, D) in the cells of the grid, (D, cells)."""
    return np.stack([np.bincount(np.searchsorted(GRID, column), minlength=CELLS) for column in z.T]).astype(np.float64)


def _same(question: Question, x: Floats) -> Floats:
    """Count rows that hold each of the values asked about, (s, D)."""
    return np.stack([(x == value).sum(0) for value in question.given["heaps"]]).astype(np.float64)


def _dependent(question: Question, x: Floats, rows: Curved) -> Floats:
    """Return whether rows repeat or depend on each other: how much they do is not asked for."""
    found = depends_of(x, rows, StepSettings(model="quadratic", lag=question.lag))
    return np.array(found.endless or found.lag > 0 or found.repeats is not None)


def _moments(question: Question, x: Floats) -> dict[str, Floats]:
    low, high = x.min(0), x.max(0)
    mean = np.where(low == high, low, x.mean(0))
    return {"mean": mean, "square": np.square(x - mean).sum(0), "heap": heaps(x)[None]}


def _scales(question: Question, x: Floats) -> dict[str, Floats]:
    basis = _basis(question, x)
    z = basis.standardizer(x)
    raw = np.empty((len(z), basis.features.size))
    basis.features.fill(z, raw)
    return {
        "total": raw.sum(0),
        "square": np.square(raw).sum(0),
        "cells": _cells(z),
        "same": _same(question, x),
        "dependent": _dependent(question, x, Curved(z)),
    }


def _sums(question: Question, x: Floats) -> dict[str, Floats]:
    return {"gram": sums_of_window(Dense(_rows(question, x)[1])).gram}


def bare_partitions(given: dict[str, Floats], standardizer: Standardizer) -> Partitions:
    """Return partitions without counts, as a question names them."""
    live, nothing = given["live"].astype(np.int64), np.zeros((0, 0), dtype=np.int32)
    none = Tally(nothing, nothing, nothing)
    center, unit = standardizer.mean[live], standardizer.scale[live]
    contrast = Contrast(live, center, unit, np.zeros((0, 2), dtype=np.int64), np.zeros(2 * len(live)))
    groups, pairs = given["groups"].astype(np.int64), given["pairs"].astype(np.int64)
    levels = np.full(32, np.inf)
    return Partitions(live, given["edges"], groups, pairs, contrast, levels, none, none, none, np.zeros(2))


def _tally(question: Question, x: Floats) -> Floats:
    """Count rows in the cells of columns and pairs of columns, (counts,)."""
    assert question.basis is not None
    found = count(bare_partitions(question.given, question.basis.standardizer), x)
    return np.concatenate([found.columns.ravel(), found.pairs.ravel()]).astype(np.float64)


def _counts(question: Question, x: Floats) -> dict[str, Floats]:
    return {"counts": _tally(question, x)}


def _window(question: Question, x: Floats) -> dict[str, Floats]:
    basis = _basis(question, x)
    check_extremes(basis.standardizer, x)
    z, mean = basis.standardizer(x), basis.standardizer.mean
    design = LogLinearDesign(basis.features, z)
    squares = len(basis.features.squares) if basis.features.curved else None
    heap = question.given["heap"]
    return {
        "gram": sums_of_window(design).gram,
        "cells": _cells(z),
        "off": (x != heap).sum(0),
        "heap": heaps(x)[None],
        "changed": (np.abs(x - mean) > 1e-9 * np.abs(mean)).sum(0) * basis.standardizer.still,
        "dependent": _dependent(question, x, Curved(design.live, squares)),
    }


def _place(question: Question, x: Floats) -> dict[str, Floats]:
    basis = _basis(question, x)
    z = np.clip(basis.standardizer(x), question.given["low"], question.given["high"])
    raw = np.empty((len(z), basis.features.size))
    basis.features.fill(z, raw)
    return {"total": raw.sum(0), "square": np.square(raw).sum(0)}


def _slope(question: Question, x: Floats) -> dict[str, Floats]:
    basis = _basis(question, x)
    design = LogLinearDesign(basis.features, basis.standardizer(x))
    part = part_of(design, question.given["coef"], float(question.given["c"]))
    return {
        "loss": np.array(part.loss),
        "pull": part.pull,
        "gram": 0.5 * (part.gram + part.gram.T),
        "beyond": np.array(part.beyond),
    }


def _scores(question: Question, x: Floats) -> dict[str, Floats]:
    given = question.given
    basis, rows = _rows(question, x)
    c = float(given["c"])
    u, v = rows @ given["coef"], rows @ given["all"]
    _behind(question, u)
    first = linear_scores(u, c).first
    found = scored(rows, u, c, given["past"], float(given["past_c"]))._asdict()
    small = np.exp(-np.abs(u + float(given["odds"])))
    overlap = 4.0 * small / (1.0 + small) ** 2
    weight = np.exp(u - u.max())
    tilt = np.exp(v - v.max())
    log_n = math.log(len(x))
    sums = {of: terms_of(rows, log_r, first) for of, log_r in (("all", v), ("step", u))}
    return {
        **found,
        "log_u": np.array(float(log_mean_exp(u)) + log_n),
        "twice_u": np.array(float(log_mean_exp(2.0 * u)) + log_n),
        "overlap": np.array(overlap.sum()),
        "overlap_num": np.array(float(weight @ overlap) / float(weight.sum())),
        "size": np.array(np.abs(u).sum()),
        "outlier": _outlier(basis, x, u),
        "log_v": np.array(float(log_mean_exp(v)) + log_n),
        "twice_v": np.array(float(log_mean_exp(2.0 * v)) + log_n),
        "weighted": tilt @ rows / float(tilt.sum()),
        "same": _same(question, x),
        "counts": _tally(question, x) if "edges" in given else np.zeros(0),
        **{
            f"{of}_{name}": part
            for of, found_of in sums.items()
            for name, part in zip(("total", "squared", "crossed", "slopes"), found_of, strict=True)
        },
    }


def _outlier(basis: Basis, x: Floats, u: Floats) -> Floats:
    """Return size, row, column and distance of the row that carries most of the step, if that is a tenth; (5,)."""
    size = np.abs(u)
    if float(size.max()) <= 0.1 * float(size.sum()):
        return np.zeros(5)
    row = int(size.argmax())
    z = np.abs(basis.standardizer.plain(x[row : row + 1])[0])
    j = int(z.argmax())
    return np.array([float(size[row]), row, j, float(f"{z[j]:.2g}"), 0.0])


def _bends(question: Question, x: Floats) -> dict[str, Floats]:
    given = question.given
    rows = _rows(question, x)[1]
    u = rows @ given["coef"]
    _behind(question, u)
    found = shrinking(rows, u, float(given["c"]), (given["spread_num"], given["spread_den"]))
    return {**found, "log_u": np.array(float(log_mean_exp(u)) + math.log(len(x)))}


def _curves(question: Question, x: Floats) -> dict[str, Floats]:
    given = question.given
    rows = _rows(question, x)[1]
    u = rows @ given["coef"]
    first, out = linear_scores(u, float(given["c"])).first, {}
    for of, log_r in (("all", rows @ given["all"]), ("step", u)):
        spread, share = given[f"spread_{of}"], float(given[f"share_{of}"])
        found = curves_of(rows, log_r, first, spread, given["inverse"], share)
        out.update({f"{of}_{name}": value for name, value in found._asdict().items()})
    return out


_ANSWERS = {
    "moments": _moments,
    "scales": _scales,
    "sums": _sums,
    "counts": _counts,
    "window": _window,
    "place": _place,
    "slope": _slope,
    "scores": _scores,
    "bends": _bends,
    "curves": _curves,
}
