"""The basis: all functions that one original's model may use, frozen on the original's rows."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._engine._blocks import Block, Columns, Hinges, Units, candidates, families, part_of, random_units
from driftline._engine._groups import group_rows
from driftline._inputs import Floats
from driftline.fitting import (
    Density,
    Integers,
    Standardizer,
    first_summary,
    fit_standardizer,
    tangents_of,
)

__all__ = ["MODELS", "Basis", "freeze"]

MODELS = ("linear", "quadratic", "quadratic-full", "auto")
_SHAPES = (-1.3, 0.0, 1.3)  # knots on a column with normal scores
_SUPPORT = 100.0  # effective rows behind a function of a cluster
_SUMMARISED = 200  # rows; with fewer, shapes and clusters are guesses
_ROWS_EACH = 20  # rows for each column, at least, for the same reason
_HEAP = 0.7  # share of rows with one value, from which the others are events
_STILL = 1e-6  # spread of a function that is constant


class Basis(NamedTuple):
    """Functions of rows: blocks of the model first, then those that may join it, then random units.

    Attributes:
        standardizer: coordinates of the original.
        blocks: blocks of functions.
        core: number of blocks that the model has from the start.
        density: mixture of the original if it has clusters; the model's log-ratio has that of two mixtures in it.
        mean, scale: of each function over the original, (P,); the scale is 1 for one that was constant.
        heaps: value that most rows of a column hold, nan if none is so common, (D,).
    """

    standardizer: Standardizer
    blocks: tuple[Block, ...]
    core: int
    density: Density | None
    mean: Annotated[Floats, "P"]
    scale: Annotated[Floats, "P"]
    heaps: Annotated[Floats, "D"]

    @property
    def size(self) -> int:
        """Number of functions P."""
        return len(self.mean)

    @property
    def block(self) -> Integers:
        """Number of each function's block, (P,)."""
        return np.repeat(np.arange(len(self.blocks)), [block.size for block in self.blocks])

    @property
    def family(self) -> Integers:
        """Number of each function's family, (P,)."""
        out, first = [], 0
        for block in self.blocks:
            own = families(block, len(self.standardizer.mean))
            out.append(first + own)
            first += int(own.max()) + 1 if len(own) else 0
        return np.concatenate(out)

    @property
    def kind(self) -> Integers:
        """Number of each function's kind, (P,): its block, with columns and their squares told apart."""
        squares = np.arange(self.size) >= len(self.columns.linear)
        return self.block + squares

    @property
    def columns(self) -> Columns:
        """The first block."""
        first = self.blocks[0]
        assert isinstance(first, Columns)
        return first

    @property
    def begins(self) -> npt.NDArray[np.bool_]:
        """Whether each function is in the model from the start, (P,)."""
        return np.asarray(self.block < self.core)

    @property
    def joins(self) -> npt.NDArray[np.bool_]:
        """Whether each function may join the model, (P,)."""
        return np.array([not isinstance(block, Units) for block in self.blocks])[self.block]

    def events(self, z: Floats) -> Floats:
        """Return the share of rows off the most common value of each column, (D,); 1 where none is so common."""
        return np.where(np.isnan(self.heaps), 1.0, (z != self.heaps).mean(0))

    def rarity(self, events: Floats) -> Floats:
        """Return the smallest share of events of the columns that each function speaks of, (P,)."""
        parts = [np.where(block.shares(len(events)) > 0.0, events[:, None], 1.0) for block in self.blocks]
        return np.concatenate([part.min(0) for part in parts])

    def some(self, z: Floats, which: npt.NDArray[np.bool_]) -> Floats:
        """Return some of the functions of rows, (n, k); blocks without any of them are not computed."""
        parts, at = [], 0
        for block in self.blocks:
            own = which[at : at + block.size]
            at += block.size
            if own.any():
                parts.append(part_of(block, own)(z))
        out = np.concatenate(parts, 1) if parts else np.zeros((len(z), 0))
        out -= self.mean[which]
        out /= self.scale[which]
        return out


def freeze(x: Floats, model: str = "auto", *, seed: int = 0) -> Basis:
    """Return the basis of an original's rows (n, D).

    ``linear`` has columns, ``quadratic`` their squares, ``quadratic-full`` all products. ``auto`` has columns, squares,
    hinges of columns far from normal, and clusters from the start; the others may join.
    """
    if model not in MODELS:
        raise ValueError(f"model={model!r} is unknown: choose one of {list(MODELS)}")
    standardizer, density = fit_standardizer(x), None
    z, rng = standardizer(x), np.random.default_rng((seed, 1))
    mapped: Integers = np.zeros(0, dtype=np.int64)
    # copies and neighbours that depend on each other look like clusters, and are none
    groups = group_rows(x, z, rng)
    apart = (z if groups.distinct is None else z[groups.distinct])[:: math.ceil(groups.worth)]
    if model == "auto" and len(apart) >= max(_SUMMARISED, _ROWS_EACH * x.shape[1]):
        summary = first_summary(apart, seed=seed)
        density = summary.density if summary.density.clustered else None
        if summary.scores is not None:
            standardizer = standardizer._replace(scores=summary.scores)
            z, mapped = standardizer(x), summary.scores.columns
    columns = _columns(z, squares=model != "linear")
    blocks: list[Block] = [columns]
    if len(mapped):
        blocks.append(Hinges(np.repeat(mapped, len(_SHAPES)), np.tile(_SHAPES, len(mapped))))
    if density is not None:
        blocks.append(tangents_of(density, z, _SUPPORT))
    core = len(blocks)
    more = candidates(z, columns, mapped) if model in ("auto", "quadratic-full") else []
    if model == "quadratic-full":
        more = [block for block in more if type(block).__name__ == "Products"]
        core += len(more)
    blocks += [*more, random_units(z, rng)]
    values = np.concatenate([block(z[:20_000]) for block in blocks], 1)
    spread = values.std(0)
    return Basis(
        standardizer, tuple(blocks), core, density, values.mean(0), np.where(spread > _STILL, spread, 1.0), _heaps(z)
    )


def _heaps(z: Floats) -> Floats:
    """Return the value that most rows hold in each column, nan where none is so common, (D,)."""
    middle = np.median(z, axis=0)
    return np.where((z == middle).mean(0) > _HEAP, middle, np.nan)


def _columns(z: Floats, *, squares: bool) -> Columns:
    """Return all columns, and squares of those with more than two values."""
    low, high = z.min(0), z.max(0)
    linear = np.arange(z.shape[1])
    between = [j for j in linear if squares and ((z[:, j] > low[j]) & (z[:, j] < high[j])).any()]
    return Columns(linear, np.array(between, dtype=np.int64))
