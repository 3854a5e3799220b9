"""The experiment in many dimensions in small: rows, known truths, going on, figures, and a verdict of the numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments.experiment import Unit
from experiments.gans.training import ContinualGAN, Settings
from experiments.high_dimensional import samples
from experiments.high_dimensional.estimators import BOUNDS, ESTIMATORS, HELD_OUT, PLUG_IN, Recipe, held_out, read
from experiments.high_dimensional.experiment import EXPERIMENT, Args, extras, figure, run, units, verdict
from experiments.high_dimensional.samples import GENERATORS, gaussian_pair, gaussian_truth, generator, image_pair
from experiments.high_dimensional.table import tabled
from experiments.high_dimensional.verdict import judge, verdict_of
from experiments.labelled import load

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


@pytest.mark.parametrize("measure", BOUNDS)
def test_true_log_ratios_reach_the_bounds(measure):
    """Over 40,000 rows, in the one direction that counts; five standard errors, from twenty parts of the rows."""
    distance = 0.5 * 20**0.5
    rng = np.random.default_rng(1000)
    p, q = (0.5 * distance**2 - distance * (rng.standard_normal(40000) + mean) for mean in (0.0, distance))
    parts = [BOUNDS[measure](a, b) for a, b in zip(np.split(p, 20), np.split(q, 20), strict=True)]
    error = np.std(parts, ddof=1) / 20**0.5
    truth = gaussian_truth(measure, 0.5)
    assert BOUNDS[measure](p, q) == pytest.approx(truth, abs=5 * error)
    assert 5 * error < 0.12 * truth
    value, factor = held_out(measure, p, q)
    assert value == pytest.approx(truth, abs=5 * error)
    assert factor > 0.9


@pytest.mark.parametrize("measure", BOUNDS)
def test_noise_reads_nothing_on_new_rows(measure):
    """An overfitted ratio of like samples: its scatter is not a divergence, and is shrunk away."""
    noise = np.random.default_rng(1000).normal(0, 2, (2, 10000))
    assert BOUNDS[measure](*noise) < -0.1
    value, factor = held_out(measure, *noise)
    assert abs(value) < 1e-3
    assert factor < 0.05


@pytest.mark.parametrize(("name", "columns", "truth"), [("linear", 40, 2.5), ("pca", 400, 1.25)])
def test_gaussians_are_what_their_truth_says(name, columns, truth):
    """Within five of the library's standard errors; components see half of the shift, that in leading directions."""
    pair = gaussian_pair(columns, 3000, 10, 0.5, 1000)
    found = Recipe(1.0, 60, 1, 1e-3).fit(name, pair, 1000, quiet).divergence("reverse_kl")
    assert found.value == pytest.approx(truth, abs=5 * found.std_error)
    assert 5 * found.std_error < 0.4 * truth


def test_a_fit_with_many_parameters_reads_too_much_on_its_own_rows():
    """Like samples: about parameters over rows by the plain mean, and nothing on new rows."""
    pair = gaussian_pair(750, 2000, 1000, 0.0, 1000)
    rows = list(read(Recipe(1.0, 30, 1, 1e-3), "auto", pair, 1000, quiet))
    found = {(row["measure"], row["way"]): row["value"] for row in rows}
    assert found["reverse_kl", PLUG_IN] > 0.8 * 1501 / 2000
    assert abs(found["reverse_kl", HELD_OUT]) < 0.02


def test_real_images_compared_are_disjoint_and_unseen():
    data = load("digits")
    pair = image_pair(data, 700, 200, 60, 3, lambda images: images.reshape(len(images), -1), None)
    seen = {row.tobytes() for row in pair.others}
    parts = [{row.tobytes() for row in part} for part in pair[:4]]
    assert [len(part) for part in pair] == [200, 200, 60, 60, 200]
    assert sum(map(len, parts)) == len(set.union(*parts))
    assert not set.union(*parts) & seen
    with pytest.raises(ValueError, match="1200 images are needed beside the 700 to train on, there are 1097"):
        image_pair(data, 700, 500, 100, 3, lambda images: images, None)


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


def test_a_mixture_draws_as_it_was_fitted(tmp_path):
    """Mean pixels within five standard errors, of which clipping at 0 and 1 may move a little."""
    data = load("digits")
    made = generator("mixture", data, "digits", 1400, tmp_path, settings=Settings(), components=5, report=quiet)
    images = made.draw(5000, 1000)
    assert images.shape == (5000, 8, 8)
    assert images.min() >= 0.0
    assert images.max() <= 1.0
    assert not np.array_equal(images, made.draw(5000, 1001))
    error = data.train[:1400].std(0) / 5000**0.5
    assert (np.abs(images.mean(0) - data.train[:1400].mean(0)) < 5 * error + 0.03).all()


def invented(null=0.01, factor=1.0, spread=0.01, levels=(1.0, 2.0, 3.0)):
    """Rows of one estimator, both ways alike, over two draws; FID sorts the generators as they are listed."""
    rows = []
    for seed, sign in ((0, -1.0), (1, 1.0)):
        for k, (case, level) in enumerate(zip(GENERATORS, levels, strict=True)):
            rows.append((case, seed, "fid", "fid", "fit", 10.0 * (k + 1)))
            rows += [
                (case, seed, "linear", m, w, level * (1 + sign * spread)) for m in BOUNDS for w in (PLUG_IN, HELD_OUT)
            ]
        rows.append(("real", seed, "fid", "fid", "fit", 1.0))
        rows += [("real", seed, "linear", m, w, null) for m in BOUNDS for w in (PLUG_IN, HELD_OUT)]
        for m in BOUNDS:
            rows.append(("gaussians", seed, "truth", m, "truth", gaussian_truth(m, 0.5)))
            rows += [("gaussians", seed, "linear", m, w, factor * gaussian_truth(m, 0.5)) for w in (PLUG_IN, HELD_OUT)]
    return pd.DataFrame(rows, columns=["case", "seed", "estimator", "measure", "way", "value"])


def test_verdict_has_its_form(frame, check_form):
    assert "One draw: variance is not judged." in check_form(verdict(frame, SMALL))


def test_verdict_follows_the_numbers(check_form):
    good = invented()
    assert judge(tabled(good), "linear", PLUG_IN) == (True, True, True, True)
    assert check_form(verdict_of(good)).startswith("**As claimed by all estimators.** ")
    for wrong, field in (
        (invented(null=0.2), "null"),
        (invented(factor=1.2), "truth"),
        (invented(spread=0.2), "spread"),
        (invented(levels=(2.0, 1.0, 3.0)), "order"),
    ):
        judged = judge(tabled(wrong), "linear", PLUG_IN)._asdict()
        assert [name for name, met in judged.items() if not met] == [field]
        assert verdict_of(wrong).startswith("**Not confirmed by any estimator.**")
    other = invented(null=0.2).query("estimator == 'linear'").assign(estimator="mlp")
    assert verdict_of(pd.concat([good, other])).startswith("**As claimed by linear only.**")


def test_estimators_are_known_and_folders_apart(tmp_path):
    with pytest.raises(ValueError, match="'nothing'"):
        units(Args(estimators=("auto", "nothing")))
    assert EXPERIMENT.place(tmp_path, Args()).name == "high-dimensional"
    assert EXPERIMENT.place(tmp_path, Args(dataset="mnist")).name == "high-dimensional-mnist"
    assert not EXPERIMENT.in_all
