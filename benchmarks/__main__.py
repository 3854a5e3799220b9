"""``python -m benchmarks [NAME ...] [--seeds N]``: measure, print, compare with the bars.

``python -m benchmarks speed cost --against COMMIT`` compares this version with the one of a commit.
``python -m benchmarks smooth [--replicates 100] [--first-seed 1000]`` runs all ``smooth-`` ones, ``foreign`` those of
the streams that are for reports alone, ``wide`` those with few rows for their features. ``--resume FILE`` goes on where
a long run was interrupted; several processes may each take some of the names, with files of their own.
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

from benchmarks import (
    accuracy,
    against,
    alarms,
    breaks,
    columns,
    coverage,
    floors,
    hold_or_doubt,
    honesty,
    honesty_cost,
    monitoring,
    scaling,
    serving,
    smooth,
    spark,
    speed,
    sums,
    theory,
    traces,
    wide,
)
from benchmarks.public import TABLES
from benchmarks.results import Kept, Result, markdown, numbers, table
from benchmarks.untidy import UNTIDY
from driftline import UntrustedEstimateWarning
from driftline.synthetic import CorrelationStream

BENCHMARKS: dict[str, Callable[[int], Iterator[Result]]] = {
    **{case.name: partial(accuracy.run, case) for case in accuracy.CASES},
    "no-drift": accuracy.null,
    "originals": accuracy.originals,
    **{case.name: partial(coverage.run, case) for case in coverage.CASES},
    **{case.name: partial(wide.run, case) for case in wide.CASES},
    **{case.name: partial(sums.run, case) for case in sums.CASES},
    "sums-coverage": sums.coverage,
    "sums-auto-coverage": partial(sums.coverage, model="auto", name="sums-auto-coverage"),
    "sums-auto-coverage-joining": partial(
        sums.coverage, replicates=120, model="auto", stream=CorrelationStream(dim=4), name="sums-auto-coverage-joining"
    ),
    "sums-quiet": sums.quiet,
    "sums-sizes": sums.sizes,
    "sums-trackers": sums.trackers,
    "trace-states": traces.states,
    "trace-handing": traces.handing,
    "breaks": breaks.run,
    "quiet-tables": breaks.quiet,
    "columns": columns.run,
    "columns-public": columns.public,
    "corollary": theory.corollary,
    "alarms": alarms.run,
    **{f"auditor-{name}": partial(honesty.auditor, name) for name in honesty.RIGHT},
    "auditor-large": honesty.large,
    "auditor-bent": honesty.bent,
    **{f"floor-{name}": partial(floors.run, name) for name in floors.CASES},
    **{f"untidy-{case.key}": partial(honesty.run_length, case) for case in UNTIDY},
    **{f"hold-or-doubt-{table}": partial(hold_or_doubt.run, table) for table in TABLES},
    "hold-or-doubt-quiet": hold_or_doubt.quiet,
    "steps": speed.steps,
    "error-bars": speed.error_bars,
    "honesty-cost": honesty_cost.run,
    "static": speed.static,
    "scoring": speed.scoring,
    "scaling": scaling.run,
    "newton": scaling.newton,
    "sharing": scaling.sharing,
    "features-cost": scaling.wide,
    "watch-parquet": monitoring.parquet,
    "watch-windows": monitoring.windows,
    "serve": serving.run,
    "spark-throughput": spark.throughput,
    "spark-state": spark.state,
    "spark-hot-key": spark.hot_key,
}


_LONG_GROUPS = ("auditor", "floor", "untidy", "hold-or-doubt", "sums", "spark")

SMOOTH = {case.name: case for case in [*smooth.CASES, *smooth.FOREIGN]}
"""Cases that take ``--first-seed`` and ``--replicates``."""

GROUPS = {
    "smooth": [case.name for case in smooth.CASES],
    "foreign": [case.name for case in smooth.FOREIGN],
    "wide": [case.name for case in wide.CASES],
    **{group: [name for name in BENCHMARKS if name.startswith(f"{group}-")] for group in _LONG_GROUPS},
}
"""Names that stand for several; ``foreign`` runs only if it is named."""

LONG = (*_LONG_GROUPS, "columns", "columns-public", "features-cost")
"""Benchmarks that run only when they are named: they take half an hour, read public tables, or need Java."""

AGAINST = list(against.PARTS)
"""Comparisons with an earlier version; they need ``--against``, so they are not in the table above."""


def main() -> None:
    parser = _parser()
    args = parser.parse_args()
    long = {name for given in LONG for name in GROUPS.get(given, [given])}
    usual = [*(name for name in BENCHMARKS if name not in long), "smooth"]
    chosen = [name for given in args.names or usual for name in GROUPS.get(given, [given])]
    unknown = [name for name in chosen if name not in [*BENCHMARKS, *SMOOTH, *AGAINST]]
    if unknown:
        parser.error(f"unknown benchmark(s) {unknown}: choose from {_names()}")
    if (args.against is None) == any(name in AGAINST for name in chosen):
        parser.error(
            f"{' and '.join(AGAINST)} need --against COMMIT, and it needs one of them: "
            "python -m benchmarks speed --against HEAD~1"
        )
    # far away on purpose: doubts are expected, and numbers say by how much estimates are off
    warnings.filterwarnings("ignore", category=UntrustedEstimateWarning)
    kept = Kept.read(args.resume)
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("benchmarks", total=len(chosen))
        table_of = _runs(args, partial(_say, progress, task))
        for name in chosen:
            progress.update(task, description=name)
            if name not in kept.found:
                kept.add(name, list(table_of[name](args.seeds)))
            progress.advance(task)
            _write([result for done in chosen for result in kept.found.get(done, [])], args)
    results = [result for name in chosen for result in kept.found[name]]
    results += hold_or_doubt.summary(results)
    if args.markdown or any(name in AGAINST for name in chosen):
        print(markdown(results))
    else:
        Console().print(table(results))


def _names() -> list[str]:
    return [*BENCHMARKS, *SMOOTH, *GROUPS, *AGAINST]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"what to run (default: all but foreign, {', '.join((*LONG, *AGAINST))}): {', '.join(_names())}",
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--first-seed", type=int, default=0, help="first seed of smooth; 1000 to tune (default: 0)")
    parser.add_argument("--replicates", type=int, default=0, help="seeds for the coverage of smooth (default: none)")
    parser.add_argument("--json", type=Path, help="file to write the numbers to as well")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep what each NAME has found here, and run only those not in it"
    )
    parser.add_argument("--keep", type=Path, help="file to write them to as first_edition.json has them")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    which = " and ".join(AGAINST)
    parser.add_argument("--against", metavar="COMMIT", help=f"earlier version that {which} compare with")
    parser.add_argument(
        "--scale", choices=list(against.REPEATS), default="quick", help=f"repetitions of {which} (default: quick)"
    )
    parser.add_argument(
        "--cache", type=Path, metavar="FOLDER", help="where earlier versions are built and found again (default: none)"
    )
    return parser


def _runs(args: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Callable[[int], Iterator[Result]]]:
    """Return what each name runs."""
    seeds = {"first_seed": args.first_seed, "replicates": args.replicates}
    compare = partial(against.run, commit=args.against, scale=args.scale, cache=args.cache, say=say)
    return {
        **BENCHMARKS,
        **{name: partial(smooth.run, case, **seeds) for name, case in SMOOTH.items()},
        **{name: partial(compare, part=name) for name in AGAINST},
    }


def _write(results: list[Result], args: argparse.Namespace) -> None:
    if args.json is not None:
        args.json.write_text(json.dumps([r._asdict() for r in results], indent=1))
    if args.keep is not None:
        run = {"seeds": args.seeds, "first_seed": args.first_seed, "replicates": args.replicates}
        lines = ",\n".join(f" {json.dumps(what)}: {json.dumps(found)}" for what, found in numbers(results).items())
        args.keep.write_text(f'{{"run": {json.dumps(run)}, "numbers": {{\n{lines}\n}}}}\n')


def _say(progress: Progress, task: TaskID, text: str) -> None:
    """Show what is being measured: beside the bar or, where there is none to see, on a line of its own."""
    progress.update(task, description=text)
    if not progress.console.is_terminal:
        progress.console.print(text)


if __name__ == "__main__":
    main()
