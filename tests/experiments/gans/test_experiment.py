"""The GAN experiment in small, on scikit-learn's digits: kept samples, judges, going on, figures."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from driftline import ContinualDensityRatio, DensityRatio, FitDivergedError
from driftline.features import ContinualVAE
from experiments import catalogue
from experiments.__main__ import main
from experiments.gans import features, samples
from experiments.gans.experiment import EXPERIMENT, Args, extras, figure, narrowed, run, units, verdict
from experiments.gans.judges import METRICS
from experiments.gans.measures import AGREEMENT, DIVERGENCES, KEEPING
from experiments.gans.training import ContinualGAN
from experiments.labelled import load
from experiments.parts import unit_folder
from experiments.runner import UnitsFailedError, execute

SMALL = Args(
    dataset="digits",
    tasks=2,
    models=("wgan",),
    iterations=20,
    batch=32,
    generated=150,
    estimator=("paper", "default", "static"),
    rows=100,
    vae_epochs=2,
    ckliep_epochs=2,
    classifier_width=0.125,
    classifier_epochs=15,
)
TRAINING, ENCODERS, *JUDGES = units(SMALL)
SMALL_RUN = EXPERIMENT, SMALL, [TRAINING, ENCODERS, *JUDGES]


def quiet(text):
    pass


def of(case):
    return next(unit for unit in JUDGES if unit.case.startswith(f"wgan: {case}"))


@pytest.fixture(scope="module")
def judged(frame):
    return frame[frame.estimator.notna()].fillna({"encoder": "", "output": ""})


def test_samples_of_all_classes_are_kept_after_each_task(folder, frame):
    for task in (0, 1):
        found = samples.read(folder, SMALL, "wgan", 0, task)
        assert list(found) == list(range(task + 1))
        assert all(images.shape == (150, 8, 8) for images in found.values())
        assert all(0.0 <= images.min() <= images.max() <= 1.0 for images in found.values())
    assert samples.read(folder, replace(SMALL, iterations=21), "wgan", 0, 0) is None
    assert samples.read(folder, replace(SMALL, rows=50, device="auto"), "wgan", 0, 0) is not None  # not the training's
    trained = frame[frame.measure.isin(samples.MEASURES)]
    assert trained.task.tolist() == [1, 1, 2, 2]
    assert (trained[trained.measure == samples.SECONDS].value > 0).all()
    assert (trained[trained.measure == samples.DIVERGED].value == 0).all()
    left = {path.name for path in unit_folder(folder, SMALL, TRAINING).iterdir()}
    assert left == {"samples-1.npz", "samples-2.npz"}


def test_an_interrupted_training_goes_on_from_its_last_task(folder, tmp_path, monkeypatch):
    work = unit_folder(tmp_path, SMALL, TRAINING)
    steps = run(SMALL, TRAINING, quiet, work)
    next(steps)
    steps.close()
    assert {p.name for p in work.iterdir()} == {"samples-1.npz", "rows.json", "state-1.safetensors"}
    learned, learn = [], ContinualGAN.learn
    monkeypatch.setattr(ContinualGAN, "learn", lambda gan, *rest: learned.append(gan.learned) or learn(gan, *rest))
    assert [row["task"] for row in run(SMALL, TRAINING, quiet, work)] == [1, 1, 2, 2]
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
    rows = pd.DataFrame(run(three, TRAINING, quiet, unit_folder(tmp_path, three, TRAINING)))
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


def test_units_are_models_and_judges_in_stages():
    assert [unit.case for unit in units(SMALL)] == [
        "wgan",
        "wgan: vae 0",
        "wgan: paper on vae latest draw, 0",
        "wgan: default on vae own draw, 0",
        "wgan: static on vae latest draw, 0",
        "wgan: static on vae own draw, 0",
        "wgan: metrics on classifier, 0",
    ]
    assert [unit.stage for unit in units(SMALL)] == [0, 1, 2, 2, 2, 2, 2]
    assert [unit.case for unit in units(replace(SMALL, estimator=("none",)))] == ["wgan"]
    asked = replace(SMALL, encoder=("own",), output=("draw", "mean"), features=("vae", "classifier"), estimator_seeds=2)
    cases = [unit.case for unit in units(asked)]
    assert sum("paper" in case for case in cases) == 2 * (2 + 1)
    assert sum("static" in case for case in cases) == 2 + 1  # it has no seeds of its own
    assert sum(": vae" in case for case in cases) == 1
    assert sum(": vae" in case for case in (unit.case for unit in units(replace(asked, vaes=2)))) == 2
    assert [unit.case for unit in units(Args(seeds=2))][:4] == ["wgan-gp", "wgan", "fgan-rvkl", "fgan-js"]


def test_judges_do_not_depend_on_each_other_s_arguments():
    paper, default = of("paper"), of("default")
    longer = replace(SMALL, ckliep_epochs=3, estimator=("default",), models=("wgan-gp", "wgan"))
    assert unit_folder(Path(), SMALL, default) == unit_folder(Path(), longer, default)
    assert "ckliep_epochs" in paper.fields
    assert {"rows", "vae_epochs", "iterations"} <= set(default.fields)
    assert not {"models", "estimator", "device", "classifier_width"} & set(default.fields)


@pytest.mark.parametrize(
    ("field", "value"),
    [("models", ("gan",)), ("training", "wild"), ("estimator", ("best",)), ("features", ("pixels",)), ("dataset", "x")],
)
def test_unknown_names_are_answered_with_the_list(field, value, capsys):
    with pytest.raises(ValueError, match=f"--{field} .* is unknown: choose from .*, "):
        units(replace(SMALL, **{field: value}))
    with pytest.raises(SystemExit):
        main(["gans", f"--{field}", *([value] if isinstance(value, str) else value)])
    assert "choose from" in capsys.readouterr().err


def test_rows_are_tidy(judged):
    front = ["case", "seed", "task", "original", "measure", "value", "estimator", "features", "encoder", "output"]
    assert list(judged.columns)[:10] == front
    assert len(judged) == sum(unit.rows for unit in JUDGES)
    assert set(zip(judged.task, judged.original, strict=True)) == {(1, 1), (2, 1), (2, 2)}
    assert set(judged.case) == {"wgan"}
    by = judged.groupby("estimator")
    assert {name: set(part.measure) for name, part in by} == {
        **{name: set(DIVERGENCES) for name in ("paper", "default", "static")},
        METRICS: {*KEEPING, AGREEMENT},
    }
    assert np.isfinite(judged.value).all()
    took = judged.groupby(
        ["case", "estimator", "features", "encoder", "output", "estimator_seed", "task"], dropna=False
    )
    assert (took.seconds.count() == 1).all()  # once a task: their sum is the time of a unit
    assert (took.seconds.first() > 0).all()
    assert judged[judged.measure == AGREEMENT].value.between(0, 1).all()
    assert judged[judged.estimator == "paper"].iterations.eq(2).all()


def test_cdre_is_the_static_estimate_at_a_task_s_first_reading(judged):
    """Until a class's samples change there is one step, from real to generated: the two estimates are one."""
    own = judged[(judged.encoder == "own") & (judged.task == judged.original)]
    values = own.pivot(index=["task", "measure"], columns="estimator", values="value")
    np.testing.assert_allclose(values.default, values.static, rtol=1e-6)


