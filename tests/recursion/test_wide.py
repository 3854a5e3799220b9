"""Steps where rows are few for the features: right on average over steps, frames, files and new columns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from driftline import ContinualDensityRatio, DensityRatio
from driftline.fitting import LogLinearDesign, Training, fit_features
from driftline.inference import DoubtCode
from driftline.recursion import Policy, StepSettings, start, step
from driftline.recursion._settings import NEWTON_FEATURES

pytestmark = pytest.mark.filterwarnings("ignore::driftline.UntrustedEstimateWarning")


def stream(seed, steps, *, rows=300, columns=70, shift=0.0, moved=5, factor=1.0):
    """Return windows whose first columns are shifted, and scaled, evenly over the steps."""
    rng = np.random.default_rng(seed)
    out = rng.normal(size=(steps + 1, rows, columns))
    for t, window in enumerate(out):
        window[:, :moved] = window[:, :moved] * factor ** (t / steps) + shift * t / steps
    return list(out)


def followed(windows, **settings):
    estimator = ContinualDensityRatio(**settings).fit(windows[0])
    for window in windows[1:]:
        estimator.partial_fit(window)
    return estimator


def current(estimator):
    return estimator._state.tracks["original"].current


# lower ends are above 0 with chance 0.025: three of 6 or more with chance 3e-4, four of 12 or more with 2e-4
@pytest.mark.parametrize(("count", "least"), [(6, 4), pytest.param(12, 9, marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", ["auto", "quadratic", "linear"])
def test_few_rows_have_error_bars_and_read_nothing_without_drift(model, count, least):
    columns = 150 if model == "linear" else 70
    found = [followed(stream(s, 3, columns=columns), model=model) for s in range(count)]
    assert all(current(e).wide is not None and current(e).uncertainty is None for e in found)
    for kind in ("reverse_kl", "kl"):
        estimates = [e.divergence(kind) for e in found]
        values, errors = np.array([e.value for e in estimates]), np.array([e.noise_std for e in estimates])
        assert abs(values.mean()) < 4.0 * errors.mean() / np.sqrt(len(values))
        assert sum(e.low <= 0.0 for e in estimates) >= least
    steps = np.array([e.step_divergence().value for e in found])
    assert abs(steps.mean()) < 4.0 * found[0].step_divergence().noise_std / np.sqrt(len(steps))


@pytest.mark.parametrize("count", [4, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("objective", ["logistic", "kliep", "lsif"])
def test_a_shift_of_means_has_its_closed_form(objective, count):
    found = [followed(stream(s, 2, shift=0.6), objective=objective) for s in range(count)]
    for kind in ("reverse_kl", "kl"):
        estimates = [e.divergence(kind) for e in found]
        error = np.mean([e.std_error for e in estimates]) / np.sqrt(len(estimates))
        assert np.mean([e.value for e in estimates]) == pytest.approx(0.9, abs=4.0 * error)
    steps = [e.step_divergence() for e in found]
    error = np.mean([e.std_error for e in steps]) / np.sqrt(len(steps))
    assert np.mean([e.value for e in steps]) == pytest.approx(0.225, abs=4.0 * error)


def test_more_rows_later_go_on_as_it_began():
    windows = stream(0, 2, shift=0.6)
    windows[2] = stream(1, 1, rows=3000, shift=0.6)[1]
    estimate = followed(windows).divergence()
    assert estimate.low < 0.9 < estimate.high


def test_enough_rows_do_not_go_wide():
    assert current(followed(stream(0, 1, rows=2000, columns=10))).wide is None


@pytest.mark.parametrize(
    "settings", [{"normalizer": "self"}, {"model": "mlp", "training": Training(epochs=1)}, {"penalty": 1.0}]
)
def test_other_ways_stay_what_they_are(settings):
    if settings.get("model") == "mlp":
        pytest.importorskip("torch")
    windows = stream(0, 2, columns=70)
    first = followed(windows[:2], **settings)
    assert (current(first).wide is None) == ("penalty" not in settings)
    assert current(followed(windows, **settings)).wide is None


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_frames_move_with_the_windows(count):
    truth = 0.5 * 5 * (16.0 + (0.25 - 1 - math.log(0.25)))
    found = [followed(stream(s, 8, shift=4.0, factor=0.5), model="quadratic") for s in range(count)]
    frames = [current(e).psi.standardizer for e in found]
    assert all(np.abs(frame.shift[:5]).min() > 1.0 for frame in frames)
    estimates = [e.divergence() for e in found]
    error = np.mean([e.std_error for e in estimates])
    assert np.mean([e.value for e in estimates]) == pytest.approx(truth, rel=0.1, abs=4.0 * error)


def test_means_of_features_move_to_another_frame():
    rng = np.random.default_rng(0)
    z, pairs = rng.normal(1.0, 2.0, size=(50, 4)), np.array([[0, 1], [2, 3]])
    features = fit_features(z, pairs=pairs, weight=rng.normal(size=(4, 2)), bias=rng.normal(size=2))
    shift, rate = rng.normal(size=4), rng.uniform(0.5, 2.0, 4)
    moved = (rng.normal(size=(60, 4)) - shift) / rate
    into = features.framed(shift, rate, moved)
    means, wanted = (f.design(rows)[:, :-1].mean(0) for f, rows in ((features, z), (into, (z - shift) / rate)))
    assert features.carry(means, into, shift, rate) == pytest.approx(wanted, abs=1e-12)


def test_saved_and_loaded_it_goes_on_to_the_last_bit(tmp_path):
    windows = stream(2, 3, shift=3.0)
    through, parted = followed(windows), followed(windows[:3])
    parted.save(tmp_path / "state")
    before, parted = parted, ContinualDensityRatio.load(tmp_path / "state")
    for kind in ("reverse_kl", "kl", "js"):
        assert parted.divergence(kind) == before.divergence(kind)
    parted.partial_fit(windows[3])
    for kind in ("reverse_kl", "kl", "hellinger"):
        assert parted.divergence(kind) == through.divergence(kind)
        assert parted.step_divergence(kind) == through.step_divergence(kind)
    assert (parted.log_ratio(windows[3]) == through.log_ratio(windows[3])).all()


def test_a_column_that_comes_alive_joins():
    windows = stream(3, 3)
    for window in windows[:2]:
        window[:, 7] = 1.0
    estimator = followed(windows)
    kept, psi = current(estimator).wide, current(estimator).psi
    assert len(kept.coef) == len(kept.origin) == psi.features.size == 140
    at = int(np.flatnonzero(psi.features.linear == 7)[0])
    there = LogLinearDesign(psi.features, psi.standardizer(windows[0])).pull(np.full(300, 1 / 300))
    assert kept.origin[at] == pytest.approx(there[at])


def test_held_back_altogether_a_step_still_counts():
    found = [followed(stream(s, 1)) for s in range(6)]
    quiet = next(e for e in found if not current(e).psi.coef.any())
    quiet.partial_fit(stream(9, 1)[1])
    assert current(quiet).wide.between > 0.0  # two steps


def test_new_features_go_on_without_error_bars():
    windows = stream(4, 2, shift=0.5)
    estimator = followed(windows[:2])
    other = np.random.default_rng(0).normal(size=(70, 30))
    estimator.change_features(windows[1] @ other)
    estimator.partial_fit(windows[2] @ other, before=windows[2])
    assert current(estimator).wide is None
    assert math.isnan(estimator.divergence().std_error)


def test_hopelessly_few_rows_are_a_doubt():
    estimate = DensityRatio().fit(*stream(0, 1, rows=60, columns=150)).divergence()
    assert math.isnan(estimate.std_error)
    assert estimate.doubts[0].code == DoubtCode.FEW_ROWS


def test_further_rows_and_attribution():
    windows = stream(5, 2, shift=0.6)
    estimator = followed(windows)
    further = stream(6, 2, shift=0.6, rows=2000)[2]
    estimate = estimator.divergence(X=further)
    assert estimate.value == pytest.approx(0.9, abs=4.0 * estimate.std_error)
    with pytest.raises(ValueError, match="rows are too few for its features"):
        estimator.attribution()


def test_many_features_go_wide_however_many_rows():
    rng = np.random.default_rng(0)
    columns = NEWTON_FEATURES // 2
    windows = rng.normal(size=(2, 3 * columns, columns))
    state = start(windows[0], StepSettings(model="quadratic"))
    state, info = step(state, {"original": windows[1]}, StepSettings(model="quadratic"), Policy())
    assert state.tracks["original"].current.wide is not None
    assert info.originals["original"].step_divergence == pytest.approx(0.0, abs=0.05)


def test_pixels_read_nothing_without_drift():
    datasets = pytest.importorskip("sklearn.datasets")
    rows = datasets.load_digits().data
    found = []
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(rows))
        found.append(DensityRatio().fit(rows[order[:449]], rows[order[449:898]]).divergence())
    values = np.array([e.value for e in found])
    assert abs(values.mean()) < 4.0 * np.mean([e.noise_std for e in found]) / np.sqrt(len(values))
    assert sum(e.low <= 0.0 for e in found) >= 5
