"""Delivery from ``driftline watch``: Records to a webhook or a command, by threads that never hold the run back.

A message waits in a bounded queue and is tried again if it fails. When the run ends, there is a bounded time for what
is left; what was not delivered is said. The tracker file has every Record, whatever becomes of messages.
"""

from __future__ import annotations

import logging
import math
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from driftline import __version__
from driftline._wording import clean, counted, joined, json_line
from driftline.alarms import Signal
from driftline.cli._errors import complain
from driftline.cli._options import Plan, WebhookOn
from driftline.monitor import Record
from driftline.terminal import reading

__all__ = ["Letter", "Outbox", "delivering", "execute", "letters", "post"]

_log = logging.getLogger("driftline.cli")
_MOST = 100  # letters that wait; older ones give way
_TRIES = 6
_DELAY = 1.0  # seconds before the second try; each further one waits twice as long
_LONGEST = 60.0  # seconds between tries
_TIMEOUT = 10.0  # seconds for a request
_COMMAND_TIMEOUT = 60.0  # seconds for a command
_PATIENCE = 15.0  # seconds for what is left when the run ends
_NAMED = 3  # undelivered letters that are named

Send = Callable[["Letter"], None]


@dataclass(frozen=True)
class Letter:
    """What is delivered about a window.

    Attributes:
        record: its Record.
        before: signal that stood before it.
        stream: name of what is watched.
        tracker: path of the tracker file; None if there is none.
    """

    record: Record
    before: Signal
    stream: str
    tracker: str | None

    @property
    def name(self) -> str:
        """What it is about, in a few words."""
        return f"{self.record.signal} in window {self.record.window}"

    @property
    def plain(self) -> str:
        """What it says, in a line."""
        record = self.record
        from_other = "" if record.original == "original" else f" from {record.original}"
        at = f", {record.start[:10]}" if record.start else ""
        drift = f": drift{from_other} {reading(record.drift)}" if record.drift is not None else ""
        moved = ", ".join(m.column for m in record.columns[:3])
        said = f"{record.signal.upper()} {self.stream} (window {record.window}{at}){drift}; {record.reason}"
        return clean(f"{said}; moved: {moved}" if moved else said)

    @property
    def text(self) -> str:
        """The same for Slack: characters by which it makes links and calls people are escaped."""
        return self.plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    def to_json(self) -> str:
        """Return the letter as one JSON object: ``text`` for people and Slack, the Record for machines."""
        return json_line(
            {
                "text": self.text,
                "event": str(self.record.signal),
                "before": str(self.before),
                "stream": self.stream,
                "tracker": self.tracker,
                "record": self.record.to_dict(),
            }
        )


class RefusedError(Exception):
    """The letter was refused, and would be again."""


