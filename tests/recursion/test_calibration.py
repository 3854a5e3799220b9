"""Calibration, and features that only approximate: a value below the truth says that it is a lower bound."""

import math

import numpy as np
import pytest

from driftline import ContinualDensityRatio, DensityRatio
from driftline.fitting import Trees
from driftline.inference import DoubtCode
from driftline.recursion import _calibration

pytestmark = pytest.mark.filterwarnings("ignore::driftline.UntrustedEstimateWarning")


def signs(rows, columns, rng):
    """Rows of which nine in ten have a positive product of the first three columns: 0.368 nats."""
    x = rng.normal(size=(rows, columns))
    wanted = np.where(rng.random(rows) < 0.9, 1.0, -1.0)
    x[:, 0] *= wanted * np.sign(x[:, :3].prod(1))
    return x


def checkers(rows, rng):
    """Nine in ten rows of a square lie on the black fields of a board of 16: 0.368 nats."""
    x = rng.uniform(-2.0, 2.0, size=(6 * rows, 2))
    black = np.floor(x + 2.0).sum(1) % 2 == 0
    return x[rng.random(len(x)) < np.where(black, 0.9, 0.1)][:rows]


TRUTH = math.log(2.0) + 0.9 * math.log(0.9) + 0.1 * math.log(0.1)


@pytest.mark.parametrize("columns", [3, 6])
def test_a_three_way_sign_is_found_in_part_and_called_a_lower_bound(columns, seed):
    rng = np.random.default_rng(seed)
    found = DensityRatio(random_state=seed).fit(rng.normal(size=(3000, columns)), signs(3000, columns, rng))
    estimate = found.divergence()
    assert 0.3 * TRUTH < estimate.value < TRUTH
    assert estimate.low < TRUTH < estimate.high == math.inf
    assert DoubtCode.MODEL_MISSES in [doubt.code for doubt in estimate.doubts]


def test_trees_are_asked_where_the_auditor_speaks(seed):
    rng = np.random.default_rng(seed)
    ratio = DensityRatio(random_state=seed).fit(rng.uniform(-2.0, 2.0, size=(3000, 2)), checkers(3000, rng))
    estimate = ratio.divergence()
    assert "boosted trees" in ratio.info_.reason
    assert 0.5 * TRUTH < estimate.value < estimate.high == math.inf


def test_clusters_stay_once_trees_have_joined():
    rng = np.random.default_rng(0)

    def rows(after):
        group = 5.0 * rng.integers(3, size=3000) + rng.normal(size=3000)
        board = checkers(3000, rng) if after else rng.uniform(-2.0, 2.0, size=(3000, 2))
        flag = rng.random(3000) < (0.8 if after else 0.2)
        return np.column_stack([group, group + rng.normal(size=3000), board, flag])

    est = ContinualDensityRatio(random_state=0).fit(rows(False))
    for after in (False, True):
        est.partial_fit(rows(after))
    psi = est._state.tracks["original"].current.psi
    learned = [other.map for other in psi.features.others]
    assert [isinstance(part, Trees) for part in learned] == [False, True]
    est.partial_fit(rows(True))
    later, size = est._state.tracks["original"].current.psi, learned[0].size
    before, after = (x.coef[-size - 1 : -1] / x.features.scale[-size - 1 : -1] for x in (psi, later))
    np.testing.assert_allclose(after, before, atol=1e-4)


def test_chances_are_those_of_chance(monkeypatch):
    """Where the model is right, five of a hundred p-values are below 0.05, up to chance, however many the features."""
    kept = []
    original = _calibration.chance
    monkeypatch.setattr(_calibration, "chance", lambda *parts: kept.append(original(*parts)) or kept[-1])
    for seed in range(60):
        rng = np.random.default_rng(seed)
        columns = 3 if seed % 2 else 15
        current = rng.normal(size=(1500, columns))
        current[:, :2] += 0.6
        DensityRatio(model="quadratic", random_state=0).fit(rng.normal(size=(1500, columns)), current)
    assert len(kept) == 60
    assert 0.0 <= np.mean(np.array(kept) < 0.05) < 0.05 + 3.0 * math.sqrt(0.05 * 0.95 / 60)
    assert 0.5 - 3.0 * math.sqrt(1.0 / 12 / 60) < np.mean(kept) < 0.5 + 3.0 * math.sqrt(1.0 / 12 / 60)


def test_a_wrong_shape_is_seen_in_the_log_ratio_alone():
    """The product of three columns is a column: it moves, but the truth is its sign."""
    rng = np.random.default_rng(0)
    original, current = rng.normal(size=(3000, 6)), signs(3000, 6, rng)
    windows = [np.column_stack([x, x[:, :3].prod(1)]) for x in (original, current)]
    ratio = DensityRatio(model="linear", random_state=0).fit(*windows)
    assert DoubtCode.MODEL_MISSES in [doubt.code for doubt in ratio.divergence().doubts]
    assert ratio.divergence().value < 0.8 * TRUTH


def test_small_steps_are_not_asked(monkeypatch):
    monkeypatch.setattr(_calibration, "chance", lambda *_: pytest.fail("asked"))
    rng = np.random.default_rng(0)
    DensityRatio(random_state=0).fit(rng.normal(size=(1000, 3)), rng.normal(size=(1000, 3)))
