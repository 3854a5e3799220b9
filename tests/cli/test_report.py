"""``driftline report``: a page, a figure, or both."""

import sys
from pathlib import Path

import pytest

from driftline.cli import run


@pytest.mark.figures
def test_report(copy, said):
    assert run(["report", "run.driftline", "--out", "page.html", "--png", "page.png"]) == 0
    assert said()[0].split() == ["page.html", "page.png"]
    assert Path("page.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_alone(copy):
    assert run(["report", "run.driftline"]) == 0
    assert Path("report.html").exists()


@pytest.mark.parametrize("command", ["report run.driftline --png", "watch people.csv --window 300 --report"])
def test_a_figure_without_matplotlib_names_the_extra_at_once(copy, said, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    *words, option = command.split()
    assert run([*words, option, "page.png"]) == 2
    wanted = f"driftline: {option} page.png needs matplotlib: pip install 'driftline[figures]'\n"
    assert said() == ("", wanted)
    assert not Path("page.png").exists()


def test_a_network_without_pytorch_names_the_extra(copy, said, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run(["watch", "people.csv", "--window", "300", "--model", "mlp"]) == 2
    assert "driftline: --model mlp needs PyTorch: pip install 'driftline[networks]'\n" in said()[1]
