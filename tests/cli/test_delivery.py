"""Delivery from ``driftline watch``: to a real server that fails at first, and to a command."""

import json
import os
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pandas as pd
import pytest

from driftline.alarms import Signal
from driftline.cli import _delivery as delivery
from driftline.cli import run
from driftline.inference import Estimate
from driftline.monitor import Moved, Record


@pytest.fixture
def hook():
    """A server that answers with the codes it is told, and keeps what it was sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.seen.append((time.monotonic(), self.headers, json.loads(body)))
            time.sleep(server.slowness)
            code = server.codes.pop(0) if server.codes else 200
            self.send_response(code)
            if code == 302:
                self.send_header("Location", f"{server.url}/elsewhere")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.seen, server.codes, server.slowness = [], [], 0.0
    server.url = f"http://127.0.0.1:{server.server_address[1]}/hook/secret"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def letter(window=1, **changes):
    base = Record(window, "original", "measured", 100, 0, signal=Signal.ALARM, reason="drift", **changes)
    return delivery.Letter(base, Signal.NORMAL, "orders.csv", "run.driftline")


def outbox(url, **options):
    return delivery.Outbox("the hook", delivery.post(url, timeout=2.0), delay=0.01, **options)


def test_a_server_that_fails_at_first_gets_it_in_the_end(hook):
    hook.codes = [500, 503, 429, 200]
    box = outbox(hook.url)
    box.put(letter())
    assert box.close() == ""
    assert len(hook.seen) == 4
    times = [at for at, *_ in hook.seen]
    assert times[2] - times[1] > 0.01  # each pause is twice as long
    _, headers, body = hook.seen[-1]
    assert headers["Content-Type"] == "application/json; charset=utf-8"
    assert body["text"] == "ALARM orders.csv (window 1); drift"
    assert (body["event"], body["before"], body["record"]["window"]) == ("alarm", "normal", 1)


def test_the_order_is_kept(hook):
    hook.codes = [500]
    box = outbox(hook.url)
    for window in range(5):
        box.put(letter(window))
    assert box.close() == ""
    assert [body["record"]["window"] for _, _, body in hook.seen] == [0, 0, 1, 2, 3, 4]


def test_what_is_refused_is_not_tried_again(hook):
    hook.codes = [404]
    box = outbox(hook.url)
    box.put(letter())
    assert box.close() == "the hook: 1 of 1 message not delivered: alarm in window 1 (HTTP 404)"
    assert len(hook.seen) == 1


def test_it_goes_nowhere_else(hook):
    hook.codes = [302]
    box = outbox(hook.url)
    box.put(letter())
    assert "HTTP 302" in box.close()
    assert len(hook.seen) == 1


def test_a_server_that_hangs_holds_nobody_back(hook):
    hook.slowness = 30.0
    box = delivery.Outbox("the hook", delivery.post(hook.url, timeout=30.0), most=10)
    began = time.monotonic()
    for window in range(500):
        box.put(letter(window))
    said = box.close(0.2)
    assert time.monotonic() - began < 10.0  # half a minute would be one answer
    assert said.startswith("the hook: 500 of 500 messages not delivered: alarm in window")
    assert "too many waited" in said
    assert "497 more" in said


def test_nobody_there():
    box = outbox("http://127.0.0.1:9/", tries=2)
    box.put(letter())
    assert "refused" in box.close()


def test_text_cannot_call_people_in_slack():
    moved = (Moved("<!channel> & <http://evil|x>", Estimate(0.2, 0.1, 0.1, 0.3, 0.95), 0.001, "x"),)
    text = letter(columns=moved).text
    assert "<" not in text
    assert "&lt;!channel&gt; &amp; &lt;http://evil|x&gt;" in text
    plain = delivery._variables(letter(columns=moved))["DRIFTLINE_TEXT"]  # a command is not Slack
    assert plain.endswith("moved: <!channel> & <http://evil|x>")


@pytest.fixture
def rows(tmp_path, people, monkeypatch):
    """File of eight windows: quiet, moved, and back."""
    monkeypatch.chdir(tmp_path)
    frames = [people(1000 + t, moved=float(t in (3, 4))) for t in range(8)]
    pd.concat(frames).to_csv("people.csv", index=False)
    return "people.csv"


def test_watch_posts_changes(rows, hook, said):
    hook.codes = [500, 500]
    code = run(["watch", rows, "--window", "300", "--tracker", "run.driftline", "--webhook", hook.url])
    assert code == 0
    events = [(body["event"], body["record"]["window"]) for _, _, body in hook.seen]
    assert events[:3] == [("alarm", 3)] * 3
    assert [window for _, window in events[3:]] == sorted({window for _, window in events[3:]})
    assert events[-1][0] == "normal"
    body = hook.seen[-1][2]
    assert body["stream"].startswith("people.csv")
    assert body["tracker"] == "run.driftline"
    _, err = said()
    assert "not delivered" not in err


@pytest.mark.full
def test_watch_goes_on_though_nobody_listens(rows, said):
    code = run(["watch", rows, "--window", "300", "--json", "--webhook", "http://127.0.0.1:9/hook/secret"])
    assert code == 0
    out, err = said()
    assert len(out.splitlines()) == 8
    assert "http://127.0.0.1:9: " in err
    assert "not delivered: alarm in window 3" in err
    assert "secret" not in err


def test_every_window_or_only_alarms(rows, hook):
    run(["watch", rows, "--window", "300", "--webhook", hook.url, "--webhook-on", "window"])
    assert [body["record"]["window"] for _, _, body in hook.seen] == list(range(8))
    hook.seen.clear()
    run(["watch", rows, "--window", "300", "--webhook", hook.url, "--webhook-on", "alarm"])
    assert [body["record"]["window"] for _, _, body in hook.seen] == [3]


WRITE = """
import json, os, sys
record = json.load(sys.stdin)
found = {name: value for name, value in os.environ.items() if name.startswith("DRIFTLINE_")}
with open("told.jsonl", "a") as file:
    file.write(json.dumps([sys.argv[1:], record, found]) + "\\n")
