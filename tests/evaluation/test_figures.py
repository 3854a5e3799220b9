"""Figures show what the tables hold, read well from 2 to 12 tasks, and leave matplotlib's state alone."""

import subprocess
import sys
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import LogNorm

from driftline.evaluation import ContinualEvaluation, matrix_figure, measures_figure, prd_figure, samples_figure
from driftline.evaluation import _scores as scores
from driftline.evaluation._figures import _short
from driftline.evaluation.metrics import prd


def table(tasks=4, factor=1.0, growth=0.1, measures=("js", "fid"), errors=True, name="task {}"):
    """Return readings that grow by ``growth`` with every task learned."""
    names = [name.format(i) for i in range(tasks)]
    rows = []
    for t in range(tasks):
        for k in range(t + 1):
            for measure in measures:
                value = factor * (0.05 + growth * (t - k))
                error = 0.01 if errors and measure == "js" else np.nan
                rows.append(
                    scores.Reading(
                        names[t], names[k], measure, value, error, value - 2 * error, value + 2 * error, 0.01
                    )
                )
    return pd.DataFrame(rows)


def rendered(figure):
    figure.canvas.draw()
    return figure


def overlaps(axes):
    """Say whether two visible tick labels of an axis overlap, which nobody can read."""
    found = False
    for axis in (axes.xaxis, axes.yaxis):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels() if label.get_text()]
        upright = axis.get_ticklabels()[0].get_rotation() in (0.0, 90.0) if boxes else False
        if upright:
            found = found or any(a.overlaps(b) for a, b in pairwise(boxes))
    return found


def test_lines_are_the_means_and_bands_their_intervals():
    judge = {"good": table(growth=0.0), "bad": table()}
    figure = rendered(measures_figure(judge))
    panel = figure.axes[0]
    found = {line.get_label(): line.get_ydata() for line in panel.lines}
    np.testing.assert_allclose(found["bad"], scores.averages(judge["bad"]).query("measure == 'js'").value)
    np.testing.assert_allclose(found["real against real"], 0.01)
    assert len(panel.lines) == 3  # a single floor, since both models have the same one
    band = panel.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() - 0.05 == pytest.approx(1.96 * 0.01)  # the first task alone has the widest band


def test_a_measure_without_errors_has_no_band():
    panel = measures_figure(table(), ["fid"]).axes[0]
    assert all(np.isnan(c.get_paths()[0].vertices).all() if c.get_paths() else True for c in panel.collections)
    panel = measures_figure(table(errors=False), ["js"]).axes[0]
    assert not any(len(c.get_paths()) and np.isfinite(c.get_paths()[0].vertices).any() for c in panel.collections)


def test_scales_are_logarithmic_where_values_span_decades():
    wide = {"good": table(growth=0.0), "bad": table(factor=50.0)}
    assert rendered(measures_figure(wide)).axes[0].get_yscale() == "log"
    assert isinstance(matrix_figure(wide, "js").axes[0].images[0].norm, LogNorm)
    assert measures_figure({"good": table(growth=0.0)}).axes[0].get_yscale() == "linear"
    below = table(factor=50.0, growth=1.0).assign(floor=-0.1)
    figure = measures_figure({"good": table(growth=0.0).assign(floor=-0.1), "bad": below})
    assert [text.get_text() for text in figure.axes[0].texts] == ["real against real: 0 or less"]


def test_floors_that_change_their_sign_are_not_drawn_on_a_logarithmic_scale():
    wide = table(factor=50.0, growth=1.0)
    floors = np.where(wide["after"] == "task 1", -0.001, 0.001)
    panel = rendered(measures_figure({"bad": wide.assign(floor=floors)})).axes[0]
    assert panel.get_yscale() == "log"
    assert [line.get_label() for line in panel.lines] == ["bad"]
    assert [text.get_text() for text in panel.texts] == ["real against real: partly 0 or less"]
    assert rendered(measures_figure(wide.assign(floor=floors))).legends == []  # a single line needs no legend


def test_the_floor_of_one_task_is_seen():
    """A dashed line through a single point would have no length."""
    panel = rendered(measures_figure({"m": table(1)})).axes[0]
    line = next(line for line in panel.lines if line.get_label() == "real against real")
    assert np.ptp(line.get_transform().transform(line.get_xydata())[:, 0]) > 10
    np.testing.assert_allclose(line.get_ydata(), 0.01)


def test_names_that_are_digits_survive_a_file(tmp_path):
    table(name="{}").to_csv(tmp_path / "table.csv", index=False)
    found = pd.read_csv(tmp_path / "table.csv")
    for figure in (measures_figure(found), matrix_figure(found, "js")):
        shown = [label.get_text() for label in rendered(figure).axes[0].get_xticklabels()]
        assert shown == ["0", "1", "2", "3"]


@pytest.mark.parametrize("name", ["a task with a long name {}", "task {} has its number in the middle"])
def test_long_names_leave_room_for_panels(name):
    models = {f"model with a long name {i}": table(12, 1.0 + i, name=name) for i in range(3)}
    for figure in (measures_figure(models), matrix_figure(models, "js")):
        rendered(figure)
        assert not any(overlaps(axes) for axes in figure.axes)
        assert all(axes.get_window_extent().height > 80 for axes in figure.axes[:2])  # at 100 dots per inch
        shown = [label.get_text() for label in figure.axes[0].get_xticklabels()]
        assert len(set(shown)) == 12
        assert max(map(len, shown)) <= 14


