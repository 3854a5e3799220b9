"""Records and runs, as frozen values: what the monitor says of one window and one original, and all it has said."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, TypeVar

from driftline._wording import is_bound, json_line, qualifier
from driftline.alarms import Cause, Signal
from driftline.inference import Doubt, DoubtCode, Estimate
from driftline.monitor._settings import Settings

__all__ = [
    "FIRST",
    "RECORD_SCHEMA",
    "Moved",
    "Original",
    "Record",
    "RecordError",
    "Run",
    "Status",
    "Summaries",
    "kept_estimate",
]

FIRST = "original"  # name of the original that a run begins with
_PARTS = ("value", "std_error", "low", "high", "level", "floor")  # of an estimate that Records keep
_DOUBT_PARTS = {"code", "sentence", "concerns"}
E = TypeVar("E", bound=StrEnum)
Summaries = Mapping[str, Mapping[str, Any]]  # column -> its histogram, as `driftline.tables` describes it


class Status(StrEnum):
    """Status of a window."""

    ORIGINAL = "original"
    MEASURED = "measured"
    SKIPPED = "skipped"


class RecordError(ValueError):
    """The line is not a Record."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A column's part in KL(original‖current) + KL(current‖original): in nats, and as a share of the sum."""

    column: str
    share: float
    contribution: Estimate


