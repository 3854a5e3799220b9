"""``driftline serve``, and the dashboard of ``driftline demo --serve``."""

from __future__ import annotations

import threading
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from driftline._errors import Option, OptionError
from driftline._extras import needs
from driftline.cli._errors import complain
from driftline.terminal import say

if TYPE_CHECKING:
    from driftline.server import Address

__all__ = ["address_of", "serve_files", "served"]

_SOON = 0.7  # seconds until a server that has begun to listen answers


def address_of(
    host: str,
    port: int,
    token: str | None,
    token_file: str | None,
    names: tuple[str, ...] = (),
    without_token: bool = False,
) -> Address:
    """Return the address to serve at, or raise if it would let in whom nobody meant."""
    _need("driftline serve")
    from driftline.server import Address

    if token_file is not None:
        if token is not None:
            raise OptionError("give the token once: {file} or --token", file=Option("token_file", token_file))
        lines = Path(token_file).read_text(encoding="utf-8").splitlines()
        token = lines[0].strip() if lines else ""
    if without_token and token is not None:
        raise ValueError("there is a token: leave out --without-token")
    return Address(host, port, token, names, without_token)


def _need(what: str) -> None:
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        needs(module, what)


def serve_files(trackers: Sequence[str], address: Address, poll: float, opened: bool) -> None:
    """Serve until the command is stopped."""
    from driftline.server import serve

    def ready(port: int) -> None:
        url = address.url(port)
        typer.echo(f"dashboard: {url}  (metrics: {url}metrics; Ctrl-C ends)")
        if address.token is None and address.open_to_all:
            complain(f"anyone who reaches {address.host} can look: there is no token")
        if opened:
            _open(address.url(port, secret=True))

    serve(trackers, address, poll=poll, ready=ready)


def _open(url: str) -> None:
    """Open a browser once the server answers, and do not wait for it."""
    timer = threading.Timer(_SOON, webbrowser.open, [url])
    timer.daemon = True
    timer.start()


@contextmanager
def served(trackers: Sequence[Path], port: int, console: Console) -> Iterator[None]:
    """Serve tracker files that are about to be written, meanwhile and afterwards until the command is stopped."""
    _need("driftline demo --serve")
    from driftline.server import Address, Background

    with Background(trackers, Address(port=port), poll=0.25) as server:
        say(console, f"dashboard: {server.url}", "")
        _open(server.url)
        yield
        say(console, "", f"The dashboard stays at {server.url} until Ctrl-C.")
        server.wait()
