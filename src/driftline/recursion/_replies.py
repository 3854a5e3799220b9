"""How a place that holds rows answers: pure functions of a question and of rows."""

from __future__ import annotations

import math

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import (
    Dense,
    Features,
    LogLinearDesign,
    chunks,
    linear_scores,
    log_mean_exp,
    part_of,
    sums_of_window,
)
from driftline.inference import curves_of, excesses, scored, shrinking, terms_of
from driftline.recursion._answers import CELLS, SIZES, Answer, numbers
from driftline.recursion._candidates import Candidates
from driftline.recursion._log_linear import check_extremes
from driftline.recursion._partitions import count
from driftline.recursion._questions import (
    EACH,
    GRID,
    ROOM,
    SCALE,
    Basis,
    Question,
    RowsWithheldError,
    bare_partitions,
    finer,
    sizes_of,
)
from driftline.recursion._rare import heaps
from driftline.recursion._rows import Curved
from driftline.recursion._settings import StepSettings
from driftline.recursion._summed import depends_of

__all__ = ["answer"]

_BEHIND = 2.0  # effective rows for each parameter behind weighted sums
_HUGE = 1e300


def answer(question: Question, x: Floats) -> Answer:
    """Answer a question from rows (n, D), or raise :class:`RowsWithheldError` if that would reveal them."""
    _check(question, x)
    sums = _ANSWERS[question.kind](question, x)
    return Answer(question.kind, len(x), {name: np.asarray(value, dtype=np.float64) for name, value in sums.items()})


def _check(question: Question, x: Floats) -> None:
    """Raise an error if the rows are too few for what is asked."""
    remedy = "pool it with another site, enlarge the windows, or take fewer columns or model='linear'"
    n, parameters = len(x), question.parameters
    if n < EACH * parameters:
        raise RowsWithheldError(
            f"it has {n} rows, and sums need {EACH * parameters}, {EACH} for each of {parameters} parameters, since "
            f"sums of fewer rows would reveal them: {remedy}"
        )
    asked = numbers(question.kind, sizes_of(question, x.shape[1]))
    if x.size < ROOM * asked:
        raise RowsWithheldError(
            f"it has {n} rows of {x.shape[1]} columns, and {asked} sums of them are asked for, which would reveal rows "
            f"unless there are {math.ceil(ROOM * asked / x.shape[1])}: {remedy}"
        )


def _basis(question: Question, x: Floats) -> Basis:
    basis = question.basis
    if basis is None or basis.features.columns != x.shape[1]:
        raise ValueError(f"the question is not about rows of {x.shape[1]} columns")
    return basis


def _rows(question: Question, x: Floats) -> tuple[Basis, Floats]:
    """Return the basis and the features of rows with a one, (n, q)."""
    basis = _basis(question, x)
    return basis, basis.features.design(basis.standardizer(x))


