"""The page: rows of finished runs are kept, and figures and verdicts drawn from them come between the marks."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from experiments import page as pages
from experiments.catalogue import EXPERIMENTS
from experiments.experiment import Experiment, Results, Work
from experiments.figures import canvas
from experiments.page import KEPT, PublishingError, publish, shown, source
from experiments.provenance import engine

PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"
KEPT_RUNS = sorted(path.name for path in KEPT.glob("*/"))
MARKS = "<!-- begin {0} --><!-- end {0} -->"


@dataclass(frozen=True)
class Args:
    seeds: int = 1
    deltas: tuple[float, ...] = (0.5,)


def drawn(frame, args):
    fig, ax = canvas(1, 1)
    ax.plot(frame.value)
    return fig


RESULTS = Results(
    drawn, lambda args: "words", lambda frame, args: f"**It holds** for {args.deltas}, $x$: {frame.value.sum()}.\n"
)
EXPERIMENT = {"one": Experiment("one", "Fig. 1", "a test", {"quick": Args()}, Work(list, iter), RESULTS)}


@pytest.fixture
def finished(tmp_path):
    """Write a finished run and a page."""

    def write(name="one", engines=None, **more):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        pd.DataFrame({"case": "a", "seed": 0, "value": [1.25, 2.0]}).to_csv(folder / "results.csv", index=False)
        made = {"experiment": "one", "commits": ["abc"], "engines": engines or [engine()], "minutes": 2.0}
        about = {"command": "python -m experiments one", "made": made, "arguments": {"seeds": 1, "deltas": [0.25]}}
        (folder / "args.json").write_text(json.dumps({**about, **more}))
        return folder

    (tmp_path / "page.md").write_text("before\n<!-- begin one -->former<!-- end one -->\nafter")
    return write


def published(place, **more):
    return publish(place / "runs", place / "page.md", EXPERIMENT, place / "kept", **more)


def test_marks_are_filled_from_what_is_kept(finished, tmp_path):
    finished()
    assert published(tmp_path) == ["one"]
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- begin one -->\n```sh\npython -m experiments one\n```\n\nCommit abc; 2 minutes")
    assert "![one](figures/one.png)\n\n**It holds** for (0.25,), $x$: 3.25.\n<!-- end one -->\nafter" in text
    assert "former" not in text
    assert "Stale" not in text
    picture = (tmp_path / "figures" / "one.png").read_bytes()
    for path in sorted((tmp_path / "runs").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert published(tmp_path) == ["one"]  # the run is gone, its rows are kept
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == text
    assert (tmp_path / "figures" / "one.png").read_bytes() == picture


def test_rows_of_an_engine_with_other_numbers_are_stale(finished, tmp_path):
    finished(engines=(engine(), (0.0, *engine()[1:])))
    published(tmp_path, figures=False)
    assert "**Stale: the numbers of driftline's default have changed since" in (tmp_path / "page.md").read_text()


def test_further_pictures_are_copied_and_stay(finished, tmp_path):
    (finished() / "samples.png").write_bytes(b"picture")
    for _ in range(2):
        published(tmp_path, figures=False)
        assert (
            "![one](figures/one.png)\n\n![one-samples](figures/one-samples.png)" in (tmp_path / "page.md").read_text()
        )
        (tmp_path / "runs" / "one" / "samples.png").unlink(missing_ok=True)
    assert (tmp_path / "figures" / "one-samples.png").read_bytes() == b"picture"


def test_nothing_is_published_by_halves(finished, tmp_path):
    finished()
    page, before = tmp_path / "page.md", (tmp_path / "page.md").read_text()
    finished("one-b")
    with pytest.raises(PublishingError, match="no marks <!-- begin one-b --> "):
        published(tmp_path)
    page.write_text(before := before + MARKS.format("one-b"))
    (tmp_path / "runs" / "one-b" / "args.json").unlink()
    with pytest.raises(PublishingError, match=r"one-b lacks args\.json"):
        published(tmp_path)
    (tmp_path / "runs" / "one-b" / "args.json").write_text(
        (tmp_path / "runs" / "one" / "args.json").read_text().replace("seeds", "sowings")
    )
    with pytest.raises(PublishingError, match=r"arguments of one have changed \(sowings\): run it again"):
        published(tmp_path)
    assert page.read_text() == before
    assert not (tmp_path / "figures").exists()
    assert not (tmp_path / "kept").exists()
    with pytest.raises(PublishingError, match="no finished run of one"):
        publish(tmp_path / "none", page, EXPERIMENT, tmp_path / "kept")
    with pytest.raises(PublishingError, match="there is no page"):
        publish(tmp_path / "runs", tmp_path / "none.md", EXPERIMENT, tmp_path / "kept")


@pytest.mark.parametrize("name", KEPT_RUNS)
def test_the_page_says_what_the_kept_rows_say(name):
    """Byte for byte; whether rows are stale depends on the engine of today, and is not asked here."""
    page = PAGE.read_text(encoding="utf-8")
    body = page.partition(f"<!-- begin {name} -->\n")[2].partition(f"\n<!-- end {name} -->")[0]
    run = pages._runs(KEPT, EXPERIMENTS)[name]
    pictures = re.findall(r"!\[.*\]\(figures/(.*)\)", body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "is_stale", lambda made: False)
        said = shown(run.about, run.table, EXPERIMENTS, pictures)
    assert re.sub(r" \*\*Stale.*\*\*", "", body) == said


@pytest.mark.parametrize("name", KEPT_RUNS)
def test_a_figure_of_the_page_is_drawn_from_the_kept_rows(name):
    with Image.open(PAGE.parent / "figures" / f"{name}.png") as picture:
        assert picture.info.get("Source") == source(KEPT / name), f"{name}.png: run python -m experiments publish"


def test_every_figure_of_the_page_has_kept_rows():
    """Nobody can draw a figure again without its rows; further pictures, such as samples, belong to a kept run."""
    text = PAGE.read_text(encoding="utf-8")
    bodies = dict(re.findall(r"(?s)<!-- begin (\S+) -->(.*?)<!-- end \1 -->", text))
    shown_in = {name: re.findall(r"!\[.*\]\(figures/(.*)\)", body) for name, body in bodies.items()}
    assert {name for name, pictures in shown_in.items() if pictures} == set(KEPT_RUNS)
    assert sum(map(len, shown_in.values())) == text.count("](figures/")
    for name, pictures in shown_in.items():
        assert all(picture == f"{name}.png" or picture.startswith(f"{name}-") for picture in pictures)
        assert all((PAGE.parent / "figures" / picture).is_file() for picture in pictures)


RESTS_ON = {
    "Fig. 1": ["variance"],
    "Fig. 2": ["covariate-shift"],
    "Fig. 3a": ["tracing-single-500"],
    "Fig. 3c": ["tracing-multiple"],
    "Sec. 3.3, 4.2": ["step-size"],
    "Fig. 5": ["gans"],
    "suppl. Tab. 1": ["measures"],
    "Fig. 7b": ["measures"],
    "Tab. 2": ["high-dimensional"],
    "abstract": ["tracing-single"],
}


def test_numbers_of_the_claims_are_those_of_their_sections():
    """The table is written by hand: new rows, such as further seeds, must not leave old numbers in it."""
    text = PAGE.read_text(encoding="utf-8")
    claims = re.search(r"(?s)## What became.*?\n\|---.*?\n(.*?)\n\n", text)[1].splitlines()
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in claims]
    assert {len(cells) for cells in found} == {4}
    for where, _, said, scale in found:
        [runs] = [runs for key, runs in RESTS_ON.items() if key in where]
        bodies = "".join(text.partition(f"<!-- begin {run} -->")[2].partition("<!-- end")[0] for run in runs)
        known = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", bodies)]
        for number in re.findall(r"\d+\.\d+", said):
            assert float(number) in [round(k, len(number.partition(".")[2])) for k in known], (where, number)
        assert scale


def test_published_verdicts_have_their_form(check_form):
    bodies = re.findall(r"<!-- begin (\S+) -->\n(.*?)<!-- end \1 -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    verdicts = {name: body[body.rindex("![") :].partition("\n\n")[2] for name, body in bodies if "![" in body}
    assert len(verdicts) >= 6  # those of all that need no download
    for verdict in verdicts.values():
        check_form(verdict)
