"""Checks of the JSON in a tracker file: whoever can write the file can write its digests, too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["check_description", "check_progress"]

_MOST = 2**63  # beyond it, a count is not one


def check_description(data: Any) -> None:
    """Raise a ValueError unless this describes a run; its settings and its encoder have checks of their own."""
    _need(isinstance(data, Mapping), "the run is not an object")
    for name in ("created", "source"):
        _need(isinstance(data.get(name), str), f"{name} of the run is not text")
    for name in ("settings", "encoder"):
        _need(isinstance(data.get(name), Mapping), f"{name} of the run is not an object")
    skipped = data["encoder"].get("skipped", {})
    _need(isinstance(skipped, Mapping) and _are_texts(list(skipped.values())), "columns are left out without a reason")


def check_progress(data: Mapping[str, Any]) -> None:
    """Raise a ValueError unless this is the progress of a run; cursor and alarms have checks of their own."""
    for name in ("windows", "records"):
        _need(_is_count(data.get(name)), f"{name}={data.get(name)!r} is not a count")
    for name in ("chain", "state", "run"):
        _need(isinstance(data.get(name), str), f"{name} of the progress is not a digest")
    _need(isinstance(data.get("cursor"), Mapping | None), "the cursor is not an object")
    alarms, originals = data.get("alarms"), data.get("originals")
    known = isinstance(alarms, Mapping) and all(isinstance(alarm, Mapping) for alarm in alarms.values())
    _need(known, "the alarms are not objects")
    _need(isinstance(originals, list), "the originals are not a list")
    for original in originals or ():
        _check_original(original)
    names = [original["name"] for original in originals or ()]
    _need(len(set(names)) == len(names), "two originals have the same name")
    _check_summaries(data.get("now"))
    pools = data.get("pools")
    known = isinstance(pools, Mapping) and all(isinstance(pool, Mapping) for pool in pools.values())
    _need(known, "the counts of the last windows are not objects")


def _check_original(data: Any) -> None:
    _need(isinstance(data, Mapping), "an original is not an object")
    _need(isinstance(data.get("name"), str) and data["name"] != "", "an original has no name")
    for name in ("window", "rows"):
        _need(_is_count(data.get(name)), f"{name}={data.get(name)!r} of an original is not a count")
    _need(isinstance(data.get("joined"), str | None), "an original did not join at a time")
    constant = data.get("constant")
    _need(isinstance(constant, Mapping) and _are_numbers(list(constant.values())), "constants are not numbers")
    _need(
        isinstance(data.get("ledger"), Mapping | None) and "ledger" in data, "counts of an original are not an object"
    )
    _check_summaries(data.get("then"))


def _check_summaries(data: Any) -> None:
    """Check histograms: a share for each bin or value, and numbers elsewhere."""
    _need(isinstance(data, Mapping), "histograms are not an object")
    for column, found in data.items():
        what = f"histogram of {column!r}"
        _need(isinstance(found, Mapping) and isinstance(found.get("kind"), str), f"{what} is of no kind")
        shares, edges, values = (found.get(part, []) for part in ("shares", "edges", "values"))
        _need(_are_numbers(shares) and _are_numbers(edges), f"{what} does not hold numbers")
        _need(_are_texts(values), f"{what} does not name its values")
        _need(len(shares) in (0, len(values), len(edges) + 1), f"{what} has {len(shares)} shares")
        rest = [value for part, value in found.items() if part not in ("kind", "shares", "edges", "values")]
        _need(all(value is None or _are_numbers([value]) for value in rest), f"{what} does not hold numbers")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _are_numbers(values: Any) -> bool:
    kinds = (int, float)  # true and false are numbers in Python, and do no harm
    return isinstance(values, list) and all(isinstance(v, kinds) and abs(v) < math.inf for v in values)


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