class _NoRedirects(HTTPRedirectHandler):
    """A webhook is where its address says, and nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def post(url: str, timeout: float = _TIMEOUT) -> Send:
    """Return a function that posts a letter to an address as JSON."""
    opener = build_opener(_NoRedirects)

    def send(letter: Letter) -> None:
        headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": f"driftline/{__version__}"}
        request = Request(url, letter.to_json().encode(), headers, method="POST")
        try:
            with opener.open(request, timeout=timeout) as answer:
                answer.read(1024)
        except HTTPError as error:
            error.close()
            said = f"HTTP {error.code}"
            passing = error.code >= 500 or error.code in (408, 425, 429)
            raise (OSError(said) if passing else RefusedError(said)) from None
        except HTTPException as error:
            raise OSError(f"no answer in HTTP ({type(error).__name__})") from None

    return send


def execute(command: str, timeout: float = _COMMAND_TIMEOUT) -> Send:
    """Return a function that runs a command, without a shell, with the Record on its standard input.

    Data reach it by standard input and by variables, never as a part of the command.
    """
    words = shlex.split(command)

    def send(letter: Letter) -> None:
        with tempfile.TemporaryFile() as said:
            child = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**os.environ, **_variables(letter)},
                start_new_session=True,  # so that all of it can be ended
            )
            try:
                child.communicate(letter.record.to_json().encode() + b"\n", timeout=timeout)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                raise RefusedError(f"not done after {timeout:.0f} s, ended") from None
            if child.returncode:
                said.seek(0)
                last = said.read(2000).decode("utf-8", "replace").strip().splitlines()[-1:]
                raise RefusedError(f"exit code {child.returncode}" + "".join(f": {line}" for line in last))

    return send


def _variables(letter: Letter) -> dict[str, str]:
    record, drift = letter.record, letter.record.drift
    value = "" if drift is None or not math.isfinite(drift.value) else repr(drift.value)
    return {
        "DRIFTLINE_SIGNAL": str(record.signal),
        "DRIFTLINE_WINDOW": str(record.window),
        "DRIFTLINE_ORIGINAL": clean(record.original),
        "DRIFTLINE_DRIFT": value,
        "DRIFTLINE_STREAM": clean(letter.stream),
        "DRIFTLINE_TRACKER": clean(letter.tracker or ""),
        "DRIFTLINE_TEXT": letter.plain,
    }


class Outbox:
    """Letters on their way to one place, sent by a thread in the order they came.

    Arguments:
        place: where they go, in words.
        send: function that delivers one; :class:`RefusedError` if that is in vain, any other error to try again.
        tries, delay: how often to try, and seconds before the second time.
        most: letters that may wait; the oldest give way, since the newest says how things are.
    """

    def __init__(
        self, place: str, send: Send, *, tries: int = _TRIES, delay: float = _DELAY, most: int = _MOST
    ) -> None:
        self._place, self._send, self._tries, self._delay, self._most = place, send, tries, delay, most
        self._waiting: deque[Letter] = deque()
        self._current: Letter | None = None
        self._lost: list[str] = []  # names of the first that were not delivered, with the reason
        self._lost_count, self._count = 0, 0
        self._state = threading.Condition()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="driftline-delivery", daemon=True)
        self._thread.start()

    def put(self, letter: Letter) -> None:
        """Take a letter, at once."""
        with self._state:
            self._count += 1
            if len(self._waiting) >= self._most:
                self._lose(self._waiting.popleft(), "too many waited")
            self._waiting.append(letter)
            self._state.notify()

    def _lose(self, letter: Letter, reason: str) -> None:
        self._lost_count += 1
        if len(self._lost) < _NAMED:
            self._lost.append(f"{letter.name} ({clean(reason)})")

    def _work(self) -> None:
        while True:
            with self._state:
                while not self._waiting:
                    if self._closing.is_set():
                        return
                    self._state.wait()
                self._current = letter = self._waiting.popleft()
            reason = self._deliver(letter)
            with self._state:
                self._current = None
                if reason is not None:
                    self._lose(letter, reason)
            if reason is not None:
                _log.warning("%s: %s was not delivered: %s", self._place, letter.name, reason)

    def _deliver(self, letter: Letter) -> str | None:
        """Try to deliver; return why it failed, None if it did not."""
        reason = ""
        for k in range(self._tries):
            if k:
                pause = min(self._delay * 2.0 ** (k - 1), _LONGEST)
                if self._closing.is_set():
                    time.sleep(min(pause, 1.0))
                else:
                    self._closing.wait(pause)  # when the run ends, the next try is due
            try:
                self._send(letter)
                return None
            except RefusedError as error:
                return str(error)
            except Exception as error:  # whatever it is, the run goes on
                reason = str(error) or type(error).__name__
        return reason

    def close(self, patience: float = _PATIENCE) -> str:
        """Give what is left a bounded time; return a sentence about what was not delivered, empty if all was."""
        self._closing.set()
        with self._state:
            self._state.notify()
        self._thread.join(patience)
        with self._state:
            for letter in [*([self._current] if self._current is not None else []), *self._waiting]:
                self._lose(letter, f"not yet, after {patience:.0f} s")
            self._waiting.clear()
            lost, names = self._lost_count, list(self._lost)
        if not lost:
            return ""
        more = [f"{lost - len(names):,} more"] if lost > len(names) else []
        said = joined([*names, *more])
        return f"{self._place}: {lost:,} of {counted(self._count, 'message')} not delivered: {said}"


def letters(records: Iterable[Record], past: Iterable[Record], stream: str, tracker: str | None) -> Iterator[Letter]:
    """Yield each Record with the signal that stood before it."""
    stood = {record.original: record.signal for record in past}
    for record in records:
        before = stood.get(record.original, Signal.NORMAL)
        stood[record.original] = record.signal
        yield Letter(record, before, stream, tracker)


def _is_due(letter: Letter, wanted: WebhookOn) -> bool:
    now = letter.record.signal
    if wanted == WebhookOn.WINDOW:
        return True
    return now != letter.before and (wanted == WebhookOn.CHANGE or now == Signal.ALARM)


@contextmanager
def delivering(plan: Plan, past: Iterable[Record], stream: str) -> Iterator[Callable[[Iterable[Record]], Any]]:
    """Yield a function that passes Records on and delivers those that are due; at the end, say what was not delivered.

    Arguments:
        plan: what to deliver, and where.
        past: Records of earlier calls.
        stream: name of what is watched.
    """
    boxes: list[tuple[Outbox, WebhookOn]] = []
    if plan.webhook is not None:
        parts = urlsplit(plan.webhook)  # the path of a webhook is often its password
        boxes.append(
            (Outbox(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", post(plan.webhook)), plan.webhook_on)
        )
    if plan.on_alarm is not None:
        program = shlex.split(plan.on_alarm)[0]
        boxes.append((Outbox(program, execute(plan.on_alarm), tries=1), WebhookOn.ALARM))

    def passing(records: Iterable[Record]) -> Iterator[Record]:
        for letter in letters(records, past, stream, plan.tracker):
            for box, wanted in boxes:
                if _is_due(letter, wanted):
                    box.put(letter)
            yield letter.record

    try:
        yield passing
    finally:
        deadline = time.monotonic() + _PATIENCE
        for box, _ in boxes:
            if said := box.close(max(deadline - time.monotonic(), 0.0)):
                complain(said)
