"""Run an experiment's units in processes of one thread each, keep finished ones, write table, figure and verdict."""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from experiments.experiment import Experiment, Unit
from experiments.figures import save
from experiments.files import write_atomically
from experiments.methods import untrusted
from experiments.parts import Part, part_path, read_part, sources, unit_folder, write_part

__all__ = ["UnitsFailedError", "execute", "run_unit"]

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_queue: Queue[tuple[Unit, str, int]] | None = None  # of the worker process


class UnitsFailedError(RuntimeError):
    """Some units raised; what the others found is kept."""


def execute(
    experiment: Experiment,
    args: Any,
    out: Path,
    *,
    jobs: int,
    command: str,
    fresh: bool = False,
    finished: bool = False,
    console: Console | None = None,
) -> pd.DataFrame:
    """Run what is not finished yet and write ``results.csv``, ``figure.png``, ``figure.pdf`` and ``verdict.md``.

    A unit is finished when its part, named after its arguments, lies whole in ``parts``; ``fresh`` runs it again, but
    not those of earlier stages, which others may build on. ``finished`` runs none and writes up what there is.
    ``command`` gives the same rows when typed; it is noted beside the arguments.
    """
    folder, console = experiment.place(out, args), console or Console()
    _probe(folder)
    units = experiment.work.units(args)
    last = max((unit.stage for unit in units), default=0)
    known = _known(folder, args, [unit for unit in units if not fresh or unit.stage < last], console)
    if known:
        console.print(f"{experiment.name}: {len(known)} of {len(units)} units are finished already")
    if finished and len(known) < len(units):
        if not known or experiment.results.narrowed is None:
            raise UnitsFailedError(
                f"{experiment.name}: {len(known)} of {len(units)} units are finished, too few to show"
            )
        return _write_up(experiment, args, folder, known, command)
    todo = [unit for unit in units if unit not in known]
    if fresh:
        for unit in (unit for unit in todo if unit.stage == last):
            shutil.rmtree(unit_folder(folder, args, unit), ignore_errors=True)
    for stage in sorted({unit.stage for unit in todo}):
        _run_all(experiment, args, folder, [unit for unit in todo if unit.stage == stage], jobs, console)
    if todo:
        known.update({u: p for u in todo if (p := read_part(part_path(folder, args, u), u)) is not None})
    if gone := [unit for unit in units if unit not in known]:
        raise UnitsFailedError(f"{experiment.name}: the rows of {gone[0].case}, seed {gone[0].seed} vanished meanwhile")
    return _write_up(experiment, args, folder, {unit: known[unit] for unit in units}, command)


def _made(experiment: Experiment, parts: Mapping[Unit, Part]) -> dict[str, Any]:
    """Commits and minutes of all units, and the engine's numbers of those that are of driftline's default.

    Minutes are those of the rows where they say so: a unit that went on after a kill knows only its last process.
    """
    ours = [part for unit, part in parts.items() if re.search(experiment.results.ours, unit.case)]
    seconds = [part.rows.seconds.sum() if "seconds" in part.rows else part.seconds for part in parts.values()]
    return {
        "experiment": experiment.name,
        "commits": sorted({part.commit for part in parts.values()}),
        "engines": sorted({part.engine for part in ours}),
        "minutes": round(float(np.nansum(seconds)) / 60.0, 1),
    }


def _probe(folder: Path) -> None:
    """Raise if results cannot be written, before any are computed."""
    folder.joinpath("parts").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def _known(folder: Path, args: Any, units: list[Unit], console: Console) -> dict[Unit, Part]:
    """Finished parts; those of other code are used, with a warning."""
    known = {u: p for u in units if (p := read_part(part_path(folder, args, u), u)) is not None}
    if other := sum(part.sources != sources() for part in known.values()):
        console.print(f"[yellow]{other} finished units were made by other code than this: --fresh runs them again[/]")
    return known


def _write_up(
    experiment: Experiment, args: Any, folder: Path, parts: Mapping[Unit, Part], command: str
) -> pd.DataFrame:
    """Write all that people read; make all of it first, since an error must not leave old and new side by side."""
    results, table = experiment.results, pd.concat([part.rows for part in parts.values()], ignore_index=True)
    args = args if results.narrowed is None else results.narrowed(args, table)
    about = {"command": command, "made": _made(experiment, parts), "arguments": asdict(args)}
    arguments = json.dumps(about, indent=1, default=str)
    verdict = results.verdict(table, args)
    caption = " ".join(results.caption(args).split()) + "\n"
    figure = results.figure(table, args)
    further = {} if results.extras is None else results.extras(folder, table, args)
    save(figure, folder, caption)
    for name, extra in further.items():
        save(extra, folder, "", name)
    write_atomically(folder / "results.csv", lambda path: table.to_csv(path, index=False))
    for name, text in (("args.json", arguments), ("caption.md", caption), ("verdict.md", verdict)):
        write_atomically(folder / name, lambda path, text=text: path.write_text(text, encoding="utf-8"))  # type: ignore[misc]
    return table