def _effective(log_weights: Floats) -> float:
    """Return how many rows weighted sums rest on."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (weights @ weights))


def _behind(question: Question, log_weights: Floats) -> None:
    """Raise an error if weighted sums rest on a few rows, which they would reveal."""
    rows = _effective(log_weights)
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
        "top": _top(basis.features, z),
    }


def _top(features: Features, z: Floats) -> Floats:
    """Return the largest values of features of clusters, and the smallest with their signs turned, (2, l)."""
    size = sum(other.size for other in features.others)
    found = np.full((2, size), -np.inf)
    for at in chunks(len(z) if size else 0):
        values = np.concatenate([other(z[at]) for other in features.others], 1)
        found = np.maximum(found, [values.max(0), -values.min(0)])
    return np.array([[float(f"{value:.2g}") for value in row] for row in found]).reshape(2, size)


def _place(question: Question, x: Floats) -> dict[str, Floats]:
    basis = _basis(question, x)
    z = np.clip(basis.standardizer(x), question.given["low"], question.given["high"])
    raw = np.empty((len(z), basis.features.size))
    basis.features.fill(z, raw)
    return {"total": raw.sum(0), "square": np.square(raw).sum(0)}


def _joining(given: dict[str, Floats]) -> Candidates:
    """Return features that may join, as a question names them."""
    products, hinged = given["products"].astype(np.int64), given["hinged"].astype(np.int64)
    return Candidates(products, hinged, given["knots"], np.zeros(0), np.zeros(0), 1.0)


def _levels(question: Question, x: Floats) -> dict[str, Floats]:
    candidates, standardizer = _joining(question.given), _basis(question, x).standardizer
    total, level = np.zeros(len(candidates.pairs) + len(candidates.knots)), np.zeros(x.shape[1])
    for at in chunks(len(x)):
        z = standardizer.original(standardizer(x[at]))
        total += candidates(z).sum(0, dtype=np.float64)
        level += z.sum(0)
    return {"total": total, "level": level, "same": _same(question, x)}


def _cells_of(size: Floats, edges: Floats) -> Floats:
    return np.bincount(np.searchsorted(edges, size), minlength=SIZES).astype(np.float64)


def _look(question: Question, x: Floats) -> dict[str, Floats]:
    basis, rows = _rows(question, x)
    v, candidates, standardizer = rows @ question.given["all"], _joining(question.given), basis.standardizer
    q, few = rows.shape[1], _effective(v) < _BEHIND * question.parameters
    weights = np.exp(v - v.max()) * (not few)
    weights /= max(float(weights.sum()), 1e-300)
    gram, cross = np.zeros((q, q)), np.zeros((len(candidates.pairs) + len(candidates.knots), q))
    for at in chunks(len(x)):
        weighted = rows[at] * weights[at, None]
        gram += weighted.T @ rows[at]
        cross += candidates(standardizer.original(standardizer(x[at]))).T.astype(np.float64) @ weighted
    return {
        "log_v": np.array(float(log_mean_exp(v)) + math.log(len(x))),
        "gram": 0.5 * (gram + gram.T),
        "cross": cross,
        "sizes": _cells_of(np.einsum("ij,ij->i", rows, rows), SCALE),
        "few": np.array(few),
    }


def _rest(question: Question, x: Floats) -> dict[str, Floats]:
    given, (basis, rows) = question.given, _rows(question, x)
    v, candidates, standardizer = rows @ given["all"], _joining(given), basis.standardizer
    _behind(question, v)
    weights, sums = np.exp(np.minimum(v - float(given["level"]), 350.0)), np.zeros((6, given["slopes"].shape[1]))
    for at in chunks(len(x)):
        values = candidates(standardizer.original(standardizer(x[at]))).astype(np.float64)
        rest, weight = values - rows[at] @ given["slopes"], weights[at, None]
        pulled = rest * weight
        square = pulled * pulled
        parts = values, values * values, pulled, pulled * rest, square, square * square
        sums += np.stack([part.sum(0) for part in parts])
    names = "value", "value_square", "pulled", "spread", "own", "fourth"
    edges = finer(float(given["bottom"]), float(given["top"]))
    sizes = _cells_of(np.einsum("ij,ij->i", rows, rows), edges)
    return {**dict(zip(names, np.minimum(sums, _HUGE), strict=True)), "sizes": sizes}


def _near(question: Question, x: Floats) -> dict[str, Floats]:
    rows = _rows(question, x)[1]
    v = rows @ question.given["all"]
    _behind(question, v)
    weights = np.exp(v - v.max())
    weights /= weights.sum()
    near = np.einsum("ij,ij->i", rows, rows) <= float(question.given["limit"])
    rows, weights = rows[near], weights[near]
    plain, gram = rows.T @ rows, (rows * weights[:, None]).T @ rows
    log_v = float(log_mean_exp(v)) + math.log(len(x))
    return {"log_v": np.array(log_v), "plain": 0.5 * (plain + plain.T), "gram": 0.5 * (gram + gram.T)}


def _level(question: Question, x: Floats) -> dict[str, Floats]:
    rows = _rows(question, x)[1]
    v, w = rows @ question.given["all"], rows @ question.given["read"]
    near = np.einsum("ij,ij->i", rows, rows) <= float(question.given["limit"])
    before, after = (1.0 / (1.0 + np.exp(-np.clip(part[near], -700.0, 700.0))) for part in (v, w))
    log_n = math.log(len(x))
    return {
        "before": np.array(before.sum()),
        "after": np.array(after.sum()),
        "bend": np.array((after * (1.0 - after)).sum()),
        "log_w": np.array(float(log_mean_exp(w)) + log_n),
        "twice_w": np.array(float(log_mean_exp(2.0 * w)) + log_n),
    }


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
        low, high = given[f"beyond_{of}"].tolist()
        out[f"{of}_beyond"] = excesses(log_r, low, high, EACH)
    return out


_ANSWERS = {
    "moments": _moments,
    "scales": _scales,
    "sums": _sums,
    "counts": _counts,
    "window": _window,
    "levels": _levels,
    "place": _place,
    "slope": _slope,
    "scores": _scores,
    "bends": _bends,
    "look": _look,
    "rest": _rest,
    "near": _near,
    "level": _level,
    "curves": _curves,
}
