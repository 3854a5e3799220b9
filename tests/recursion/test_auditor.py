"""The auditor: silent where the model is right, and heard where it is not, for as long as it is not."""

import math

import numpy as np
import pytest

from driftline import ContinualDensityRatio, DensityRatio
from driftline.fitting import LogLinearDesign, Scores, fit_features
from driftline.inference import Dependence, DoubtCode
from driftline.recursion import _auditor
from driftline.recursion._sides import Seen, Side, _squares, light_of
from driftline.synthetic import GaussianStream, MixtureStream

pytestmark = pytest.mark.filterwarnings("ignore::driftline.UntrustedEstimateWarning")


def banana(bend, rows, rng):
    """A dependence that no mean, variance or correlation shows."""
    x = rng.normal(size=(rows, 6))
    x[:, 1] += bend * (x[:, 0] ** 2 - 1.0)
    x[:, 3] += bend * (x[:, 2] ** 2 - 1.0)
    return x


def auditor(est):
    return est._state.tracks["original"].current.auditor


def followed(draw, windows, seed, model="auto"):
    rng = np.random.default_rng(seed)
    est = ContinualDensityRatio(model=model, random_state=seed).fit(draw(0, rng))
    for t in range(1, windows + 1):
        est.partial_fit(draw(t, rng))
    return est


def exact_chances(monkeypatch):
    """Return a list that the chance of every look goes to, by the exact covariance."""
    found, real = [], _auditor.chance
    monkeypatch.setattr(_auditor, "chance", lambda *args, **options: found.append(real(*args, **options)) or found[-1])
    monkeypatch.setattr(_auditor, "rough_chance", lambda *args: 0.0)  # never enough to be silent
    return found


@pytest.mark.parametrize("stream", [GaussianStream(dim=4), MixtureStream(dim=5)], ids=["gaussian", "mixture"])
def test_it_is_silent_where_the_model_is_right(stream, seed):
    est = followed(lambda t, rng: stream.sample(t, 1500, rng), 12, seed)
    assert auditor(est).since == 0
    assert auditor(est).steps == 12
    assert math.isfinite(est.divergence().high)


def test_it_speaks_of_a_curved_dependence_and_calls_the_value_a_lower_bound(seed):
    est = followed(lambda t, rng: banana(0.02 * t, 4000, rng), 12, seed, "quadratic")
    since = auditor(est).since
    assert 0 < since <= 12
    found = est.divergence()
    assert found.high == math.inf
    assert str(found).startswith("at least")
    assert DoubtCode.MODEL_MISSES in {doubt.code for doubt in found.doubts}
    assert f"since step {since}" in str(found.doubts[-1])
    assert DoubtCode.MODEL_MISSES in {doubt.code for doubt in est.info_.originals["original"].doubts}
    assert math.isfinite(est.divergence("kl").low)
    assert est.divergence("kl").high == math.inf


def test_a_doubt_stays_when_the_drift_has_ended():
    rng = np.random.default_rng(0)
    est = followed(lambda t, rng: banana(0.02 * t, 4000, rng), 12, 0, "quadratic")
    since = auditor(est).since
    for _ in range(3):
        est.partial_fit(banana(0.24, 4000, rng))
    assert auditor(est).since == since > 0


def test_a_static_ratio_is_audited_too():
    rng = np.random.default_rng(0)
    bent = DensityRatio(model="quadratic", random_state=0).fit(banana(0.0, 4000, rng), banana(0.4, 4000, rng))
    assert bent.divergence().high == math.inf
    rows = rng.normal(size=(4000, 6))
    plain = DensityRatio(model="quadratic", random_state=0).fit(rows, rng.normal(0.3, 1.2, size=(4000, 6)))
    assert math.isfinite(plain.divergence().high)


def test_features_that_mend_the_model_end_the_doubt():
    """A correlation that appears: silent again once its product has joined, with its drift from before."""

    def draw(t, rng):
        x = rng.normal(size=(4000, 5))
        x[:, 1] = 0.08 * t * x[:, 0] + math.sqrt(1.0 - (0.08 * t) ** 2) * x[:, 1]
        return x

    est = followed(draw, 8, 1)
    assert len(est._state.tracks["original"].current.psi.features.pairs) > 0
    assert auditor(est).since == 0