def run_unit(experiment: Experiment, args: Any, unit: Unit, folder: Path) -> None:
    """Run one unit from beginning to end, in this process."""

    def report(text: str, advance: int = 0) -> None:
        if _queue is not None:
            _queue.put((unit, text, advance))

    rows, began = [], time.perf_counter()
    work = experiment.work
    kept = (unit_folder(folder, args, unit),) if work.keeps else ()
    with untrusted():
        for row in work.run(args, unit, report, *kept):
            rows.append({"case": unit.case, "seed": unit.seed, **row})
            report("", 1)
    if len(rows) != unit.rows:
        raise RuntimeError(f"{len(rows)} rows instead of the {unit.rows} announced")
    write_part(part_path(folder, args, unit), pd.DataFrame(rows), time.perf_counter() - began)
    if work.tidy is not None:
        work.tidy(args, *kept)


def _run_named(name: str, args: Any, unit: Unit, folder: Path) -> None:
    # in the worker: an experiment's functions are found by name, not sent; the other experiments would take seconds
    module = import_module(f"experiments.{name.replace('-', '_')}")
    run_unit(module.EXPERIMENT, args, unit, folder)


def _begin(queue: Queue[tuple[Unit, str, int]]) -> None:
    global _queue
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C too, and ends its workers
    _queue = queue


def _run_all(experiment: Experiment, args: Any, folder: Path, todo: list[Unit], jobs: int, console: Console) -> None:
    # two processes of one thread each beat one of two threads, and threads that spin for each other are slow under load
    # (PyTorch reads these variables too)
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    with mp.get_context("spawn").Manager() as manager:
        queue = manager.Queue()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[words]}"),
        )
        with Progress(*columns, console=console) as progress:
            overall = progress.add_task(f"[bold]{experiment.name}", total=len(todo), words="units")
            listener = threading.Thread(target=_show, args=(queue, progress), daemon=True)
            listener.start()

            def done(unit: Unit) -> None:
                queue.put((unit, "", -1))
                progress.advance(overall)

            failures, killed = _pooled(experiment, args, folder, todo, jobs, queue, done)
            if killed:  # by whom is not known; once more, one at a time, in case memory was short
                console.print(f"[yellow]a worker was killed: {len(killed)} units are run again, one at a time[/]")
                again, killed = _pooled(experiment, args, folder, killed, 1, queue, done)
                failures += again + [f"{u.case}, seed {u.seed}: its process was killed" for u in killed]
            queue.put(None)
            listener.join()
    if failures:
        first = f"{len(failures)} of {len(todo)} units of {experiment.name} failed:"
        raise UnitsFailedError("\n".join([first, *failures]))


def _pooled(
    experiment: Experiment, args: Any, folder: Path, todo: list[Unit], jobs: int, queue: Any, done: Any
) -> tuple[list[str], list[Unit]]:
    """Run units side by side; return the failures in words, and the units lost because a process was killed."""
    failures, killed = [], []
    context = mp.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(todo)), context, initializer=_begin, initargs=(queue,)) as pool:
        futures: dict[Future[None], Unit] = {
            pool.submit(_run_named, experiment.name, args, unit, folder): unit for unit in todo
        }
        try:
            for future in as_completed(futures):
                unit, error = futures[future], future.exception()
                if isinstance(error, BrokenProcessPool):
                    killed.append(unit)
                    continue
                done(unit)
                if error is not None:
                    failures.append(f"{unit.case}, seed {unit.seed}: {type(error).__name__}: {error}")
        except KeyboardInterrupt:
            for process in list(pool._processes.values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failures, killed


def _show(queue: Any, progress: Progress) -> None:
    """Show a bar per running unit; an advance of -1 ends it."""
    tasks: dict[Unit, Any] = {}
    while True:
        try:
            message = queue.get()
        except (EOFError, OSError):  # interrupted: the queue's process is gone
            return
        if message is None:
            return
        unit, text, advance = Unit(*message[0]), message[1], message[2]
        if unit not in tasks:
            tasks[unit] = progress.add_task(f"  {unit.case}, seed {unit.seed}", total=unit.rows, words="")
        if advance < 0:
            progress.remove_task(tasks.pop(unit))
        elif advance:
            progress.advance(tasks[unit], advance)
        else:
            progress.update(tasks[unit], words=text)
