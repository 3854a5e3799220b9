"""The demo experiments in small, on scikit-learn's digits: samples, noises, truths, rows, figures, verdicts."""

import numpy as np
import pandas as pd
import pytest

from driftline.features import ClassifierFeatures
from experiments.__main__ import main
from experiments.experiment import Unit
from experiments.measures.cases import CLEAN, HALVES, TRUTHS
from experiments.measures.experiment import EXPERIMENT, Args, caption, extras, figure, run, units, verdict
from experiments.measures.readings import CODE, CURVE, DEFAULT, HELD, HELD_OUT, KLIEP, LINEAR, NONE
from experiments.parts import part_path

SMALL = Args(
    seeds=1,
    dataset="digits",
    rows=200,
    pixel_rows=300,
    held=100,
    epochs=3,
    subsets=3,
    angles=11,
    classifier_width=0.125,
    classifier_epochs=15,
)
SMALL_RUN = EXPERIMENT, SMALL, units(SMALL)


def test_rows_are_tidy(frame):
    assert list(frame.columns) == ["case", "seed", "estimator", "measure", "value", "truth", "at"]
    assert np.isfinite(frame.value).all()
    on_pixels, on_features = frame[~frame.case.isin(HALVES)], frame[frame.case.isin(HALVES)]
    divergences = {*TRUTHS, *(HELD + m for m in HELD_OUT)}
    assert set(on_pixels.measure) == {"fid", "kid"} | divergences
    assert set(on_pixels.estimator) == {NONE, DEFAULT, LINEAR, KLIEP, CODE}
    assert set(on_features.measure) == {"fid", "kid", "f_8", "f_1_8", "precision", "recall", CURVE} | divergences
    assert set(on_features.estimator) == {NONE, DEFAULT, KLIEP, CODE}
    assert (on_features.measure == CURVE).sum() == 2 * SMALL.angles
    assert frame[frame.measure.isin(divergences)].truth.notna().all()
    assert frame[(frame.case == CLEAN) & (frame.estimator == DEFAULT)].truth.eq(0.0).all()


def test_what_is_infinite_reads_larger(frame):
    """KL(P‖Q) is log 2 with half the classes in P; the other way it is infinite. PRD's recall goes along."""
    found = frame[frame.estimator == DEFAULT].set_index(["case", "measure"]).value
    assert found["P half", f"{HELD}kl"] < found["Q half", f"{HELD}kl"]
    assert found["Q half", f"{HELD}reverse_kl"] < found["P half", f"{HELD}reverse_kl"]
    scores = frame[frame.estimator == NONE].set_index(["case", "measure"]).value
    assert scores["P half", "f_8"] > scores["Q half", "f_8"]
    assert scores["P half", "f_1_8"] < scores["Q half", "f_1_8"]


def test_a_unit_run_again_finds_the_same_and_does_not_train_the_classifier(folder, frame, monkeypatch):
    monkeypatch.setattr(ClassifierFeatures, "fit", None)
    unit = Unit("Q half", 0, 0)
    again = pd.DataFrame(run(SMALL, unit, lambda text: None, part_path(folder, SMALL, unit).with_suffix("")))
    np.testing.assert_allclose(again.value, frame[frame.case == "Q half"].value, rtol=1e-9)


def test_figures_are_drawn(folder, frame):
    titles = [ax.get_title() for ax in figure(frame, SMALL).axes]
    assert titles == 2 * ["FID", "KID", "KL(P‖Q)", "KL(Q‖P)", "Jensen-Shannon", "Hellinger²"]
    found = extras(folder, frame, SMALL)
    assert sorted(found) == [CURVE, "samples"]
    assert len(found[CURVE].axes[0].lines) == 2
    assert len(found["samples"].axes) == 5
    assert "digits" in caption(SMALL)
    assert "instead of" not in caption(EXPERIMENT.presets["paper"])


def test_datasets_have_folders_of_their_own(tmp_path, monkeypatch):
    places = []

    def execute(experiment, args, out, **more):
        places.append(experiment.place(out, args))
        places[-1].mkdir()
        (places[-1] / "verdict.md").write_text("fine")

    monkeypatch.setattr("experiments.__main__.execute", execute)
    assert not EXPERIMENT.in_all
    assert main(["measures", "--out", str(tmp_path)]) == 0
    assert main(["measures", "--dataset", "fashion-mnist", "--out", str(tmp_path)]) == 0
    assert [p.name for p in places] == ["measures", "measures-fashion-mnist"]


def test_verdict_has_its_form(frame, check_form):
    assert check_form(verdict(frame, SMALL)).startswith("**Half of the classes: ")


def test_units_are_cases_by_seed_and_pixels_come_first():
    found = units(Args(seeds=2))
    assert len(found) == 14
    assert {u.case for u in found[-4:]} == set(HALVES)


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"held": 9}, {"angles": 2}, {"rate": 0.0}])
def test_plain_mistakes_are_named_by_flag_and_value(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"--{name} {value:g} must be"):
        Args(**wrong)
