"""Serving: an address to listen on, checked before anything is opened, and a server on it, here or in background."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from urllib.parse import quote

import uvicorn

from driftline.server._app import LOCAL, App, create_app
from driftline.server._guard import is_loopback

__all__ = ["Address", "Background", "ServeError", "serve"]

_SHORTEST = 16  # characters of a token that others can guess at
_LARGEST_HEAD = 16384  # bytes
_MOST_CONNECTIONS = 1000


class ServeError(ValueError):
    """Address that cannot be listened on, or would let anyone in."""


@dataclass(frozen=True)
class Address:
    """Where a server listens, and who may ask.

    Attributes:
        host: name or address of the interface.
        port: port; 0 for any that is free.
        token: what must be known to look; None if anyone may.
        names: further names that requests may call the server by, such as that of a proxy.
        open_to_all: whether an address that others can reach may be without a token.
    """

    host: str = "127.0.0.1"
    port: int = 8377
    token: str | None = None
    names: tuple[str, ...] = ()
    open_to_all: bool = False

    def __post_init__(self) -> None:
        if self.token is not None and (not self.token or not self.token.isprintable() or not self.token.isascii()):
            raise ServeError("the token must be ASCII text without control characters")
        if is_loopback(self.host):
            return
        if self.token is None and not self.open_to_all:
            raise ServeError(
                f"{self.host} can be reached by others: give a token (--token-file, or DRIFTLINE_TOKEN), or say "
                "--without-token if anyone may look"
            )
        if self.token is not None and len(self.token) < _SHORTEST:
            raise ServeError(f"a token for {self.host} needs {_SHORTEST} characters or more: others can guess at it")

    def app(self, places: Iterable[str | os.PathLike[str]], poll: float) -> App:
        """Return the application for tracker files at this address."""
        local = is_loopback(self.host)
        own = {self.host, *self.names, *(LOCAL if local or _is_any(self.host) else ())}
        if _is_any(self.host):
            own.add(socket.gethostname())
        return create_app(places, token=self.token, hosts=own, any_address=not local, poll=poll)

    def listen(self) -> socket.socket:
        """Return a socket that listens here."""
        try:
            kind, *_, place = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            found = socket.socket(kind, socket.SOCK_STREAM)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind(place)
                found.listen(128)
            except BaseException:
                found.close()
                raise
            return found
        except OSError as error:
            said = error.strerror or str(error)
            raise ServeError(
                f"cannot listen on {self.host}, port {self.port}: {said} (choose another --port)"
            ) from None

    def url(self, port: int, *, secret: bool = False) -> str:
        """Return the address for a browser; with the token in it, which the server exchanges for a cookie."""
        host = "localhost" if _is_any(self.host) else f"[{self.host}]" if ":" in self.host else self.host
        token = f"?token={quote(self.token)}" if secret and self.token else ""
        return f"http://{host}:{port}/{token}"


def _is_any(host: str) -> bool:
    """Say whether a host means all interfaces."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


class _Server(uvicorn.Server):
    """Server whose listeners go when it is asked to end; otherwise it would wait for them."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.board.hub.close()
        super().handle_exit(sig, frame)


def _server(app: App) -> _Server:
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # addresses may hold a token
        server_header=False,
        date_header=True,
        proxy_headers=False,
        http="h11",
        ws="none",
        loop="asyncio",
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=_LARGEST_HEAD,
    )
    return _Server(config, app)


def serve(
    places: Sequence[str | os.PathLike[str]],
    address: Address,
    *,
    poll: float = 1.0,
    ready: Callable[[int], object] | None = None,
) -> None:
    """Serve tracker files until the process is told to end.

    Arguments:
        places: tracker files, and folders of them.
        address: where to listen, and who may ask.
        poll: seconds between looks at the files.
        ready: function that is called with the port once it is known.
    """
    for place in places:
        if not Path(place).exists():
            raise FileNotFoundError(f"{os.fspath(place)}: no such tracker file or folder")
    listening = address.listen()
    with listening:
        if ready is not None:
            ready(listening.getsockname()[1])
        _server(address.app(places, poll)).run(sockets=[listening])


class Background:
    """A server in a thread of its own, for a process that has more to do.

    Arguments:
        places: tracker files, which need not exist yet, and folders of them.
        address: where to listen, and who may ask.
        poll: seconds between looks at the files.
    """

    def __init__(self, places: Sequence[str | os.PathLike[str]], address: Address, *, poll: float = 1.0) -> None:
        self._listening = address.listen()
        self.port: int = self._listening.getsockname()[1]
        self.url = address.url(self.port)
        self.app = address.app(places, poll)
        self._server = _server(self.app)
        self._thread = threading.Thread(target=self._run, name="driftline-server", daemon=True)

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._listening]))

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self) -> None:
        """Wait until the server ends, or the process is interrupted."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def stop(self) -> None:
        """End the server."""
        self._server.should_exit = True
        self.app.board.hub.close()
        self._thread.join(10.0)
        self._listening.close()
