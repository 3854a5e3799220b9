"""The experiment in many dimensions in small: rows, known truths, going on, figures, and a verdict of the numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments.experiment import Unit
from experiments.gans.training import ContinualGAN
from experiments.high_dimensional import samples
from experiments.high_dimensional.estimators import ESTIMATORS
from experiments.high_dimensional.experiment import EXPERIMENT, Args, extras, figure, run, units, verdict
from experiments.high_dimensional.samples import GENERATORS

SMALL = Args(
    seeds=1,
    dataset="digits",
    seen=700,
    rows=200,
    new=60,
    columns=32,
    classifier_epochs=2,
    iterations=5,
    mixture=3,
    components=4,
    kliep_epochs=2,
    ridge=100.0,
    estimators=("linear-ridge", "kliep", "pca"),
)
SMALL_RUN = EXPERIMENT, SMALL, units(SMALL)


def quiet(text):
    pass


def test_rows_are_tidy_and_as_many_as_announced(frame):
    assert list(frame.columns) == ["case", "seed", "estimator", "measure", "way", "value"]
    assert frame.groupby("case", sort=False).size().to_dict() == {unit.case: unit.rows for unit in units(SMALL)}
    assert np.isfinite(frame.value).all()
    keys = ["case", "estimator", "measure", "way"]
    assert not frame.duplicated(keys).any()


def test_figures_are_drawn(folder, frame):
    drawn = figure(frame, SMALL)
    assert len(drawn.axes) == 2 * (len(GENERATORS) + 2)
    assert [t.get_text() for t in drawn.axes[0].get_yticklabels()] == [ESTIMATORS[n] for n in SMALL.estimators]
    shown = extras(folder, frame, SMALL)["samples"]
    assert [ax.get_title() for ax in shown.axes] == list(GENERATORS.values())
    assert shown.axes[0].images[0].get_array().shape == (4 * 8, 10 * 8)


def test_what_is_trained_is_kept(folder, frame, tmp_path, monkeypatch):
    """A unit that is run again loads its generator, and finds the same."""

    def forbidden(*args):
        raise AssertionError("trained again")

    monkeypatch.setattr(ContinualGAN, "learn", forbidden)
    monkeypatch.setattr(samples._Mixture, "fit", forbidden)
    for case in ("wgan-gp", "mixture"):
        again = pd.DataFrame(run(SMALL, Unit(case, 0, 0), quiet, folder / "parts" / "again"))
        before = frame[frame.case == case].reset_index()
        timed = (again.measure == "seconds").to_numpy()
        np.testing.assert_array_equal(again.value[~timed], before.value[~timed])
    with pytest.raises(AssertionError, match="trained again"):
        next(run(replace(SMALL, iterations=6), Unit("wgan-gp", 0, 0), quiet, folder / "parts" / "again"))


def test_verdict_has_its_form(frame, check_form):
    assert "One draw: variance is not judged." in check_form(verdict(frame, SMALL))


def test_estimators_are_known_and_folders_apart(tmp_path):
    with pytest.raises(ValueError, match="'nothing'"):
        units(Args(estimators=("auto", "nothing")))
    assert EXPERIMENT.place(tmp_path, Args()).name == "high-dimensional"
    assert EXPERIMENT.place(tmp_path, Args(dataset="mnist")).name == "high-dimensional-mnist"
    assert not EXPERIMENT.in_all
