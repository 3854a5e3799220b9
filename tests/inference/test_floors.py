"""Floors: bounds from below that hold for counts of known shares, and for held-out rows of known windows."""

import math

import numpy as np
import pytest

from driftline.inference import NO_GAIN, Gain, cell_floors, held_out_gain, inflation

EVEN = np.full(10, 0.1)
TAILS = np.array([0.01, 0.04, 0.1, 0.17, 0.18, 0.18, 0.17, 0.1, 0.04, 0.01])
NOWHERE = np.array([0.0, 0.0, 0.05, 0.05, 0.1, 0.2, 0.2, 0.2, 0.1, 0.1])
LEFT = np.array([0.001, 0.001, 0.002, 0.006, 0.01, 0.03, 0.05, 0.1, 0.2, 0.6])
RARE, COMMON = np.array([0.02, 0.98]), np.array([0.4, 0.6])
LAWS = [(EVEN, EVEN), (TAILS, TAILS), (EVEN, TAILS), (EVEN, NOWHERE), (TAILS, LEFT), (RARE, COMMON)]


def truth(p, q):
    return float((q[q > 0] * np.log(q[q > 0] / p[q > 0])).sum())


def counted(p, q, n, m, replicates, seed=0):
    """Return floors of one partition each, from counts of independent rows."""
    rng = np.random.default_rng(seed)
    original, current = rng.multinomial(n, p, replicates), rng.multinomial(m, q, replicates)
    kept = (original > 0).all(1)
    pairs = zip(original[kept], current[kept], strict=True)
    return np.array([cell_floors(a[None] * 1.0, b[None] * 1.0, n, m, 0.95)[0] for a, b in pairs])


@pytest.mark.parametrize(("n", "m"), [(500, 1000), (2000, 200), (2000, 20_000)])
@pytest.mark.parametrize("law", range(len(LAWS)))
def test_floors_of_counts_are_below_the_truth(law, n, m):
    """The chance to be above is at most 0.025: with 1000 replicates, five standard errors more are 0.05."""
    found = counted(*LAWS[law], n, m, 1000, seed=law)
    assert len(found) > 900
    assert (np.maximum(found, 0.0) > truth(*LAWS[law]) + 1e-12).mean() < 0.05


def test_plain_divergences_of_counts_are_not(rng):
    """Without the allowances most are above: a control of the test above."""
    counts = rng.multinomial(1000, EVEN, (2, 500)) / 1000
    plain = (counts[0] * np.log(counts[0] / counts[1])).sum(1)
    assert (plain > 0.0).all()


@pytest.mark.parametrize("law", [2, 3, 4, 5])
def test_floors_of_many_rows_are_near_the_truth(law):
    found = counted(*LAWS[law], 10**6, 10**6, 20)
    assert found.mean() == pytest.approx(truth(*LAWS[law]), rel=0.05)


def test_each_partition_allows_for_the_others():
    """Ten partitions of the same quiet rows: together they are above 0 as rarely as one."""
    rng, above = np.random.default_rng(0), 0
    for _ in range(400):
        original, current = (rng.multinomial(1000, EVEN, 10) * 1.0 for _ in range(2))
        above += bool((cell_floors(original, current, 1000, 1000, 0.95) > 0.0).any())
    assert above / 400 < 0.05


def test_cells_that_a_partition_has_not_do_not_count():
    few = cell_floors(np.array([[600.0, 400.0]]), np.array([[100.0, 900.0]]), 1000, 1000, 0.95)
    padded = cell_floors(np.array([[600.0, 0.0, 400.0]]), np.array([[100.0, 0.0, 900.0]]), 1000, 1000, 0.95)
    assert padded == pytest.approx(few)


def test_fewer_effective_rows_give_lower_floors():
    original, current = np.array([[600.0, 400.0]]), np.array([[300.0, 700.0]])
    floors = [float(cell_floors(original, current, n, n, 0.95)[0]) for n in (1000, 200, 60)]
    assert floors[0] > floors[1] > floors[2]
    assert cell_floors(original, current, 30, 1000, 0.95).size == 0  # too few for a normal bound
    wide, narrow = (float(cell_floors(original, current, 500, 500, level)[0]) for level in (0.99, 0.8))
    assert wide < narrow


@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0, 2.5])
def test_gains_of_the_true_ratio_are_below_the_truth(shift):
    """The ratio is known, so the bound is as tight as it can be: above with chance 0.025."""
    found = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        num, den = rng.normal(0, 1, 2000), rng.normal(shift, 1, 2000)
        found.append(held_out_gain(shift * num, shift * den).floor(0.95))
    assert (np.array(found) > 0.5 * shift**2).mean() < 0.025 + 4 * math.sqrt(0.025 / 300)
    assert np.median(found) >= 0.7 * 0.5 * shift**2 - 0.015


def test_gains_of_any_function_are_below_the_truth(rng):
    num, den = rng.normal(0, 1, 4000), rng.normal(1, 1, 4000)
    for u in (np.square, np.sin, lambda x: 5.0 * x, lambda x: -x, lambda x: 100.0 * np.cos(40.0 * x)):
        assert held_out_gain(u(num), u(den)).floor(0.95) < 0.5


@pytest.mark.parametrize("chance", [0.0005, 0.002, 0.005])
def test_rows_that_were_not_seen_may_exist(chance):
    """All current rows lie where the previous window has next to none, or happens to have none."""
    found = []
    for seed in range(400):
        num = np.random.default_rng(seed).random(500) < chance
        found.append(held_out_gain(np.where(num, 20.0, -20.0), np.full(500, 20.0)).floor(0.95))
    assert (np.array(found) > -math.log(chance)).mean() < 0.025 + 4 * math.sqrt(0.025 / 400)
    assert np.median(found) > 2.0


def test_gains_allow_for_dependent_rows():
    """Every row ten times, one after the other, on quiet windows, with a function that fits them by chance."""

    def above(lag):
        found = []
        for seed in range(200):
            rng = np.random.default_rng(seed)
            num, den = (np.repeat(rng.normal(size=200), 10) for _ in range(2))
            side = math.copysign(0.1, rng.normal())
            found.append(held_out_gain(side * num, side * den, lag, lag).floor(0.95) > 0.0)
        return np.mean(found)

    assert above(0) > 0.1  # a control: taken as independent, they fool it
    assert above(15) < 0.06


def test_few_rows_have_no_gain(rng):
    assert held_out_gain(rng.normal(size=40), rng.normal(5.0, 1.0, 4000)) == NO_GAIN


def test_a_gain_without_a_number_has_no_floor():
    assert math.isnan(NO_GAIN.floor(0.95))
    assert Gain(-0.3, 0.1).floor(0.95) == 0.0
    assert Gain(0.5, 0.1).floor(0.9) > Gain(0.5, 0.1).floor(0.99) > 0.0


def test_inflation_is_that_of_the_slowest_column(rng):
    fast, slow = rng.normal(size=20_000), np.empty(20_000)
    slow[0] = 0.0
    for i in range(1, 20_000):
        slow[i] = 0.8 * slow[i - 1] + 0.6 * fast[i]
    both = np.stack([rng.normal(size=20_000), slow], 1)
    assert inflation(both, 0) == 1.0
    assert inflation(both, 40) == pytest.approx(9.0, rel=0.35)  # (1 + 0.8) / (1 - 0.8)
