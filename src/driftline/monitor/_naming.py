"""Naming: the columns and pairs that moved, as Records say them, and what they leave unexplained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from driftline._wording import joined, named
from driftline.inference import Estimate, most_moved
from driftline.monitor._moves import Moves, Pool, Seen, moves
from driftline.monitor._phrases import column_phrase, pair_phrase
from driftline.monitor._record_parts import Marginal, Moved, MovedPair, Without, plain
from driftline.tables import Column, Encoded, Ledger, TableEncoder, count, recount

__all__ = ["NOTHING", "Naming", "name_moves", "said"]

_SWAMPS = 0.8  # share of the drift that one column has, where little is to be seen of others
_LARGE = 0.5  # nats of that column, at least: one standard deviation
_MOST = 0.5  # share of rows with new values
_LISTED = 50  # most pairs that a Record holds
_SAID = 3  # most names in a sentence
_UNTESTED = "columns were not tested: rows repeat or depend on each other too far, or are too few"


class Naming(NamedTuple):
    """What moved, for a Record.

    Attributes:
        columns, pairs: those that moved.
        explained: nats of KL(current‖original) that columns and a tree of pairs explain; nan if unknown.
        hides: the drift beside a column that hides the others.
        pool: the last windows, for the next one.
        notes: what could not be said.
        marginals: every tested column.
    """

    columns: tuple[Moved, ...]
    pairs: tuple[MovedPair, ...]
    explained: float
    hides: Without | None
    pool: Pool
    notes: tuple[str, ...]
    marginals: Mapping[str, Marginal] = MappingProxyType({})

    def unexplained(self, joint: Estimate) -> float | None:
        """Return what is left of KL(current‖original) of all columns together; None if that is unknown."""
        if not math.isfinite(self.explained + joint.std_error):
            return None
        return max(joint.value - self.explained, 0.0)


NOTHING = Naming((), (), math.nan, None, Pool(), ())


def name_moves(
    ledger: Ledger,
    encoder: TableEncoder,
    encoded: Encoded,
    worth: float,
    pool: Pool,
    joint: Estimate,
    level: float,
    confidence: float,
) -> Naming:
    """Name what moved from an original to a window.

    Arguments:
        ledger: cells and counts of the original.
        encoded: the window's rows.
        worth: number of independent rows that these are worth; 0 if nobody knows.
        pool: the windows before.
        joint: divergence of all columns together.
        level: chance that anything is named though nothing moved.
        confidence: confidence level of intervals.
    """
    seen = Seen(count(ledger, encoder, encoded.values), len(encoded.values), worth)
    found = moves(ledger, seen, pool, level, confidence)
    if not found.tested:
        return NOTHING._replace(pool=pool, notes=(_UNTESTED,))
    if found.pairs:
        found = found.confirmed(recount(ledger, encoder, encoded.values, found.pairs, found.named), level)
    kinds = [column for column, _ in encoder.coded(encoded.values[:0])]
    columns = tuple(_column(found, k, ledger, kinds, encoded) for k in range(len(found.named)))
    # a column whose own drift has no upper end explains as much as one likes
    explained = math.nan if any(drift.lower_bound for drift in found.drifts) else found.explained
    pairs = tuple(_pair(found, k, ledger, kinds) for k in range(min(len(found.pairs), _LISTED)))
    return Naming(columns, pairs, explained, _hiding(found, ledger, joint), found.pool, (), _marginals(found, ledger))


def _marginals(found: Moves, ledger: Ledger) -> dict[str, Marginal]:
    """Return every tested column, in three digits: they are read by eye, and there are many."""
    numbers = (
        (drift, chance, missing, new)
        for (drift, missing, new), chance in zip(found.own.tolist(), found.found.chance.tolist(), strict=True)
    )
    short = (Marginal(*(float(f"{v:.3g}") for v in each)) for each in numbers)
    return {cells.column: each for cells, each in zip(ledger.columns, short, strict=True)}


def _column(found: Moves, at: int, ledger: Ledger, kinds: Sequence[Column], encoded: Encoded) -> Moved:
    k = found.named[at]
    cells = ledger.columns[k]
    counts = found.cells.then[k], found.cells.now[k]
    cell, test, unlisted = most_moved(found.cells, k), int(found.found.test[k]), encoded.unlisted.get(cells.column)
    cause = column_phrase(cells, kinds[k], test, cell, counts, unlisted, len(encoded.values))
    if k in found.pooled:
        cause += ", in the last windows together"
    return Moved(cells.column, plain(found.drifts[at]), float(found.found.chance[k]), cause)


def _pair(found: Moves, at: int, ledger: Ledger, kinds: Sequence[Column]) -> MovedPair:
    place = found.pairs[at]
    i, j = ledger.pairs[place]
    one, other = ledger.columns[i], ledger.columns[j]
    tables = found.tables.then[place], found.tables.now[place]
    cause = pair_phrase((one, other), (kinds[i], kinds[j]), tables, found.correlations[at])
    return MovedPair((one.column, other.column), found.dependence[at], found.pair_chances[at], cause)


def _hiding(found: Moves, ledger: Ledger, joint: Estimate) -> Without | None:
    """Return the drift beside a column that has nearly all of it, or new values in most rows."""
    if not found.named or len(ledger.columns) < 2:
        return None
    shares = found.cells.now / found.cells.now.sum(1, keepdims=True)
    fresh = [float(shares[k][found.cells.then[k] == 0.0].sum()) for k in found.named]
    at = max(range(len(fresh)), key=lambda i: (fresh[i] > _MOST, -i))
    value, new = found.drifts[at].value, fresh[at] > _MOST
    if not new and not (value > _LARGE and value > _SWAMPS * joint.value):
        return None
    k = found.named[at]
    return Without(ledger.columns[k].column, max(found.without(ledger, k), 0.0), new)


def said(naming: Naming) -> str:
    """Say in a sentence what moved: columns with their causes, and pairs."""
    parts = [f"{named(m.column)} moved ({m.cause})" for m in naming.columns]
    parts += [f"the relation of {joined([named(c) for c in m.columns])} changed ({m.cause})" for m in naming.pairs]
    more = len(parts) - _SAID
    return joined(parts[:_SAID] + ([f"{more} more did"] if more > 0 else []))
