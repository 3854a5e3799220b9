"""Ends of a command: 2 and one line for bad input, 130 for Ctrl-C, 143 for SIGTERM, a quiet 141 if nobody reads."""

from __future__ import annotations

import ast
import functools
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, ParamSpec

from driftline.cli._options import OPTIONS

__all__ = ["BAD_INPUT", "NOT_READ", "clearly", "code_of", "complain", "in_options", "interruptible"]

P = ParamSpec("P")

BAD_INPUT, NOT_READ = 2, 141

_OPTIONS = "|".join((*OPTIONS, "name"))  # and that of ``driftline original add``
_VALUE = r"'[^']*'|-?(?:\d[\d.e+-]*|inf|nan)|None|True|False|\([^()]*\)|\[[^\[\]]*\]"
# name=value where it stands alone: inside a path or a quoted name it does not mean an option
_GIVEN = re.compile(rf"(?<![\w/'\"-])({_OPTIONS})=({_VALUE})(?:, not ({_VALUE}))?(?![^\s,;:.)])")
_PHRASES = (
    (re.compile(rf"(^|: )({_OPTIONS})(?=: no column |: '[^']*' is unknown| is empty)"), r"\1--\2"),
    (re.compile(r"(name those to watch with) columns\b"), r"\1 --columns"),
    (re.compile(r"(watch its parts with) datetime, such as 'hour'"), r"\1 --datetime, such as hour"),
    (re.compile(r"(name it in) categorical\b"), r"\1 --categorical"),
    (re.compile(r"\((drop|datetime)\)"), r"(--\1)"),
    (
        re.compile(r"(windows by time need both) time_column and every: (time_column|every)"),
        r"\1 --time-column and --every: --\2",
    ),
)
_FLAG = re.compile(rf"--({_OPTIONS})\b")


class _Terminated(KeyboardInterrupt):
    """Interrupt by SIGTERM: like Ctrl-C, apart from the exit code."""


def interruptible() -> None:
    """Let SIGTERM end the command in order, as Ctrl-C does."""

    def stop(*_: object) -> NoReturn:
        raise _Terminated

    signal.signal(signal.SIGTERM, stop)


def code_of(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code of a command that was stopped."""
    return 143 if isinstance(interrupt, _Terminated) else 130


def in_options(text: str) -> str:
    """Rewrite a message about arguments of the library as one about options of the command.

    >>> in_options("column 'age' is text: convert it, or choose schema='lenient'")
    "column 'age' is text: convert it, or choose --schema lenient"
    >>> in_options("k.driftline was begun with columns=['a', 'b'], not ['a']: leave that out")
    'k.driftline was begun with --columns a,b, not a: leave that out'
    """
    text = _GIVEN.sub(_option, text)
    for phrase, instead in _PHRASES:
        text = phrase.sub(instead, text)
    return _FLAG.sub(lambda flag: flag[0].replace("_", "-"), text)


def _option(found: re.Match[str]) -> str:
    flag = "--" + found[1].replace("_", "-")

    def spelt(value: Any, other: bool) -> str:
        if value is None or value in ((), []):
            return f"no {flag}" if not other else "none"
        if isinstance(value, bool):
            return flag if value else f"--no-{flag[2:]}"
        text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
        return shlex.quote(text) if other else f"{flag} {shlex.quote(text)}"

    def read(text: str) -> Any:
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError):  # such as nan
            return text

    values = [read(text) for text in found.groups()[1:] if text is not None]
    return ", not ".join(spelt(value, other=i > 0) for i, value in enumerate(values))


def complain(text: str) -> None:
    """Print one line on standard error."""
    from driftline._wording import clean  # imported only if needed: it takes a second

    print(f"driftline: {clean(in_options(text))}", file=sys.stderr, flush=True)


def clearly(command: Callable[P, int]) -> Callable[P, int]:
    """Wrap a command: its errors become lines, and its result is an exit code."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            code = command(*args, **kwargs)
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            _hush()
            return NOT_READ
        except KeyboardInterrupt as interrupt:
            complain("stopped")
            return code_of(interrupt)
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
    """Discard standard output: nobody reads it any more, and Python would complain when it flushes it at its end."""
    with suppress(OSError, ValueError):  # not a real file: nothing will be flushed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
