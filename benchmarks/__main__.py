"""``python -m benchmarks [NAME ...] [--seeds N]``: measure, print, compare with the bars."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks import accuracy, alarms, coverage, monitoring, speed, theory
from benchmarks.results import Result, table
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
    "watch-parquet": monitoring.parquet,
    "watch-windows": monitoring.windows,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to run (default: all): {', '.join(BENCHMARKS)}")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--json", type=Path, help="file to write the numbers to as well")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark(s) {unknown}: choose from {list(BENCHMARKS)}")
    # far away on purpose: doubts are expected, and numbers say by how much estimates are off
    warnings.filterwarnings("ignore", category=UntrustedEstimateWarning)
    names, results, console = args.names or list(BENCHMARKS), [], Console()
    with Progress(console=console) as progress:
        task = progress.add_task("benchmarks", total=len(names))
        for name in names:
            progress.update(task, description=name)
            results.extend(BENCHMARKS[name](args.seeds))
            progress.advance(task)
            if args.json is not None:
                args.json.write_text(json.dumps([r._asdict() for r in results], indent=1))
    console.print(table(results))


if __name__ == "__main__":
    main()
