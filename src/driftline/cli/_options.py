"""Options of ``driftline watch``, checked: from the command line, or else from a TOML file."""

from __future__ import annotations

import csv
import os
import shlex
import shutil
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from driftline._causes import Signal
from driftline._errors import Option, OptionError
from driftline.cli._errors import in_toml, spelt
from driftline.monitor import Panel, Setting, Settings, check_settings, setting, settings_of

__all__ = [
    "FAIL_ON",
    "FORMATS",
    "OPTIONS",
    "FailOn",
    "Plan",
    "WebhookOn",
    "configured",
    "is_pipe",
    "listed",
    "names",
    "plan_of",
]

FORMATS = "csv, tsv, parquet, arrow or jsonl, if the name does not show it."
FAIL_ON = "Exit with code 1 on this signal or a worse one."


class FailOn(StrEnum):
    """Signal that ends a command with exit code 1."""

    ALARM = "alarm"
    WARNING = "warning"
    NEVER = "never"

    def met(self, signals: Iterable[Signal]) -> bool:
        """Say whether any of these signals is at least as bad.

        >>> FailOn.WARNING.met([Signal.NORMAL, Signal.ALARM]), FailOn.ALARM.met([Signal.WARNING])
        (True, False)
        """
        bad = {FailOn.ALARM: {Signal.ALARM}, FailOn.WARNING: {Signal.ALARM, Signal.WARNING}}.get(self, set())
        return not bad.isdisjoint(signals)


class WebhookOn(StrEnum):
    """Windows that are delivered to a webhook."""

    CHANGE = "change"
    ALARM = "alarm"
    WINDOW = "window"


def _check_webhook(name: str, value: str) -> None:
    try:
        parts = urlsplit(value)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine or not value.isprintable() or " " in value:
        # not the value itself: a webhook's address is often its password
        raise OptionError(
            "{option} must be an address that begins with http:// or https://", option=Option(name, "...")
        )


def _check_command(name: str, value: str) -> None:
    given = Option(name, value)
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise OptionError("{option} cannot be read: {error}", option=given, error=error) from None
    if not words or shutil.which(words[0]) is None:
        raise OptionError("{option}: there is no such program", option=given)


def _check_poll(name: str, value: float) -> None:
    if not value > 0.0:
        raise OptionError("{option} must be a positive number of seconds", option=Option(name, value))


def _check_report(name: str, value: str) -> None:
    """Check at the start that a report can be written: this happens at the end, perhaps hours later."""
    path, given = Path(value), Option(name, value)
    if path.suffix.lower() not in (".html", ".htm", ".png"):
        raise OptionError("{option}: its name must end in .html, or in .png for a figure", option=given)
    if path.is_dir():
        raise OptionError("{option} is a folder: name a file", option=given)
    if not path.parent.is_dir():
        raise OptionError("{option}: there is no folder {folder}", option=given, folder=path.parent)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise OptionError("{option}: the folder {folder} cannot be written to", option=given, folder=path.parent)


def _check_file(name: str, value: str) -> None:
    if value == "-":
        raise OptionError("{option}: name a file, standard input is read once", option=Option(name, value))