def test_cells_hold_the_matrix_and_nothing_above_its_diagonal():
    given = table(3)
    panel = rendered(matrix_figure({"a": given, "b": given}, "js")).axes[1]
    assert [text.get_text() for text in panel.texts] == [".050", ".15", ".050", ".25", ".15", ".050"]
    assert np.ma.getmaskarray(panel.images[0].get_array())[np.triu_indices(3, 1)].all()


@pytest.mark.parametrize("tasks", [2, 5, 12])
def test_labels_do_not_overlap(tasks):
    models = {"one": table(tasks), "another": table(tasks, factor=2.0)}
    for figure in (rendered(measures_figure(models)), rendered(matrix_figure(models, "js"))):
        assert not any(overlaps(axes) for axes in figure.axes)
    cells = [text.get_window_extent() for text in figure.axes[0].texts]
    assert not any(a.overlaps(b) for i, a in enumerate(cells) for b in cells[:i])


def test_curves_go_from_recall_to_precision():
    x = np.random.default_rng(0).normal(0, 1, (400, 2))
    found = prd(x, x[x[:, 0] > 0], runs=2)  # precise, but half of the real samples are missing
    panel = rendered(prd_figure({"half": found})).axes[0]
    line = panel.lines[0]
    assert line.get_xdata().max() == pytest.approx(found.recall.max())
    assert line.get_ydata().max() > 0.95 > line.get_xdata().max()
    assert line.get_label() == f"half: F8 {found.f_8:.2f}, F1/8 {found.f_1_8:.2f}"
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("recall", "precision")


def test_samples_are_one_row_a_task():
    images = np.arange(5 * 2 * 3.0).reshape(5, 2, 3)
    figure = rendered(samples_figure({"m": {"a": images, "b": images[:2]}, "n": {"a": images}}, columns=4))
    picture = np.asarray(figure.axes[0].images[0].get_array().filled(-1))
    assert picture.shape == (2 * (2 + 1), 4 * (3 + 1))
    np.testing.assert_array_equal(picture[:2, 4:7], images[1])
    assert (picture[3:, 8:] == -1).all()  # b has two images
    assert [axes.get_title() for axes in figure.axes] == ["m", "n"]
    coloured = samples_figure({"a": np.full((2, 4, 4, 3), 255, np.uint8)}).axes[0].images[0].get_array()
    assert coloured.shape == (5, 10, 3)
    assert coloured.max() == 1.0


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"measure='kid' has not been read: choose from \['js', 'fid'\]"):
        measures_figure(table(), ["kid"])
    with pytest.raises(ValueError, match="no model"):
        matrix_figure({}, "js")
    with pytest.raises(ValueError, match="'m' has no readings yet"):
        measures_figure({"m": ContinualEvaluation()})
    with pytest.raises(TypeError, match="not list"):
        measures_figure({"m": [1]})
    with pytest.raises(ValueError, match=r"'a' must be images .* got \(2, 3, 8, 8\); channels come last"):
        samples_figure({"a": np.zeros((2, 3, 8, 8))})
    with pytest.raises(ValueError, match="one shape"):
        samples_figure({"a": np.zeros((2, 8, 8)), "b": np.zeros((2, 4, 4))})
    with pytest.raises(ValueError, match="colours from -1 to 1: use 0 to 1"):
        samples_figure({"a": np.linspace(-1, 1, 2 * 8 * 8 * 3).reshape(2, 8, 8, 3)})
    for empty in ({"m": {}}, {"m": {}, "n": {"a": np.zeros((2, 8, 8))}}):
        with pytest.raises(ValueError, match=r"model\(s\) \['m'\] have no samples"):
            samples_figure(empty)
    with pytest.raises(ValueError, match="no measures are given"):
        measures_figure(table(), [])
    with pytest.raises(ValueError, match="columns=0 must be at least 1"):
        measures_figure(table(), columns=0)
    with pytest.raises(ValueError, match="columns=0 must be at least 1"):
        samples_figure({"a": np.zeros((2, 8, 8))}, columns=0)
    with pytest.raises(ValueError, match="measure='js' has no finite reading"):
        matrix_figure(table().assign(value=np.nan), "js")
    with pytest.raises(ValueError, match="no curves"):
        prd_figure({})


def test_matplotlib_is_left_alone():
    before = dict(mpl.rcParams)
    measures_figure(table())
    matrix_figure(table(), "js")
    samples_figure({"a": np.zeros((2, 8, 8))})
    assert dict(mpl.rcParams) == before
    code = (
        "import sys, driftline.evaluation; found = ['matplotlib' in sys.modules]\n"
        "import driftline.evaluation; print(found, 'matplotlib.pyplot' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[False] False"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0996, ".10"),
        (0.0994, ".099"),
        (0.996, "1.0"),
        (9.96, "10"),
        (-0.007, "−.007"),
        (-0.0001, "0"),
        (1e6, "1e+06"),
    ],
)
def test_cells_have_two_digits(value, text):
    assert _short(value) == text
