"""The guard: names, tokens, headers and sizes, over a real socket; and addresses that are refused before that."""

import socket

import pytest

from driftline.server import Address, ServeError
from driftline.server._guard import Rules, local_target

TOKEN = "correct horse battery"
PATHS = ("/", "/streams/x", "/metrics", "/api/streams", "/events", "/api/openapi.json", "/no/such/page")


def test_every_answer_has_strict_headers(serving):
    client = serving()
    for path in ("/", "/api/streams", "/metrics", "/assets/dashboard.js", "/login", "/no/such", "/streams/none"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
    assert client.get("/").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "", "[::1", "127.0.0.1:x"]
)
def test_other_names_are_refused(serving, host):
    client = serving()
    assert client.get("/", headers={"Host": host}).status_code == 421 if host else 400
    assert "quiet" not in client.get("/", headers={"Host": host or "x"}).text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:8377", "localhost."])
def test_names_of_this_machine_are_answered(serving, host):
    assert serving().get("/", headers={"Host": host}).status_code == 200


def test_numbers_are_names_only_where_others_may_ask():
    assert Rules(frozenset({"drift.example"}), numbers=True).answers_to("192.0.2.7:80")
    assert not Rules(frozenset({"localhost"})).answers_to("192.0.2.7:80")


def test_without_the_token_nothing_is_said(serving):
    client = serving(address=Address(port=0, token=TOKEN))
    for path in PATHS:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": TOKEN},
            {"Cookie": f"driftline={TOKEN}"},
        ):
            answer = client.get(path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
    assert client.get("/healthz").status_code == 200
    assert client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_browser_logs_in_once(serving):
    client = serving(address=Address(port=0, token=TOKEN))
    asked = client.get("/streams/x?last=5", headers={"Accept": "text/html"})
    assert asked.status_code == 303
    assert asked.headers["location"] == "/login?next=%2Fstreams%2Fx%3Flast%3D5"
    form = client.get(asked.headers["location"])
    assert 'name="next" value="/streams/x?last=5"' in form.text
    wrong = client.post("/login", data={"token": "wrong", "next": "/"})
    assert "wrong=1" in wrong.headers["location"]
    assert "set-cookie" not in wrong.headers
    right = client.post("/login", data={"token": TOKEN, "next": "//evil.example"})
    assert right.headers["location"] == "/"
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    assert client.get("/").status_code == 200  # the client has kept the cookie
    strange = client.post("/login", data={"token": TOKEN}, headers={"Sec-Fetch-Site": "cross-site"})
    assert strange.status_code == 403


def test_a_token_in_an_address_is_exchanged_for_a_cookie(serving):
    client = serving(address=Address(port=0, token=TOKEN))
    answer = client.get("/", params={"token": TOKEN, "last": "5"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/?last=5"
    assert client.get("/").status_code == 200
    other = serving(address=Address(port=0, token=TOKEN))
    assert "wrong=1" in other.get("/", params={"token": "no"}).headers["location"]
    assert other.get("/").status_code == 401


@pytest.mark.parametrize(
    "target", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", "", "/login"]
)
def test_a_login_leads_nowhere_else(target):
    assert local_target(target) == "/"


def test_it_only_answers_questions(serving):
    client = serving()
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        answer = client.request(method, "/api/streams")
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, HEAD"
    for path in ("/", "/healthz", "/metrics"):
        head = client.head(path)
        assert (head.status_code, head.content) == (200, b"")
    assert client.head("/events").status_code == 405


def test_sizes_are_limited(serving):
    client = serving(address=Address(port=0, token=TOKEN))
    assert client.get("/?since=" + "a" * 4000).status_code == 400
    assert client.get("/", headers={"X-Long": "a" * 40000}).status_code in (400, 431)
    assert client.post("/login", content=b"token=" + b"a" * 10000).status_code == 413
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "drift.example"])
def test_an_address_that_others_reach_needs_a_token(host):
    with pytest.raises(ServeError, match="can be reached by others: give a token"):
        Address(host)
    with pytest.raises(ServeError, match="16 characters or more"):
        Address(host, token="short")
    assert Address(host, token=TOKEN).token == TOKEN
    assert Address(host, open_to_all=True).token is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.9"])
def test_this_machine_needs_none(host):
    assert Address(host).token is None


@pytest.mark.parametrize("token", ["", "line\nbreak", "schlüssel"])
def test_tokens_that_no_header_can_hold(token):
    with pytest.raises(ServeError, match="the token must be"):
        Address(token=token)


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match=f"cannot listen on 127.0.0.1, port {port}: .*choose another --port"):
            Address(port=port).listen()
