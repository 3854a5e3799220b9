"""Options of ``driftline watch``, checked: from the command line, or else from a TOML file."""

from __future__ import annotations

import csv
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from driftline.monitor import Settings

__all__ = ["FailOn", "Plan", "listed", "names", "plan_of", "settings_of"]


class FailOn(StrEnum):
    """Signal that ends a command with exit code 1."""

    ALARM = "alarm"
    WARNING = "warning"
    NEVER = "never"

    def met(self, signals: Iterable[str]) -> bool:
        """Say whether any of these signals is at least as bad.

        >>> FailOn.WARNING.met(["normal", "alarm"]), FailOn.ALARM.met(["warning"]), FailOn.NEVER.met(["alarm"])
        (True, False, False)
        """
        bad = {"alarm": {"alarm"}, "warning": {"alarm", "warning"}, "never": set[str]()}[self]
        return not bad.isdisjoint(str(signal) for signal in signals)


@dataclass(frozen=True)
class Plan:
    """Task of ``driftline watch``.

    Attributes:
        source: file, folder, pattern, or ``"-"``.
        settings: given settings, as in :class:`~driftline.monitor.Settings`; the others come from the tracker file, or
            are defaults.
        tracker: path of the tracker file; None keeps nothing.
        original: original whose signal counts for ``fail_on``; None for all of them.
    """

    source: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    tracker: str | None = None
    json: bool = False
    follow: bool = False
    poll: float = 1.0
    format: str | None = None
    replay: bool = False
    flush: bool = False
    fail_on: FailOn = FailOn.NEVER
    original: str | None = None
    report: str | None = None


_WHOLE, _NUMBER, _TEXT, _FLAG, _NAMES = "a whole number", "a number", "text", "true or false", "names"
_KINDS = {
    **dict.fromkeys(("source", "tracker", "format", "fail_on", "original", "report"), _TEXT),
    **dict.fromkeys(("json", "follow", "replay", "flush"), _FLAG),
    "poll": _NUMBER,
}
_SETTINGS = {
    **dict.fromkeys(("window", "persistence", "warm_up", "top", "seed"), _WHOLE),
    **dict.fromkeys(("time_column", "every", "lateness", "schema", "model"), _TEXT),
    **dict.fromkeys(("columns", "drop", "numeric", "categorical", "datetime", "divergences"), _NAMES),
    **dict.fromkeys(("tolerance", "run_length", "warning", "level"), _NUMBER),
    "summaries": _FLAG,
}
_ALIASES = {"state": "tracker"}
_WINDOWS = "say how long a window is: --window 5000 (rows), or --time-column ts --every 1d"


def names(values: Iterable[str] | None) -> tuple[str, ...] | None:
    """Split repeated, comma-separated options into names; a name with a comma stands in double quotes.

    >>> names(["a,b", '"c,d"']), names([]), names(None)
    (('a', 'b', 'c,d'), None, None)
    """
    found = [name.strip() for value in values or () for row in csv.reader([value]) for name in row]
    if any(not name for name in found):
        raise ValueError(f"{', '.join(values or ())!r} holds an empty name")
    return tuple(found) or None


def listed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that were given to a command, with repeatable options as names.

    >>> listed({"columns": ["a,b"], "drop": [], "window": None, "top": 3})
    {'columns': ('a', 'b'), 'top': 3}
    """
    plain = {k: names(v) if isinstance(v, list | tuple) else v for k, v in parameters.items()}
    return {name: value for name, value in plain.items() if value is not None}


def settings_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options that define a run."""
    return {name: value for name, value in given.items() if name in _SETTINGS}


def plan_of(given: Mapping[str, Any], config: str | None = None) -> Plan:
    """Plan what was given on the command line or else in the TOML file.

    >>> plan_of({"source": "a.csv", "window": 500}).settings
    {'window': 500}
    """
    values = {} if config is None else _configured(Path(config))
    values |= {name: value for name, value in given.items() if name in (_KINDS | _SETTINGS)}
    if "source" not in values:
        raise ValueError("say what to watch: a file, a folder, a pattern in quotes, or - for standard input")
    settings = settings_of(values)
    values = {name: value for name, value in values.items() if name not in settings}
    if not values.get("poll", 1.0) > 0.0:
        raise ValueError(f"--poll {values['poll']:g} must be a positive number of seconds")
    try:
        values["fail_on"] = FailOn(values.get("fail_on", FailOn.NEVER))
    except ValueError:
        raise ValueError(f"--fail-on {values['fail_on']} is unknown, choose from {', '.join(FailOn)}") from None
    plan = Plan(**values, settings=settings)
    if plan.tracker is None or not Path(plan.tracker).exists():
        if "window" not in settings and "every" not in settings:
            raise ValueError(_WINDOWS)
        Settings(**settings)  # before anything is read
    if plan.report is not None:
        _check_report(Path(plan.report))
    return plan


def _check_report(path: Path) -> None:
    """Check at the start that a report can be written: this happens at the end, perhaps hours later."""
    if path.suffix.lower() not in (".html", ".htm", ".png"):
        raise ValueError(f"--report {path}: its name must end in .html, or in .png for a figure")
    if path.is_dir():
        raise ValueError(f"--report {path} is a folder: name a file")
    if not path.parent.is_dir():
        raise ValueError(f"--report {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ValueError(f"--report {path}: the folder {path.parent} cannot be written to")


def _configured(path: Path) -> dict[str, Any]:
    """Read the values of a TOML file, by option."""
    try:
        with path.open("rb") as file:
            data = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    out: dict[str, Any] = {}
    for key, value in data.items():
        name = key.replace("-", "_")
        name = _ALIASES.get(name, name)
        kind = (_KINDS | _SETTINGS).get(name)
        if kind is None:
            raise ValueError(f"{path}: {key!r} is not an option of driftline watch")
        if name in out:
            raise ValueError(f"{path}: {name!r} is given twice")
        out[name] = _typed(value, kind, f"{path}: {key} = {value!r}")
    return out


def _typed(value: Any, kind: str, what: str) -> Any:
    """Return the value if it is of this kind; raise otherwise."""
    if kind == _NAMES:
        listed = names([value]) if isinstance(value, str) else value
        if isinstance(listed, list | tuple) and all(isinstance(name, str) for name in listed):
            return tuple(listed)
    types = {_WHOLE: (int,), _NUMBER: (int, float), _TEXT: (str,), _FLAG: (bool,)}.get(kind, ())
    if not isinstance(value, types) or (isinstance(value, bool) and kind != _FLAG):
        raise ValueError(f"{what} must be {kind}")
    return float(value) if kind == _NUMBER else value
