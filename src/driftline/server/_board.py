"""Board: all that requests share, in one value."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from driftline.server._events import Hub
from driftline.server._guard import Rules
from driftline.server._metrics import registry_of
from driftline.server._streams import Runs, Streams

__all__ = ["Board", "Texts", "board_of"]


class Texts:
    """Texts that were made from a version of something, the last so many; each is made once, for all who ask."""

    def __init__(self, most: int = 512) -> None:
        self._most, self._lock = most, threading.Lock()
        self._kept: OrderedDict[Hashable, str] = OrderedDict()
        self._gates: dict[Hashable, threading.Lock] = {}  # of texts that are being made

    def get(self, key: Hashable, make: Callable[[], str]) -> str:
        """Return the text for a key, made now if it is not there."""
        if (found := self._find(key)) is not None:
            return found
        with self._lock:
            gate = self._gates.setdefault(key, threading.Lock())
        with gate:
            if (found := self._find(key)) is not None:
                return found
            try:
                text = make()
                with self._lock:
                    self._kept[key] = text
                    while len(self._kept) > self._most:
                        self._kept.popitem(last=False)
            finally:
                with self._lock:
                    self._gates.pop(key, None)
        return text

    def _find(self, key: Hashable) -> str | None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found


@dataclass(frozen=True)
class Board:
    """What requests share.

    Attributes:
        streams: the streams, as of the last look.
        runs: runs whose pages were looked at last.
        hub: where changes are told.
        rules: who may ask.
        registry: metrics.
        sparklines, fragments: drawings and pages that need not be made again.
    """

    streams: Streams
    runs: Runs
    hub: Hub
    rules: Rules
    registry: CollectorRegistry
    sparklines: Texts
    fragments: Texts


def board_of(streams: Streams, rules: Rules, poll: float) -> Board:
    """Return a board for these streams."""
    # a drawing for each stream and original that an overview can have; pages have hundreds of kilobytes
    return Board(streams, Runs(), Hub(streams, poll), rules, registry_of(streams), Texts(4000), Texts(16))
