"""The flags of ``driftline watch``, with their help. All default to None: what is not given comes from elsewhere."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from driftline.cli._options import FailOn
from driftline.inference import DIVERGENCES
from driftline.monitor import DATETIME_PARTS, MODELS

__all__ = [
    "Categorical", "Columns", "Config", "Datetime", "Divergences", "Drop", "Every", "Fail", "Flush", "Follow", "Format",
    "Json", "Lateness", "Level", "Model", "Numeric", "Original", "Persistence", "Poll", "Replay", "Report",
    "RunLength", "Schema", "Seed", "Source", "Summaries", "TimeColumn", "Tolerance", "Top", "Tracker", "WarmUp",
    "Warning_", "Window",
]  # fmt: skip

_WINDOWS, _COLUMNS, _ALARMS = "Windows", "Columns", "Alarms and estimates"
_READING, _KEEPING = "Reading", "Results"


def _one_of(known: tuple[str, ...]) -> Any:
    """Completes one of these words, or the last of several."""

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
        help="A file, a folder, a pattern in quotes ('data/*.parquet'), or - for standard input.",
        metavar="SOURCE",
        show_default=False,
    ),
]
Window = Annotated[int | None, _flag("--window", _WINDOWS, "Rows in a window.", "ROWS")]
TimeColumn = Annotated[
    str | None, _flag("--time-column", _WINDOWS, "Column with the rows' times; with --every.", "COLUMN")
]
Every = Annotated[str | None, _flag("--every", _WINDOWS, "Length of a window: 15min, 6h, 1d, 1w, 1mo.", "TIME")]
Lateness = Annotated[
    str | None,
    _flag("--lateness", _WINDOWS, "How long a window waits for rows out of order, such as 2h. (default: 0s)", "TIME"),
]
Flush = Annotated[bool | None, _flag("--flush/--no-flush", _WINDOWS, "At the end, count the unfinished window too.")]

Columns = Annotated[list[str] | None, _flag("--columns", _COLUMNS, "Watch only these. (default: all)", "A,B,...")]
Drop = Annotated[list[str] | None, _flag("--drop", _COLUMNS, "Leave these out.", "A,B,...")]
Numeric = Annotated[list[str] | None, _flag("--numeric", _COLUMNS, "Take these for numbers.", "A,B,...")]
Categorical = Annotated[
    list[str] | None, _flag("--categorical", _COLUMNS, "Take these for categories, numbers too.", "A,B,...")
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
        "--schema", _COLUMNS,
        "strict: missing, new or retyped columns are errors; lenient: they are noted. (default: strict)",
        "strict|lenient", ("strict", "lenient"),
    ),
]  # fmt: skip

Tolerance = Annotated[float | None, _flag("--tolerance", _ALARMS, "Drift that does not matter. (default: 0.1)", "NATS")]
RunLength = Annotated[
    float | None, _flag("--run-length", _ALARMS, "Windows between false alarms, on average. (default: 1000)", "WINDOWS")
]
Warning_ = Annotated[
    float | None, _flag("--warning", _ALARMS, "The same for warnings. (default: a tenth of it)", "WINDOWS")
]
Persistence = Annotated[
    int | None,
    _flag("--persistence", _ALARMS, "Windows in a row that raise an alarm, and end it. (default: 1)", "WINDOWS"),
]
WarmUp = Annotated[
    int | None, _flag("--warm-up", _ALARMS, "Windows at the start that only watch. (default: 0)", "WINDOWS")
]
Model = Annotated[str | None, _flag("--model", _ALARMS, f"{', '.join(MODELS)}. (default: auto)", "MODEL", MODELS)]
Divergences = Annotated[
    list[str] | None,
    _flag(
        "--divergences", _ALARMS, "The alarm looks at the first. (default: reverse_kl,js,kl)", "D,...",
        tuple(DIVERGENCES),
    ),
]  # fmt: skip
Level = Annotated[float | None, _flag("--level", _ALARMS, "Of intervals. (default: 0.95)", "LEVEL")]
Top = Annotated[int | None, _flag("--top", _ALARMS, "Columns that a Record names. (default: 5)", "COUNT")]
Seed = Annotated[int | None, _flag("--seed", _ALARMS, "Of anything drawn. (default: 0)", "SEED")]

Format = Annotated[
    str | None,
    _flag(
        "--format", _READING, "csv, tsv, parquet, arrow or jsonl, if the name does not tell.", "FORMAT",
        ("csv", "tsv", "parquet", "arrow", "jsonl"),
    ),
]  # fmt: skip
Follow = Annotated[
    bool | None,
    _flag("--follow/--no-follow", _READING, "At the end, wait for more; ends with the window that meets --fail-on."),
]
Poll = Annotated[float | None, _flag("--poll", _READING, "How often to look for more. (default: 1)", "SECONDS")]
Replay = Annotated[
    bool | None,
    _flag("--replay/--no-replay", _READING, "Standard input starts from the beginning again: skip what has been read."),
]

Tracker = Annotated[
    str | None,
    _flag(
        "--tracker", _KEEPING,
        "The tracker file, such as run.driftline: made if it is not there; the same command goes on where it ended. "
        "(default: nothing is kept)", "FILE", alias="--state",
    ),
]  # fmt: skip
Summaries = Annotated[
    bool | None,
    _flag("--summaries/--no-summaries", _KEEPING, "Keep histograms of the columns for reports. (default: yes)"),
]
Report = Annotated[
    str | None, _flag("--report", _KEEPING, "At the end, write a report: .html, or .png for a figure.", "FILE")
]
Json = Annotated[bool | None, _flag("--json/--no-json", _KEEPING, "Print one Record of JSON a line, and nothing else.")]
Fail = Annotated[FailOn | None, _flag("--fail-on", _KEEPING, "End with exit code 1 on such a signal. (default: never)")]
Original = Annotated[
    str | None, _flag("--original", _KEEPING, "The original whose signal counts for --fail-on. (default: any)", "NAME")
]
Config = Annotated[
    str | None,
    _flag("--config", _KEEPING, "TOML file with any of these options; the command line goes before it.", "FILE"),
]
