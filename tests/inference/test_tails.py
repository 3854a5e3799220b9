"""Tails of a divergence's terms, and intervals that they decide; intervals of streams that went away and came back."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.signal import lfilter

from driftline import ContinualDensityRatio
from driftline.inference import beyond, excesses, tail_from, tail_of


def limits(log_r):
    return beyond(float(log_r.mean()), float(log_r.std()))


@pytest.mark.parametrize(("kind", "power", "sign"), [("pearson", 2.0, 1), ("kl", 1.0, 1), ("neyman", 1.0, -1)])
@pytest.mark.parametrize("scale", [0.1, 0.3, 0.6])
def test_the_index_of_an_exponential_tail_is_its_scale_times_the_power(kind, power, sign, scale, rng):
    log_r = sign * scale * rng.exponential(size=20_000)
    found = tail_of(log_r, kind)
    many = np.sum(sign * log_r > scale * 2.28)
    assert abs(found.heaviness / (power * scale) - 1.0) < 4.0 / math.sqrt(many)
    assert found.decides == (power * scale > 0.5)


def test_bounded_divergences_have_no_tail_and_one_of_ones_own_is_judged_by_its_terms(rng):
    log_r = 2.0 * rng.normal(size=2000)
    assert not any(tail_of(log_r, kind).decides for kind in ("reverse_kl", "js", "hellinger", "total_variation"))
    assert tail_of(log_r, lambda r: (r - 1.0) ** 2).decides
    assert not tail_of(0.5 * log_r, lambda r: 1.0 - np.sqrt(r)).decides
    for scale in (1e-4, 1.0, 1e4):
        assert not tail_of(0.1 * log_r, lambda r, c=scale: c * (r - 1.0) ** 2).decides
        assert tail_of(log_r, lambda r, c=scale: c * (r - 1.0) ** 2).decides


def test_a_rare_value_is_no_tail(rng):
    log_r = np.where(rng.random(2000) < 0.01, 0.6, -0.006)  # a flag of one row in a hundred, 1.8 times as rare now
    found = tail_of(log_r, "pearson")
    assert found.heaviness > 0.5
    assert not found.decides


def test_few_rows_of_a_place_are_counted_and_not_summed(rng):
    log_r = 2.0 * rng.normal(size=60)
    whole = excesses(log_r, *limits(log_r))
    hidden = excesses(log_r, *limits(log_r), 10)
    assert 0 < whole[0] < 10
    assert hidden.tolist() == [0, 0, whole[0], 0, 0, whole[3]]
    values = np.expm1(log_r) ** 2
    sums = float(values.sum()), float(values @ values), len(log_r)
    assert tail_from("pearson", hidden, *sums).decides, "what is not known is not trusted"
    assert tail_from("js", hidden, *sums).heaviness == 0.0


@cache
def walk(seed, steps, keep, n=1000):
    """Take steps of two normal columns, of which the first has these means and scales.

    Each walk is taken once: what is asked of it does not change it. Only where it is asked for once is its generator
    of use.
    """
    rng, found = np.random.default_rng(seed), ContinualDensityRatio(model="quadratic", keep=keep, random_state=0)
    for i, (mean, scale) in enumerate(steps):
        x = rng.normal(size=(n, 2))
        x[:, 0] = mean + scale * x[:, 0]
        (found.partial_fit if i else found.fit)(x)
    return found, rng


@pytest.mark.parametrize("keep", ["rows", "sums"])
@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        ("pearson", ((0, 1), (0, 0.85), (0, 0.7))),
        ("pearson", ((0, 1), (0.7, 1), (1.4, 1))),
        ("neyman", ((0, 1), (0, 1.5))),
    ],
)
def test_tails_that_decide_make_a_lower_bound_with_a_doubt(kind, steps, keep):
    for seed in range(31_000, 31_006):
        found = walk(seed, steps, keep)[0].divergence(kind)
        assert "few_for_divergence" in [doubt.code for doubt in found.doubts]
        assert found.lower_bound
        assert found.high == math.inf


@pytest.mark.parametrize("keep", ["rows", "sums"])
def test_without_drift_tails_decide_nothing(keep):
    for seed in range(31_000, 31_006):
        ratio = walk(seed, ((0, 1), (0, 1), (0.1, 1)), keep)[0]
        assert not any(ratio.divergence(kind).doubts for kind in ("pearson", "neyman", "kl"))


# steps of sums take four times as long as those of rows
@pytest.mark.full
@pytest.mark.parametrize(
    ("keep", "count"), [("rows", 30), ("sums", 20), pytest.param("sums", 30, marks=pytest.mark.slow)]
)
def test_intervals_of_kl_hold_for_a_stream_that_came_back(keep, count):
    steps = (0, 1), (0.8, 1), (1.6, 1), (0.8, 1), (0, 1)
    found = [walk(seed, steps, keep)[0].divergence("kl") for seed in range(32_000, 32_000 + count)]
    held = np.mean([e.low <= 0.0 <= e.high for e in found])
    ratio = np.median([e.std_error for e in found]) / np.std([e.value for e in found], ddof=1)
    assert held > 0.95 - 4 * math.sqrt(0.95 * 0.05 / count)
    known = 1.0 / math.sqrt(2.0 * count)  # to so much values determine their deviation: 13 % with 30, 16 % with 20
    assert 1.0 - 2.9 * known < ratio < 1.0 / (1.0 - 2.9 * known)
    assert not any(doubt.code == "noise_unknown" for e in found for doubt in e.doubts)


@pytest.mark.parametrize("steps", [((0, 1), (1.5, 1), (0, 1)), ((0, 1), (0, 0.5), (0, 1))])
def test_intervals_hold_for_a_stream_that_jumped_and_came_back(steps):
    """Ends of so large a step leave a constant error, too; before, 6 to 11 of 20 intervals of js, hellinger missed"""
    for kind in ("reverse_kl", "js", "hellinger", "total_variation"):
        found = [walk(seed, steps, "rows")[0].divergence(kind) for seed in range(34_000, 34_020)]
        missed = [e for e in found if not e.low <= 0.0 <= e.high and not e.doubts]
        assert len(missed) <= 0.05 * 20 + 4 * math.sqrt(0.95 * 0.05 * 20)
        assert np.median([e.std_error for e in found]) < 3.0 * np.std([e.value for e in found])
        assert all(e.std_error < 1.0 for e in found)


# steps of sums take four times as long as those of rows
@pytest.mark.parametrize(
    ("keep", "count"), [("rows", 30), ("sums", 15), pytest.param("sums", 30, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "means",
    [
        pytest.param([0, 1, 2, 1, 0], id="large"),
        pytest.param([0, 0.5, 1, 1.5, 2, 1.5, 1, 0.5, 0], id="small", marks=pytest.mark.slow),
    ],
)
def test_intervals_hold_for_a_stream_that_went_far_and_came_back(means, keep, count):
    """Before, 3 to 8 of 40 undoubted ones of pearson missed, and with sums 5 of js after the large steps."""
    steps = tuple((mean, 1) for mean in means)
    ratios = [walk(seed, steps, keep)[0] for seed in range(37_000, 37_000 + count)]
    for kind in ("reverse_kl", "js", "pearson", "neyman", "total_variation"):
        found = [ratio.divergence(kind) for ratio in ratios]
        missed = [e for e in found if not e.low <= 0.0 <= e.high and not e.doubts]
        assert len(missed) <= 0.05 * count + 3 * math.sqrt(0.95 * 0.05 * count), kind
        # those that are doubted are not counted as right; those of pearson are, as it reads too low on the way back
        assert (np.mean([bool(e.doubts) for e in found]) < 0.5) == (kind != "pearson")


@pytest.mark.parametrize("keep", ["rows", pytest.param("sums", marks=pytest.mark.slow)])
def test_pearson_is_doubted_on_the_way_back_and_not_on_plain_drift(keep):
    """Before, 10 of 40 intervals had their upper end below 0.28, without a doubt."""
    truth = math.exp(0.25) - 1.0
    far, plain = ((0, 1), (1, 1), (2, 1), (1, 1), (0.5, 1)), ((0, 1), (0.15, 1), (0.3, 1))
    back = [walk(seed, far, keep)[0].divergence("pearson") for seed in range(38_000, 38_012)]
    assert all(e.lower_bound and e.high == math.inf for e in back)
    assert sum(e.low > truth for e in back) <= 2
    assert "reverse_kl, js and hellinger do not depend on it" in " ".join(str(d) for e in back for d in e.doubts)
    assert not any(walk(seed, plain, keep)[0].divergence("pearson").doubts for seed in range(38_000, 38_005))


def test_few_rows_that_are_passed_have_no_interval():
    ratio, rng = walk(35_000, ((0, 1), (0.5, 1)), "rows")
    found = ratio.divergence(X=rng.normal(0.5, 1.0, (20, 2)))
    assert math.isnan(found.std_error)
    assert "20 rows are few for a mean over them: pass 50 or more" in map(str, found.doubts)
    enough = ratio.divergence(X=rng.normal(0.5, 1.0, (200, 2)))
    assert math.isfinite(enough.high)
    assert "few_rows" not in [doubt.code for doubt in enough.doubts]


def test_intervals_over_other_rows_hold_their_draw():
    """Squared Hellinger distance of N(0, 0.9²) over new rows of small windows; before, 16 of 60 ends were too low."""
    truth = 1.0 - math.sqrt(2.0 * 0.9 / (1.0 + 0.81))
    held = []
    for seed in range(33_000, 33_040):
        ratio, rng = walk(seed, ((0, 1), (0, 0.965), (0, 0.93), (0, 0.9)), "rows", 300)
        x = rng.normal(size=(300, 2)) * (0.9, 1.0)
        found = ratio.divergence("hellinger", X=x)
        held.append(found.low <= truth <= found.high)
    assert np.mean(held) > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 40)


def untidy(kind, mean, n, rng):
    """Return rows (n, 2), the first column moved, that depend on their neighbours, or have unequally many copies."""
    x = rng.normal(size=(n, 2))
    if kind == "chain":
        x = lfilter([0.8], [1.0, -0.6], x, axis=0)
    else:
        x = rng.permutation(np.repeat(x, 1 + rng.poisson(1.0, n), 0)[:n])
    x[:, 0] += mean
    return x


@pytest.mark.parametrize("means", [(0, 0, 0), (0, 1.5, 0)], ids=["quiet", "jump"])
@pytest.mark.parametrize("kind", ["chain", "copies"])
def test_intervals_hold_where_rows_depend_or_are_copied_unevenly(kind, means):
    """Before, 12 of 40 missed 0 for uneven copies of quiet rows, and 4 to 11 of 40 after a jump and back."""
    found = {name: [] for name in ("reverse_kl", "js", "hellinger")}
    for seed in range(38_000, 38_020):
        rng = np.random.default_rng(seed)
        ratio = ContinualDensityRatio(model="quadratic", random_state=seed)
        for mean in means:
            ratio.partial_fit(untidy(kind, mean, 2000, rng))
        for name, estimates in found.items():
            estimates.append(ratio.divergence(name))
    for name, estimates in found.items():
        missed = [e for e in estimates if not e.low <= 0.0 <= e.high and not e.doubts]
        assert len(missed) <= 0.05 * 20 + 3 * math.sqrt(0.95 * 0.05 * 20), name
        assert sum(bool(e.doubts) for e in estimates) <= 4, name
