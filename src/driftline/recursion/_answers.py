"""What a place that holds rows answers with: named sums, how the sums of two places are joined, and what they must be.

``ANSWERS`` is the whole list; nothing else leaves a place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.inference import KINDS

__all__ = ["ANSWERS", "CELLS", "SIZES", "Answer", "Field", "check_answer", "distinct", "join", "numbers"]

CELLS = 121
"""Cells of a column that place a frame, and the quantiles of an original."""
SIZES = 128
"""Cells that rows are counted in by the size of their features."""
_SMOOTH = len(KINDS) - 1  # divergences with a curvature
_OFF = 1e-6  # relative difference of sums that should be the same


class Field(NamedTuple):
    """A sum: its shape in words, how it is joined, and what it is.

    Shapes name D columns, p features, q = p + 1, l features of clusters, k features that may join, s values. Ways to
    join are "add"; "mean", weighted by rows; "u" and "v", means weighted by e^u and e^v, whose sums have the logarithms
    ``log_u`` and ``log_v``; "log", sums known by their logarithms; "any"; "largest"; "stack", one below the other, each
    value of a column once; "most", the one whose first entry is larger.
    """

    shape: str
    way: str
    what: str


_T = "T is a row's features and a one"
ANSWERS: dict[str, dict[str, Field]] = {
    "moments": {
        "mean": Field("D", "mean", "means of columns"),
        "square": Field("D", "add", "sums of squares about them"),
        "heap": Field("s D", "stack", "values that more than half of the rows hold, nan if there is none"),
    },
    "scales": {
        "total": Field("p", "add", "sums of features"),
        "square": Field("p", "add", "sums of their squares"),
        "cells": Field("D cells", "add", "counts in cells of a fixed grid"),
        "same": Field("s D", "add", "counts of rows that hold a value common elsewhere"),
        "dependent": Field("", "any", "whether rows repeat or depend on each other"),
    },
    "sums": {
        "gram": Field("q q", "mean", f"means of T T' ({_T})"),
    },
    "counts": {
        "counts": Field("counts", "add", "counts in cells of columns and pairs of columns"),
    },
    "window": {
        "gram": Field("q q", "mean", f"means of T T' ({_T})"),
        "cells": Field("D cells", "add", "counts in cells of a fixed grid"),
        "off": Field("D", "add", "counts of rows that do not hold what was the most common value"),
        "heap": Field("s D", "stack", "values that more than half of the rows hold, nan if there is none"),
        "changed": Field("D", "add", "counts of rows that differ from the original in a column constant there"),
        "top": Field("2 l", "largest", "largest and smallest values of features of clusters, to two digits"),
        "dependent": Field("", "any", "whether rows repeat or depend on each other"),
    },
    "levels": {
        "total": Field("k", "add", "sums of features that may join"),
        "level": Field("D", "add", "sums of columns in units of the original"),
        "same": Field("s D", "add", "counts of rows that hold a value common elsewhere"),
    },
    "place": {
        "total": Field("p", "add", "sums of features in the new frame, without what lies far out"),
        "square": Field("p", "add", "sums of their squares"),
    },
    "slope": {
        "loss": Field("", "add", "loss at theta"),
        "pull": Field("q", "add", "its gradient"),
        "gram": Field("q q", "add", "its curvature"),
        "beyond": Field("", "add", "count of rows where the loss is linear"),
    },
    "scores": {
        "plain": Field("q q", "add", "sums of first T T'; first is the derivative of the loss"),
        "square": Field("q q", "add", "sums of first² T T'"),
        "cube": Field("triples", "add", "sums of first second T T T"),
        "log_u": Field("", "log", "sum of e^u, u the log-ratio of the step"),
        "twice_u": Field("", "log", "sum of e^2u"),
        "gram": Field("q q", "u", "means of T T', weighted"),
        "plain_num": Field("q q", "u", "means of (c-u) T T', weighted"),
        "square_num": Field("q q", "u", "means of (c-u)² T T', weighted"),
        "cube_num": Field("triples", "u", "means of (c-u) T T T, weighted"),
        "past": Field("q q", "u", "means of g T T', weighted; g is first at the coefficients of the step before"),
        "square_past": Field("q q", "u", "means of g² T T', weighted"),
        "cross": Field("q q", "u", "means of g (c-u) T T', weighted"),
        "overlap": Field("", "add", "rows that the windows share, in effect"),
        "overlap_num": Field("", "u", "the same of the numerator, a mean"),
        "size": Field("", "add", "sum of |u|"),
        "outlier": Field("5", "most", "largest |u|, row, column, distance, place; 0 unless it is a tenth of all"),
        "log_v": Field("", "log", "sum of e^v, v = log original/current"),
        "twice_v": Field("", "log", "sum of e^2v"),
        "weighted": Field("q", "v", "means of T, weighted by e^v"),
        "same": Field("s D", "add", "counts of rows that hold a value common elsewhere"),
        "counts": Field("counts", "add", "counts in cells of columns and pairs of columns"),
        **{
            f"{of}_{name}": Field(shape, "add", f"for each divergence of {of}: sums of {what}")
            for of in ("all", "step")
            for name, shape, what in (
                ("total", "kinds", "f"),
                ("squared", "kinds", "f²"),
                ("crossed", "kinds q", "f first T"),
                ("slopes", "kinds q", "f' T"),
            )
        },
    },
    "bends": {
        "pull": Field("q", "add", "sums of third T' S T T"),
        "bent": Field("q q", "add", "sums of second² T' S T T T'"),
        "bent_num": Field("q q", "u", "means of T' S T T T', weighted"),
        "log_u": Field("", "log", "sum of e^u"),
    },
    "look": {
        "log_v": Field("", "log", "sum of e^v, v = log original/current"),
        "gram": Field("q q", "v", "means of T T', weighted by e^v"),
        "cross": Field("k q", "v", "means of g T, weighted by e^v; g are features that may join"),
        "sizes": Field("sizes", "add", "counts of rows by the size of T"),
        "few": Field("", "any", "whether weights rest on so few rows that weighted sums are left out"),
    },
    "rest": {
        "value": Field("k", "add", "sums of g"),
        "value_square": Field("k", "add", "sums of g²"),
        "pulled": Field("k", "add", "sums of e^v h; h is what T leaves of g"),
        "spread": Field("k", "add", "sums of e^v h²"),
        "own": Field("k", "add", "sums of e^2v h²"),
        "fourth": Field("k", "add", "sums of e^4v h^4"),
        "sizes": Field("sizes", "add", "counts of rows by the size of T, in finer cells"),
    },
    "near": {
        "log_v": Field("", "log", "sum of e^v"),
        "plain": Field("q q", "add", "sums of T T' of rows that are not far out"),
        "gram": Field("q q", "v", "means of T T' of these, weighted by e^v"),
    },
    "level": {
        "before": Field("", "add", "sum of r/(1+r) of rows that are not far out, r the ratio"),
        "after": Field("", "add", "the same of the ratio as it is read"),
        "bend": Field("", "add", "its derivative by the logarithm of r"),
        "log_w": Field("", "log", "sum of r as it is read"),
        "twice_w": Field("", "log", "sum of its squares"),
    },
    "curves": {
        f"{of}_{name}": Field(shape, "add", f"for each divergence of {of}: sums of {what}")
        for of in ("all", "step")
        for name, shape, what in (
            ("wobbled", "smooth", "f'' T' S T"),
            ("pulled", "smooth", "f' first T' A T"),
            ("tilted", "smooth q q", "f'' T T'"),
            ("kink", "", "what errors add to the total variation"),
            ("beyond", "6", "rows beyond a limit: their count and by how much, or their count alone"),
        )
    },
}
"""Sums that a place answers with, by the kind of question."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Sums over the rows of a place, or of several, by name."""

    kind: str
    rows: int
    sums: dict[str, Floats]

    def __getitem__(self, name: str) -> Floats:
        return self.sums[name]


