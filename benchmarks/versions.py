"""Earlier versions: one built from a commit into an environment of its own, beside the one of this tree."""

from __future__ import annotations

import json
import os
import subprocess
import time
import venv
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
CHILD = Path(__file__).with_name("child.py")
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB")
}  # PyArrow takes the first too


class Cost(NamedTuple):
    """Seconds of a process with its start, and what it printed."""

    cpu: float
    wall: float
    printed: str


@dataclass(frozen=True)
class Version:
    """A version of driftline: the Python that has it, and the variables by which that Python finds it."""

    name: str
    python: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: object, folder: Path) -> Cost:
        """Run its Python with arguments, on one thread, in a folder; the CPU time is that of the operating system."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        variables |= ONE_THREAD | self.variables
        command = [str(self.python), *(str(argument) for argument in arguments)]
        printed = folder / f"{self.name}.out"
        with printed.open("wb") as out:
            began = time.perf_counter()
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=variables, cwd=folder)
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for: do not wait again
        text = printed.read_text(encoding="utf-8", errors="replace")
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with exit code {process.returncode}:\n{text[-2000:]}")
        return Cost(usage.ru_utime + usage.ru_stime, wall, text)

    def ask(self, task: str, *arguments: object, folder: Path) -> dict[str, Any]:
        """Return what a task of ``child.py`` measured in a process of this version."""
        # -P: modules beside child.py have names of others (coverage)
        return dict(json.loads(self.run("-P", CHILD, task, *arguments, folder=folder).printed.splitlines()[-1]))


def this_version(cache: Path) -> Version:
    """Return the version of this tree, in an environment like that of an earlier one: with ``[monitor]`` alone."""
    home = cache.resolve() / "this"
    _install(home, ROOT)
    return Version("this", home / "env" / "bin" / "python", {"PYTHONPATH": str(ROOT / "src")})


def build(commit: str, cache: Path) -> Version:
    """Return the version of a commit, installed below a folder, or found there from an earlier run.

    Libraries have the versions that they have here, so that only driftline differs.
    """
    digest, source = unpacked(commit, cache)
    home = source.parent
    _install(home, source)
    return Version(digest[:7], home / "env" / "bin" / "python")


def unpacked(commit: str, cache: Path) -> tuple[str, Path]:
    """Return the full hash of a commit, and its tree unpacked below a folder, or found there from an earlier run."""
    digest = _git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    source = cache.resolve() / digest[:12] / "source"
    if not source.exists():
        part = source.with_name("source.part")  # a run that was interrupted leaves this
        part.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-x", "-C", part], input=_git("archive", digest), check=True)
        part.rename(source)
    return digest, source


def _install(home: Path, source: Path) -> None:
    """Install a tree with ``[monitor]`` into an environment below a folder, unless it is there."""
    environment, installed = home / "env", home / "installed"
    if installed.exists():
        return
    home.mkdir(parents=True, exist_ok=True)
    venv.create(environment, with_pip=True, clear=True)
    same = home / "constraints.txt"
    found = {dist.metadata["Name"]: dist.version for dist in distributions()}
    kept = [f"{name}=={number}" for name, number in sorted(found.items()) if name.lower() != "driftline"]
    same.write_text("\n".join(kept))
    pip = [
        environment / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--constraint",
        same,
    ]
    subprocess.run([*pip, f"{source}[monitor]"], check=True)
    installed.touch()


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, stdout=subprocess.PIPE).stdout
