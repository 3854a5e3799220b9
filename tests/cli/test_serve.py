"""``driftline serve`` and ``driftline demo --serve``: what they refuse, and the words with which they begin."""

import sys
import time

import pytest

from driftline.cli import run


@pytest.mark.parametrize("command", [["serve", "run.driftline"], ["demo", "--serve"]])
def test_without_its_extra_it_names_it(copy, said, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert run(command) == 2
    wanted = "driftline serve" if command[0] == "serve" else "driftline demo --serve"
    assert f"{wanted} needs FastAPI: pip install 'driftline[serve]'" in said()[1]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--host", "0.0.0.0"], "can be reached by others: give a token"),
        (["--host", "0.0.0.0", "--token", "short"], "16 characters or more"),
        (["--token", "a", "--token-file", "people.csv"], "give the token once"),
        (["--token", "a", "--without-token"], "leave out --without-token"),
        (["--token-file", "none.txt"], "none.txt: No such file or directory"),
        (["--port", "99999"], "'--port'"),
    ],
)
def test_what_would_be_unsafe_or_wrong_is_refused(copy, said, options, wanted):
    pytest.importorskip("fastapi", reason="[serve] is not installed")
    assert run(["serve", "run.driftline", *options]) == 2
    assert wanted in said()[1]


def test_the_demo_can_be_watched_as_it_is_written(tmp_path, said, monkeypatch):
    pytest.importorskip("fastapi", reason="[serve] is not installed")
    import urllib.request

    from driftline import server

    opened, seen = [], []
    monkeypatch.setattr("driftline.cli._serve.webbrowser.open", opened.append)

    def waited(self):
        """Look at the dashboard instead of waiting for Ctrl-C."""
        end = time.monotonic() + 30
        while time.monotonic() < end and not (opened and any("3 windows" in page for page in seen)):
            with urllib.request.urlopen(self.url) as answer:
                seen.append(answer.read().decode())
            time.sleep(0.1)

    monkeypatch.setattr(server.Background, "wait", waited)
    assert run(["demo", "--folder", str(tmp_path), "--weeks", "3", "--orders", "500", "--serve", "--port", "0"]) == 0
    out, _ = said()
    assert "dashboard: http://127.0.0.1:" in out
    assert "The dashboard stays at http://127.0.0.1:" in out
    assert "driftline serve" in out
    assert "3 windows" in seen[-1]
    assert opened[0] in out
