"""Records and runs: what the monitor says of one window and one original, and all it has said, as frozen values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from driftline.alarms import Signal
from driftline.inference import Estimate
from driftline.monitor._settings import Settings

__all__ = ["RECORD_SCHEMA", "Moved", "Original", "Record", "RecordError", "Run", "Status", "Summaries"]

Summaries = Mapping[str, Mapping[str, Any]]  # column -> its histogram, as `driftline.tables` describes it
Status = str  # "original", "measured" or "skipped"
STATUSES = ("original", "measured", "skipped")


class RecordError(ValueError):
    """A line that is no Record."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One column's part in KL(original‖current) + KL(current‖original): nats, and a share of the sum."""

    column: str
    share: float
    contribution: Estimate


@dataclass(frozen=True, slots=True)
class Record:
    """One window as seen from one original.

    Attributes:
        window: 0 is the first window, where tracing began; skipped windows count.
        original: from where drift is measured: ``"original"``, or a name given with ``original add``.
        status: ``"original"`` (the window an original joined with), ``"measured"``, or ``"skipped"`` (no rows, or too
            few: nothing was estimated, the signal stands).
        rows: rows in the window.
        first_row: how many rows of the stream came before it.
        start, end: ISO 8601, with windows by time; None otherwise.
        divergences: by name, in nats where they have a unit, with intervals.
        step: KL(current‖previous window).
        signal, reason: the alarm's decision after this window, and why.
        warning_limit, alarm_limit: what the first of ``divergences`` is compared with; nan where nothing was decided.
        step_limit: what ``step`` is compared with; beyond it is an abrupt change.
        columns: those that moved furthest from the original, most first.
        effective_sample_size: Kish's size of the weights on the window, at most ``rows``.
        diagnostics: numbers about the step: ``overlap``, ``lag``, ``mean_ratio``, ``step_mean_ratio``.
        doubts: why not to trust the estimates of this window, in words; empty if nothing speaks against them.
        notes: what else a person should know about it; empty if nothing.
        late_rows: rows that came after their window had been closed, and were left out, since the last Record.
        digest: of the window's encoded rows: tells which window's rows a tracker file holds, and none of them.
        seconds: taken by this window.
    """

    window: int
    original: str
    status: Status
    rows: int
    first_row: int
    start: str | None = None
    end: str | None = None
    divergences: Mapping[str, Estimate] = field(default_factory=dict)
    step: Estimate | None = None
    signal: Signal = Signal.NORMAL
    reason: str = ""
    warning_limit: float = math.nan
    alarm_limit: float = math.nan
    step_limit: float = math.nan
    columns: tuple[Moved, ...] = ()
    effective_sample_size: float = math.nan
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    late_rows: int = 0
    digest: str = ""
    seconds: float = 0.0

    @property
    def drift(self) -> Estimate | None:
        """The divergence the alarm looks at, the first one; None if nothing was estimated."""
        return next(iter(self.divergences.values()), None)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: numbers that are not finite are null."""
        out: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name == "divergences":
                value = {name: _estimate_to_dict(e) for name, e in value.items()}
            elif f.name == "step":
                value = None if value is None else _estimate_to_dict(value)
            elif f.name == "columns":
                value = [
                    {"column": m.column, "share": _finite(m.share), "contribution": _estimate_to_dict(m.contribution)}
                    for m in value
                ]
            elif f.name == "diagnostics":
                value = {name: _finite(v) for name, v in value.items()}
            elif f.name in ("doubts", "notes"):
                value = list(value)
            elif f.name == "signal":
                value = str(value)
            elif isinstance(value, float):
                value = _finite(value)
            out[f.name] = value
        return out

    def to_json(self) -> str:
        """One line."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> Record:
        """The Record that :meth:`to_json` wrote; :class:`RecordError` if it is none.

        >>> record = Record(window=3, original="original", status="skipped", rows=0, first_row=9000)
        >>> Record.from_json(record.to_json()) == record
        True
        """
        try:
            data = json.loads(line)
            return cls(**_checked(data))
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise RecordError(f"not a Record of the monitor: {error}") from None


@dataclass(frozen=True)
class Original:
    """One original: when it joined and, if the run keeps summaries, what its columns looked like then.

    Attributes:
        window, joined: the window it joined with, and that window's end; None if it has no time.
        rows: rows it had.
        then: histograms of its columns; empty without summaries.
        constant: encoded columns that had one value only, and that value.
    """

    name: str
    window: int
    rows: int
    joined: str | None
    then: Summaries
    constant: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """A run as far as its tracker file has it.

    Attributes:
        path: of the tracker file.
        created: ISO 8601.
        settings: of the run.
        source: what was watched, in words.
        encoder: the frozen table encoder as JSON has it.
        records: of all windows, in order; of one window, in the order of the originals.
        originals: the originals, in the order they joined.
        now: histograms of the last measured window, in the same bins as ``then``; empty without summaries.
    """

    path: str
    created: str
    settings: Settings
    source: str
    encoder: Mapping[str, Any]
    records: tuple[Record, ...]
    originals: tuple[Original, ...]
    now: Summaries

    def of(self, original: str) -> list[Record]:
        """The Records of one original, in order."""
        return [record for record in self.records if record.original == original]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _number(value: Any, name: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}={value!r} is not a number")
    return float(value)


