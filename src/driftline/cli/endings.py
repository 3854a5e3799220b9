"""How a command ends: bad input is one line and a 2, Ctrl-C a 130, a reader who has gone away a quiet 141."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec

__all__ = ["BAD_INPUT", "INTERRUPTED", "NOT_READ", "clearly", "complain"]

P = ParamSpec("P")

BAD_INPUT, INTERRUPTED, NOT_READ = 2, 130, 141


def complain(text: str) -> None:
    """One line on standard error."""
    from driftline.wording import clean  # not before it is needed: it takes a second

    print(f"driftline: {clean(text)}", file=sys.stderr, flush=True)


def clearly(command: Callable[P, int]) -> Callable[P, int]:
    """A command whose errors are lines, and whose result is an exit code."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            code = command(*args, **kwargs)
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            _hush()
            return NOT_READ
        except KeyboardInterrupt:
            complain("stopped")
            return INTERRUPTED
        except OSError as error:
            complain(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
        except ValueError as error:
            complain(str(error))
        except MemoryError:
            complain("not enough memory: choose smaller windows, or fewer columns")
        except RuntimeError as error:
            from driftline.fitting import FitDivergedError

            if not isinstance(error, FitDivergedError):
                raise
            complain(str(error))
        return BAD_INPUT

    return wrapped


def _hush() -> None:
    """Nobody reads standard output any more; Python would flush it once again at its end, and complain."""
    with suppress(OSError, ValueError):  # not a real file: nothing will be flushed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
