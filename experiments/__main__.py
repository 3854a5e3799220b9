"""``python -m experiments NAME|all [--scale quick|paper] [--seeds N] [--out DIR]``."""

from __future__ import annotations

import argparse
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

from experiments.catalogue import EXPERIMENTS
from experiments.data import DataMissingError
from experiments.experiment import Experiment
from experiments.page import PublishingError, publish
from experiments.runner import UnitsFailedError, execute


def main(argv: list[str] | None = None) -> int:
    """Parse the command line, run, and say where the results are."""
    parser, console = _parser(), Console()
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
    everything = names.add_parser("all", help="all that need no download, one after the other")
    _common(everything)
    page = names.add_parser("publish", help="keep the rows of finished runs, and draw the page's figures and verdicts")
    page.add_argument("--out", type=Path, default=Path("runs"), help="folder of the runs (default: %(default)s)")
    page.add_argument("--page", type=Path, default=Path("docs/reproduction.md"), help="default: %(default)s")
    for experiment in EXPERIMENTS.values():
        own = names.add_parser(experiment.name, help=f"{experiment.title} ({experiment.paper})")
        _common(own)
        _own(own, experiment)
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", choices=("quick", "paper"), default="quick", help="default: %(default)s")
    parser.add_argument("--seeds", type=_positive, help="number of seeds")
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
    group = parser.add_argument_group("flags of this experiment (defaults: quick, paper)")
    for field in fields(quick):
        if field.name == "seeds":
            continue
        kind: Any = hints[field.name]
        several = typing.get_origin(kind) is tuple
        if several:
            kind = typing.get_args(kind)[0]
        if typing.get_origin(kind) is types.UnionType:
            kind = next(t for t in typing.get_args(kind) if t is not types.NoneType)
        defaults = f"{_shown(getattr(quick, field.name))}, {_shown(getattr(paper, field.name))}"
        group.add_argument(
            "--" + field.name.replace("_", "-"),
            dest=f"own_{field.name}",
            type=kind,
            nargs="+" if several else None,
            metavar=kind.__name__.upper(),
            help=defaults,
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