def test_what_it_has_seen_is_saved(tmp_path):
    est = followed(lambda t, rng: banana(0.04 * t, 4000, rng), 6, 0, "quadratic")
    est.save(tmp_path / "state.safetensors")
    found = ContinualDensityRatio.load(tmp_path / "state.safetensors")
    for one, other in zip(auditor(est), auditor(found), strict=True):
        np.testing.assert_array_equal(one, other)
    rows = banana(0.3, 4000, np.random.default_rng(9))
    assert auditor(est.partial_fit(rows)).since == auditor(found.partial_fit(rows)).since > 0


def test_it_holds_no_row(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(200, 4))
    est = ContinualDensityRatio(random_state=seed).fit(rows)
    z = est._state.tracks["original"].anchor.psi.standardizer(rows)
    centres = auditor(est).centres
    assert np.abs(centres[:, None] - z).max(2).min() > 1e-3


@pytest.mark.slow
def test_chances_are_those_of_chance(monkeypatch):
    """Under no drift chances are even between 0 and 1: their distribution is at most 4 standard errors away."""
    found = exact_chances(monkeypatch)
    for seed in range(150):
        rng = np.random.default_rng(seed)
        est = ContinualDensityRatio(random_state=seed).fit(rng.normal(size=(1000, 4)))
        est.partial_fit(rng.normal(size=(1000, 4)))
        est.partial_fit(rng.normal(size=(1000, 4)))
    for level in (0.05, 0.5):
        error = math.sqrt(level * (1.0 - level) / 150)  # two looks at one original are not independent
        assert abs(np.mean(np.array(found) < level) - level) < 4.0 * error


def test_rows_that_are_left_out_do_not_add_up_to_a_doubt(monkeypatch):
    """Slopes by the curvature of all rows kept an error that grew: these ten chances were 0.05 on average before."""
    found = exact_chances(monkeypatch)
    monkeypatch.setattr(_auditor, "_ROWS", 3000 / 4)
    monkeypatch.setattr(_auditor, "LEVEL", 0.0)  # it goes on looking
    for seed in range(10):
        followed(lambda t, rng: rng.normal(size=(3000, 4)), 20, seed, model="quadratic")
    assert np.mean(found[19::20]) > 0.5 - 3.0 * math.sqrt(1.0 / 12 / 10)


def test_a_rough_covariance_hears_what_the_exact_one_hears(seed, monkeypatch):
    def heard():
        return auditor(followed(lambda t, rng: banana(0.02 * t, 4000, rng), 12, seed, "quadratic")).since

    rough = heard()
    monkeypatch.setattr(_auditor, "_ROUGH", math.inf)
    exact = heard()
    assert exact > 0
    assert abs(rough - exact) <= 1  # covariances of earlier windows differ a little


def test_a_rough_covariance_is_that_of_all_rows_up_to_chance():
    rng = np.random.default_rng(0)
    rows, values = (rng.normal(size=(6000, k)).astype(np.float32) for k in (3, 5))
    side = Side(values, *light_of(rng.normal(size=6000)), 0, rows, np.zeros((3, 5), dtype=np.float32))
    (exact, left), (rough, thinned) = _squares(side), _squares(side, 3)
    np.testing.assert_allclose(thinned, left, rtol=4.0 * math.sqrt(2.0 / 2000))
    # products of two normal squares have a mean of 1 and a variance of 8
    np.testing.assert_allclose(rough, exact, atol=4.0 * 6000 * math.sqrt(8.0 / 2000))
    assert not np.array_equal(rough, exact)


def test_rows_that_are_looked_at_stand_for_those_that_are_not(monkeypatch):
    """A step's two windows have no mean of zero each by itself: with other shares of each, their scores must agree."""
    monkeypatch.setattr(_auditor, "_ROWS", 1000)
    rows = np.random.default_rng(0).normal(size=(3000, 2))
    design = LogLinearDesign(fit_features(rows), rows)
    scores = Scores(*np.full((3, 3000), 0.5))
    seen = Seen(np.zeros((1000, 4), dtype=np.float32), np.ones(4))
    window = _auditor._window(None, None, design, scores, Dependence(), seen)
    assert window.every == 3
    assert window.score.sum() == scores.first.sum()
    assert window.bend.sum() == scores.second.sum()