def _estimate_to_dict(estimate: Estimate) -> dict[str, float | None]:
    return {name: _finite(getattr(estimate, name)) for name in ("value", "std_error", "low", "high", "level")}


def _estimate(data: Any, name: str) -> Estimate:
    if set(data) != {"value", "std_error", "low", "high", "level"}:
        raise ValueError(f"{name} has the parts {sorted(data)}")
    return Estimate(**{part: _number(value, f"{name}.{part}") for part, value in data.items()})


def _checked(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict) or set(data) != {f.name for f in fields(Record)}:
        raise ValueError("its fields are not a Record's")
    out = dict(data)
    for name in ("window", "rows", "first_row", "late_rows"):
        if not isinstance(data[name], int) or isinstance(data[name], bool) or data[name] < 0:
            raise ValueError(f"{name}={data[name]!r} is not a count")
    for name in ("original", "reason", "digest"):
        if not isinstance(data[name], str):
            raise ValueError(f"{name}={data[name]!r} is not text")
    if not data["original"]:
        raise ValueError("original has no name")
    if not all(isinstance(moved["column"], str) for moved in data["columns"]):
        raise ValueError("a column that moved has no name")
    for name in ("start", "end"):
        if not isinstance(data[name], str | None):
            raise ValueError(f"{name}={data[name]!r} is not a time")
    if data["status"] not in STATUSES:
        raise ValueError(f"status={data['status']!r} is none of {list(STATUSES)}")
    for name in ("doubts", "notes"):
        if not isinstance(data[name], list) or not all(isinstance(note, str) for note in data[name]):
            raise ValueError(f"{name} are not text")
        out[name] = tuple(data[name])
    for name in ("warning_limit", "alarm_limit", "step_limit", "effective_sample_size", "seconds"):
        out[name] = _number(data[name], name)
    if not 0.0 <= out["seconds"] < math.inf:
        raise ValueError(f"seconds={data['seconds']!r} is not a time taken")
    out["signal"] = Signal(data["signal"])
    out["divergences"] = {name: _estimate(e, name) for name, e in data["divergences"].items()}
    out["step"] = None if data["step"] is None else _estimate(data["step"], "step")
    out["columns"] = tuple(
        Moved(m["column"], _number(m["share"], "share"), _estimate(m["contribution"], "contribution"))
        for m in data["columns"]
    )
    out["diagnostics"] = {name: _number(value, name) for name, value in data["diagnostics"].items()}
    return out


_NUMBER = {"type": ["number", "null"]}
_COUNT = {"type": "integer", "minimum": 0}
_TIME = {"type": ["string", "null"]}
_ESTIMATE = {
    "type": "object",
    "properties": dict.fromkeys(("value", "std_error", "low", "high", "level"), _NUMBER),
    "required": ["value", "std_error", "low", "high", "level"],
    "additionalProperties": False,
}
_MOVED = {
    "type": "object",
    "properties": {"column": {"type": "string"}, "share": _NUMBER, "contribution": {"$ref": "#/$defs/estimate"}},
    "required": ["column", "share", "contribution"],
    "additionalProperties": False,
}
_PROPERTIES: dict[str, Any] = {
    "window": _COUNT,
    "original": {"type": "string", "minLength": 1},
    "status": {"enum": list(STATUSES)},
    "rows": _COUNT,
    "first_row": _COUNT,
    "start": _TIME,
    "end": _TIME,
    "divergences": {"type": "object", "additionalProperties": {"$ref": "#/$defs/estimate"}},
    "step": {"anyOf": [{"$ref": "#/$defs/estimate"}, {"type": "null"}]},
    "signal": {"enum": [str(s) for s in Signal]},
    "reason": {"type": "string"},
    "warning_limit": _NUMBER,
    "alarm_limit": _NUMBER,
    "step_limit": _NUMBER,
    "columns": {"type": "array", "items": _MOVED},
    "effective_sample_size": _NUMBER,
    "diagnostics": {"type": "object", "additionalProperties": _NUMBER},
    "doubts": {"type": "array", "items": {"type": "string"}},
    "notes": {"type": "array", "items": {"type": "string"}},
    "late_rows": _COUNT,
    "digest": {"type": "string"},
    "seconds": {"type": "number", "minimum": 0},
}
RECORD_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "driftline Record",
    "type": "object",
    "properties": _PROPERTIES,
    "required": list(_PROPERTIES),
    "additionalProperties": False,
    "$defs": {"estimate": _ESTIMATE},
}
