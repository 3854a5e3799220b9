"""The page: figures and verdicts come between the marks, and only there."""

import json
import re
from pathlib import Path

import pytest

from experiments.page import PublishingError, publish


@pytest.fixture
def finished(tmp_path):
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "verdict.md").write_text("**It holds** with \\1 and $x$.\n", encoding="utf-8")
    (folder / "figure.png").write_bytes(b"picture")
    (folder / "args.json").write_text(json.dumps({"command": "python -m experiments one --scale quick"}))
    return tmp_path


def test_marks_are_filled_again_and_again(finished):
    page = finished / "page.md"
    page.write_text("before\n<!-- begin one -->stale<!-- end one -->\nafter <!-- begin two --><!-- end two -->")
    for _ in range(2):
        assert publish(finished / "runs", page, ["one", "two"]) == ["one"]
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- begin one -->\n```sh\npython -m experiments one --scale quick\n```")
    assert text.count("**It holds** with \\1 and $x$.") == 1
    assert text.endswith("<!-- end one -->\nafter <!-- begin two --><!-- end two -->")
    assert "stale" not in text
    assert (finished / "figures" / "one.png").read_bytes() == b"picture"


def test_further_figures_are_shown_too(finished):
    (finished / "runs" / "one" / "samples.png").write_bytes(b"more")
    page = finished / "page.md"
    page.write_text("<!-- begin one --><!-- end one -->")
    assert list(publish(finished / "runs", page, ["one"])) == ["one"]
    assert "![one](figures/one.png)\n\n![one-samples](figures/one-samples.png)" in page.read_text(encoding="utf-8")
    assert (finished / "figures" / "one-samples.png").read_bytes() == b"more"


def test_a_page_without_marks_is_refused_and_kept(finished):
    page = finished / "page.md"
    page.write_text("nothing here")
    with pytest.raises(PublishingError, match=r"no marks <!-- begin one --> and <!-- end one -->"):
        publish(finished / "runs", page, ["one"])
    assert page.read_text() == "nothing here"


def test_nothing_is_published_by_halves(finished):
    """A second run lacks its figure: neither its verdict nor the first one's figure may reach the page."""
    page = finished / "page.md"
    page.write_text("<!-- begin one --><!-- end one --><!-- begin two --><!-- end two -->")
    before = page.read_text()
    other = finished / "runs" / "two"
    other.mkdir()
    (other / "verdict.md").write_text("fine")
    with pytest.raises(PublishingError, match=r"two lacks args\.json, figure\.png"):
        publish(finished / "runs", page, ["one", "two"])
    assert page.read_text() == before
    assert not (finished / "figures").exists()
    with pytest.raises(PublishingError, match="no finished run of three"):
        publish(finished / "runs", page, ["three"])
    with pytest.raises(PublishingError, match="there is no page"):
        publish(finished / "runs", finished / "none.md", ["one"])


def test_published_verdicts_have_their_form(check_form):
    page = Path(__file__).parents[2] / "docs" / "reproduction.md"
    bodies = re.findall(r"<!-- begin (\S+) -->\n(.*?)<!-- end \1 -->", page.read_text(encoding="utf-8"), re.DOTALL)
    verdicts = {name: body[body.rindex("![") :].partition("\n\n")[2] for name, body in bodies if "![" in body}
    assert len(verdicts) >= 6  # those of all that need no download
    for verdict in verdicts.values():
        check_form(verdict)