@dataclass(frozen=True, slots=True)
class Record:
    """A window as seen from one original.

    Attributes:
        window: index of the window: 0 is the first one, where tracing began; skipped windows count.
        original: original from which drift is measured: ``"original"``, or a name given with ``original add``.
        status: ``"original"`` (the window an original joined with), ``"measured"``, or ``"skipped"`` (no rows, or too
            few: nothing was estimated, the signal stands).
        rows: number of rows in the window.
        first_row: number of rows of the stream before the window.
        start, end: times between which the window lies, ISO 8601; None unless windows are cut by time.
        divergences: estimates with intervals, by name; in nats if they have a unit. ``reverse_kl`` has a floor. Each
            carries the doubts that concern it alone; those of the first are among ``doubts``.
        step: KL(current‖previous window), with the doubts that concern it alone.
        signal: the alarm's decision after this window.
        causes: causes of that decision, as codes.
        reason: the same causes in words, with their numbers.
        warning_limit, alarm_limit: limits of the first of ``divergences``; nan if nothing was decided.
        step_limit: limit of ``step``; beyond it is an abrupt change.
        columns: columns that moved furthest from the original, largest first.
        effective_sample_size: Kish's size of the weights on the window, at most ``rows``.
        diagnostics: numbers about the step: ``overlap``, ``lag``, ``mean_ratio``, ``step_mean_ratio``,
            ``new_values``, the share of rows with a value that no row of the original had, and ``without_new_values``,
            the drift without them (of ``reverse_kl``; nan if there are none).
        doubts: reasons not to trust the drift, the first of ``divergences``: codes and sentences; empty if there are
            none.
        notes: other remarks about the window, in words; empty if there are none.
        late_rows: number of rows left out since the last Record because their window had been closed.
        digest: digest of the encoded rows: it shows which window's rows a tracker file holds, and reveals none of them.
        seconds: time taken by this window.
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
    causes: tuple[Cause, ...] = ()
    reason: str = ""
    warning_limit: float = math.nan
    alarm_limit: float = math.nan
    step_limit: float = math.nan
    columns: tuple[Moved, ...] = ()
    effective_sample_size: float = math.nan
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    notes: tuple[str, ...] = ()
    late_rows: int = 0
    digest: str = ""
    seconds: float = 0.0

    def __repr__(self) -> str:
        drift = "" if self.drift is None else f", drift {self.drift}"
        which = f"window {self.window} from {self.original!r}"
        return f"<Record of {which}: {self.status}, {self.rows} rows{drift}; {self.signal}: {self.reason}>"

    @property
    def drift(self) -> Estimate | None:
        """Divergence the alarm looks at, the first one; None if nothing was estimated."""
        return next(iter(self.divergences.values()), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them: numbers that are not finite are None."""
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
            elif f.name == "doubts":
                value = [_doubt_to_dict(doubt) for doubt in value]
            elif f.name == "notes":
                value = list(value)
            elif f.name == "causes":
                value = [str(cause) for cause in value]
            elif f.name in ("signal", "status"):
                value = str(value)
            elif isinstance(value, float):
                value = _finite(value)
            out[f.name] = value
        return out

    def to_json(self) -> str:
        """Return the Record as one line of JSON."""
        return json_line(self.to_dict())

    @classmethod
    def from_json(cls, line: str) -> Record:
        """Read a Record that :meth:`to_json` wrote; :class:`RecordError` if the line is not one.

        >>> record = Record(window=3, original="original", status=Status.SKIPPED, rows=0, first_row=9000)
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
    """An original: when it joined and, if the run keeps summaries, what its columns looked like then.

    Attributes:
        name: name of the original.
        window: index of the window it joined with.
        rows: number of its rows.
        joined: end of the window it joined with; None if that has no time.
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
    """A run as its tracker file records it.

    Attributes:
        path: path of the tracker file.
        created: time at which the run was begun, ISO 8601.
        settings: settings of the run.
        source: source that was watched, in words.
        encoder: frozen table encoder, as JSON has it.
        records: Records of all windows, in order; within a window, in the order of the originals.
        originals: originals, in the order they joined.
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
        """Return the Records of one original, in order."""
        return [record for record in self.records if record.original == original]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _number(value: Any, name: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}={value!r} is not a number")
    return float(value)


def _member(kind: type[E], value: Any, name: str) -> E:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{name}={value!r} is not one of {[str(known) for known in kind]}") from None


def _doubt_to_dict(doubt: Doubt) -> dict[str, Any]:
    return {"code": str(doubt.code), "sentence": doubt.sentence, "concerns": list(doubt.concerns)}


def _estimate_to_dict(estimate: Estimate) -> dict[str, Any]:
    numbers = {name: _finite(getattr(estimate, name)) for name in _PARTS}
    return {**numbers, "doubts": [_doubt_to_dict(doubt) for doubt in estimate.doubts]}


def _estimate(data: Any, name: str) -> Estimate:
    if set(data) != {*_PARTS, "doubts"}:
        raise ValueError(f"{name} has the parts {sorted(data)}")
    return kept_estimate(
        *(_number(data[part], f"{name}.{part}") for part in _PARTS), doubts=_doubts(data["doubts"], f"{name}.doubts")
    )


def _doubts(data: Any, name: str) -> tuple[Doubt, ...]:
    if not isinstance(data, list) or not all(isinstance(doubt, dict) and set(doubt) == _DOUBT_PARTS for doubt in data):
        raise ValueError(f"{name} are not a list of codes and sentences")
    for doubt in data:
        concerns = doubt["concerns"]
        if not isinstance(concerns, list) or not all(isinstance(part, str) for part in (doubt["sentence"], *concerns)):
            raise ValueError(f"{name} are not text")
    return tuple(
        Doubt(_member(DoubtCode, doubt["code"], "doubt"), doubt["sentence"], tuple(doubt["concerns"])) for doubt in data
    )


def kept_estimate(
    value: float,
    std_error: float,
    low: float,
    high: float,
    level: float,
    floor: float,
    *,
    doubts: tuple[Doubt, ...] = (),
) -> Estimate:
    """Return an estimate as Records keep it; numbers that were not finite are nan.

    One without an upper end is open above, and a lower bound unless it rests on a step that could not be measured.
    """
    estimate = Estimate(value, std_error, low, high, level, floor=floor, doubts=doubts)
    if not is_bound(estimate):
        return estimate
    return replace(estimate, high=math.inf, lower_bound=qualifier(estimate) == "at least ")


def _checked(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict) or set(data) != {f.name for f in fields(Record)}:
        raise ValueError("its fields are not those of a Record")
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
    if not isinstance(data["notes"], list) or not all(isinstance(note, str) for note in data["notes"]):
        raise ValueError("notes are not text")
    out["notes"] = tuple(data["notes"])
    out["doubts"] = _doubts(data["doubts"], "doubts")
    for name in ("warning_limit", "alarm_limit", "step_limit", "effective_sample_size", "seconds"):
        out[name] = _number(data[name], name)
    if not 0.0 <= out["seconds"] < math.inf:
        raise ValueError(f"seconds={data['seconds']!r} is not a time taken")
    out["status"] = _member(Status, data["status"], "status")
    out["signal"] = _member(Signal, data["signal"], "signal")
    if not isinstance(data["causes"], list):
        raise ValueError("causes are not a list")
    out["causes"] = tuple(_member(Cause, cause, "cause") for cause in data["causes"])
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
_DOUBTS = {"type": "array", "items": {"$ref": "#/$defs/doubt"}}
_DOUBT = {
    "type": "object",
    "properties": {
        "code": {"enum": [str(code) for code in DoubtCode]},
        "sentence": {"type": "string"},
        "concerns": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["code", "sentence", "concerns"],
    "additionalProperties": False,
}
_ESTIMATE = {
    "type": "object",
    "properties": {**dict.fromkeys(_PARTS, _NUMBER), "doubts": _DOUBTS},
    "required": [*_PARTS, "doubts"],
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
    "status": {"enum": [str(s) for s in Status]},
    "rows": _COUNT,
    "first_row": _COUNT,
    "start": _TIME,
    "end": _TIME,
    "divergences": {"type": "object", "additionalProperties": {"$ref": "#/$defs/estimate"}},
    "step": {"anyOf": [{"$ref": "#/$defs/estimate"}, {"type": "null"}]},
    "signal": {"enum": [str(s) for s in Signal]},
    "causes": {"type": "array", "items": {"enum": [str(c) for c in Cause]}},
    "reason": {"type": "string"},
    "warning_limit": _NUMBER,
    "alarm_limit": _NUMBER,
    "step_limit": _NUMBER,
    "columns": {"type": "array", "items": _MOVED},
    "effective_sample_size": _NUMBER,
    "diagnostics": {"type": "object", "additionalProperties": _NUMBER},
    "doubts": _DOUBTS,
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
    "$defs": {"estimate": _ESTIMATE, "doubt": _DOUBT},
}
