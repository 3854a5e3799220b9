"""Rows that wait in order, and the last of them far ahead of the others: held back until enough rows agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from driftline.sources._leaps import AGREED, AT_END, BEGUN, FEW, Leaps

__all__ = ["Held", "Judged", "among_rows", "among_times", "numbers_of"]

Values = NDArray[np.int64] | NDArray[np.float64]


class Held(NamedTuple):
    """Rows that are held back.

    Attributes:
        ahead: order or time of the first of them.
        against: number of rows behind it that have come since, in later batches.
    """

    ahead: int | float
    against: int = 0


class Judged(NamedTuple):
    """What is decided about rows in order.

    Attributes:
        right: number of rows, from the first on, that count.
        wild: whether the rows after them are wrong; otherwise they wait.
        held: those that wait because they are far ahead; None if none does.
    """

    right: int
    wild: bool = False
    held: Held | None = None


def judge(
    values: Values, leaps: Sequence[int], new: Values, held: Held | None, *, enough: int, first: bool, final: bool
) -> Judged:
    """Decide about rows far ahead as :class:`~driftline.sources._leaps.Leaps` does, for rows that wait in order.

    Rows after a leap agree with it. Rows before it contradict it if they came in a later batch: within a batch, nothing
    tells which came first.

    Arguments:
        values: orders or times of the rows, in order.
        leaps: rows that are far ahead of the one before.
        new: orders or times of the rows of this batch.
        held: what was held back before this batch.
        enough: number of rows by which those that agree must outnumber those that contradict, or the other way round.
        first: whether the first row is asked about, too, which has nothing before it.
        final: whether to decide on what is there, since no more rows are waited for.

    >>> times = np.array([1, 2, 3, 2000])
    >>> found = judge(times, [3], times, None, enough=50, first=False, final=False)
    >>> found
    Judged(right=3, wild=False, held=Held(ahead=2000, against=0))
    >>> later = np.arange(4, 60)
    >>> all_rows = np.sort(np.concatenate([times, later]))
    >>> judge(all_rows, [59], later, found.held, enough=50, first=False, final=False)
    Judged(right=59, wild=True, held=None)
    """
    for place in [0, *leaps] if first and len(values) else leaps:
        start = first and place == 0
        against = 0 if held is None else held.against + int((new < values[place]).sum())
        votes, wanted = len(values) - 1 - place - against, min(BEGUN, enough) if start else enough
        if votes >= wanted or (final and votes >= (0 if start else AT_END)):
            continue
        if final or votes <= -wanted:
            return Judged(place, wild=True)
        return Judged(place, held=Held(values[place].item(), against))
    return Judged(len(values))


def among_times(
    times: NDArray[np.int64],
    new: NDArray[np.int64],
    leaps: Leaps,
    newest: int | None,
    held: Held | None,
    *,
    final: bool,
) -> Judged:
    """Decide about times that are more than a few windows ahead; ``times`` are in order, ``newest`` is before them."""
    if not len(times):
        return Judged(0)
    ahead = np.flatnonzero(leaps.ahead(times, int(times[0]) if newest is None else newest)).tolist()
    return judge(times, ahead, new, held, enough=AGREED, first=newest is None, final=final)


def among_rows(values: Values, new: Values, held: Held | None, size: int) -> tuple[Judged, int]:
    """Decide about orders that are far ahead, and return how many rows are in windows, of so many, that can be closed.

    A window may be closed below rows that are held back, and never with them.

    >>> orders = np.array([*range(99), 10**9])
    >>> found, full = among_rows(orders, orders, None, 100)
    >>> found.held, full
    (Held(ahead=1000000000, against=0), 0)
    >>> among_rows(np.sort([*orders, 99]), np.array([99]), found.held, 100)
    (Judged(right=101, wild=False, held=Held(ahead=1000000000, against=1)), 100)
    """
    enough, none = min(AGREED, size // 2), values[:0]
    found = _recount(held, values, new, enough)
    held, right, full = found.held, found.right, 0
    while right - full >= size:
        part = values[full:right]
        found = judge(part, _leaps(part, size), none, held, enough=enough, first=False, final=False)
        if found.held is not None:
            return Judged(right, right < len(values), found.held), full
        if found.wild:
            held, right = None, full + found.right
        else:
            full += size
    if full and held is None:
        held = _beyond(values[full - size : right], size, enough)
    waits = held is not None and full < right and values[right - 1] >= held.ahead
    return Judged(right, right < len(values), held if waits else None), full


def _beyond(values: Values, size: int, enough: int) -> Held | None:
    """Return the rows, after a window that is closed, that are a few windows ahead; None if they are many."""
    reach = float(values[size - 1]) - float(values[0])
    leaps = size + np.flatnonzero(np.diff(values[size - 1 :].astype(float)) > FEW * reach)
    few = [place for place in leaps.tolist() if len(values) - 1 - place < enough]
    return Held(values[few[0]].item()) if few else None


def _recount(held: Held | None, values: Values, new: Values, enough: int) -> Judged:
    """Ask the rows of a batch about rows that were held back before it."""
    if held is None:
        return Judged(len(values))
    place = int(np.searchsorted(values, held.ahead))
    against = held.against + int((new < held.ahead).sum())
    votes = len(values) - 1 - place - against
    if votes <= -enough:
        return Judged(place, wild=True)
    waits = place < len(values) and votes < enough
    return Judged(len(values), held=Held(held.ahead, against) if waits else None)


def _leaps(values: Values, size: int) -> list[int]:
    """Return the rows, in the later half of a window of so many rows, that are a few windows ahead of the one before.

    How far a window reaches is told by the rows before the leap. Windows have no length of their own here, so that
    rows of one day after those of another may look like a leap: they wait until enough others have come.
    """
    window = values[:size].astype(float)
    places = np.arange(max(2, size // 2), len(window))
    before = window[places - 1]
    reach = (before - window[:1]) * (size / (places - 1))
    found = places[window[places] - before > FEW * reach]
    return found.tolist()  # type: ignore[no-any-return]


def numbers_of(column: pa.ChunkedArray) -> Values | None:
    """Return an order as numbers, to see how far rows are apart; None if it is not made of numbers or times."""
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_boolean(kind) or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        if not pa.types.is_decimal(kind):
            return None
        column = column.cast(pa.float64())
    values: Values = np.nan_to_num(column.to_numpy())  # infinite ones become the largest numbers there are
    return values
