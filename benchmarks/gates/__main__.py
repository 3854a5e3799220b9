"""``python -m benchmarks.gates [GATE ...]``: this tree beside an earlier commit on the same rows, in one table.

Rows are kept as they come, and measured once: a run that was interrupted goes on, and so does one with more seeds. CPU
times are compared only where both sides ran in turn (``cost``).
"""

from __future__ import annotations

import argparse
import math
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.against import write_rows
from benchmarks.gates.cases import FIRST_SEED, GATES, Watched
from benchmarks.gates.engine import GATES as ENGINE_GATES
from benchmarks.gates.measures import Bar, Line, Rows, lines
from benchmarks.gates.sides import OLD, Job, Kept, Side
from benchmarks.results import INF
from benchmarks.versions import ROOT
from benchmarks.weighted import TABLES, prepared

_HEADS = ("gate", "case", "measure", "old", "new", "new/old", "bar", "")


def main() -> None:
    """Run what has not been measured yet, and print the table."""
    args = _parser().parse_args()
    unknown = [name for name in args.gates if name not in GATES]
    if unknown:
        raise SystemExit(f"unknown gate(s) {unknown}: choose from {list(GATES)}")
    args.cache.mkdir(parents=True, exist_ok=True)
    sides = {}
    if args.only != "new":
        sides["old"] = Side.of_commit(args.against, args.cache)
    if args.only != "old":
        sides["new"] = Side.of_engine() if args.engine else Side.of_tree()
    if args.engine and (missing := set(args.gates or GATES) - set(ENGINE_GATES)):
        raise SystemExit(f"the new engine has no {', '.join(sorted(missing))} yet: choose from {list(ENGINE_GATES)}")
    kept = {name: Kept(args.results, side.key) for name, side in sides.items()}
    found = []
    for gate in args.gates or GATES:
        cases = GATES[gate].cases(args.scale)
        count = args.seeds or GATES[gate].seeds[args.scale]
        if gate == "real":
            for table in TABLES:
                prepared(table, args.cache)
        if gate == "cost":
            rounds = _in_turn(cases, count, sides, kept, args.cache)
            chosen = {case: rounds[case] for case in cases}
        else:
            chosen = {case: range(args.first_seed, args.first_seed + count) for case in cases}
            for name, side in sides.items():
                _run(gate, chosen, name, side, kept[name], args.cache)
        rows: dict[str, Rows] = {"old": {}, "new": {}}
        for name, store in kept.items():
            rows[name] = {case: [store.rows[gate, case, seed] for seed in seeds] for case, seeds in chosen.items()}
        found += lines(gate, rows["old"], rows["new"])
    _print(found, markdown=args.markdown)


def _run(gate: str, chosen: dict[str, range], name: str, side: Side, kept: Kept, cache: Path) -> None:
    """Run all cases and seeds of a side that have no row yet."""
    jobs: list[Job] = [(gate, case, seed) for case, seeds in chosen.items() for seed in seeds]
    jobs = [job for job in jobs if kept.get(job) is None]
    for done, row in enumerate(side.work(jobs, cache) if jobs else (), 1):
        kept.add(row)
        _say(f"{gate}, {name}: {done} of {len(jobs)}, {row['case']}")


def _in_turn(
    cases: dict[str, object], count: int, sides: dict[str, Side], kept: dict[str, Kept], cache: Path
) -> dict[str, list[str]]:
    """Run cases on all sides in turn until there are enough rounds with all of them; return the rounds of each case.

    One side alone takes a single round: its numbers are compared with nothing.
    """
    stamp, found = datetime.now(UTC).isoformat(timespec="seconds"), {}
    for case, what in cases.items():
        shared = [
            {
                seed
                for gate, name, seed in store.rows
                if (gate, name) == ("cost", case) and store.get((gate, name, seed))
            }
            for store in kept.values()
        ]
        rounds = sorted(map(str, set.intersection(*shared)))
        while len(rounds) < (count if len(sides) > 1 else 1):
            job = ("cost", case, f"{stamp}/{len(rounds)}")
            for name in list(sides)[:: 1 if len(rounds) % 2 else -1]:
                if isinstance(what, Watched):
                    kept[name].add(sides[name].watch(job, _parquet(cache)))
                else:
                    for row in sides[name].work([(*job[:2], FIRST_SEED)], cache):
                        kept[name].add(row | {"seed": job[2]})
                _say(f"cost, {name}: {case}, round {len(rounds) + 1}")
            rounds.append(str(job[2]))
        found[case] = rounds[-count:]
    return found


def _parquet(cache: Path) -> Path:
    path = cache / "watched.parquet"
    if not path.exists():
        write_rows(path, np.random.default_rng(FIRST_SEED))
    return path


def _say(text: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {text}", file=sys.stderr, flush=True)


def _cells(line: Line) -> list[str]:
    numbers = [
        "" if math.isnan(x) else f"{x:.3g}" if abs(x) < 1e4 else f"{x:,.0f}" for x in (line.old, line.new, line.ratio)
    ]
    verdict = "" if line.met is None else "met" if line.met else "MISSED"
    return [line.gate, line.case, line.measure, *numbers, _wanted(line.bar), verdict]


def _wanted(bar: Bar | None) -> str:
    if bar is None:
        return ""
    within = f"≥ {bar.least:g}" if bar.most in (1.0, INF) and bar.least else f"{bar.least:g} to {bar.most:g}"
    return f"{'new/old ' if bar.of_ratio else ''}{within if bar.least else f'≤ {bar.most:g}'}"


def _print(found: list[Line], *, markdown: bool) -> None:
    """Print a line for each measure, and a summary of each gate."""
    cells = [_cells(line) for line in found]
    if markdown:
        print("\n".join(f"| {' | '.join(row)} |" for row in [list(_HEADS), ["---"] * len(_HEADS), *cells]))
    else:
        table = Table(*_HEADS)
        for row in cells:
            table.add_row(*row)
        Console(width=160).print(table)
    for gate in dict.fromkeys(line.gate for line in found):
        judged = [line.met for line in found if line.gate == gate and line.met is not None]
        print(f"\n{gate}: {sum(judged)} of {len(judged)} bars met" if judged else f"\n{gate}: no bar could be judged")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gates", description=__doc__)
    parser.add_argument("gates", nargs="*", metavar="GATE", help=f"gates to run (default: all): {', '.join(GATES)}")
    parser.add_argument("--scale", choices=("quick", "full"), default="quick", help="cases and seeds (default: quick)")
    parser.add_argument("--seeds", type=int, default=0, help="seeds of each case, of cost rounds (default: the gate's)")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED, help=f"first seed (default: {FIRST_SEED})")
    parser.add_argument("--against", metavar="COMMIT", default=OLD, help=f"the old side (default: {OLD[:7]})")
    parser.add_argument("--engine", action="store_true", help="the new side is the engine that no estimator uses yet")
    parser.add_argument("--only", choices=("new", "old"), help="measure and show one side alone")
    results = Path(__file__).with_name("results")
    parser.add_argument("--results", type=Path, default=results, metavar="FOLDER", help="where rows are kept")
    cache = ROOT / ".gates"
    parser.add_argument(
        "--cache", type=Path, default=cache, metavar="FOLDER", help="earlier versions and public tables"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    return parser


if __name__ == "__main__":
    main()
