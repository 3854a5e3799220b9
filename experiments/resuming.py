"""Units that go task by task, or step by step: a killed one loses the one it was at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from driftline import ContinualDensityRatio
from driftline.fitting import ModuleFactory, Progress
from experiments.experiment import Row
from experiments.files import write_atomically

__all__ = ["state_path", "step_by_step", "task_by_task", "tidy"]

_ROWS = "rows.json"
_STATE = "state-{}.safetensors"


def task_by_task(work: Path, tasks: int, step: Callable[[int], Iterable[Row]]) -> Iterator[Row]:
    """Yield the rows of tasks 0, 1, ...: those of an interrupted run from ``work``, the others from ``step(task)``.

    A step that needs more than the task's number saves it to :func:`state_path` of its task and finds there what the
    step before left. That file goes when the rows of the next task are written.
    """
    work.mkdir(parents=True, exist_ok=True)
    path = work / _ROWS
    done: list[list[Row]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    for rows in done:
        yield from rows
    for task in range(len(done), tasks):
        done.append(list(step(task)))
        text = json.dumps(done)
        write_atomically(path, lambda draft, text=text: draft.write_text(text, encoding="utf-8"))  # type: ignore[misc]
        state_path(work, task - 1).unlink(missing_ok=True)
        yield from done[-1]


def step_by_step(
    work: Path,
    times: Sequence[int],
    start: Callable[[], ContinualDensityRatio],
    advance: Callable[[ContinualDensityRatio | None, int], tuple[Row, ContinualDensityRatio | None]],
    *,
    progress: Progress | None = None,
    device: str | None = None,
    model: ModuleFactory | None = None,
) -> Iterator[Row]:
    """Yield a row for each time of an estimator that goes from window to window.

    Arguments:
        start: makes the estimator, started on the original.
        advance: takes the estimator to a time and returns the row of it; without an estimator after a failed step.
        progress, device, model: of an estimator that goes on from a file; ``model`` if it is a factory.
    """

    def step(number: int) -> list[Row]:
        kept, estimator = state_path(work, number - 1), None
        if number == 0:
            estimator = start()
        elif kept.exists():
            estimator = ContinualDensityRatio.load(kept, progress=progress, device=device, model=model)
        row, estimator = advance(estimator, times[number])
        if estimator is not None:
            estimator.save(state_path(work, number))
        return [row]

    return task_by_task(work, len(times), step)


def state_path(work: Path, task: int) -> Path:
    """Return the file of what the step after ``task`` needs."""
    return work / _STATE.format(task + 1)


def tidy(args: Any, work: Path) -> None:
    """Delete rows and states once the unit's part is written."""
    for path in (work / _ROWS, *work.glob(_STATE.format("*"))):
        path.unlink(missing_ok=True)
    if work.is_dir() and not any(work.iterdir()):
        work.rmdir()
