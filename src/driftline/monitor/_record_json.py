"""Parts of Records to and from JSON, and the schema of a Record; anything that is not a part is a ValueError."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from driftline.alarms import Cause, Signal
from driftline.inference import Doubt, DoubtCode, Estimate
from driftline.monitor._record_parts import Marginal, Moved, MovedPair, Status, Without, kept_estimate

__all__ = ["RECORD_SCHEMA", "as_json", "parsed"]

_PARTS = ("value", "std_error", "low", "high", "level", "floor")  # of an estimate that Records keep
_DOUBT_PARTS = {"code", "sentence", "concerns"}
E = TypeVar("E", bound=StrEnum)


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a Record as JSON has them: numbers that are not finite are None."""
    out: dict[str, Any] = {}
    for name, given in values.items():
        value = given
        if name == "divergences":
            value = {kind: _estimate_to_dict(e) for kind, e in value.items()}
        elif name == "step":
            value = None if value is None else _estimate_to_dict(value)
        elif name == "columns":
            value = [
                {"column": m.column, "drift": _estimate_to_dict(m.drift), "chance": m.chance, "cause": m.cause}
                for m in value
            ]
        elif name == "pairs":
            value = [
                {"columns": list(m.columns), "dependence": m.dependence, "chance": m.chance, "cause": m.cause}
                for m in value
            ]
        elif name == "marginals":
            value = {column: list(m) for column, m in value.items()}
        elif name == "without" and value is not None:
            value = {"column": value.column, "drift": value.drift, "new": value.new}
        elif name == "diagnostics":
            value = {what: _finite(v) for what, v in value.items()}
        elif name == "doubts":
            value = [_doubt_to_dict(doubt) for doubt in value]
        elif name == "notes":
            value = list(value)
        elif name == "causes":
            value = [str(cause) for cause in value]
        elif name in ("signal", "status"):
            value = str(value)
        elif isinstance(value, float):
            value = _finite(value)
        out[name] = value
    return out


def parsed(data: Any) -> dict[str, Any]:
    """Return the fields of a Record from those of its JSON; a ValueError names what is wrong with them."""
    if not isinstance(data, dict) or set(data) != set(_PROPERTIES):
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
