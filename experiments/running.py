"""Run an experiment's units in processes of one thread each, keep what is finished, write table, figure and verdict."""

from __future__ import annotations

import hashlib
import json
import multiprocessing as mp
import os
import re
import shutil
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from queue import Queue
from typing import Any

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from experiments.experiment import Experiment, Unit
from experiments.figures import save
from experiments.files import write_atomically

__all__ = ["UnitsFailedError", "execute", "finished_part", "part_path", "run_unit"]

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
    console: Console | None = None,
) -> pd.DataFrame:
    """Run what is not finished yet and write ``results.csv``, ``figure.png``, ``figure.pdf`` and ``verdict.md``.

    A unit is finished when its part, named after its arguments, lies in ``parts``; ``fresh`` runs it again. ``command``
    is what to type to get the same, noted beside the arguments.
    """
    folder, console = experiment.place(out, args), console or Console()
    units = experiment.units(args)
    todo = [unit for unit in units if fresh or finished_part(folder, args, unit) is None]
    if len(todo) < len(units):
        console.print(f"{experiment.name}: {len(units) - len(todo)} of {len(units)} units are finished already")
    if fresh:
        for unit in todo:
            shutil.rmtree(_work(folder, args, unit), ignore_errors=True)
    if todo:
        _run_all(experiment, args, folder, todo, jobs, console)
    parts = [pd.read_csv(part_path(folder, args, unit)) for unit in units]
    table = pd.concat(parts, ignore_index=True)
    _write_up(experiment, args, folder, table, command)
    return table


def _write_up(experiment: Experiment, args: Any, folder: Path, table: pd.DataFrame, command: str) -> None:
    write_atomically(folder / "results.csv", lambda path: table.to_csv(path, index=False))
    arguments = json.dumps({"command": command, **asdict(args)}, indent=1, default=str)
    write_atomically(folder / "args.json", lambda path: path.write_text(arguments))
    verdict = " ".join(experiment.verdict(table, args).split()) + "\n"
    write_atomically(folder / "verdict.md", lambda path: path.write_text(verdict, encoding="utf-8"))
    caption = " ".join(experiment.caption(args).split()) + "\n"
    write_atomically(folder / "caption.md", lambda path: path.write_text(caption, encoding="utf-8"))
    save(experiment.figure(table, args), folder, caption)
    for name, figure in (experiment.extras(folder, table, args) if experiment.extras is not None else {}).items():
        save(figure, folder, "", name)


def part_path(folder: Path, args: Any, unit: Unit) -> Path:
    """Where a unit's rows go: the name holds a digest of all arguments that could change them."""
    settings = {key: value for key, value in asdict(args).items() if not key.endswith("seeds")}
    digest = hashlib.sha256(json.dumps([settings, unit.case], sort_keys=True, default=str).encode()).hexdigest()[:10]
    label = re.sub(r"[^a-zA-Z0-9.]+", "-", unit.case).strip("-").lower()
    return folder / "parts" / f"{label}-seed{unit.seed}-{digest}.csv"


def finished_part(folder: Path, args: Any, unit: Unit) -> Path | None:
    """The unit's part if it is there."""
    path = part_path(folder, args, unit)
    return path if path.exists() else None


def _work(folder: Path, args: Any, unit: Unit) -> Path:
    """A unit's own folder, if it keeps anything while it runs."""
    return part_path(folder, args, unit).with_suffix("")


def run_unit(experiment: Experiment, args: Any, unit: Unit, folder: Path) -> None:
    """One unit from beginning to end, in this process."""

    def tell(text: str, advance: int = 0) -> None:
        if _queue is not None:
            _queue.put((unit, text, advance))

    rows = []
    kept = (_work(folder, args, unit),) if experiment.keeps else ()
    for row in experiment.run(args, unit, tell, *kept):
        rows.append({"case": unit.case, "seed": unit.seed, **row})
        tell("", 1)
    if not rows:
        raise RuntimeError(f"{experiment.name}: {unit.case}, seed {unit.seed} yielded no rows")
    frame = pd.DataFrame(rows)
    write_atomically(part_path(folder, args, unit), lambda path: frame.to_csv(path, index=False))


def _run_named(name: str, args: Any, unit: Unit, folder: Path) -> None:
    from experiments import catalogue  # in the worker: an experiment's functions are found by name, not sent

    run_unit(catalogue.EXPERIMENTS[name], args, unit, folder)


def _begin(queue: Queue[tuple[Unit, str, int]]) -> None:
    global _queue
    _queue = queue
    import torch

    torch.set_num_threads(1)


def _run_all(experiment: Experiment, args: Any, folder: Path, todo: list[Unit], jobs: int, console: Console) -> None:
    # two processes of one thread each beat one of two threads, and threads that spin for each other are slow under load
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    failures: list[str] = []
    context = mp.get_context("spawn")
    with context.Manager() as manager:
        queue = manager.Queue()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   TextColumn("[dim]{task.fields[words]}"))  # fmt: skip
        with Progress(*columns, console=console) as progress:
            overall = progress.add_task(f"[bold]{experiment.name}", total=len(todo), words="units")
            listener = threading.Thread(target=_show, args=(queue, progress), daemon=True)
            listener.start()
            with ProcessPoolExecutor(max(1, jobs), context, initializer=_begin, initargs=(queue,)) as pool:
                futures = {pool.submit(_run_named, experiment.name, args, unit, folder): unit for unit in todo}
                try:
                    for future in as_completed(futures):
                        unit = futures[future]
                        queue.put((unit, "", -1))
                        if (error := future.exception()) is not None:
                            failures.append(f"{unit.case}, seed {unit.seed}: {type(error).__name__}: {error}")
                        progress.advance(overall)
                except KeyboardInterrupt:
                    for process in mp.active_children():
                        process.terminate()
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
            queue.put(None)
            listener.join()
    if failures:
        raise UnitsFailedError(
            "\n".join([f"{len(failures)} of {len(todo)} units of {experiment.name} failed:", *failures])
        )


def _show(queue: Any, progress: Progress) -> None:
    """A bar per running unit; an advance of -1 ends it."""
    tasks: dict[Unit, Any] = {}
    while (message := queue.get()) is not None:
        unit, text, advance = Unit(*message[0]), message[1], message[2]
        if unit not in tasks:
            tasks[unit] = progress.add_task(f"  {unit.case}, seed {unit.seed}", total=unit.rows, words="")
        if advance < 0:
            progress.remove_task(tasks[unit])
        elif advance:
            progress.advance(tasks[unit], advance)
        else:
            progress.update(tasks[unit], words=text)