"""


def told(path="told.jsonl"):
    with open(path) as file:
        return [json.loads(line) for line in file]


def test_a_command_gets_the_record(rows, tmp_path):
    (tmp_path / "tell.py").write_text(WRITE)
    command = f"{sys.executable} tell.py 'one word' $HOME"
    run(["watch", rows, "--window", "300", "--tracker", "run.driftline", "--on-alarm", command])
    ((arguments, record, variables),) = told()
    assert arguments == ["one word", "$HOME"]  # there is no shell
    assert (record["window"], record["signal"]) == (3, "alarm")
    assert variables["DRIFTLINE_WINDOW"] == "3"
    assert variables["DRIFTLINE_TRACKER"] == "run.driftline"
    assert float(variables["DRIFTLINE_DRIFT"]) == record["divergences"]["reverse_kl"]["value"]


def test_no_data_becomes_a_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tell.py").write_text(WRITE)
    bad = "$(touch owned); `touch owned`\n\x00; touch owned"
    given = replace(letter(), record=replace(letter().record, original=bad, reason=bad), stream=bad)
    delivery.execute(f"{sys.executable} tell.py")(given)
    ((_, record, variables),) = told()
    assert record["original"] == bad
    assert "\n" not in variables["DRIFTLINE_ORIGINAL"]
    assert not os.path.exists("owned")


def test_a_command_that_fails_or_hangs_is_said():
    fails = f"{sys.executable} -c \"import sys; sys.exit('no such pager')\""
    with pytest.raises(delivery.RefusedError, match="exit code 1: no such pager"):
        delivery.execute(fails)(letter())
    began = time.monotonic()
    with pytest.raises(delivery.RefusedError, match="not done after 0 s, ended"):
        delivery.execute(f'{sys.executable} -c "import time; time.sleep(60)"', timeout=0.3)(letter())
    assert time.monotonic() - began < 30.0


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("--webhook", "ftp://example.org", "--webhook ... must be an address"),
        ("--webhook", "https://", "must be an address"),
        ("--webhook", "example.org/secret", "must be an address"),
        ("--on-alarm", "no-such-program x", "there is no such program"),
        ("--on-alarm", "echo 'open", "cannot be read: No closing quotation"),
        ("--webhook-on", "never", "never"),
    ],
)
def test_wrong_options_are_refused_at_the_start(rows, said, option, value, wanted):
    assert run(["watch", rows, "--window", "300", option, value]) == 2
    _, err = said()
    assert wanted in err
    assert "secret" not in err
