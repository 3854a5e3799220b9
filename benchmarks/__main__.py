"""``python -m benchmarks [NAME ...] [--seeds N]``: measure, print, compare with the bars.

``python -m benchmarks speed --against COMMIT`` compares this version with the one of a commit.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, TaskID

from benchmarks import accuracy, against, alarms, coverage, monitoring, scaling, speed, theory
from benchmarks.results import Result, markdown, table
from driftline import UntrustedEstimateWarning

BENCHMARKS: dict[str, Callable[[int], Iterator[Result]]] = {
    **{case.name: partial(accuracy.run, case) for case in accuracy.CASES},
    "no-drift": accuracy.null,
    "originals": accuracy.originals,
    **{case.name: partial(coverage.run, case) for case in coverage.CASES},
    "corollary": theory.corollary,
    "alarms": alarms.run,
    "steps": speed.steps,
    "error-bars": speed.error_bars,
    "static": speed.static,
    "scoring": speed.scoring,
    "scaling": scaling.run,
    "newton": scaling.newton,
    "sharing": scaling.sharing,
    "wide": scaling.wide,
    "watch-parquet": monitoring.parquet,
    "watch-windows": monitoring.windows,
}


AGAINST = "speed"
"""Name of the comparison with an earlier version; it needs ``--against``, so it is not in the table above."""

LONG = ("wide",)
"""Benchmarks that run only when they are named: they take half an hour."""


def main() -> None:
    names = [*BENCHMARKS, AGAINST]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"what to run (default: all but {', '.join((AGAINST, *LONG))}): {', '.join(names)}",
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--json", type=Path, help="file to write the numbers to as well")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    parser.add_argument("--against", metavar="COMMIT", help=f"earlier version that {AGAINST} compares with")
    parser.add_argument(
        "--scale", choices=list(against.REPEATS), default="quick", help=f"repetitions of {AGAINST} (default: quick)"
    )
    parser.add_argument(
        "--cache", type=Path, metavar="FOLDER", help="where earlier versions are built and found again (default: none)"
    )
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in names]
    if unknown:
        parser.error(f"unknown benchmark(s) {unknown}: choose from {names}")
    if (args.against is None) == (AGAINST in args.names):
        parser.error(f"{AGAINST} and --against COMMIT need each other: python -m benchmarks {AGAINST} --against HEAD~1")
    # far away on purpose: doubts are expected, and numbers say by how much estimates are off
    warnings.filterwarnings("ignore", category=UntrustedEstimateWarning)
    results, chosen = [], args.names or [name for name in BENCHMARKS if name not in LONG]
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("benchmarks", total=len(chosen))
        say = partial(_say, progress, task)
        compare = partial(against.run, commit=args.against, scale=args.scale, cache=args.cache, say=say)
        for name in chosen:
            progress.update(task, description=name)
            for result in (BENCHMARKS | {AGAINST: compare})[name](args.seeds):
                results.append(result)
                if args.json is not None:
                    args.json.write_text(json.dumps([r._asdict() for r in results], indent=1))
            progress.advance(task)
    if args.markdown or AGAINST in chosen:
        print(markdown(results))
    else:
        Console().print(table(results))


def _say(progress: Progress, task: TaskID, text: str) -> None:
    """Show what is being measured: beside the bar or, where there is none to see, on a line of its own."""
    progress.update(task, description=text)
    if not progress.console.is_terminal:
        progress.console.print(text)


if __name__ == "__main__":
    main()