@dataclass(frozen=True)
class Plan:
    """Task of ``driftline watch``: its own options, and the given settings of the run.

    Attributes:
        settings: given settings, as in :class:`~driftline.monitor.Settings`; the others come from the tracker file, or
            are defaults.
        keys: options that come from a TOML file, not from the command line.
    """

    source: str = setting(
        help="File, folder, pattern in quotes ('data/*.parquet'), or - for standard input.", metavar="SOURCE"
    )
    settings: Mapping[str, Any] = field(default_factory=dict)
    keys: frozenset[str] = frozenset()
    flush: bool = setting(False, help="At the end, count the unfinished window too.", panel=Panel.WINDOWS)
    format: str | None = setting(
        None,
        help=FORMATS,
        panel=Panel.READING,
        metavar="FORMAT",
        suggested=("csv", "tsv", "parquet", "arrow", "jsonl"),
    )
    follow: bool = setting(
        False,
        help="At the end, wait for more rows; stop at the window that meets --fail-on.",
        panel=Panel.READING,
    )
    poll: float = setting(
        1.0,
        help="Time between looks for more rows.",
        panel=Panel.READING,
        metavar="SECONDS",
        check=_check_poll,
    )
    replay: bool = setting(
        False,
        help="Standard input starts again from the beginning: skip the rows already read.",
        panel=Panel.READING,
    )
    tracker: str | None = setting(
        None,
        help="Tracker file, such as run.driftline, created if it does not exist; repeat the command to go on where it "
        "ended.",
        panel=Panel.KEEPING,
        metavar="FILE",
        if_missing="nothing is kept",
        alias="state",
    )
    report: str | None = setting(
        None,
        help="At the end, write a report: .html, or .png for a figure.",
        panel=Panel.RESULTS,
        metavar="FILE",
        check=_check_report,
    )
    json: bool = setting(False, help="Print one JSON Record per line, and nothing else.", panel=Panel.RESULTS)
    fail_on: FailOn = setting(FailOn.NEVER, help=FAIL_ON, panel=Panel.RESULTS)
    webhook: str | None = setting(
        None,
        help="Address to which a JSON message is posted; its text is what Slack shows.",
        panel=Panel.RESULTS,
        metavar="URL",
        check=_check_webhook,
    )
    webhook_on: WebhookOn = setting(
        WebhookOn.CHANGE,
        help="Which windows are posted: those that change the signal, those that raise an alarm, or every one.",
        panel=Panel.RESULTS,
    )
    on_alarm: str | None = setting(
        None,
        help="Command to run when an alarm is raised, without a shell; the Record is on its standard input.",
        panel=Panel.RESULTS,
        metavar="COMMAND",
        check=_check_command,
    )
    original_file: str | None = setting(
        None,
        help="File with the original, such as the training data.",
        panel=Panel.READING,
        metavar="FILE",
        check=_check_file,
        if_missing="the first window is the original",
    )
    original: str | None = setting(
        None,
        help="Original whose signal counts for --fail-on.",
        panel=Panel.RESULTS,
        metavar="NAME",
        if_missing="any",
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def unsized(self) -> bool:
        """Whether nothing was said about the length of windows."""
        return "window" not in self.settings and "every" not in self.settings


OPTIONS: Mapping[str, Setting] = {**settings_of(Settings), **settings_of(Plan)}
_WINDOWS = "say how long a window is: --window 5000 (rows), or --time-column ts --every 1d"
_NO_GUESS = "; it is guessed for files only, whose rows can be counted"


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


def plan_of(given: Mapping[str, Any], config: str | None = None) -> Plan:
    """Plan what was given on the command line or else in the TOML file.

    >>> plan_of({"source": "a.csv", "window": 500}).settings
    {'window': 500}
    """
    from_file = {} if config is None else configured(Path(config))
    values = {**from_file, **given}
    if "source" not in values:
        raise ValueError("say what to watch: a file, a folder, a pattern in quotes, or - for standard input")
    of_run = settings_of(Settings)
    settings = {name: value for name, value in values.items() if name in of_run}
    own = {name: value for name, value in values.items() if name not in of_run}
    keys = frozenset(from_file) - set(given)
    with spelt(config, keys):
        plan = Plan(**own, settings=settings, keys=keys)
        if plan.tracker is None or not Path(plan.tracker).exists():
            if plan.unsized:
                if "time_column" in settings or is_pipe(plan.source):
                    raise ValueError(_WINDOWS + (_NO_GUESS if is_pipe(plan.source) else ""))
                Settings.uncut(settings)  # checked before anything is read; the window is guessed later
            else:
                Settings(**settings)
    return plan


def is_pipe(source: str) -> bool:
    """Say whether rows of a source can be read only once."""
    path = Path(source)
    return source == "-" or path.is_fifo() or path.is_char_device()


def configured(path: Path, options: Mapping[str, Setting] = OPTIONS) -> dict[str, Any]:
    """Read the values of a TOML file, by option."""
    try:
        with path.open("rb") as file:
            data = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    aliases = {option.alias: name for name, option in options.items() if option.alias is not None}
    out: dict[str, Any] = {}
    for key, value in data.items():
        name = key.replace("-", "_")
        name = aliases.get(name, name)
        if name not in options:
            close = get_close_matches(name, options, 1)
            hint = f": did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{path}: {key!r} is not an option of driftline watch{hint}")
        if name in out:
            raise ValueError(f"{path}: {name!r} is given twice")
        out[name] = _typed(value, options[name], f"{path}: {key} = {in_toml(value)}")
    return out


def _typed(value: Any, option: Setting, what: str) -> Any:
    """Return the value if it is of the option's type; raise otherwise."""
    kind = option.type
    if kind is tuple:
        found = names([value]) if isinstance(value, str) else value
        if isinstance(found, list | tuple) and all(isinstance(name, str) for name in found):
            return tuple(found)
    elif issubclass(kind, StrEnum) and isinstance(value, str):
        if value not in list(kind):
            raise ValueError(f"{what} is unknown, choose from {', '.join(map(str, kind))}")
        return kind(value)
    elif isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool):
        return kind(value)
    raise ValueError(f"{what} must be {option.type_in_words}")
