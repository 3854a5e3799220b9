"""The ledger: chances are chances, and what stands out does."""

import numpy as np
import pytest

from driftline._engine._groups import GROUPS
from driftline._engine._ledger import Ledger, chance_of_all, chances


def noise(families, size, rng, correlation=0.0):
    """Ledger of scores that are noise, with factors that know it; functions of a family are correlated."""
    mix = np.linalg.cholesky(correlation + (1.0 - correlation) * np.eye(size))
    factors = (rng.normal(size=(GROUPS, families, size)) / np.sqrt(GROUPS)) @ mix.T
    scores = rng.normal(size=(families, size)) @ mix.T
    return Ledger(scores.ravel(), factors.reshape(GROUPS, -1).T)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_chances_of_families_are_uniform(size):
    ledger = noise(2_000, size, np.random.default_rng(size), 0.6)
    found = np.exp(chances(ledger, np.arange(2_000 * size), np.repeat(np.arange(2_000), size), GROUPS))
    for level in (0.01, 0.05, 0.5):
        assert abs((found < level).mean() - level) < 4.0 * np.sqrt(level * (1.0 - level) / 2_000) + 0.1 * level


def test_functions_of_a_family_need_not_be_neighbours():
    ledger = noise(50, 2, np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(100)
    shuffled = Ledger(ledger.scores[order], ledger.factors[order])
    family = np.repeat(np.arange(50), 2)
    np.testing.assert_allclose(
        chances(shuffled, np.arange(100), family[order], GROUPS), chances(ledger, np.arange(100), family, GROUPS)
    )


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_the_chance_of_all_is_uniform(correlation):
    rng, found = np.random.default_rng(3), []
    for _ in range(300):
        ledger = noise(10, 6, rng, correlation)
        found.append(np.exp(chance_of_all(ledger, np.arange(60), GROUPS)))
    for level in (0.05, 0.5):
        assert abs((np.array(found) < level).mean() - level) < 4.0 * np.sqrt(level * (1.0 - level) / 300)


def test_many_small_scores_stand_out_together_and_none_alone():
    ledger = noise(300, 1, np.random.default_rng(4))
    lifted = ledger._replace(scores=ledger.scores + np.random.default_rng(5).choice([-1.2, 1.2], 300))
    alone = chances(lifted, np.arange(300), np.arange(300), GROUPS)
    assert alone.min() > np.log(1e-4 / 300)
    assert chance_of_all(lifted, np.arange(300), GROUPS) < np.log(1e-4)
    assert chance_of_all(ledger, np.arange(300), GROUPS) > np.log(1e-3)


def test_functions_without_any_noise_say_nothing():
    ledger = Ledger.empty(4)
    assert chances(ledger, np.arange(4), np.array([0, 0, 1, 2]), GROUPS).tolist() == [0.0, 0.0, 0.0]
    assert chance_of_all(ledger, np.arange(4), GROUPS) == 0.0
