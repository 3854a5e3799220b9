"""The GAN experiment in small, on scikit-learn's digits: rows, going on, both figures, and a verdict of the numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments import catalogue
from experiments.__main__ import main
from experiments.gans import samples
from experiments.gans.experiment import EXPERIMENT, Args, extras, figure, run, units, verdict
from experiments.gans.judge import AGREEMENT, DIVERGENCES, STATIC, WARNED, Judge
from experiments.gans.training import ContinualGAN
from experiments.parts import unit_folder

SMALL = Args(
    dataset="digits",
    tasks=2,
    models=("wgan",),
    iterations=20,
    batch=32,
    real=100,
    generated=150,
    vae_epochs=2,
    classifier_width=0.125,
    classifier_epochs=15,
)
TRAINING, JUDGING = units(SMALL)
SMALL_RUN = EXPERIMENT, SMALL, [TRAINING, JUDGING]


@pytest.fixture(scope="module")
def judged(frame):
    return frame[~frame.measure.isin(samples.MEASURES)]


def test_samples_of_all_classes_are_kept_after_each_task(folder, frame):
    for task in (0, 1):
        found = samples.read(folder, SMALL, "wgan", 0, task)
        assert list(found) == list(range(task + 1))
        assert all(images.shape == (150, 8, 8) for images in found.values())
        assert all(0.0 <= images.min() <= images.max() <= 1.0 for images in found.values())
    assert samples.read(folder, replace(SMALL, iterations=21), "wgan", 0, 0) is None
    assert samples.read(folder, replace(SMALL, real=50, device="auto"), "wgan", 0, 0) is not None  # not the training's
    trained = frame[frame.measure.isin(samples.MEASURES)]
    assert trained.task.tolist() == [1, 1, 2, 2]
    assert (trained[trained.measure == samples.SECONDS].value > 0).all()
    assert (trained[trained.measure == samples.DIVERGED].value == 0).all()
    left = {path.name for path in unit_folder(folder, SMALL, TRAINING).iterdir()}
    assert left == {"samples-1.npz", "samples-2.npz"}


def test_an_interrupted_training_goes_on_from_its_last_task(folder, tmp_path, monkeypatch):
    work = unit_folder(tmp_path, SMALL, TRAINING)
    steps = run(SMALL, TRAINING, lambda text: None, work)
    next(steps)
    steps.close()
    assert {p.name for p in work.iterdir()} == {"samples-1.npz", "rows.json", "state-1.safetensors"}
    learned, learn = [], ContinualGAN.learn
    monkeypatch.setattr(ContinualGAN, "learn", lambda gan, *rest: learned.append(gan.learned) or learn(gan, *rest))
    assert [row["task"] for row in run(SMALL, TRAINING, lambda text: None, work)] == [1, 1, 2, 2]
    assert learned == [1]
    one, two = (samples.read(place, SMALL, "wgan", 0, 1) for place in (folder, tmp_path))
    np.testing.assert_array_equal(one[0], two[0])


def test_a_training_that_diverges_is_recorded(tmp_path, monkeypatch):
    """It leaves the samples it has made, and no later ones."""

    def learn(gan, real, progress):
        if gan.learned == 1:
            raise FloatingPointError("gone")
        gan.learned += 1

    monkeypatch.setattr(ContinualGAN, "learn", learn)
    three = replace(SMALL, tasks=3)
    rows = pd.DataFrame(run(three, TRAINING, lambda text: None, unit_folder(tmp_path, three, TRAINING)))
    assert rows[rows.measure == samples.DIVERGED].value.tolist() == [0.0, 1.0, 1.0]
    assert samples.read(tmp_path, three, "wgan", 0, 0) is not None
    assert samples.read(tmp_path, three, "wgan", 0, 1) is None
    assert not samples.grid(tmp_path, three, "wgan", 0, 2)[1].any()


def test_a_training_alone_has_its_figure_and_verdict(frame, check_form):
    alone = frame[frame.measure.isin(samples.MEASURES)]
    assert figure(alone, SMALL).axes[0].get_ylabel() == "minutes"
    assert check_form(verdict(alone, SMALL)).startswith("**1 training finished, none diverged.**")
    lost = alone.assign(value=alone.value.where(alone.measure != samples.DIVERGED, alone.task - 1))
    assert "| WGAN | 0 | 2 | 0 | at task 2 |" in check_form(verdict(lost, SMALL))


def test_rows_are_tidy(judged):
    frame = judged
    assert list(frame.columns) == ["case", "seed", "task", "original", "measure", "value", "low", "high", "floor"]
    assert len(frame) == JUDGING.rows
    assert set(zip(frame.task, frame.original, strict=True)) == {(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)}
    assert set(frame.measure) == {*DIVERGENCES, *(STATIC + m for m in DIVERGENCES), "fid", "kid", AGREEMENT, WARNED}
    assert np.isfinite(frame.value).all()
    assert np.isfinite(frame.floor[frame.measure != WARNED]).all()
    assert (frame.value[frame.measure == WARNED] >= 0).all()  # 100 rows of 64 features go the wide way, without doubts
    assert frame[frame.measure == AGREEMENT].value.between(0, 1).all()
    assert frame[frame.measure == AGREEMENT].floor.gt(0.5).all()


def test_cdre_is_the_static_estimate_at_a_task_s_first_reading(judged):
    """Until features move there is one step, from real to generated: the two estimates are one."""
    first = judged[judged.task == 1].set_index("measure").value
    for measure in DIVERGENCES:
        assert first[measure] == pytest.approx(first[STATIC + measure], rel=1e-6)


def test_an_interrupted_judging_goes_on_from_its_last_task(folder, judged, monkeypatch):
    """The first task is not judged again, and the same rows come out as without an interruption."""
    work = folder / "parts" / "again"
    steps = run(SMALL, JUDGING, lambda text: None, work)
    for _ in range(12):  # the first task's rows
        next(steps)
    steps.close()
    begun, begin = [], Judge.begin
    monkeypatch.setattr(Judge, "begin", lambda judge, task: begun.append(task) or begin(judge, task))
    rows = pd.DataFrame(run(SMALL, JUDGING, lambda text: None, work))
    assert begun == [1]
    np.testing.assert_array_equal(rows.value, judged.value)


def test_figures_are_drawn(folder, frame):
    drawn = figure(frame, SMALL)
    assert [ax.get_title() for ax in drawn.axes[:3]] == ["FID (keeps real)", "KID (keeps real)", "classifier agrees"]
    found = extras(folder, frame, SMALL)["samples"]
    assert found.axes[0].get_title().startswith("WGAN")
    assert found.axes[0].images[0].get_array().shape == (2 * 8, 2 * 2 * 8)


def test_a_verdict_on_one_model_compares_nothing(frame, check_form):
    said = check_form(verdict(frame, SMALL))
    assert "| measure | CDRE within 25% |" in said
    assert "reverse KL is" not in said


def test_all_leaves_it_out(tmp_path, monkeypatch):
    ran = []

    def execute(experiment, args, out, **more):
        ran.append(experiment.name)
        folder = experiment.place(out, args)
        folder.mkdir()
        (folder / "verdict.md").write_text("fine")

    monkeypatch.setattr("experiments.__main__.execute", execute)
    assert main(["all", "--out", str(tmp_path)]) == 0
    assert ran == [name for name, experiment in catalogue.EXPERIMENTS.items() if experiment.in_all]
    assert "gans" not in ran
    assert main(["gans", "--dataset", "mnist", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "gans-mnist").is_dir()  # datasets do not overwrite each other


def test_units_are_models_by_seed_and_the_slowest_is_first():
    assert [u.case for u in units(Args(seeds=2))][:4] == ["wgan-gp", "wgan", "fgan-rvkl", "fgan-js"]
    assert [u.stage for u in units(Args(seeds=2))] == [0] * 8 + [1] * 8
    assert len(units(Args(estimator="none"))) == 4
    with pytest.raises(ValueError, match="--models gan: choose among wgan, "):
        units(Args(models=("gan",)))
    with pytest.raises(ValueError, match="--training wild is unknown: choose one of guarded, authors"):
        units(Args(training="wild"))