def join(one: Answer, other: Answer) -> Answer:
    """Return the sums over the rows of both.

    >>> parts = [Answer("sums", rows, {"gram": np.full((1, 1), value)}) for rows, value in ((1, 2.0), (3, 6.0))]
    >>> joined = join(*parts)
    >>> joined.rows, joined["gram"].item()
    (4, 5.0)
    """
    rows, out = one.rows + other.rows, {}
    for name, field in ANSWERS[one.kind].items():
        a, b = one.sums[name], other.sums[name]
        if field.way == "add":
            out[name] = a + b
        elif field.way == "mean":
            out[name] = a + (b - a) * (other.rows / rows)
        elif field.way in ("u", "v"):
            left, right = (answer.sums[f"log_{field.way}"] for answer in (one, other))
            out[name] = a + (b - a) * np.exp(right - np.logaddexp(left, right))
        elif field.way == "log":
            out[name] = np.logaddexp(a, b)
        elif field.way in ("any", "largest"):
            out[name] = np.maximum(a, b)
        elif field.way == "stack":
            out[name] = distinct(np.concatenate([a, b]))
        else:
            out[name] = a if a[0] >= b[0] else b
    if one.kind == "moments":  # about the common mean
        gap = other.sums["mean"] - one.sums["mean"]
        out["square"] = out["square"] + gap * gap * (one.rows * other.rows / rows)
    return Answer(one.kind, rows, out)