def test_the_newest_encoder_sees_all_classes_and_the_own_one_its_own(folder):
    data = load("digits")
    images = data.of(0)[:5]
    kept = [
        ContinualVAE.load(unit_folder(folder, SMALL, ENCODERS) / f"encoder-{task}.safetensors").transform(images)
        for task in (1, 2)
    ]
    own, latest = (
        features.look(folder, SMALL, data, "wgan", 0, "vae", encoder, "mean", 3) for encoder in ("own", "latest")
    )
    np.testing.assert_array_equal(own.encode(1, 0, images), kept[0])
    np.testing.assert_array_equal(latest.encode(1, 0, images), kept[1])
    assert (own.moves, latest.moves) == (False, True)
    drawn = features.look(folder, SMALL, data, "wgan", 0, "vae", "latest", "draw", 0).encode(1, 0, images)
    assert not np.allclose(drawn, kept[1])
    seen = features.look(folder, SMALL, data, "wgan", 0, "classifier", "", "", 0)
    assert seen.encode(0, 0, images).shape == (5, 64)


@pytest.mark.parametrize("case", ["paper", "default"])
def test_an_interrupted_judging_goes_on_from_its_last_task(folder, judged, monkeypatch, case):
    """The first task is not judged again, and the same rows come out as without an interruption."""
    work = folder / "parts" / f"again-{case}"
    steps = run(SMALL, of(case), quiet, work)
    next(steps)
    steps.close()
    begun, begin = [], ContinualDensityRatio.partial_fit
    monkeypatch.setattr(
        ContinualDensityRatio, "partial_fit", lambda self, *a, **k: begun.append(self.t_) or begin(self, *a, **k)
    )
    rows = pd.DataFrame(run(SMALL, of(case), quiet, work))
    assert begun == [1]
    np.testing.assert_array_equal(rows.value, judged[judged.estimator == case].value)


