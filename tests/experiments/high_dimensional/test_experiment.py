"""The experiment in many dimensions in small: rows, known truths, going on, figures, and a verdict of the numbers."""

import numpy as np
import pandas as pd
import pytest

from experiments.experiment import Unit
from experiments.high_dimensional import experiment as module
from experiments.high_dimensional.estimators import ESTIMATORS
from experiments.high_dimensional.experiment import EXPERIMENT, Args, caption, extras, figure, run, units, verdict
from experiments.high_dimensional.samples import SPOILT

SMALL = Args(seeds=1, dataset="digits", pool=300, rows=200, new=60, epochs=2)
SMALL_RUN = EXPERIMENT, SMALL, units(SMALL)


def quiet(text):
    pass


@pytest.fixture(scope="module", autouse=True)
def _pixels():
    """Pixels instead of the pretrained network, which need not be installed, and few columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "pretrained", lambda size: lambda images: images.reshape(len(images), -1)[:, ::3])
        patch.setattr(module, "COLUMNS", 32)
        yield


def test_rows_are_tidy_and_as_many_as_announced(frame):
    assert list(frame.columns) == ["case", "seed", "estimator", "measure", "way", "value"]
    assert frame.groupby("case", sort=False).size().to_dict() == {unit.case: unit.rows for unit in units(SMALL)}
    assert np.isfinite(frame.value).all()
    keys = ["case", "estimator", "measure", "way"]
    assert not frame.duplicated(keys).any()


def test_figures_are_drawn(folder, frame):
    drawn = figure(frame, SMALL)
    assert len(drawn.axes) == 2 * (len(SPOILT) + 2)
    assert [t.get_text() for t in drawn.axes[0].get_yticklabels()] == [ESTIMATORS[n] for n in SMALL.estimators]
    shown = extras(folder, frame, SMALL)["samples"]
    assert [ax.get_title() for ax in shown.axes] == ["real", *SPOILT]
    assert shown.axes[0].images[0].get_array().shape == (4 * 8, 10 * 8)


def test_features_are_kept(folder, frame, monkeypatch):
    """A unit that is run again loads its features, and finds the same."""
    monkeypatch.setattr(module, "pretrained", None)
    again = pd.DataFrame(run(SMALL, Unit("blurred", 0, 0), quiet, folder / "parts" / "again"))
    before = frame[frame.case == "blurred"].reset_index()
    timed = (again.measure == "seconds").to_numpy()
    np.testing.assert_array_equal(again.value[~timed], before.value[~timed])


def test_the_caption_says_what_stands_for_a_gan():
    assert "blurred and noisy images instead of a GAN’s" in caption(SMALL)
    assert "samples of GANs (best)" in caption(Args(generated=("best=a.npz",)))


def test_verdict_has_its_form(frame, check_form):
    assert "One draw: variance is not judged." in check_form(verdict(frame, SMALL))


def test_estimators_are_known_and_folders_apart(tmp_path):
    with pytest.raises(ValueError, match="--estimators 'nothing' is unknown: choose from 'auto'"):
        Args(estimators=("auto", "nothing"))
    with pytest.raises(ValueError, match="--size 28 must be at least 32"):
        Args(size=28)
    assert EXPERIMENT.place(tmp_path, Args()).name == "high-dimensional"
    assert EXPERIMENT.place(tmp_path, Args(dataset="mnist")).name == "high-dimensional-mnist"
    assert not EXPERIMENT.in_all
