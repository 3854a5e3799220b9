"""``driftline report``: a page, a figure, or both."""

from pathlib import Path

from driftline.cli import run


def test_report(copy, said):
    assert run(["report", "run.driftline", "--out", "page.html", "--png", "page.png"]) == 0
    assert said()[0].split() == ["page.html", "page.png"]
    assert Path("page.png").read_bytes().startswith(b"\x89PNG")
    assert run(["report", "run.driftline"]) == 0
    assert Path("report.html").exists()
