"""The ``driftline`` command: parse, call, print."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from driftline._extras import missing
from driftline.cli._errors import code_of, interruptible

__all__ = ["main", "run"]


def main() -> None:
    """Run the command as the shell called it, and exit; it needs the [monitor] extra."""
    # before NumPy is loaded: on a busy machine, threads that wait for each other cost many times what they gain
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # where the encoding lacks a character, print another and go on
            stream.reconfigure(errors="replace")
    try:
        interruptible()
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt as interrupt:  # while modules are loaded
        sys.exit(code_of(interrupt))
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (nobody reads any more, but Python flushes it when it ends)
        sys.exit(141)


def run(arguments: Sequence[str]) -> int:
    """Run the command with these arguments; return 0, 1 if ``--fail-on`` was met, or 2 for bad input."""
    try:
        from driftline.cli._commands import call
    except ModuleNotFoundError as error:
        explained = missing(error, "the command")
        if explained is error:
            raise
        print(f"driftline: {explained}", file=sys.stderr)
        return 2
    return call(arguments)
