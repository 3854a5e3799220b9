"""``python -m experiments [NAME|all|publish] [--scale quick|paper] [--seeds N] [--out DIR]``; a list without a name."""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import sys
import time
import types
import typing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.arguments import meaning
from experiments.catalogue import EXPERIMENTS
from experiments.data import DataMissingError
from experiments.experiment import Experiment
from experiments.page import PublishingError, publish
from experiments.runner import UnitsFailedError, execute
from experiments.words import capitalised

_OTHERS = {
    "all": "all that need no download, one after the other",
    "publish": "keep the rows of finished runs, and draw the page's figures and verdicts",
}


def main(argv: list[str] | None = None) -> int:
    """Parse the command line, run, and say where the results are; without a name, list the experiments."""
    parser, console = _parser(), Console()
    argv = sys.argv[1:] if argv is None else argv
    if not argv:
        _list(console)
        return 0
    if argv[0] not in _known() and not argv[0].startswith("-"):
        _list(Console(stderr=True))
        near = difflib.get_close_matches(argv[0], _known(), 1)
        parser.error(f"no experiment has the name {argv[0]!r}{f': did you mean {near[0]}?' if near else ''}")
    options = parser.parse_args(argv)
    if options.name == "publish":
        try:
            done = publish(options.out, options.page, EXPERIMENTS)
        except PublishingError as error:
            parser.error(str(error))
        console.print(f"{options.page} has the figures and verdicts of {', '.join(done)}")
        return 0
    names = [n for n, e in EXPERIMENTS.items() if e.in_all] if options.name == "all" else [options.name]
    failed = False
    try:
        arguments = {name: _arguments(EXPERIMENTS[name], options) for name in names}
    except ValueError as error:
        parser.error(str(error))
    for name, args in arguments.items():
        began = time.perf_counter()
        try:
            execute(
                EXPERIMENTS[name],
                args,
                options.out,
                jobs=options.jobs,
                command=_command(name, options),
                fresh=options.fresh,
                finished=options.finished,
                console=console,
            )
        except UnitsFailedError as error:
            console.print(f"[red]{error}[/]")
            failed = True
            continue
        except DataMissingError as error:
            parser.error(str(error))
        except OSError as error:
            parser.error(f"cannot write to {options.out / name}: {error}")
        except KeyboardInterrupt:
            console.print("\nInterrupted. Finished units are kept: the same command goes on from there.")
            return 130
        folder = EXPERIMENTS[name].place(options.out, args)
        console.print(f"[bold]{name}[/] ({time.perf_counter() - began:.0f} s): {folder}/figure.png, .pdf, results.csv")
        shown, _, _ = folder.joinpath("verdict.md").read_text(encoding="utf-8").partition("<details>")
        console.print(shown.strip(), style="dim", highlight=False, markup=False)
    return int(failed)


def _known() -> list[str]:
    return [*EXPERIMENTS, *_OTHERS]


def _list(console: Console) -> None:
    """Show the experiments: name, what each is about, where it is in the paper, how long each scale takes."""
    line = "[bold]{:<18}[/]{:<18}{:<20}{}\n    {}".format
    times = {e.name: [e.takes.get(scale, "") for scale in ("quick", "paper")] for e in EXPERIMENTS.values()}
    lines = [
        line("name", "in the paper", "--scale quick", "--scale paper", "what is run"),
        *(line(e.name, e.paper, *times[e.name], e.title) for e in EXPERIMENTS.values()),
        *(f"[bold]{name:<18}[/]{words}" for name, words in _OTHERS.items()),
        "",
        "Times are of one process on one core, ~ where they are not measured but reckoned from",
        "measured epochs; --jobs shares the work. python -m experiments NAME --help explains flags.",
    ]
    console.print("\n".join(lines), highlight=False, soft_wrap=True)


def _command(name: str, options: argparse.Namespace) -> str:
    """The command that gives the same rows."""
    words = ["python -m experiments", name, "--scale", options.scale, *["--finished"] * options.finished]
    if options.seeds is not None:
        words += ["--seeds", str(options.seeds)]
    for key, value in vars(options).items():
        if key.startswith("own_") and value is not None:
            words += [
                f"--{key.removeprefix('own_').replace('_', '-')}",
                _shown(tuple(value) if isinstance(value, list) else value),
            ]
    return " ".join(words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments", description="The paper's experiments, and ours.")
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    _common(names.add_parser("all", help=_OTHERS["all"]))
    page = names.add_parser("publish", help=_OTHERS["publish"])
    page.add_argument("--out", type=Path, default=Path("runs"), help="folder of the runs (default: %(default)s)")
    page.add_argument("--page", type=Path, default=Path("docs/reproduction.md"), help="to fill (default: %(default)s)")
    for experiment in EXPERIMENTS.values():
        about, usage = f"{experiment.title} ({experiment.paper})", f"python -m experiments {experiment.name} [flags]"
        own = names.add_parser(experiment.name, help=about, description=f"{capitalised(about)}.", usage=usage)
        _common(own)
        _own(own, experiment)
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scale", choices=("quick", "paper"), default="quick", help="sizes to start from (default: %(default)s)"
    )
    parser.add_argument("--seeds", type=_positive, help="number of seeds, counted from 0 (default: the scale's)")
    parser.add_argument("--out", type=Path, default=Path("runs"), help="folder to write to (default: %(default)s)")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--fresh", action="store_true", help="run finished units again")
    either.add_argument("--finished", action="store_true", help="run nothing, show the units that are finished")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return int(text)


def _own(parser: argparse.ArgumentParser, experiment: Experiment) -> None:
    """A flag for each field of the experiment's arguments; its default is the scale's."""
    quick, paper = experiment.presets["quick"], experiment.presets["paper"]
    hints = typing.get_type_hints(type(quick))
    group = parser.add_argument_group("flags of this experiment", "in brackets their values at quick and paper scale")
    for field in fields(quick):
        if field.name == "seeds":
            continue
        kind: Any = hints[field.name]
        several = typing.get_origin(kind) is tuple
        if several:
            kind = typing.get_args(kind)[0]
        if typing.get_origin(kind) is types.UnionType:
            kind = next(t for t in typing.get_args(kind) if t is not types.NoneType)
        values = dict.fromkeys(_shown(getattr(preset, field.name)) or "none" for preset in (quick, paper))
        group.add_argument(
            "--" + field.name.replace("_", "-"),
            dest=f"own_{field.name}",
            type=kind,
            nargs="+" if several else None,
            metavar=kind.__name__.upper(),
            help=f"{meaning(field)} [{' / '.join(values)}]".replace("%", "%%"),
        )


def _shown(value: Any) -> str:
    return shlex.join(map(str, value)) if isinstance(value, tuple) else str(value)


def _arguments(experiment: Experiment, options: argparse.Namespace) -> Any:
    """The scale's preset, changed by the flags of the command line."""
    given = {key.removeprefix("own_"): value for key, value in vars(options).items() if key.startswith("own_")}
    given["seeds"] = options.seeds
    changes = {key: tuple(v) if isinstance(v, list) else v for key, v in given.items() if v is not None}
    args = replace(experiment.presets[options.scale], **changes)
    experiment.work.units(args)  # refuses arguments that do not fit
    return args


if __name__ == "__main__":
    sys.exit(main())
