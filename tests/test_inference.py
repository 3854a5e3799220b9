"""Error bars: replicated fits spread as the standard errors say, through the recursion and for every divergence."""

import math

import numpy as np
import pytest
import torch

from driftline import ContinualDensityRatio, DensityRatio, Estimate
from driftline.estimates import normal_interval as interval
from driftline.inference import effective_sample_size
from driftline.streams import GaussianStream


def replicate(count, windows, n, kind, model="quadratic", dim=3, delta=0.03):
    """Estimates of one divergence and of a log-ratio, with their standard errors, over independent streams."""
    stream, point = GaussianStream(dim=dim, delta=delta), np.full((1, dim), 0.3)
    rows = []
    for seed in range(count):
        rng = np.random.default_rng(10_000 + seed)
        est = ContinualDensityRatio(model=model, random_state=seed).fit(stream.sample(0, n, rng))
        for t in range(1, windows + 1):
            est.partial_fit(stream.sample(t, n + 37 * t, rng))  # windows of unequal sizes
        value, error = est.log_ratio(point, return_std=True)
        drift, step = est.divergence(kind), est.step_divergence(kind)
        rows.append((drift.value, drift.std_error, value[0], error[0], step.value, step.std_error))
    return np.array(rows), stream, point


def test_standard_errors_are_the_spread_of_replicates():
    rows, stream, point = replicate(120, 4, 600, "reverse_kl")
    for value, error in ((0, 1), (2, 3), (4, 5)):
        ratio = rows[:, value].std(ddof=1) / rows[:, error].mean()
        assert 0.8 < ratio < 1.25  # 120 replicates know a spread to 6.5 %, 0.8 is three of those
    truth, level = stream.reverse_kl(4), 1.96
    covered = np.abs(rows[:, 0] - truth) < level * rows[:, 1]
    assert covered.mean() > 0.88  # 95 % less three times 2 %, and a little for the bias of a plug-in divergence
    pointwise = np.abs(rows[:, 2] - stream.log_ratio(point, 4)) < level * rows[:, 3]
    assert pointwise.mean() > 0.88


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "windows"), [("reverse_kl", 10), ("js", 10), ("hellinger", 10), ("pearson", 4)])
def test_standard_errors_after_more_steps(kind, windows):
    """Pearson's divergence is asked earlier: its estimate has a finite variance only while the scale is above 0.87."""
    rows, _, _ = replicate(200, windows, 1000, kind, delta=0.02)
    ratio = rows[:, 0].std(ddof=1) / rows[:, 1].mean()
    assert 0.82 < ratio < 1.2  # 200 replicates know a spread to 5 %


def test_errors_do_not_add_up_over_the_steps(seed):
    """The window's two roles cancel: after 30 steps without drift the error is that of one comparison."""
    rng = np.random.default_rng(seed)
    est = ContinualDensityRatio(model="quadratic", random_state=seed).fit(rng.normal(size=(1000, 3)))
    errors = []
    for _ in range(30):
        est.partial_fit(rng.normal(size=(1000, 3)))
        errors.append(est.log_ratio(np.full((1, 3), 0.5), return_std=True)[1][0])
    assert errors[-1] < 1.3 * errors[0]


def test_like_samples_read_parameters_over_rows():
    """A plug-in divergence is never quite 0: the docs say parameters/rows, here 10/500."""
    values = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(500, 5)), rng.normal(size=(500, 5))
        values.append(DensityRatio(model="quadratic", random_state=0).fit(a, b).divergence("reverse_kl").value)
    assert abs(np.mean(values) - 10 / 500) < 4 * np.std(values) / math.sqrt(60)


def test_fresh_rows_instead_of_the_window(rng):
    stream = GaussianStream(dim=3, delta=0.05)
    est = DensityRatio(model="quadratic", random_state=0).fit(stream.sample(0, 3000, rng), stream.sample(3, 3000, rng))
    fresh = est.divergence("reverse_kl", stream.sample(3, 3000, rng))
    assert abs(fresh.value - stream.reverse_kl(3)) < 4 * fresh.std_error


def test_networks_report_no_interval(rng):
    from driftline import Training

    est = DensityRatio(model="mlp", hidden=(8,), training=Training(epochs=1), random_state=0)
    est.fit(rng.normal(size=(200, 2)), rng.normal(size=(200, 2)))
    drift = est.divergence()
    assert math.isnan(drift.std_error)
    assert "no interval" in str(drift)
    _, deviations = est.log_ratio(rng.normal(size=(4, 2)), return_std=True)
    assert np.isnan(deviations).all()


def test_estimate_and_interval():
    estimate = interval(2.0, 0.5, 0.95)
    assert isinstance(estimate, Estimate)
    assert float(estimate) == 2.0
    assert estimate.high - estimate.value == pytest.approx(1.96 * 0.5, abs=1e-3)
    with pytest.raises(ValueError, match=r"level=1.5 must lie between 0 and 1"):
        interval(0.0, 1.0, 1.5)


def test_effective_sample_size():
    assert effective_sample_size(torch.zeros(7)) == pytest.approx(7.0)
    assert effective_sample_size(torch.tensor([0.0, -1000.0, -1000.0])) == pytest.approx(1.0)
    assert effective_sample_size(torch.tensor([900.0, 900.0, -900.0]).double()) == pytest.approx(2.0)