def test_fits_that_diverge_are_recorded(folder, monkeypatch):
    """All later tasks are lost as well, since the recursion is."""

    def diverge(self, *args, **kwargs):
        raise FitDivergedError("gone")

    monkeypatch.setattr(ContinualDensityRatio, "partial_fit", diverge)
    rows = pd.DataFrame(run(SMALL, of("default"), quiet, folder / "parts" / "lost"))
    assert rows.value.isna().all()
    assert set(rows.note) == {"the fit diverged"}
    assert len(rows) == of("default").rows


def test_a_divergence_that_cannot_be_read_is_no_number(folder, monkeypatch):
    def refuse(self, *args):
        raise ValueError("not finite")

    monkeypatch.setattr(DensityRatio, "divergence", refuse)
    rows = pd.DataFrame(run(SMALL, of("static"), quiet, folder / "parts" / "unread"))
    assert rows.value.isna().all()
    assert set(rows.note) == {""}


def test_models_that_diverged_are_judged_until_then(tmp_path, monkeypatch):
    def learn(gan, real, progress):
        if gan.learned == 1:
            raise FloatingPointError("gone")
        gan.learned += 1

    monkeypatch.setattr(ContinualGAN, "learn", learn)
    for unit in (TRAINING, ENCODERS, of("static")):
        rows = pd.DataFrame(run(SMALL, unit, quiet, unit_folder(tmp_path, SMALL, unit)))
        assert len(rows) == unit.rows
    assert rows.groupby("task").value.agg(lambda values: values.isna().mean()).tolist() == [0.0, 1.0]
    assert rows.groupby("task").note.first().tolist() == ["", "the training diverged"]


def test_figures_are_drawn(folder, frame):
    assert figure(frame, SMALL).axes[0].get_title() == "FID"
    found = extras(folder, frame, SMALL)
    assert set(found) == {"samples", "estimators"}
    assert found["samples"].axes[0].get_title().startswith("WGAN")
    assert found["samples"].axes[0].images[0].get_array().shape == (2 * 8, 2 * 2 * 8)


def test_what_is_finished_can_be_shown_before_the_rest(folder, frame, monkeypatch, tmp_path):
    """Only the judges whose rows there are get into caption and figure; nothing is run."""
    shutil.copytree(folder, tmp_path / "gans-digits")
    for path in (tmp_path / "gans-digits" / "parts").glob("wgan-paper-*.csv"):
        path.unlink()
    monkeypatch.setattr("experiments.runner._run_all", None)
    monkeypatch.setattr("experiments.runner.save", lambda *parts: None)  # drawing is another test's
    args = replace(SMALL, models=("wgan", "wgan-gp"))
    table = execute(EXPERIMENT, args, tmp_path, jobs=1, command="", finished=True)
    assert set(table.estimator.dropna()) == {"default", "static", METRICS}
    said = (tmp_path / "gans-digits" / "caption.md").read_text()
    assert "Divergences by driftline on draws of each class's own autoencoder" in said
    assert "CKLIEP" not in said + (tmp_path / "gans-digits" / "verdict.md").read_text()
    alone = narrowed(args, frame[frame.estimator.isna()].drop(columns=["estimator", "features"]))
    assert (alone.models, alone.estimator) == (("wgan",), ("none",))
    with pytest.raises(UnitsFailedError, match="0 of 7 units are finished, too few to show"):
        execute(EXPERIMENT, SMALL, tmp_path / "none", jobs=1, command="", finished=True)


def test_a_verdict_on_one_model_compares_nothing(frame, check_form):
    said = check_form(verdict(frame, SMALL))
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
