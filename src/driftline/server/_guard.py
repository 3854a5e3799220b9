"""Guard: stands before every request. Which names the server answers to, who may look, and what browsers may do."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["COOKIE", "Guard", "Rules", "is_loopback", "local_target"]

COOKIE = "driftline"
_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_OPEN = ("/healthz", "/readyz", "/login")  # say nothing about data; the style of the login is below /assets
_ALLOWED = "GET, HEAD"
_MOST_TARGET = 2048  # characters of path and query
_MOST_HEADERS = 16384  # bytes
_MOST_BODY = 4096  # bytes; only the login has one
_WRONG = 0.5  # seconds that a wrong token costs


def is_loopback(host: str) -> bool:
    """Say whether an address can be reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def local_target(text: str) -> str:
    """Return an address on this server to go on to after the login; the overview if it is not one.

    >>> local_target("/streams/a?last=5"), local_target("//evil.example"), local_target("https://evil.example")
    ('/streams/a?last=5', '/', '/')
    """
    fine = text.startswith("/") and not text.startswith(("//", "/\\", "/login")) and text.isprintable()
    return text if fine and "\\" not in text else "/"


@dataclass(frozen=True)
class Rules:
    """Who may ask, and under which name.

    Attributes:
        hosts: names that requests may call the server by, in lower case and without a port.
        numbers: whether any IP address is such a name: no name that a stranger owns can be one.
        token: what must be known to look; None if anyone may.
    """

    hosts: frozenset[str]
    numbers: bool = False
    token: str | None = None

    def answers_to(self, header: str) -> bool:
        """Say whether the server goes by the name in a Host header; a stranger's page could use another."""
        name = header.strip().lower()
        if name.startswith("["):
            name, end, port = name[1:].partition("]")
            if not end or (port and not port.startswith(":")):
                return False
            port = port[1:]
        else:
            name, _, port = name.partition(":")
        if port and not (port.isascii() and port.isdigit()):
            return False
        if name.rstrip(".") in self.hosts:
            return True
        try:
            return self.numbers and bool(ipaddress.ip_address(name))
        except ValueError:
            return False

    @property
    def session(self) -> str:
        """What a browser's cookie holds: made from the token, but not the token."""
        return hmac.new((self.token or "").encode(), b"driftline session", hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(_digest(given), _digest(self.token or ""))

    def lets_in(self, headers: Mapping[str, str]) -> bool:
        """Say whether a request carries the token, or the cookie that was given for it."""
        if self.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        try:
            crumb = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return crumb is not None and hmac.compare_digest(_digest(crumb.value), _digest(self.session))


def _digest(text: str) -> bytes:
    """Return bytes of one length, so that not even the length of a token shows in the time that comparing takes."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


class Guard:
    """Application that lets through to another what the rules allow, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self.app, self.rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # there are no websockets

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = await self._refusal(scope, receive)
        if scope["method"] == "HEAD" and scope["path"] != "/events":
            scope = {**scope, "method": "GET"}  # the server leaves out the content
        await (self.app if answer is None else answer)(scope, receive, with_headers)

    async def _refusal(self, scope: Scope, receive: Receive) -> Response | None:
        """Return the answer to a request that goes no further; None if it does."""
        headers, path, query = Headers(scope=scope), scope["path"], scope["query_string"]
        named = headers.getlist("host")
        if len(named) != 1 or not self.rules.answers_to(named[0]):
            return PlainTextResponse("this server does not go by that name (see --allow-host)\n", 421)
        if len(scope.get("raw_path", b"")) + len(query) > _MOST_TARGET:
            return PlainTextResponse("the address is too long\n", 400)
        if sum(len(name) + len(value) for name, value in scope["headers"]) > _MOST_HEADERS:
            return PlainTextResponse("the headers are too long\n", 431)
        if path == "/login" and scope["method"] == "POST":
            return await self._login(headers, receive)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this server only answers questions\n", 405, {"Allow": _ALLOWED})
        if self.rules.token is None:
            return None
        if b"token=" in query and (exchanged := await self._exchange(path, query)) is not None:
            return exchanged
        if path in _OPEN or path.startswith("/assets/") or self.rules.lets_in(headers):
            return None
        if "text/html" in headers.get("accept", "") and not path.startswith("/api"):
            target = path + (f"?{query.decode('latin-1')}" if query else "")
            return RedirectResponse(f"/login?{urlencode({'next': target})}", 303)
        said = json.dumps({"detail": "a token is needed: Authorization: Bearer ..."})
        return Response(said, 401, {"WWW-Authenticate": "Bearer"}, "application/json")

    async def _login(self, headers: Headers, receive: Receive) -> Response:
        """Give a cookie for the token of a form; only a form of this server may send it."""
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return PlainTextResponse("the form is not ours\n", 403)
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False) and message["type"] == "http.request"
            if len(body) > _MOST_BODY:
                return PlainTextResponse("that is too much\n", 413, {"Connection": "close"})
        form = dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=8))
        target = local_target(form.get("next", "/"))
        if self.rules.token is None or self.rules.is_token(form.get("token", "")):
            return self._welcome(target)
        await asyncio.sleep(_WRONG)
        return RedirectResponse(f"/login?{urlencode({'next': target, 'wrong': '1'})}", 303)

    async def _exchange(self, path: str, query: bytes) -> Response | None:
        """Take the token out of an address, and give a cookie for it; None if there is none in it."""
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=64)
        given = [value for name, value in pairs if name == "token"]
        if not given:
            return None
        rest = urlencode([pair for pair in pairs if pair[0] != "token"])
        target = local_target(quote(path) + (f"?{rest}" if rest else ""))
        if self.rules.is_token(given[-1]):
            return self._welcome(target)
        await asyncio.sleep(_WRONG)
        return RedirectResponse(f"/login?{urlencode({'next': target, 'wrong': '1'})}", 303)

    def _welcome(self, target: str) -> Response:
        answer = RedirectResponse(target, 303)
        if self.rules.token is not None:
            answer.set_cookie(COOKIE, self.rules.session, httponly=True, samesite="strict", path="/")
        return answer
