"""Flags of ``driftline watch``, with their help. All default to None, so that files and defaults can fill them in."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from driftline.cli._options import FailOn
from driftline.inference import DIVERGENCES
from driftline.monitor import DATETIME_PARTS, MODELS

__all__ = [
    "FAIL_ON",
    "FORMATS",
    "Categorical",
    "Columns",
    "Config",
    "Datetime",
    "Divergences",
    "Drop",
    "Every",
    "Fail",
    "Flush",
    "Follow",
    "Format",
    "Json",
    "Lateness",
    "Level",
    "Model",
    "Numeric",
    "Original",
    "Persistence",
    "Poll",
    "Replay",
    "Report",
    "RunLength",
    "Schema",
    "Seed",
    "Source",
    "Summaries",
    "TimeColumn",
    "Tolerance",
    "Top",
    "Tracker",
    "WarmUp",
    "Warning_",
    "Window",
]

_WINDOWS, _COLUMNS, _ALARMS = "Windows", "Columns", "Alarms and estimates"
_READING, _KEEPING = "Reading", "Results"
FORMATS = "csv, tsv, parquet, arrow or jsonl"
FAIL_ON = "Exit with code 1 on this signal or a worse one."


def _one_of(known: tuple[str, ...]) -> Any:
    """Complete one of these words, or the last of several."""

    def complete(incomplete: str) -> list[str]:
        done, comma, begun = incomplete.rpartition(",")
        return [f"{done}{comma}{word}" for word in known if word.startswith(begun)]

    return complete


def _flag(
    name: str, panel: str, help: str, metavar: str | None = None, known: tuple[str, ...] = (), alias: str | None = None
) -> Any:
    completion = _one_of(known) if known else None
    names = (name,) if alias is None else (name, alias)
    return typer.Option(
        *names, help=help, rich_help_panel=panel, metavar=metavar, autocompletion=completion, show_default=False
    )


Source = Annotated[
    str | None,
    typer.Argument(
        help="File, folder, pattern in quotes ('data/*.parquet'), or - for standard input.",
        metavar="SOURCE",
        show_default=False,
    ),
]
Window = Annotated[int | None, _flag("--window", _WINDOWS, "Rows per window.", "ROWS")]
TimeColumn = Annotated[
    str | None, _flag("--time-column", _WINDOWS, "Column with the times of the rows; needs --every.", "COLUMN")
]
Every = Annotated[str | None, _flag("--every", _WINDOWS, "Length of a window: 15min, 6h, 1d, 1w, 1mo.", "TIME")]
Lateness = Annotated[
    str | None,
    _flag("--lateness", _WINDOWS, "Time a window waits for rows out of order, such as 2h. (default: 0s)", "TIME"),
]
Flush = Annotated[bool | None, _flag("--flush/--no-flush", _WINDOWS, "At the end, count the unfinished window too.")]

Columns = Annotated[list[str] | None, _flag("--columns", _COLUMNS, "Watch only these. (default: all)", "A,B,...")]
Drop = Annotated[list[str] | None, _flag("--drop", _COLUMNS, "Leave these out.", "A,B,...")]
Numeric = Annotated[list[str] | None, _flag("--numeric", _COLUMNS, "Treat these as numbers.", "A,B,...")]
Categorical = Annotated[
    list[str] | None,
    _flag("--categorical", _COLUMNS, "Treat these as categories, even if they hold numbers.", "A,B,..."),
]
Datetime = Annotated[
    list[str] | None,
    _flag(
        "--datetime",
        _COLUMNS,
        "Parts of dates to watch: hour, weekday, day, month. (default: none)",
        "PART,...",
        DATETIME_PARTS,
    ),
]
Schema = Annotated[
    str | None,
    _flag(
        "--schema",
        _COLUMNS,
        "strict: missing, new or retyped columns are errors; lenient: they are noted. (default: strict)",
        "strict|lenient",
        ("strict", "lenient"),
    ),
]

Tolerance = Annotated[float | None, _flag("--tolerance", _ALARMS, "Drift that does not matter. (default: 0.1)", "NATS")]
RunLength = Annotated[
    float | None,
    _flag("--run-length", _ALARMS, "Average number of windows between false alarms. (default: 1000)", "WINDOWS"),
]
Warning_ = Annotated[
    float | None,
    _flag(
        "--warning",
        _ALARMS,
        "Average number of windows between false warnings. (default: a tenth of --run-length)",
        "WINDOWS",
    ),
]
Persistence = Annotated[
    int | None,
    _flag("--persistence", _ALARMS, "Windows in a row that raise or end an alarm. (default: 1)", "WINDOWS"),
]
WarmUp = Annotated[
    int | None, _flag("--warm-up", _ALARMS, "Windows at the start that cannot raise an alarm. (default: 0)", "WINDOWS")
]
Model = Annotated[
    str | None,
    _flag("--model", _ALARMS, f"Model of the log-ratio: {', '.join(MODELS)}. (default: auto)", "MODEL", MODELS),
]
Divergences = Annotated[
    list[str] | None,
    _flag(
        "--divergences",
        _ALARMS,
        "Divergences to estimate; the alarm looks at the first. (default: reverse_kl,js,kl)",
        "D,...",
        tuple(DIVERGENCES),
    ),
]
Level = Annotated[float | None, _flag("--level", _ALARMS, "Confidence level of intervals. (default: 0.95)", "LEVEL")]
Top = Annotated[int | None, _flag("--top", _ALARMS, "Number of columns that a Record names. (default: 5)", "COUNT")]
Seed = Annotated[int | None, _flag("--seed", _ALARMS, "Random seed. (default: 0)", "SEED")]

Format = Annotated[
    str | None,
    _flag(
        "--format",
        _READING,
        f"{FORMATS}, if the name does not show it.",
        "FORMAT",
        ("csv", "tsv", "parquet", "arrow", "jsonl"),
    ),
]
Follow = Annotated[
    bool | None,
    _flag("--follow/--no-follow", _READING, "At the end, wait for more rows; stop at the window that meets --fail-on."),
]
Poll = Annotated[float | None, _flag("--poll", _READING, "Time between looks for more rows. (default: 1)", "SECONDS")]
Replay = Annotated[
    bool | None,
    _flag(
        "--replay/--no-replay", _READING, "Standard input starts again from the beginning: skip the rows already read."
    ),
]

Tracker = Annotated[
    str | None,
    _flag(
        "--tracker",
        _KEEPING,
        "Tracker file, such as run.driftline, created if it does not exist; repeat the command to go on where it "
        "ended. (default: nothing is kept)",
        "FILE",
        alias="--state",
    ),
]
Summaries = Annotated[
    bool | None,
    _flag("--summaries/--no-summaries", _KEEPING, "Keep histograms of the columns for reports. (default: yes)"),
]
Report = Annotated[
    str | None, _flag("--report", _KEEPING, "At the end, write a report: .html, or .png for a figure.", "FILE")
]
Json = Annotated[bool | None, _flag("--json/--no-json", _KEEPING, "Print one JSON Record per line, and nothing else.")]
Fail = Annotated[FailOn | None, _flag("--fail-on", _KEEPING, f"{FAIL_ON} (default: never)")]
Original = Annotated[
    str | None, _flag("--original", _KEEPING, "Original whose signal counts for --fail-on. (default: any)", "NAME")
]
Config = Annotated[
    str | None,
    _flag("--config", _KEEPING, "TOML file with any of these options; the command line takes precedence.", "FILE"),
]
