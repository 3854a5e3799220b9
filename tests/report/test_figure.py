import struct
import warnings

import pytest

from driftline.report import findings, write_png
from driftline.report._figure import draw
from driftline.report._histories import ReportError


@pytest.mark.parametrize(
    "case",
    ["weekly", "only the original", "no error bars", "extreme", "long", "not a number"],
)
def test_every_run_makes_a_figure(cases, tmp_path, case):
    path = tmp_path / "run.png"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_png(path, cases[case])
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width == 1440
    assert 700 < height < 1500


def test_its_title_is_the_verdict(runs):
    figure = draw(*findings(runs.run(runs.weekly())).verdicts[0], "electricity.csv")
    assert (
        figure.get_suptitle()
        .replace("\n", " ")
        .startswith("Alarm since the week of 19 Jan 1998 (window 89): 0.670 nats")
    )
    drift, step, columns = figure.axes
    assert drift.get_title(loc="left") == "KL(current‖original) [nats], 95\xa0% interval"
    assert {text.get_text() for text in drift.get_legend().get_texts()} >= {
        "alarm",
        "warning",
        "alarm limit",
        "tolerance 0.1",
    }
    assert drift.get_xlim() == step.get_xlim()
    assert [label.get_text() for label in columns.get_yticklabels()][-1] == "nswprice"


def test_an_original_can_be_chosen(runs, tmp_path):
    write_png(tmp_path / "a.png", runs.several(), "winter <1997>")
    with pytest.raises(ReportError, match="'summer' is not in this run"):
        write_png(tmp_path / "b.png", runs.several(), "summer")
    with pytest.raises(ReportError, match="no window is complete yet"):
        write_png(tmp_path / "b.png", runs.run([]))
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_a_lower_bound_is_drawn_open_above(runs):
    drift = draw(*findings(runs.run(runs.bounds())).verdicts[0]).axes[0]
    assert "at least" in {text.get_text() for text in drift.get_legend().get_texts()}
    tops = [
        max(path.vertices[:, 1].max() for path in part.get_paths()) for part in drift.collections if part.get_paths()
    ]
    assert max(tops) > drift.get_ylim()[1]
    plain = draw(*findings(runs.run(runs.weekly(9))).verdicts[0]).axes[0]
    assert "at least" not in {text.get_text() for text in plain.get_legend().get_texts()}