def distinct(values: Floats) -> Floats:
    """Return the different numbers in each column of (places, D), in order; (s, D), nan where there are fewer.

    >>> distinct(np.array([[2.0, np.nan], [1.0, np.nan], [2.0, np.nan]])).tolist()
    [[1.0, nan], [2.0, nan]]
    """
    kept = [np.unique(column[np.isfinite(column)]) for column in values.T]
    out = np.full((max(1, *(len(found) for found in kept)), values.shape[1]), np.nan)
    for j, found in enumerate(kept):
        out[: len(found), j] = found
    return out


def check_answer(answer: Answer, sizes: Mapping[str, int]) -> None:
    """Raise a ValueError unless an answer holds exactly the sums that it should, each of its shape and finite.

    What sums must have in common is checked, too: counts add up to the rows, and of products with the one the means
    are known otherwise. ``sizes`` are those of the words in shapes.
    """
    wanted = ANSWERS[answer.kind]
    if answer.rows < 1:
        raise ValueError(f"it counts {answer.rows} rows")
    if set(answer.sums) != set(wanted):
        raise ValueError(f"it holds {sorted(answer.sums)} instead of {sorted(wanted)}")
    for name, field in wanted.items():
        value, own = answer.sums[name], sizes
        if field.way == "stack" and value.ndim:  # as many as places have, of which it may be the joined answer
            own = {**sizes, "s": max(len(value), 1)}
        shape = _shape(field.shape, own)
        if value.dtype != np.float64 or value.shape != shape:
            raise ValueError(f"{name} is {value.dtype} of shape {value.shape}, not float64 of shape {shape}")
        allowed = np.isnan(value) if name == "heap" else np.zeros(shape, dtype=bool)
        if not (np.isfinite(value) | allowed).all():
            raise ValueError(f"{name} is not finite")
    problem = _problem(answer, sizes)
    if problem:
        raise ValueError(problem)


def _problem(answer: Answer, sizes: Mapping[str, int]) -> str:
    """Say which sums contradict each other; empty if none do."""
    rows, sums = answer.rows, answer.sums
    square = [name for name, field in ANSWERS[answer.kind].items() if field.shape.endswith("q q")]
    for name in square:
        value = sums[name]
        if np.abs(value - np.swapaxes(value, -1, -2)).max() > _OFF * (1.0 + np.abs(value).max()):
            return f"{name} is not symmetric"
    if answer.kind in ("sums", "window") and abs(float(sums["gram"][-1, -1]) - 1.0) > _OFF:
        return "gram has no one at its end"
    if answer.kind in ("sums", "window") and np.linalg.eigvalsh(sums["gram"])[0] < -_OFF * np.abs(sums["gram"]).max():
        return "gram is not the mean of squares"
    if answer.kind in ("scales", "window") and (sums["cells"].sum(1) != rows).any():
        return f"cells do not count {rows} rows"
    if "sizes" in sums and sums["sizes"].sum() != rows:
        return f"sizes do not count {rows} rows"
    for name in ("cells", "off", "changed", "same", "counts", "sizes"):
        if name in sums and sums[name].size and (sums[name].min() < 0 or sums[name].max() > rows):
            return f"{name} are not counts of {rows} rows"
    if answer.kind == "moments" and float(sums["square"].min()) < 0.0:
        return "square is negative"
    if answer.kind == "slope" and np.linalg.eigvalsh(sums["gram"])[0] < -_OFF * np.abs(sums["gram"]).max():
        return "gram is not a curvature"
    return ""


def numbers(kind: str, sizes: Mapping[str, int]) -> int:
    """Return how many different numbers that are not counts an answer holds."""
    total = 0
    for name, field in ANSWERS[kind].items():
        if name in ("cells", "counts", "off", "changed", "same", "heap", "sizes"):
            continue
        shape = _shape(field.shape, sizes)
        size = int(np.prod(shape))
        if field.shape.endswith("q q"):
            size = size // sizes["q"] * (sizes["q"] + 1) // 2
        total += size
    return total


def _shape(words: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    known = {"cells": CELLS, "sizes": SIZES, "kinds": len(KINDS), "smooth": _SMOOTH, **sizes}
    if "q" in known:
        q = known["q"]
        known["triples"] = q * (q + 1) * (q + 2) // 6
    return tuple(int(word) if word.isdigit() else known[word] for word in words.split())
