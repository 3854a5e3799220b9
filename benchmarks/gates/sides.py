"""The two sides of a comparison, and the rows that their workers have measured.

Libraries are the same on both sides, so that an interpreter with another PYTHONPATH is environment enough: driftline is
Python alone, and an installation of its own would take minutes and say nothing more.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.gates.cases import case_of
from benchmarks.versions import ONE_THREAD, ROOT, Version, unpacked

OLD = "a3b38294c780794c82c8d23ad662d1603c9baf39"
"""The engine before it was rebuilt."""

Row = dict[str, Any]
Job = tuple[str, str, int | str]
"""Gate, case, and seed; of costs, the round instead of a seed."""


@dataclass(frozen=True)
class Side:
    """A version of driftline: its key, a commit or the digest of a tree, and the folder that holds ``driftline``."""

    key: str
    source: Path
    flags: tuple[str, ...] = ()

    @classmethod
    def of_commit(cls, commit: str, cache: Path) -> Side:
        """Return the version of a commit, unpacked below a folder."""
        digest, tree = unpacked(commit, cache)
        return cls(digest, tree / "src")

    @classmethod
    def of_tree(cls) -> Side:
        """Return the version of the working tree."""
        return cls(f"tree:{_digest(ROOT / 'src')}", ROOT / "src")

    @classmethod
    def of_engine(cls) -> Side:
        """Return the new engine of the working tree, which no estimator uses yet."""
        return cls(f"engine:{_digest(ROOT / 'src' / 'driftline' / '_engine')}", ROOT / "src", ("engine",))

    def _variables(self) -> dict[str, str]:
        return {"PYTHONPATH": os.pathsep.join([str(self.source), str(ROOT)])}

    def work(self, jobs: Sequence[Job], tables: Path) -> Iterator[Row]:
        """Yield a row for each job as it comes, from one process on one thread."""
        command = [sys.executable, "-m", "benchmarks.gates.worker", str(self.source), str(tables), *self.flags]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with tempfile.TemporaryFile("w+") as todo:
            todo.writelines(f"{json.dumps(job)}\n" for job in jobs)
            todo.seek(0)
            with subprocess.Popen(
                command, stdin=todo, stdout=subprocess.PIPE, text=True, env=kept | ONE_THREAD | self._variables()
            ) as process:
                assert process.stdout is not None
                try:
                    for job, line in zip(jobs, process.stdout, strict=False):
                        yield _row(self.key, job) | json.loads(line)
                except BaseException:  # also one who wants no more rows
                    process.terminate()
                    raise
        if process.returncode:
            raise RuntimeError(f"the worker of {self.key} ended with exit code {process.returncode}")

    def watch(self, job: Job, table: Path) -> Row:
        """Return a row with the CPU seconds of ``driftline watch``, by the operating system."""
        digest = hashlib.blake2b(table.read_bytes(), digest_size=8).hexdigest()
        with tempfile.TemporaryDirectory() as folder:
            version = Version("watched", Path(sys.executable), self._variables())
            cost = version.run("-m", "driftline", "watch", table, "--window", 10_000, folder=Path(folder))
        return _row(self.key, job) | {"digest": digest, "cpu": cost.cpu}


def _digest(folder: Path) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def _row(key: str, job: Job) -> Row:
    gate, case, seed = job
    return {"side": key, "gate": gate, "case": case, "seed": seed, "spec": spec(gate, case)}


@cache
def spec(gate: str, case: str) -> str:
    """Return a digest of what a case runs: a row of the same name that ran something else does not count."""
    return hashlib.blake2b(repr(case_of(gate, case)).encode(), digest_size=4).hexdigest()


class Kept:
    """Rows of a side, in a file that grows by a line for each: a run that was interrupted goes on."""

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / f"{key.replace(':', '-')}.jsonl"
        self.rows: dict[Job, Row] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines(keepends=True) if self.path.exists() else ():
            if not line.endswith("\n"):
                raise SystemExit(f"{self.path}: the last line is not complete, remove it: {line[:60]}")
            row = json.loads(line)
            self.rows[row["gate"], row["case"], row["seed"]] = row

    def add(self, row: Row) -> None:
        """Append a row."""
        self.rows[row["gate"], row["case"], row["seed"]] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(row)}\n")

    def get(self, job: Job) -> Row | None:
        """Return the row of a job, if it has been run as it is now."""
        row = self.rows.get(job)
        return row if row is not None and row["spec"] == spec(*job[:2]) else None
