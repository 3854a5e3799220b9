"""Ends of a command: 2 and one line for bad input, 130 for Ctrl-C, 143 for SIGTERM, a quiet 141 if nobody reads."""

from __future__ import annotations

import functools
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, ParamSpec

from driftline._errors import DriftlineError, Option, OptionError, Words
from driftline._extras import MissingExtraError

__all__ = [
    "BAD_INPUT",
    "NOT_READ",
    "Flags",
    "Keys",
    "about",
    "check_original",
    "clearly",
    "code_of",
    "complain",
    "in_options",
    "in_toml",
    "interruptible",
    "spelt",
]

P = ParamSpec("P")

BAD_INPUT, NOT_READ = 2, 141


class Flags(Words):
    """Spelling of options on the command line."""

    def named(self, name: str) -> str:
        return "--" + name.replace("_", "-")

    def given(self, name: str, value: Any) -> str:
        flag = self.named(name)
        if isinstance(value, bool):
            return self.value(name, value)
        return f"no {flag}" if _is_nothing(value) else f"{flag} {self.value(name, value)}"

    def value(self, name: str, value: Any) -> str:
        if _is_nothing(value):
            return "none"
        if isinstance(value, bool):
            return self.named(name if value else f"no_{name}")
        if isinstance(value, float):
            value = repr(value).removesuffix(".0")  # as it was typed
        return shlex.quote(",".join(map(str, value)) if isinstance(value, tuple | list) else str(value))


class Keys(Flags):
    """Spelling of options that stand in a TOML file; those that do not are spelt as flags.

    Attributes:
        used: whether any option of the file was spelt.

    >>> words = Keys({"level"})
    >>> words.given("level", 95.0), words.given("run_length", 5), words.used
    ('level = 95', '--run-length 5', True)
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self.used = False

    def named(self, name: str) -> str:
        if name not in self._names:
            return super().named(name)
        self.used = True
        return name

    def given(self, name: str, value: Any) -> str:
        if name not in self._names or _is_nothing(value):
            return super().given(name, value)
        return f"{self.named(name)} = {in_toml(value)}"

    def value(self, name: str, value: Any) -> str:
        return super().value(name, value) if name not in self._names or _is_nothing(value) else in_toml(value)


def in_toml(value: Any) -> str:
    """Write a value as a TOML file has it.

    >>> in_toml(True), in_toml(95.0), in_toml(("a", "b"))
    ('true', '95', '["a", "b"]')
    """
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text.removesuffix(".0") if isinstance(value, float) else text


@contextmanager
def spelt(config: str | None, names: Collection[str]) -> Iterator[None]:
    """Spell these options in errors as the keys of a TOML file, whose name comes first."""
    try:
        yield
    except (DriftlineError, MissingExtraError) as error:
        if config is None:
            raise
        words = Keys(names)
        text = error.in_words(words)
        raise ValueError(f"{config}: {text}" if words.used else text) from None


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, tuple | list) and not value)


def check_original(original: str | None, names: Sequence[str]) -> None:
    """Raise if an original was asked for that is not among those of the run."""
    if original is not None and original not in names:
        known = f"choose from {', '.join(map(repr, names))}" if len(names) > 1 else f"there is only {names[0]!r}"
        raise OptionError("{option} is unknown: {known}", option=Option("original", original), known=known)


@contextmanager
def about(file: str) -> Iterator[None]:
    """Put the name of the file that is read before errors about its table."""
    from driftline.tables import TableError  # imported only if needed: it takes a second

    try:
        yield
    except TableError as error:
        raise TableError("{file}: {said}", file=file, said=error.message) from None


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


def in_options(error: Exception) -> str:
    """Return the message of an error, with options as they are spelt on the command line.

    >>> from driftline.monitor import Settings
    >>> try:
    ...     Settings(window=300, run_length=0.5)
    ... except ValueError as error:
    ...     in_options(error)
    '--run-length 0.5 must be more than 1 window, and at most 1e12'
    """
    return error.in_words(Flags()) if isinstance(error, DriftlineError | MissingExtraError) else str(error)


def complain(text: str) -> None:
    """Print one line on standard error."""
    from driftline._wording import clean  # imported only if needed: it takes a second

    print(f"driftline: {clean(text)}", file=sys.stderr, flush=True)


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
        except (ValueError, MissingExtraError) as error:
            complain(in_options(error))
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
