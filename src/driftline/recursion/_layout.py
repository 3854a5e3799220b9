"""The bytes of a state: its version, the names of its arrays, what they mean, and the slot of each feature."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from driftline.files import StateFileError, unpack
from driftline.fitting import Features, Integers
from driftline.recursion._checks import check_arrays
from driftline.recursion._screening import capacity

__all__ = [
    "BY_FEATURE",
    "FORMAT",
    "PLACES",
    "READ",
    "SCATTERED",
    "SYMMETRIC",
    "VECTORS",
    "VERSION",
    "WIDE",
    "Room",
    "StoredArray",
    "contents",
    "counts",
    "room_of",
    "slots",
]

VERSION = 15
FORMAT = "driftline-state"
SYMMETRIC = ("covariance", "inverse_hessian", "meat", "meat_num", "first", "origin_spread")  # one half is kept
READ = ("meat_num",)  # not kept where rows are not
SCATTERED = ("scored", "squared")  # of sums that are kept instead of rows: symmetric, too
VECTORS = ("bias", "step_bias")
BY_FEATURE = ("mean", "known")  # without an entry for the constant
PLACES = ("mean", "scale", "shift", "rate")
WIDE = ("coef", "origin")
_ROWS = "window"  # the only part that holds rows
_BY_ROW = (_ROWS, "step_log_ratio", "uncertainty.score", "crossed")  # parts with an entry for each of them
_MEANINGS = {
    _ROWS: "rows, for the next step",
    "step_log_ratio": "log-ratio of the last step for each of these rows",
    "sums": "sums of the window, for the next step: means of features, products of these, and the auditor's functions",
    "readings": "what was read of the window while its rows were at hand: divergences with their intervals",
    "uncertainty.score": "influence of each of these rows on the last step",
    "wide": "sums of steps where rows are few for the features, and the original's means of these",
    "wide_step": "the same of the last step",
    "crossed": "a learned feature of each of these rows",
    "uncertainty": "error bars of the coefficients, accumulated",
    "auditor": "random functions on which the model must leave nothing, and sums that show what it does leave",
    "evidence": "sums that show which features the model still needs, and the original's means of these",
    "scores": "shapes of columns in the original: curves through averages of many rows",
    "summary": "summary densities of the original and of the window: clusters of many rows each",
    "learned": "features of the log-ratio that were learned from the original: clusters of many rows each",
    "partitions": "counts of rows in cells that were fixed at the first step, of the original and of the window",
    "doubts": "reasons not to trust the last step, as text",
    "weak": "when a step could not be measured, or features joined without their drift so far, or a step was large",
    "moved": "when features were replaced last, and the drift that the new ones did not show",
    "gain": "what held-out rows of the last step say for a drift",
    "module": "weights of the network",
    "mean": "means of the encoded columns in the original",
    "scale": "standard deviations of the encoded columns in the original",
    "shift": "place of the latest windows, in units of the original",
    "rate": "spread of the latest windows, in units of the original",
    "coef": "coefficients of the log-ratio",
    "center": "centres of the features",
    "unit": "scales of the features",
    **dict.fromkeys(("linear", "squares", "pairs", "weight", "bias"), "features of the log-ratio"),
}

Room = tuple[int, int, int, int, int]  # of columns, squares, pairs, units and learned features


class StoredArray(NamedTuple):
    """An array in the bytes of a state.

    Attributes:
        name: name in the bytes.
        values: the array.
        what: meaning, in words.
        original: original that it belongs to; None if it belongs to all.
        holds_rows: whether it holds rows of a window; all others hold numbers made of rows.
        by_row: whether it has an entry for each row of a window, which may tell of that row.
    """

    name: str
    values: Any
    what: str
    original: str | None
    holds_rows: bool
    by_row: bool


def contents(data: bytes, what: str) -> tuple[StoredArray, ...]:
    """Return everything in the bytes of a state, in the order of names; ``what`` names the data in errors."""
    arrays, meta = unpack(data, FORMAT, VERSION, what)
    try:
        check_arrays(arrays, meta.get("layout"))
    except ValueError as error:
        raise StateFileError(f"{what}: damaged, its parts do not fit together ({error})") from None
    originals = {str(entry["tau"]): name for name, entry in meta["layout"]["tracks"].items()}
    found = []
    for name, values in sorted(arrays.items()):
        parts, original = name.split("."), None
        if parts[0] == "track":
            original = originals[parts[1]]
            parts = parts[3 if parts[2] in ("current", "anchor") else 2 :]
        meaning = _MEANINGS.get(".".join(parts[:2])) or _MEANINGS.get(parts[0], "a number of the recursion")
        holds_rows = original is not None and parts == [_ROWS] and len(values) > 0
        by_row = original is not None and ".".join(parts) in _BY_ROW and len(values) > 0
        found.append(StoredArray(name, values, meaning, original, holds_rows, by_row))
    return tuple(found)


def counts(features: Features) -> Room:
    """Return the numbers of columns, squares, pairs, units and learned features."""
    learned = sum(other.size for other in features.others)
    return len(features.linear), len(features.squares), len(features.pairs), len(features.bias), learned


def room_of(features: Features, padded: bool) -> Room:
    """Return the slots for columns, squares, pairs, units and learned features in the file; unused ones are zeros.

    Units are few, or join in blocks.
    """
    d, (_, _, pairs, units, learned) = features.columns, counts(features)
    if not padded:
        return d, d * features.curved, pairs, units, learned
    most, tiers = capacity(d)
    pairs = max(min(most, d * (d - 1) // 2), pairs)
    return d, d * features.curved, pairs, next((t for t in tiers if t >= units), units), learned


def slots(features: Features, room: Room) -> Integers:
    """Return the slot of each feature, (p,)."""
    starts = np.cumsum([0, *room[:-1]])
    places = zip(starts, counts(features), strict=True)
    return np.concatenate([np.arange(start, start + count) for start, count in places])
