"""Log-ratios as they are read: less noise where little moves, and nothing lost where much does."""

import numpy as np
import pytest

from driftline import ContinualDensityRatio, DensityRatio
from driftline.recursion import moderated
from driftline.synthetic import GaussianStream


def current(est):
    return est._state.tracks["original"].current


def classes(rows, rng, share=0.5):
    """Two classes in eight columns, binary and counted ones among them."""
    of = rng.random(rows) < share
    x = rng.normal(size=(rows, 8)) + 1.5 * of[:, None]
    x[:, 5] = rng.random(rows) < np.where(of, 0.7, 0.2)
    x[:, 6] = rng.poisson(np.where(of, 3.0, 1.0))
    return x


def followed(draw, windows, seed):
    rng = np.random.default_rng(seed)
    est = ContinualDensityRatio(random_state=seed).fit(draw(0, rng))
    for t in range(1, windows + 1):
        est.partial_fit(draw(t, rng))
    return est, rng


def test_where_nothing_moves_most_of_the_noise_is_gone(seed):
    est, rng = followed(lambda t, rng: classes(2000, rng), 4, seed)
    fresh = classes(4000, rng)
    carried, read = current(est).log_ratio(fresh), est.log_ratio(fresh)
    assert np.abs(read).mean() < 0.5 * np.abs(carried).mean()  # the truth is 0


def test_large_drift_is_read_as_it_is_carried(seed):
    stream = GaussianStream(dim=4, delta=0.05)
    est, rng = followed(lambda t, rng: stream.sample(t, 4000, rng), 6, seed)
    fresh = stream.sample(6, 4000, rng)
    carried, read = current(est).log_ratio(fresh), est.log_ratio(fresh)
    error = np.abs(carried - stream.log_ratio(fresh, 6)).mean()
    assert np.abs(read - carried).mean() < error  # the change is smaller than the noise
    assert np.abs(carried).mean() > 10.0 * error  # and there is much to lose


@pytest.mark.parametrize("share", [0.5, 0.65])
def test_the_mean_ratio_and_the_divergence_stay(share, seed):
    est, _ = followed(lambda t, rng: classes(2000, rng, share if t else 0.5), 2, seed)
    now, read = current(est), moderated(current(est))
    before = est.divergence()
    weights = est.weights(now.window)
    assert weights.mean() == pytest.approx(1.0)
    # a hundredth of the rows, those far out, has no say in the mean ratio
    assert np.exp(read.log_ratio(now.window)).mean() == pytest.approx(np.exp(now.on_window()).mean(), rel=0.05)
    assert est.divergence() == before


def test_other_models_are_read_as_they_are_fitted(rng):
    x, y = rng.normal(size=(500, 3)), rng.normal(size=(500, 3))
    est = DensityRatio(model="quadratic").fit(x, y)
    np.testing.assert_array_equal(est.log_ratio(y), current(est).log_ratio(y))


def test_units_of_columns_do_not_matter(seed):
    unit = np.array([1e-3, 1e4, 1.0, 50.0, 1.0, 1.0, 1.0, 1.0])
    plain, rng = followed(lambda t, rng: classes(1500, rng, 0.5 + 0.1 * t), 2, seed)
    other, _ = followed(lambda t, rng: unit * classes(1500, rng, 0.5 + 0.1 * t), 2, seed)
    fresh = classes(500, rng)
    np.testing.assert_allclose(other.log_ratio(unit * fresh), plain.log_ratio(fresh), atol=2e-2)


def test_a_reading_is_renewed_with_the_window_and_after_loading(tmp_path, rng):
    est = ContinualDensityRatio(random_state=0).fit(classes(1000, rng)).partial_fit(classes(1000, rng, 0.7))
    probe = classes(100, rng)
    first = est.log_ratio(probe)
    est.save(tmp_path / "run.safetensors")
    np.testing.assert_array_equal(ContinualDensityRatio.load(tmp_path / "run.safetensors").log_ratio(probe), first)
    est.partial_fit(classes(1000, rng, 0.9))
    assert np.abs(est.log_ratio(probe) - first).max() > 0.1
