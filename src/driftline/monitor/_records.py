"""Records and runs, as frozen values: what the monitor says of one window and one original, and all it has said."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from driftline._markup import card
from driftline._wording import is_bound, json_line, qualifier
from driftline.alarms import Cause, Signal
from driftline.inference import Doubt, DoubtCode, Estimate
from driftline.monitor._settings import Settings

if TYPE_CHECKING:
    from driftline.tables import Ledger

__all__ = [
    "FIRST",
    "RECORD_SCHEMA",
    "Marginal",
    "Moved",
    "MovedPair",
    "Original",
    "Record",
    "RecordError",
    "Run",
    "Status",
    "Summaries",
    "Without",
    "kept_estimate",
    "plain",
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
    """A column whose own distribution moved.

    Attributes:
        column: name of the column.
        drift: KL(current‖original) of the column alone, in cells that were fixed on the original; of the last windows
            together, where only these show it.
        chance: chance of counts that differ this much in a column that has not moved.
        cause: what of it moved most, in words.
    """

    column: str
    drift: Estimate
    chance: float
    cause: str


class Marginal(NamedTuple):
    """A column in one window, whether its test speaks or not: a point of its history.

    Attributes:
        drift: KL(current‖original) of the column alone in this window; noise is subtracted, so it may be below 0.
        chance: chance of counts that differ this much in a column that has not moved, by all its tests.
        missing: share of rows without a value.
        new: share of rows in cells that no row of the original was in.
    """

    drift: float
    chance: float
    missing: float
    new: float


@dataclass(frozen=True, slots=True)
class MovedPair:
    """Two columns whose relation to each other changed, whatever each of them did alone.

    Attributes:
        columns: names of both.
        dependence: nats of KL(current‖original) of both that are in their dependence, in coarse cells; noise is
            subtracted. Those of several pairs do not add up.
        chance: chance of counts that differ this much if they relate as before.
        cause: how, in words.
    """

    columns: tuple[str, str]
    dependence: float
    chance: float
    cause: str


@dataclass(frozen=True, slots=True)
class Without:
    """Drift beside a column that hides all others.

    Attributes:
        column: name of the column.
        drift: nats that the other columns and a tree of their pairs explain, by counts; no interval.
        new: whether most of its rows have values that no row had at first: such a column (a year, a version) says
            nothing that the calendar does not, and can be dropped.
    """

    column: str
    drift: float
    new: bool


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
        columns: columns whose own distribution moved from the original, the largest drift first; none in a window
            where none of their tests speaks.
        pairs: pairs of columns whose relation to each other changed, the largest change first.
        marginals: every tested column, by name, whether it moved or not; empty if none was tested. Those that moved by
            chance alone are among them: only ``columns`` says which moved.
        unexplained: the first divergence, if it is ``reverse_kl``, less what columns and pairs explain: the sum over
            columns, plus what a tree of pairs has beyond its columns. None if that cannot be said: no counts, no
            error bar, new values (whose drift has no upper end), or a window in which nothing moved.
        without: drift beside a column that hides all others; None if there is none such.
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
    pairs: tuple[MovedPair, ...] = ()
    marginals: Mapping[str, Marginal] = field(default_factory=dict)
    unexplained: float | None = None
    without: Without | None = None
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

    def _repr_html_(self) -> str:
        """Return what notebooks show: the signal and why, the drift, what moved, and every doubt."""
        rows = [("status", str(self.status)), ("rows", f"{self.rows:,}")]
        rows += [(name, str(estimate)) for name, estimate in self.divergences.items()]
        rows += [] if self.step is None else [("step", str(self.step))]
        rows += [(f"moved: {moved.column}", f"{moved.drift}; {moved.cause}") for moved in self.columns]
        rows += [(f"relate otherwise: {' with '.join(pair.columns)}", pair.cause) for pair in self.pairs]
        said = [*(f"{doubt.code}: {doubt}" for doubt in self.doubts), *self.notes]
        title = f"Record of window {self.window:,} from {self.original!r}: {self.signal}"
        return card(f"{title}, {self.reason}" if self.reason else title, rows, said)

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
                    {"column": m.column, "drift": _estimate_to_dict(m.drift), "chance": m.chance, "cause": m.cause}
                    for m in value
                ]
            elif f.name == "pairs":
                value = [
                    {"columns": list(m.columns), "dependence": m.dependence, "chance": m.chance, "cause": m.cause}
                    for m in value
                ]
            elif f.name == "marginals":
                value = {name: list(m) for name, m in value.items()}
            elif f.name == "without" and value is not None:
                value = {"column": value.column, "drift": value.drift, "new": value.new}
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
        ledger: counts of its rows in cells of columns and pairs; None without summaries.
    """

    name: str
    window: int
    rows: int
    joined: str | None
    then: Summaries
    constant: Mapping[str, float] = field(default_factory=dict)
    ledger: Ledger | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {**vars(self), "ledger": None if self.ledger is None else self.ledger.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Original:
        """Restore an original."""
        ledger = data["ledger"]
        from driftline.tables import Ledger  # needs PyArrow, and a Record does not

        return cls(**{**data, "ledger": None if ledger is None else Ledger.from_dict(ledger)})


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


def plain(estimate: Estimate, doubts: tuple[Doubt, ...] = ()) -> Estimate:
    """Return an estimate as Records keep it, so that it equals the one read back: a lower bound has no upper end.

    Of its doubts, only the given ones stay: those of all estimates are the Record's.
    """
    high = math.inf if estimate.lower_bound else estimate.high
    parts = (estimate.value, estimate.std_error, estimate.low, high, estimate.level, estimate.floor)
    return kept_estimate(*(v if math.isfinite(v) else math.nan for v in parts), doubts=doubts)


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
    out["columns"] = tuple(_moved(m) for m in data["columns"])
    out["pairs"] = tuple(_moved_pair(m) for m in data["pairs"])
    out["marginals"] = {name: _marginal(m) for name, m in data["marginals"].items()}
    if data["unexplained"] is not None:
        out["unexplained"] = _number(data["unexplained"], "unexplained")
    if data["without"] is not None:
        column, drift, new = (data["without"][part] for part in ("column", "drift", "new"))
        if not isinstance(new, bool):
            raise ValueError(f"new={new!r} is not true or false")
        out["without"] = Without(_text(column, "a column left out"), _number(drift, "drift"), new)
    out["diagnostics"] = {name: _number(value, name) for name, value in data["diagnostics"].items()}
    return out


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} is not named by text")
    return value


