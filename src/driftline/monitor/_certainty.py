"""Certainty: columns that have moved for certain, whatever the noise of the rest, and what that takes in nats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from driftline._causes import Cause, reason
from driftline._wording import counted, number, percent
from driftline.inference import Estimate, terms
from driftline.monitor._novelty import Novelty, novelty
from driftline.monitor._record_parts import Moved, plain
from driftline.monitor._settings import Settings
from driftline.tables import Encoded, Evidence, TableEncoder

__all__ = ["Certainty", "beyond", "certainly", "certainties", "named_first"]

_SAID = 3  # most columns in a sentence


class Certainty(NamedTuple):
    """A column that has moved for certain.

    Attributes:
        cause: why the alarm is raised.
        column: name of the column.
        event: what of its rows has moved, in words.
        least: the least divergence that this takes, of the kind the alarm looks at.
        nats: the same of KL(current‖original).
        chance: chance of this in a column that has not moved, at most.
    """

    cause: Cause
    column: str
    event: str
    least: float
    nats: float
    chance: float


def certainties(
    constant: Mapping[str, float],
    rows: int,
    encoder: TableEncoder,
    encoded: Encoded,
    settings: Settings,
    *,
    first: bool,
) -> tuple[Certainty, ...]:
    """Return the columns that have moved for certain, the furthest first.

    Of watched columns, only those beyond the tolerance: for less, they have tests of their own. Columns that are not
    watched have none, so all of them are returned, at the level of these tests.

    Arguments:
        constant: constant encoded columns of the original, and their values.
        rows: number of rows of the original.
        encoded: the window.
        first: whether the original is the first window: evidence compares with it, and others need not resemble it.
    """
    kind = settings.divergences[0]
    found = [_evident(each, kind) for each in encoded.evidence] if first else []
    new = novelty(constant, rows, encoder.names, encoded.values, kind=kind, run_length=settings.run_length)
    if new is not None:
        found.append(_new(new, constant[new.column], encoder, encoded, 1.0 / settings.run_length))
    level = 1.0 / (settings.run_length * max(1, len(encoder.held) + len(encoder.counters)))
    kept = (c for c in found if c.least > settings.tolerance or (c.column not in encoder.groups and c.chance <= level))
    return tuple(sorted(kept, key=lambda each: -each.least))


def beyond(certain: Sequence[Certainty], tolerance: float) -> tuple[Certainty, ...]:
    """Return those that raise an alarm: they have moved beyond the tolerance."""
    return tuple(each for each in certain if each.least > tolerance)


def _evident(evidence: Evidence, kind: str) -> Certainty:
    """Looking at a few events alone cannot increase a divergence, so that between their shares is the least."""
    then, now = (np.clip(shares, 1e-12, 1.0) for shares in (evidence.then, evidence.now))
    least, nats = (float(now @ terms(np.log(then) - np.log(now), each)) for each in (kind, "reverse_kl"))
    return Certainty(Cause.SHARE_MOVED, evidence.column, evidence.event, least, nats, evidence.chance)


def _new(found: Novelty, before: float, encoder: TableEncoder, encoded: Encoded, chance: float) -> Certainty:
    """Name the column of the table, and say whether its new values are missing ones."""
    at = encoder.names.index(found.column)
    column = next(name for name, places in encoder.groups.items() if at in places)
    missing = next(coded.missing for _, coded in encoder.coded(encoded.values) if coded.group == column)
    gone = np.array_equal(encoded.values[:, at] != before, missing)
    event = f"{percent(found.share)} missing, {percent(0.0)} at first" if gone else f"{percent(found.share)} new values"
    return Certainty(Cause.NEW_VALUES, column, event, found.least, found.nats, chance)


def certainly(certain: Sequence[Certainty]) -> tuple[tuple[Cause, ...], str]:
    """Return the causes of an alarm for what is certain, and say them."""
    said = [reason((c.cause,), column=c.column, event=c.event, least=number(c.nats)) for c in certain[:_SAID]]
    more = [counted(len(certain) - _SAID, "further column")] if len(certain) > _SAID else []
    return tuple(dict.fromkeys(each.cause for each in certain)), "; ".join([*said, *more])


def named_first(moved: Sequence[Moved], certain: Sequence[Certainty], level: float) -> tuple[Moved, ...]:
    """Name what is certain before the columns that their tests name; of a column in both, the larger drift counts.

    >>> certain = Certainty(Cause.SHARE_MOVED, "x", "83 % filled, 0 % at first", 5.1, 5.1, 0.0)
    >>> [(each.column, each.cause) for each in named_first((), [certain], 0.95)]
    [('x', '83 % filled, 0 % at first')]
    """
    tested = {each.column: each for each in moved}
    first: dict[str, Moved] = {}
    for each in certain:
        bound = Estimate(each.nats, math.nan, each.nats, math.inf, level, lower_bound=True)
        found = Moved(each.column, plain(bound), each.chance, each.event)
        known = first.get(each.column) or tested.get(each.column) or found
        first[each.column] = max(known, found, key=lambda m: m.drift.value)
    return (*first.values(), *(each for each in moved if each.column not in first))
