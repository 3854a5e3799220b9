"""App: the pages, the API and the guard before them, as one ASGI application."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from driftline import __version__
from driftline.server._api import api
from driftline.server._board import Board, board_of
from driftline.server._guard import Guard, Rules
from driftline.server._pages import pages
from driftline.server._streams import Streams
from driftline.server._views import draw

__all__ = ["LOCAL", "App", "create_app"]

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class App:
    """A dashboard as an ASGI application; ``board`` is what its requests share."""

    def __init__(self, inside: ASGIApp, board: Board) -> None:
        self._inside, self.board = inside, board

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._inside(scope, receive, send)


def create_app(
    places: Iterable[str | os.PathLike[str]],
    *,
    token: str | None = None,
    hosts: Iterable[str] = LOCAL,
    any_address: bool = False,
    poll: float = 1.0,
) -> App:
    """Return a dashboard of tracker files as an ASGI application, for a server of your own.

    Arguments:
        places: tracker files, and folders of them. They are only read.
        token: what must be known to look; None if anyone who reaches the server may.
        hosts: names that requests may call the server by.
        any_address: whether it may also be called by any IP address.
        poll: seconds between looks at the files.

    >>> app = create_app(["shop.driftline"], token="a long secret")
    >>> app.board.streams.ready
    False
    """
    rules = Rules(frozenset(host.lower() for host in hosts), any_address, token)
    board = board_of(Streams(places), rules, poll)
    board.hub.prepare = lambda keys: draw(board, keys)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        looking = asyncio.create_task(board.hub.run())
        yield
        board.hub.close()
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking

    about = "Streams that driftline watches: how far each has moved, and whether to worry. Trackers are only read."
    inside = FastAPI(
        title="driftline",
        version=__version__,
        description=about,
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    inside.state.board = board
    inside.include_router(api)
    inside.include_router(pages)
    return App(Guard(inside, rules), board)