def _moved(data: Any) -> Moved:
    if set(data) != {"column", "drift", "chance", "cause"}:
        raise ValueError("a column that moved has other parts")
    return Moved(
        _text(data["column"], "a column that moved"),
        _estimate(data["drift"], "drift"),
        _number(data["chance"], "chance"),
        _text(data["cause"], "a cause"),
    )


def _marginal(data: Any) -> Marginal:
    if not isinstance(data, list) or len(data) != len(Marginal._fields):
        raise ValueError("a column of a window has other parts")
    drift, *rest = (_number(value, name) for value, name in zip(data, Marginal._fields, strict=True))
    if not math.isfinite(drift) or not all(0.0 <= share <= 1.0 for share in rest):
        raise ValueError(f"a column of a window has the numbers {data}")
    return Marginal(drift, *rest)


def _moved_pair(data: Any) -> MovedPair:
    if set(data) != {"columns", "dependence", "chance", "cause"} or len(data["columns"]) != 2:
        raise ValueError("a pair of columns has other parts")
    one, other = (_text(name, "a column of a pair") for name in data["columns"])
    dependence, chance = (_number(data[part], part) for part in ("dependence", "chance"))
    return MovedPair((one, other), dependence, chance, _text(data["cause"], "a cause"))


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
    "properties": {
        "column": {"type": "string"},
        "drift": {"$ref": "#/$defs/estimate"},
        "chance": {"type": "number", "minimum": 0, "maximum": 1},
        "cause": {"type": "string"},
    },
    "required": ["column", "drift", "chance", "cause"],
    "additionalProperties": False,
}
_MOVED_PAIR = {
    "type": "object",
    "properties": {
        "columns": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
        "dependence": {"type": "number", "minimum": 0},
        "chance": {"type": "number", "minimum": 0, "maximum": 1},
        "cause": {"type": "string"},
    },
    "required": ["columns", "dependence", "chance", "cause"],
    "additionalProperties": False,
}
_MARGINAL = {
    "type": "array",
    "prefixItems": [{"type": "number"}, *[{"type": "number", "minimum": 0, "maximum": 1}] * 3],
    "minItems": 4,
    "maxItems": 4,
}
_WITHOUT = {
    "type": "object",
    "properties": {"column": {"type": "string"}, "drift": {"type": "number"}, "new": {"type": "boolean"}},
    "required": ["column", "drift", "new"],
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
    "pairs": {"type": "array", "items": _MOVED_PAIR},
    "marginals": {"type": "object", "additionalProperties": _MARGINAL},
    "unexplained": _NUMBER,
    "without": {"anyOf": [_WITHOUT, {"type": "null"}]},
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
