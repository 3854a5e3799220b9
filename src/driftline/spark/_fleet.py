"""A fleet of streams in three tables: how each key stands, which columns move across keys, and how many stand how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from driftline._wording import moment
from driftline.monitor import FIRST, Original, Record, RecordError, Settings, Status
from driftline.report import History, Outcome, Trust, Verdict, verdict
from driftline.spark._columns import inner, named
from driftline.spark._output import QUIET, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Fleet", "fleet"]

BROKEN = "broken"  # cannot be watched, or its Records cannot be read; the dashboard calls it so, too
UNMEASURED = (str(Outcome.WAITING), str(Outcome.BLIND), QUIET, BROKEN)  # nothing is known of these keys now
_READ = {"original": pa.string(), "window": pa.int64(), "status": pa.string(), "signal": pa.string()}
_READ |= {"record": pa.string(), "error": pa.string()}
_LOUD = (str(Outcome.ALARM), str(Outcome.WARNING))
_RECENT = 10  # measured windows that a verdict looks back at
_FIELDS = {
    "original": "string",
    "outcome": "string",
    "trust": "string",
    "since": "bigint",
    "window": "bigint",
    "measured": "bigint",
    **dict.fromkeys(("drift", "std_error", "low", "high"), "double"),
    **dict.fromkeys(("columns", "pairs", "tested", "doubts"), "array<string>"),
    "reason": "string",
}
_KINDS = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "array<string>": pa.list_(pa.string())}
_TYPES = {name: _KINDS[kind] for name, kind in _FIELDS.items()}


class Fleet(NamedTuple):
    """Tables about a fleet, each a Spark table that is computed when it is asked for.

    Attributes:
        keys: a row for each key and original. ``outcome`` is that of the report's verdict (``alarm``, ``warning``,
            ``unsure``, ``blind``, ``waiting``, ``normal``), or ``quiet`` for a key that sends no more rows, or
            ``broken`` for one with an error instead of Records, or with Records that cannot be read. ``trust`` is
            ``good``, ``bound``, ``care`` or ``poor``. ``since`` is the window that brought the alarm or warning,
            ``window`` the last one that was measured, ``measured`` the number of those. ``drift`` with ``std_error``,
            ``low`` and ``high``, the ``columns`` and ``pairs`` that have moved, the columns that were ``tested`` and
            codes of ``doubts`` are those of that window; ``reason`` says why it stands so.
        columns: a row for each original and column: number of ``keys`` in which it has moved, how many of these are in
            ``alarms``, and ``of`` how many in which it was tested; those of most keys first.
        totals: a row for each original and outcome: number of ``keys``.
    """

    keys: DataFrame
    columns: DataFrame
    totals: DataFrame


def fleet(
    records: DataFrame,
    key: str | Sequence[str] | None = None,
    *,
    tolerance: float = 0.1,
    expected: str | None = None,
    known: DataFrame | None = None,
) -> Fleet:
    """Return how a fleet stands: which keys alarm, which columns move across keys, and what was not measured.

    Each key is judged as the report judges one run. No key is ``normal`` that was not measured: one with an error, with
    Records that cannot be read, or without a window to compare has an outcome of its own.

    Arguments:
        records: table that :func:`watch` returns, or a part of it; not a stream. Better one that was written or cached:
            each of the three tables reads it.
        key: column, or columns, that tell streams apart; those before ``original`` if None.
        tolerance: drift that does not matter, as it was watched with.
        expected: time, ISO 8601, up to which every key should have had rows, with windows by time: one whose last
            window with rows ends before it is ``quiet``. If None, only the rows of a stream that say so make it that.
        known: table with the columns of the key, of all keys that there should be, such as the ``originals=`` or
            ``initial=`` of :func:`watch`: one without a Record is ``quiet``, instead of not being there.
    """
    from pyspark.sql import functions as f

    if records.isStreaming:
        raise ValueError("fleet is for tables that are not streams: write the Records to a table, and pass that")
    lacking = [name for name in _READ if name not in records.columns]
    if lacking:
        raise ValueError(f"these are not the Records of watch: the table lacks the column(s) {lacking}")
    before = records.columns[: records.columns.index("original")]
    keys = before if key is None else [key] if isinstance(key, str) else list(key)
    if not keys:
        raise ValueError("key= needs a column: without one, all Records would be those of one stream")
    clash = [name for name in keys if name.lower() in _FIELDS]
    if clash:
        raise ValueError(f"the key {clash[0]!r} has the name of a column of the result: rename it")
    if expected is not None and moment(expected) is None:
        raise ValueError(f"expected={expected!r} is not a time: write it as 2025-01-31 or 2025-01-31T12:00:00Z")
    settings = Settings(window=1000, tolerance=tolerance)  # a verdict reads the tolerance alone

    def standing(group: tuple[Any, ...], table: pa.Table) -> pa.Table:
        lines = standings(table, settings, expected)
        own = {name: pa.array([part.as_py()] * len(lines), part.type) for name, part in zip(keys, group, strict=True)}
        return pa.table({**own, **{name: pa.array([x[name] for x in lines], kind) for name, kind in _TYPES.items()}})

    chosen = named(records, (*keys, *_READ))
    if known is not None:
        chosen = chosen.unionByName(_unheard(chosen, keys, known))
    found = chosen.groupBy(*map(inner, keys)).applyInArrow(standing, ddl(records, keys, _FIELDS))
    each = found.select("original", "outcome", "columns", f.explode("tested").alias("column"))
    moved = f.array_contains("columns", f.col("column"))
    columns = each.groupBy("original", "column").agg(
        f.count_if(moved).alias("keys"),
        f.count_if(moved & (f.col("outcome") == str(Outcome.ALARM))).alias("alarms"),
        f.count("*").alias("of"),
    )
    totals = found.groupBy("original", "outcome").agg(f.count("*").alias("keys"))
    return Fleet(found, columns.orderBy("original", f.desc("keys"), "column"), totals.orderBy("original", "outcome"))


def _unheard(records: DataFrame, keys: Sequence[str], known: DataFrame) -> DataFrame:
    """Return a row, as a key that is quiet has one, for each of the known keys that has no Record."""
    from pyspark.sql import functions as f

    lacking = [name for name in keys if name not in known.columns]
    if lacking:
        raise ValueError(f"the table of known keys lacks the column(s) {lacking}")
    same = [(inner(name), f"_driftline_{i}") for i, name in enumerate(keys)]
    kinds = {name: records.schema[name].dataType for name, _ in same}
    all_keys = named(known, keys).select(*(f.col(name).cast(kinds[name]).alias(name) for name, _ in same)).distinct()
    heard = records.select(*(f.col(name).alias(other) for name, other in same)).distinct()
    equal = [f.col(name).eqNullSafe(f.col(other)) for name, other in same]  # null is a key like others
    said = {"status": QUIET, "error": "no rows of this key came"}
    empty = [f.lit(said.get(name)).cast(records.schema[name].dataType).alias(name) for name in _READ]
    return all_keys.join(heard, equal, "left_anti").select("*", *empty)


class _Gone(NamedTuple):
    """Why nothing is known of a key now."""

    outcome: str
    reason: str


def standings(table: pa.Table, settings: Settings, expected: str | None = None) -> list[dict[str, Any]]:
    """Return how one key stands, for each of its originals, from the Records of this key in any order.

    A Record that is there twice counts once; of those of one window, one that was not measured counts least.
    """
    lines = table.select(list(_READ)).to_pylist()
    said = [x for x in lines if None not in (x["original"], x["window"], x["record"])]
    of: dict[str, dict[int, Mapping[str, Any]]] = {}
    for line in sorted(said, key=lambda x: x["status"] != Status.SKIPPED):
        of.setdefault(line["original"], {})[line["window"]] = line
    gone = _gone(
        [x for x in lines if x["original"] is None or x["window"] is None or x["record"] is None],
        max((x["window"] for x in said), default=-1),
    )
    if not of:
        outcome, reason = gone or (BROKEN, "there is no Record")
        return [_line(FIRST, outcome, reason=reason)]
    return [_standing(name, [of[name][w] for w in sorted(of[name])], settings, gone, expected) for name in sorted(of)]


def _gone(lines: Sequence[Mapping[str, Any]], last: int) -> _Gone | None:
    """Judge rows that are no Records; a key that was quiet and has had a window since is not quiet any more."""
    errors = [x["error"] or "a row holds neither a Record nor an error" for x in lines if x["status"] != QUIET]
    if errors:
        return _Gone(BROKEN, errors[-1])
    quiet = [x for x in lines if x["status"] == QUIET and (-1 if x["window"] is None else x["window"]) >= last]
    return _Gone(QUIET, max(x["error"] or "no rows any more" for x in quiet)) if quiet else None


def _standing(
    name: str, lines: Sequence[Mapping[str, Any]], settings: Settings, gone: _Gone | None, expected: str | None
) -> dict[str, Any]:
    measured = [i for i, line in enumerate(lines) if line["status"] == Status.MEASURED]
    try:
        recent = tuple(Record.from_json(line["record"]) for line in lines[(measured or [0])[-_RECENT:][0] :])
    except RecordError as error:
        return _line(name, BROKEN, measured=len(measured), reason=str(error))
    history = History(Original(name, recent[0].window, recent[0].rows, None, {}), recent, settings, alone=True)
    found, last = verdict(history), history.last
    outcome, trust, reason = _judged(found, recent[-1], lines[-1]["error"], gone or _behind(recent, expected))
    since = _since(lines) if outcome in _LOUD else None
    parts: dict[str, Any] = {"trust": trust, "since": since, "measured": len(measured), "reason": reason}
    if last is None or last.drift is None:
        return _line(name, outcome, **parts)
    drift, codes = last.drift, list(dict.fromkeys(str(doubt.code) for doubt in found.doubts))
    parts |= {"window": last.window, "drift": drift.value, "std_error": drift.std_error, "doubts": codes}
    parts |= {"low": drift.low, "high": drift.high}
    if outcome not in UNMEASURED:
        parts["columns"] = [moved.column for moved in last.columns]
        parts["pairs"] = [" with ".join(pair.columns) for pair in last.pairs]
        parts["tested"] = list(dict.fromkeys([*last.marginals, *parts["columns"]]))
    return _line(name, outcome, **parts)


def _behind(recent: Sequence[Record], expected: str | None) -> _Gone | None:
    """Judge a key by its last window with rows, if rows are expected up to a time."""
    wanted = moment(expected)
    if wanted is None:
        return None
    end = next((record.end for record in reversed(recent) if record.rows), None)
    at = moment(end)
    if at is None:
        return _Gone(QUIET, "its windows have no times, so nothing tells whether rows still come")
    return _Gone(QUIET, f"no rows since the window that ended {end}") if at < wanted else None


def _judged(found: Verdict, last: Record, error: str | None, gone: _Gone | None) -> tuple[str, str, str]:
    """Return outcome, trust and reason; an alarm stands, though nothing is known of now."""
    outcome = str(found.outcome)
    if gone is not None:
        return outcome if outcome == Outcome.ALARM else gone.outcome, str(Trust.POOR), gone.reason
    if outcome in UNMEASURED:
        return outcome, str(Trust.POOR), error or found.trust_sentence
    return outcome, str(found.trust), (last.reason if outcome in _LOUD else "") or found.trust_sentence


def _since(lines: Sequence[Mapping[str, Any]]) -> int:
    """Return the window that brought the signal that stands after the last one."""
    stands, first = lines[-1]["signal"], lines[-1]["window"]
    for line in reversed(lines):
        if line["signal"] != stands:
            break
        first = line["window"]
    return int(first)


def _line(original: str, outcome: str, **parts: Any) -> dict[str, Any]:
    """Return a row of ``keys``: what is not said is not known, and nothing that is not known is good."""
    empty: dict[str, Any] = {name: [] if pa.types.is_list(kind) else None for name, kind in _TYPES.items()}
    return {**empty, "trust": str(Trust.POOR), "measured": 0, "original": original, "outcome": outcome, **parts}
