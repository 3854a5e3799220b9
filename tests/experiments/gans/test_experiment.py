"""The GAN experiment in small, on scikit-learn's digits: rows, going on, both figures, and a verdict of the numbers."""

import numpy as np
import pandas as pd
import pytest

from experiments import catalogue
from experiments.__main__ import main
from experiments.experiment import Unit
from experiments.gans.experiment import EXPERIMENT, Args, _resumed, extras, figure, run, tidy, units, verdict
from experiments.gans.judge import AGREEMENT, DIVERGENCES, STATIC, WARNED, Judge
from experiments.gans.training import ContinualGAN

SMALL = Args(
    dataset="digits",
    tasks=2,
    iterations=20,
    batch=32,
    real=100,
    generated=150,
    vae_epochs=2,
    classifier_width=0.125,
    classifier_epochs=15,
)
UNIT = Unit("wgan", 0, 35)
SMALL_RUN = EXPERIMENT, SMALL, [UNIT]


def test_rows_are_tidy(frame):
    assert list(frame.columns) == ["case", "seed", "task", "original", "measure", "value", "low", "high", "floor"]
    assert len(frame) == UNIT.rows == units(SMALL)[0].rows
    assert set(zip(frame.task, frame.original, strict=True)) == {(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)}
    assert set(frame.measure) == {*DIVERGENCES, *(STATIC + m for m in DIVERGENCES), "fid", "kid", AGREEMENT, WARNED}
    assert np.isfinite(frame.value).all()
    assert np.isfinite(frame.floor[frame.measure != WARNED]).all()
    assert (frame.value[frame.measure == WARNED] >= 0).all()  # 100 rows of 64 features go the wide way, without doubts
    assert frame[frame.measure == AGREEMENT].value.between(0, 1).all()
    assert frame[frame.measure == AGREEMENT].floor.gt(0.5).all()


def test_cdre_is_the_static_estimate_at_a_task_s_first_reading(frame):
    """Until features move there is one step, from real to generated: the two estimates are one."""
    first = frame[frame.task == 1].set_index("measure").value
    for measure in DIVERGENCES:
        assert first[measure] == pytest.approx(first[STATIC + measure], rel=1e-6)


def test_an_interrupted_unit_goes_on_from_its_last_task(frame, tmp_path, monkeypatch):
    """The first task is neither learned nor judged again, and the same rows come out as without an interruption."""
    work = tmp_path / "parts" / "unit"
    steps = run(SMALL, UNIT, lambda text: None, work)
    for _ in range(12):  # the first task's rows
        next(steps)
    steps.close()
    assert {p.name for p in work.iterdir()} == {"task-1.safetensors", "judge-1.safetensors", "rows.json"}
    learned, learn, begun, begin = [], ContinualGAN.learn, [], Judge.begin
    monkeypatch.setattr(Judge, "begin", lambda judge, task: begun.append(task) or begin(judge, task))
    monkeypatch.setattr(ContinualGAN, "learn", lambda gan, *rest: learned.append(gan.learned) or learn(gan, *rest))
    rows = pd.DataFrame(run(SMALL, UNIT, lambda text: None, work))
    assert learned == begun == [1]
    np.testing.assert_array_equal(rows.value, frame.value)
    assert {p.name for p in work.iterdir()} >= {"task-1.safetensors", "rows.json"}  # until the part is written


def test_rows_without_their_judge_are_found_again(frame, tmp_path):
    """The unit was killed while its files were tidied up."""
    work = tmp_path / "parts" / "unit"
    work.mkdir(parents=True)
    (work / "rows.json").write_text('{"judge": "judge-2.safetensors", "rows": [{"task": 2}]}')
    assert _resumed(None, work) == []
    for name in ("judge-2.safetensors", "task-1.safetensors", "task-2.safetensors"):
        (work / name).touch()
    tidy(SMALL, work)
    assert [p.name for p in work.iterdir()] == ["task-2.safetensors"]


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
    assert len(units(Args(seeds=2))) == 8
