"""Server-sent events: a new window is told, listeners hold no queue, and no death of the server harms a run."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import httpx
import pytest

from driftline.monitor import read_run
from driftline.server import Address
from driftline.server._events import Hub
from driftline.server._streams import Streams
from tests.server import made
from tests.server.conftest import until


def listen(client, wanted):
    """Yield events as name and data until there were so many."""
    with client.stream("GET", "/events", timeout=30.0) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = None
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                yield name, json.loads(line[6:])
                wanted -= 1
                if not wanted:
                    return


def test_a_new_window_is_told_at_once(serving, folder):
    client, found = serving(), []
    for name, data in listen(client, 2):
        found.append((name, data))
        if name == "hello":
            made.append(folder / "quiet.driftline", [made.record(12, 0.4)])
    assert [name for name, _ in found] == ["hello", "change"]
    (_, before), (_, after) = found
    assert after["version"] != before["version"]
    assert [key.rpartition("-")[0] for key in after["streams"]] == ["quiet"]
    page = client.get("/")
    assert page.headers["x-driftline-version"] == after["version"]
    assert "window 12" in page.text


def test_a_listener_is_told_of_all_changes_it_has_missed(folder):
    streams = Streams([folder])

    async def scenario():
        hub = Hub(streams)
        streams.look()
        events = hub.events()
        await anext(events)
        for window in (12, 13):
            made.append(folder / "quiet.driftline", [made.record(window, 0.02)])
            streams.look()
        made.append(folder / "untimed.driftline", [made.record(12, 0.02, timed=False)])
        streams.look()
        told = await anext(events)
        assert hub.listeners == 1
        await events.aclose()
        assert hub.listeners == 0
        return told

    told = asyncio.run(scenario())
    assert b"quiet-" in told
    assert b"untimed-" in told
    assert b"alarm-" not in told


def test_there_is_a_limit_to_listeners(serving):
    client = serving()
    client.server.app.board.hub.most = 1
    with client.stream("GET", "/events") as first:
        lines = first.iter_lines()  # once this is gone, so is the connection
        assert next(lines)
        assert client.get("/events").status_code == 503
    until(lambda: client.server.app.board.hub.listeners == 0)


def start(*arguments, **options):
    command = [sys.executable, "-m", "driftline", "serve", *map(str, arguments), "--port", "0", "--poll", "0.1"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def address(process):
    line = process.stdout.readline()
    assert line.startswith("dashboard: http://127.0.0.1:"), line + process.stderr.read()
    return line.split()[1]


@pytest.mark.full
def test_killing_the_server_harms_no_run(folder):
    path = folder / "quiet.driftline"
    server = start(path)
    try:
        url = address(server)
        until(lambda: _answers(url))
        writer = subprocess.Popen(
            [sys.executable, "-m", "tests.server.made", str(path), "6", "0.2"], stdout=subprocess.PIPE, text=True
        )
        writer.stdout.readline()
        with httpx.stream("GET", f"{url}events") as events:
            lines = events.iter_lines()
            assert next(lines)
            server.send_signal(signal.SIGKILL)
            server.wait()
        assert writer.wait(60) == 0
    finally:
        server.kill()
    assert [record.window for record in read_run(path).records] == list(range(18))
    assert not os.path.exists(f"{path}-wal")


def _answers(url):
    try:
        return httpx.get(f"{url}readyz").status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.full
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_ends_in_order_though_pages_listen(folder, sent, code):
    server = start(folder)
    try:
        url = address(server)
        until(lambda: _answers(url))
        with httpx.stream("GET", f"{url}events", timeout=30.0) as events:
            lines = events.iter_lines()
            next(lines)
            server.send_signal(sent)
            for _ in lines:  # until the server closes it
                pass
        assert server.wait(20) == code
        assert server.stderr.read() == "driftline: stopped\n"
    finally:
        server.kill()


def test_the_command_refuses_what_is_not_there(tmp_path):
    server = start(tmp_path / "none.driftline")
    assert server.wait(30) == 2
    assert "no such tracker file or folder" in server.stderr.read()


def test_the_command_takes_a_token_from_a_file(folder):
    (folder / "token").write_text("a token of some length\n")
    server = start(folder, "--token-file", folder / "token")
    try:
        url = address(server)
        until(lambda: _answers(url))
        assert httpx.get(f"{url}metrics").status_code == 401
        wanted = {"Authorization": "Bearer a token of some length"}
        assert httpx.get(f"{url}metrics", headers=wanted).status_code == 200
    finally:
        server.kill()
        server.wait()


@pytest.mark.slow
def test_200_listeners_for_a_minute_and_memory_stays_flat(serving, folder):
    client = serving(address=Address(port=0))
    url, path = client.server.url, folder / "quiet.driftline"

    async def one(told):
        async with httpx.AsyncClient(timeout=None) as each, each.stream("GET", f"{url}events") as answer:
            async for line in answer.aiter_lines():
                told[0] += line.startswith("event: change")

    async def all_of_them(seconds):
        counts = [[0] for _ in range(200)]
        tasks = [asyncio.create_task(one(count)) for count in counts]
        sizes, end, window = [], time.monotonic() + seconds, 12
        while time.monotonic() < end:
            await asyncio.sleep(2.0)
            await asyncio.to_thread(made.append, path, [made.record(window, 0.02)])
            window += 1
            sizes.append(resident())
        await asyncio.sleep(2.0)
        held = client.server.app.board.hub.listeners
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return sizes, held, [count[0] for count in counts], window - 12

    sizes, held, told, windows = asyncio.run(all_of_them(60.0))
    assert held == 200
    assert min(told) >= windows // 2  # changes within one look are told together
    early, late = max(sizes[4:8]), max(sizes[-4:])
    assert late < early + 8 * 2**20, sizes  # in megabytes: clients and server are one process here
    until(lambda: client.server.app.board.hub.listeners == 0)


def resident():
    """Return the bytes of memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
