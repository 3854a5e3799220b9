"""Events: one look at the files serves all who wait. A listener holds a number and no queue, so that none falls behind.

A version counts the changes. Whoever has seen version 7 is told which streams have a later one, however many changes
lie in between.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from driftline.server._streams import Streams

__all__ = ["Hub"]

_log = logging.getLogger("driftline.server")
_QUIET = 15.0  # seconds after which a line is sent that keeps the connection open
_RETRY = 2000  # milliseconds after which a browser that lost the connection asks again


class Hub:
    """The place where changes are told.

    Arguments:
        streams: streams to look at.
        poll: seconds between looks.
        most: most listeners at a time.

    Attributes:
        prepare: function that is called with the keys of streams that changed before anyone is told: what it draws
            need not be drawn when a page is asked for.
    """

    def __init__(self, streams: Streams, poll: float = 1.0, most: int = 500) -> None:
        self.streams, self.poll, self.most = streams, poll, most
        self.prepare: Callable[[list[str]], object] = len
        self.boot = secrets.token_hex(4)  # tells versions of this process from those of an earlier one
        self.listeners = 0
        self._changed = asyncio.Event()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def version(self) -> str:
        """Version of everything, as pages carry it."""
        return f"{self.boot}.{self.streams.version}"

    async def run(self) -> None:
        """Look at the files for as long as the server lives."""
        self._loop = asyncio.get_running_loop()
        while not self._closed:
            before = self.streams.version
            try:
                await asyncio.to_thread(self._look)
            except Exception:  # a folder that cannot be listed: it may come back
                _log.exception("the tracker files could not be shown")
            if self.streams.version != before:
                self._wake()
            await asyncio.sleep(self.poll)

    def _look(self) -> None:
        if changed := self.streams.look():
            self.prepare(changed)
        self.streams.ready = True

    def close(self) -> None:
        """Let all listeners go, so that the server can end; from any thread."""
        self._closed = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    @property
    def full(self) -> bool:
        """Whether there are as many listeners as are allowed."""
        return self.listeners >= self.most

    async def events(self) -> AsyncIterator[bytes]:
        """Yield server-sent events: the version at first, then the keys of streams that changed."""
        self.listeners += 1
        try:
            seen = self.streams.version
            yield _event("hello", {"version": self.version}, f"retry: {_RETRY}\n")
            while not self._closed:
                if self.streams.version == seen:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), _QUIET)
                now = self.streams.version
                if now == seen:
                    yield b": still here\n\n"
                    continue
                keys = [stream.key for stream in self.streams.found.values() if stream.version > seen]
                seen = now
                yield _event("change", {"version": self.version, "streams": keys})
        finally:
            self.listeners -= 1


def _event(name: str, data: dict[str, object], before: str = "") -> bytes:
    return f"{before}event: {name}\ndata: {json.dumps(data)}\n\n".encode()
