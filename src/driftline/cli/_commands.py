"""The commands: their arguments, their help, and the functions they call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from driftline import __version__
from driftline.cli._errors import BAD_INPUT, clearly, complain, spelt
from driftline.cli._flags import with_flags
from driftline.cli._options import FAIL_ON, FORMATS, OPTIONS, FailOn, listed, plan_of
from driftline.monitor import Panel, Settings, settings_of

__all__ = ["app", "call"]

HOST, PORT = "127.0.0.1", 8377

app = typer.Typer(name="driftline", rich_markup_mode="rich", no_args_is_help=True, pretty_exceptions_enable=False)
original = typer.Typer(rich_markup_mode="rich")
_FURTHER = (
    "Further originals to measure drift from, such as seasons or model versions.\n\n"
    "Example: driftline original add run.driftline --name model-2"
)
app.add_typer(original, name="original", help=_FURTHER)
app.add_typer(original, name="reference", help=_FURTHER, hidden=True)  # its name in the first edition


def call(arguments: Sequence[str]) -> int:
    """Run the command with these arguments; return its exit code."""
    command = typer.main.get_command(app)
    given = list(arguments) or ["--help"]
    try:
        code = command.main(given, prog_name="driftline", standalone_mode=False)
    except typer.Abort:
        return BAD_INPUT
    except Exception as error:
        # typer has its own copy of click in some versions and click itself in others
        if not hasattr(error, "format_message"):
            raise
        context = getattr(error, "ctx", None)
        complain(f"{error.format_message()} (see {context.command_path if context else 'driftline'} --help)")
        return BAD_INPUT
    return code if isinstance(code, int) else 0


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"driftline {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """How far is the data now from where it began? Without keeping where it began.

    Example: driftline watch orders.csv --window 5000 --tracker run.driftline

    Exit codes: 0; 1 if --fail-on was met; 2 for bad input; 130 if stopped by Ctrl-C, 143 by SIGTERM.
    """


@app.command()
@clearly
@with_flags(OPTIONS.values())
def watch(
    config: Annotated[
        str | None,
        typer.Option(
            help="TOML file with any of these options; the command line takes precedence.",
            rich_help_panel=Panel.RESULTS.heading,
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    **given: Any,
) -> int:
    """Watch a growing table: one line per window says how far it has moved from the first, and which columns moved.

    Example: driftline watch orders.csv --window 5000 --tracker run.driftline

    Example: driftline watch 'logs/*.parquet' --time-column ts --every 1d --fail-on alarm

    Example: tail -f rows.jsonl | driftline watch - --window 1000 --json

    The settings of a run are kept in its tracker file and need not be repeated.
    """
    from driftline.cli._watch import watch as watched

    plan = plan_of(listed(given), config)
    with spelt(config, plan.keys):
        return watched(plan, Console())


Tracker = Annotated[
    str, typer.Argument(help="Tracker file, such as run.driftline.", metavar="TRACKER", show_default=False)
]
OneFile = Annotated[str, typer.Argument(help="File, folder or pattern.", metavar="FILE", show_default=False)]
OneOriginal = Annotated[
    str | None,
    typer.Option("--original", help="Name of the original, if there are several.", metavar="NAME", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
OfFormat = Annotated[
    str | None,
    typer.Option("--format", help=FORMATS, metavar="FORMAT", show_default=False),
]


@app.command()
@clearly
def report(
    tracker: Tracker,
    out: Annotated[
        str | None,
        typer.Option(
            help="Page to write. (default: report.html, or none with --png)", metavar="FILE", show_default=False
        ),
    ] = None,
    png: Annotated[str | None, typer.Option(help="Figure to write.", metavar="FILE", show_default=False)] = None,
    original: OneOriginal = None,
) -> int:
    """Write the findings as one HTML page that opens offline, for people who missed the meeting.

    Example: driftline report run.driftline --out monday.html --png monday.png
    """
    from driftline.cli._inspect import write_reports

    for path in write_reports(tracker, out, png, original):
        typer.echo(path)
    return 0


@app.command()
@clearly
def weights(
    tracker: Tracker,
    file: OneFile,
    out: Annotated[
        str, typer.Option(help="File to write; its suffix decides the format.", metavar="FILE", show_default=False)
    ],
    original: OneOriginal = None,
    format: OfFormat = None,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas",
            help="In a CSV file, put ' before text that begins with = + - or @, so that spreadsheets do not run it.",
        ),
    ] = False,
) -> int:
    """Append log_ratio and weight to the rows of a file: with these weights, current rows stand in for the original.

    Example: driftline weights run.driftline today.csv --out weighted.parquet
    """
    from driftline._wording import clean
    from driftline.cli._weights import write_weights

    written = write_weights(tracker, file, out, original, format, escape_formulas)
    typer.echo(clean(written.sentence))
    for doubt in written.doubts:
        complain(f"these weights are not to be trusted: {doubt}")
    for remark in written.remarks:
        complain(remark)
    return 0


@app.command()
@clearly
def inspect(
    tracker: Tracker,
    against: Annotated[
        str | None,
        typer.Option(help="File whose rows are looked for in the tracker file.", metavar="FILE", show_default=False),
    ] = None,
    arrays: Annotated[bool, typer.Option("--arrays", help="List every array of the estimator's state.")] = False,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove", help="Account for all bytes; exit with code 1 unless no row at all is in the file (--keep sums)."
        ),
    ] = False,
    json: AsJson = False,
    format: OfFormat = None,
) -> int:
    """Show everything in a tracker file. With --against, prove that no row of a file is in it (exit code 1 if any is).

    Example: driftline inspect run.driftline --against first-week.csv

    Example: driftline inspect run.driftline --prove
    """
    from driftline.cli._inspect import show_inspection

    return show_inspection(tracker, against, format, json, arrays, prove, Console())


@app.command()
@clearly
@with_flags(each for each in settings_of(Settings).values() if not each.for_streams)
def compare(
    a: Annotated[str, typer.Argument(help="Original: a file, folder or pattern.", metavar="A", show_default=False)],
    b: Annotated[
        str, typer.Argument(help="File, folder or pattern to compare with it.", metavar="B", show_default=False)
    ],
    format: OfFormat = None,
    json: AsJson = False,
    fail_on: Annotated[FailOn, typer.Option(help=FAIL_ON)] = FailOn.NEVER,
    **given: Any,
) -> int:
    """Measure how far one file is from another: divergences with intervals, columns that differ. Nothing is kept.

    alarm: the whole interval lies beyond the tolerance; warning: part of it does, or there is none. Exit code 2 if
    nothing could be measured.

    Example: driftline compare train.parquet today.parquet --tolerance 0.05 --fail-on alarm
    """
    from driftline.cli._shortfall import nothing_measured
    from driftline.cli._weights import print_comparison
    from driftline.monitor import compare as compared
    from driftline.sources import read_whole

    chosen = listed(given)
    settings = Settings.uncut(chosen)
    then, now = (read_whole(p, format, settings.null_values, settings.window_rule().ignores) for p in (a, b))
    record = compared(then, now, name=a, **chosen)
    if json:
        typer.echo(record.to_json())
    else:
        print_comparison(record, a, b, settings, Console())
    if fail_on.met([record.signal]):
        return 1
    for line in (missed := list(nothing_measured([record]))):
        complain(line)
    return BAD_INPUT if missed else 0


@original.command("add")
@clearly
def original_add(
    tracker: Tracker,
    name: Annotated[str, typer.Option(help="Name of the new original.", metavar="NAME", show_default=False)],
    file: Annotated[
        str | None,
        typer.Argument(help="File with its rows. (default: the current window)", metavar="FILE", show_default=False),
    ] = None,
    format: OfFormat = None,
) -> int:
    """Add an original: from the next window on, drift is measured from it too.

    Example: driftline original add run.driftline --name model-2
    """
    from driftline.cli._inspect import add_original

    typer.echo(add_original(tracker, name, file, format))
    return 0


@original.command("list")
@clearly
def original_list(tracker: Tracker) -> int:
    """List the originals, and how far the data is from each now.

    Example: driftline original list run.driftline
    """
    from driftline.cli._inspect import list_originals

    list_originals(tracker, Console())
    return 0


@app.command()
@clearly
def serve(
    trackers: Annotated[
        list[str],
        typer.Argument(
            help="Tracker files, or folders whose files end in .driftline; also those that come later.",
            metavar="TRACKER",
            show_default=False,
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine's need a token.")] = HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any that is free.")] = PORT,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="DRIFTLINE_TOKEN",
            help="Secret that is needed to look. Others on this machine see it in the list of processes: rather use "
            "the variable, or --token-file.",
            metavar="TEXT",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[
        str | None, typer.Option(help="File with the token in its first line.", metavar="FILE", show_default=False)
    ] = None,
    without_token: Annotated[
        bool, typer.Option("--without-token", help="Let anyone look who reaches the address.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Further name that browsers call the server by, such as that of a proxy.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    poll: Annotated[float, typer.Option(min=0.05, max=3600.0, help="Seconds between looks at the files.")] = 1.0,
    open: Annotated[bool, typer.Option("--open", help="Open the dashboard in a browser.")] = False,
) -> int:
    """Show runs in a browser as they are written: all streams, each in detail; also as JSON, and for Prometheus.

    Tracker files are only read; the server can be stopped and started at any time.

    Example: driftline serve run.driftline --open

    Example: DRIFTLINE_TOKEN=... driftline serve runs/ --host 0.0.0.0 --allow-host drift.example.org
    """
    from driftline.cli._serve import address_of, serve_files

    given = address_of(host, port, token, token_file, tuple(allow_host or ()), without_token)
    serve_files(trackers, given, poll, open)
    return 0


@app.command()
@clearly
def demo(
    folder: Annotated[str, typer.Option(help="Folder for the orders, tracker file and report.")] = "driftline-demo",
    weeks: Annotated[int, typer.Option(min=3, max=52, help="Weeks to watch.")] = 26,
    orders: Annotated[int, typer.Option(min=500, help="Orders in an average week.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the orders.")] = 0,
    serve: Annotated[
        bool, typer.Option("--serve", help="Open the dashboard in a browser while the orders are watched.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the dashboard; 0 for any that is free.")] = PORT,
) -> int:
    """Watch half a year of a made-up web shop, with seasons and a break, and write the report. Takes seconds.

    Example: driftline demo --serve
    """
    from driftline.cli._demo import run, tracker_of
    from driftline.synthetic import Shop

    shop = Shop(orders=orders, weeks=weeks, seed=seed)
    if not serve:
        run(folder, shop, Console())
        return 0
    from driftline.cli._serve import served

    with served([tracker_of(folder)], port, Console()):
        run(folder, shop, Console())
    return 0
