"""Screening: features join where the drift needs them and nowhere else."""

import numpy as np
import pytest

from driftline import ContinualDensityRatio, DensityRatio
from driftline.recursion._evidence import start_evidence
from driftline.recursion._screening import capacity
from driftline.synthetic import CorrelationStream, GaussianStream, MixtureStream


def features(est):
    return est._state.tracks["original"].current.psi.features


def track(stream, windows, n, seed):
    rng = np.random.default_rng(seed)
    est = ContinualDensityRatio(random_state=seed).fit(stream.sample(0, n, rng))
    for t in range(1, windows + 1):
        est.partial_fit(stream.sample(t, n, rng))
    fresh = stream.sample(windows, 4000, rng)
    return est, float(np.abs(est.log_ratio(fresh) - stream.log_ratio(fresh, windows)).mean())


def test_no_feature_joins_without_need(seed):
    """Columns and squares express drift in mean and scale; ten looks at 10^3 candidates find nothing else."""
    est, _ = track(GaussianStream(dim=20, delta=0.02), 10, 4000, seed)
    assert features(est).size == 40


@pytest.mark.parametrize("law", ["t", "lognormal", "one-hot"])
def test_no_feature_joins_on_awkward_laws_without_drift(law, seed):
    rng = np.random.default_rng(seed)

    def sample(n=4000):
        if law == "t":
            return rng.standard_t(4, (n, 12))
        if law == "lognormal":
            return np.exp(0.7 * rng.normal(size=(n, 12)))
        return np.hstack([np.eye(4)[rng.integers(0, 4, n)], rng.normal(size=(n, 8))])

    est = ContinualDensityRatio(random_state=seed).fit(sample())
    first = features(est).size
    for _ in range(10):
        est.partial_fit(sample())
    assert features(est).size <= first + 1  # even one false feature in ten looks is unlikely


def test_correlations_are_found_and_only_those(seed):
    est, error = track(CorrelationStream(dim=12, delta=0.08), 6, 4000, seed)
    pairs = {tuple(p) for p in features(est).pairs.tolist()}
    assert pairs == {(i, i + 1) for i in range(0, 12, 2)}
    blind = ContinualDensityRatio(model="quadratic", random_state=seed)
    rng = np.random.default_rng(seed)
    stream = CorrelationStream(dim=12, delta=0.08)
    blind.fit(stream.sample(0, 4000, rng)).partial_fit(stream.sample(6, 4000, rng))
    fresh = stream.sample(6, 4000, rng)
    assert error < 0.5 * np.abs(blind.log_ratio(fresh) - stream.log_ratio(fresh, 6)).mean()


def test_slow_correlation_drift_is_found_in_the_sum(seed):
    """Each step moves a correlation by about one standard error: no single step shows it, but their sum does."""
    est, _ = track(CorrelationStream(dim=10, delta=0.025), 16, 2000, seed)
    assert len(features(est).pairs) >= 4


def test_a_marginal_that_changes_shape_gets_hinges(seed):
    rng = np.random.default_rng(seed)
    original = rng.normal(size=(5000, 10))
    current = rng.normal(size=(5000, 10))
    sign, noise = np.sign(rng.normal(size=5000)), rng.normal(size=5000)
    current[:, 3] = np.sqrt(0.8) * sign + np.sqrt(0.2) * noise  # same mean and variance
    est = DensityRatio(random_state=0).fit(original, current)
    units = features(est).weight
    assert units.shape[1] >= 1
    assert set(np.abs(units).argmax(0).tolist()) == {3}
    value = est.divergence("reverse_kl").value
    assert value > 0.12  # the truth is about 0.16
    assert abs(DensityRatio(model="quadratic", random_state=0).fit(original, current).divergence().value) < 0.02


def test_few_columns_get_units_for_any_shape(seed):
    """A ring whose density develops three lobes: first and second moments never move."""
    rng = np.random.default_rng(seed)

    def ring(angle):
        return 2 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.3 * rng.normal(size=(len(angle), 2))

    proposal = rng.uniform(0, 2 * np.pi, 30_000)
    lobes = proposal[rng.random(30_000) < 0.5 * (1 + 0.9 * np.cos(3 * proposal))][:8000]
    uniform, lobed = ring(rng.uniform(0, 2 * np.pi, 8000)), ring(lobes)
    wide = DensityRatio(random_state=0).fit(uniform, lobed)
    plain = DensityRatio(model="quadratic-full", random_state=0).fit(uniform, lobed)
    assert len(features(wide).bias) > 0 or features(wide).others  # units, or clusters along the ring
    assert wide.info_.held_out < plain.info_.held_out - 0.03
    assert plain.divergence().value < 0.01
    # divergence of the angle, of which the noise around the ring hides a little
    angle = np.linspace(0, 2 * np.pi, 10_001)[:-1]
    density = 1 + 0.9 * np.cos(3 * angle)
    truth = float((density * np.log(density)).mean())
    assert 0.6 * truth < wide.divergence().value < 1.1 * truth


@pytest.mark.slow
def test_mixtures_get_units_in_their_subspace(seed):
    rng = np.random.default_rng(seed)
    stream = MixtureStream(dim=32)
    est = ContinualDensityRatio(random_state=seed).fit(stream.sample(0, 20_000, rng))
    blind = ContinualDensityRatio(model="quadratic", random_state=seed).fit(stream.sample(0, 20_000, rng))
    for t in range(4, 21, 4):
        window = stream.sample(t, 20_000, rng)
        est.partial_fit(window)
        blind.partial_fit(window)
    fresh = stream.sample(20, 10_000, rng)
    truth = stream.log_ratio(fresh, 20)
    error = np.abs(est.log_ratio(fresh) - truth).mean()
    assert error < 0.33
    assert error < 0.6 * np.abs(blind.log_ratio(fresh) - truth).mean()


def test_evidence_has_one_size_and_capacity_is_kept(rng):
    evidence = start_evidence(rng.normal(size=(500, 6)))
    assert evidence.knots.shape == (6, 5)
    pairs, tiers = capacity(6)
    assert pairs >= 15
    assert tiers[-1] == 256
    assert list(tiers) == sorted(tiers)


@pytest.mark.parametrize(
    "law",
    [
        lambda rng: (rng.random((500, 4)) < 0.05) * 1.0,
        lambda rng: np.eye(20)[rng.integers(20, size=1000)],
    ],
    ids=["rare flags", "one-hot"],
)
def test_tables_without_a_column_for_clusters_are_followed(law, seed):
    """No column tells clusters apart: the model has none, and nothing is read where nothing moves."""
    rng = np.random.default_rng(seed)
    est = ContinualDensityRatio(random_state=seed).fit(law(rng)).partial_fit(law(rng))
    drift = est.divergence()
    assert drift.value < 4.0 * drift.std_error
    assert "clusters" not in est.info_.originals["original"].model


@pytest.mark.parametrize("marks", [3, 5, 11])
def test_marks_on_a_scale_are_quiet(marks, seed):
    """A mixture would find a cluster at each mark, and a step would read their noise as drift."""
    rng = np.random.default_rng(seed)
    est = ContinualDensityRatio(random_state=seed).fit(rng.integers(0, marks, size=(1000, 12)))
    est.partial_fit(rng.integers(0, marks, size=(1000, 12)))
    drift = est.divergence()
    assert abs(drift.value) < 3.5 * drift.std_error
