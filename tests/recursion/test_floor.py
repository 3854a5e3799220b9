"""Floors of estimates: below the truth whatever the model, honest about what they learned from, and never a row."""

import math

import numpy as np
import pytest

from benchmarks.floors import CASES, LEAST
from driftline import ContinualDensityRatio, DensityRatio, Training
from driftline.inference import Dependence, DoubtCode, held_out_gain
from driftline.recursion import Policy, StepSettings, start, step
from driftline.recursion import _contrast as contrasts
from driftline.recursion import _floor as floors
from driftline.recursion import _partitions as partitions
from driftline.recursion._log_linear import log_linear_step
from driftline.recursion._rows import own_rows

NETWORK = pytest.param("mlp", marks=pytest.mark.networks)


def estimator(model="auto", **params):
    training = Training(epochs=2, batch=200)
    return ContinualDensityRatio(model=model, hidden=(16, 16), training=training, random_state=0, **params)


def moved(t, rows, rng, columns=4):
    """Return rows of which the first column has moved by t."""
    x = rng.normal(size=(rows, columns))
    x[:, 0] += t
    return x


def pair(rho, rows, rng):
    x = rng.normal(size=(rows, 6))
    x[:, 1] = rho * x[:, 0] + math.sqrt(1.0 - rho**2) * x[:, 1]
    return x


@pytest.mark.parametrize("model", ["auto", "linear", "quadratic-full", NETWORK])
def test_estimates_have_a_floor_whatever_the_model(model, rng):
    est = estimator(model).fit(moved(0.0, 4000, rng))
    for t in (0.4, 0.8, 1.2):
        est.partial_fit(moved(t, 4000, rng))
    found, step = est.divergence("reverse_kl"), est.step_divergence("reverse_kl")
    assert 0.3 * 0.72 < found.floor < 0.72
    assert 0.3 * 0.08 < step.floor < 0.08
    assert f"; at least {found.floor:.4g} whatever the model)" in str(found)
    for kind in ("kl", "js", "hellinger", "pearson"):
        assert math.isnan(est.divergence(kind).floor)
        assert math.isnan(est.step_divergence(kind).floor)
    assert est.divergence("reverse_kl", level=0.99).floor < found.floor
    fresh = est.divergence("reverse_kl", moved(1.2, 4000, rng)).floor
    assert fresh == pytest.approx(found.floor, rel=0.3)


def test_a_static_ratio_has_a_floor(rng):
    est = DensityRatio(random_state=0).fit(moved(0.0, 4000, rng), moved(1.5, 4000, rng))
    assert 0.3 * 1.125 < est.divergence("reverse_kl").floor < 1.125


@pytest.mark.parametrize("rho", [0.8, 0.95])
def test_a_pair_that_becomes_correlated_has_a_floor(rho, rng):
    est = estimator().fit(pair(0.0, 4000, rng))
    for part in (0.3, 0.7, 1.0):
        est.partial_fit(pair(part * rho, 4000, rng))
    truth = -0.5 * math.log(1.0 - rho**2)
    assert 0.2 * truth < est.divergence().floor < truth


def test_originals_have_floors_of_their_own(rng):
    est = estimator().fit(moved(0.0, 3000, rng)).add_original(moved(1.0, 3000, rng), "later")
    for t in (0.3, 0.6):
        est.partial_fit({"original": moved(2 * t, 3000, rng), "later": moved(1.0, 3000, rng)})
    assert est.divergence(original="original").floor > 0.2
    assert est.divergence(original="later").floor == 0.0
    est.partial_fit({"later": moved(1.0, 3000, rng)})  # the other stays where it was
    assert est.divergence(original="original").floor > 0.2


def test_a_model_that_misses_the_drift_is_doubted(rng):
    """A linear model cannot see that a column has become quieter."""
    est = estimator("linear").fit(rng.normal(size=(4000, 3)))
    for scale in (0.7, 0.4, 0.2):
        est.partial_fit(rng.normal(size=(4000, 3)) * [scale, 1.0, 1.0])
    with pytest.warns(match="whatever|plain counts"):
        found = est.divergence()
    assert found.floor > found.value + 3.0 * found.std_error
    assert found.high == math.inf
    doubt = next(d for d in found.doubts if d.code == DoubtCode.BELOW_FLOOR)
    assert "model='auto'" in str(doubt)
    right = estimator("quadratic").fit(rng.normal(size=(4000, 3)))
    right.partial_fit(rng.normal(size=(4000, 3)) * [0.2, 1.0, 1.0])
    assert DoubtCode.BELOW_FLOOR not in {d.code for d in right.divergence().doubts}


def test_features_that_moved_have_no_floor(rng):
    x = [moved(0.5 * t, 2000, rng) for t in range(5)]
    est = estimator().fit(x[0]).partial_fit(x[1])
    assert est.divergence().floor > 0.0
    est.change_features(-x[1]).partial_fit(-x[2], before=x[2])
    assert math.isnan(est.divergence().floor)
    assert est.step_divergence().floor > 0.0  # both windows of the step are at hand
    est.partial_fit(-x[3]).partial_fit(-x[4])
    assert math.isnan(est.divergence().floor)
    early = estimator().fit(x[0]).change_features(-x[0]).partial_fit(-x[3])  # no step had been taken
    assert early.divergence().floor > 0.0


def test_a_held_anchor_keeps_the_first_partitions(rng):
    est = (
        estimator(step="adaptive", enough=5.0, too_much=9.0).fit(moved(0.0, 2000, rng)).partial_fit(moved(0, 2000, rng))
    )
    first = est._state.tracks["original"].partitions
    for t in (0.5, 1.0):
        est.partial_fit(moved(t, 2000, rng))
        now = est._state.tracks["original"].partitions
        assert now.original is first.original
        assert now.edges is first.edges
    assert 0.1 < est.divergence().floor < 0.5


@pytest.mark.parametrize("model", ["auto", NETWORK])
def test_floors_survive_saving(model, rng, tmp_path):
    est = estimator(model).fit(moved(0.0, 1000, rng)).partial_fit(moved(0.5, 1000, rng))
    est.save(tmp_path / "run")
    again = ContinualDensityRatio.load(tmp_path / "run")
    for one, other in ((est, again), (est.partial_fit(w := moved(1.0, 1000, rng)), again.partial_fit(w))):
        assert one.divergence().floor == other.divergence().floor
        assert one.step_divergence().floor == other.step_divergence().floor


@pytest.mark.parametrize(("rows", "columns"), [(3001, 14), (20_000, 6), (1000, 60)])
def test_the_counted_rows_of_the_original_decide_about_nothing_else(rows, columns, rng):
    """Held-out rows may be anything: cells, pairs and the contrast stay where they were."""
    num, den = rng.normal(size=(rows, columns)), rng.normal(0.3, 1.2, (rows, columns))
    other_num, other_den = num.copy(), den.copy()
    for x, y in ((num, other_num), (den, other_den)):
        held = contrasts.split(np.arange(len(x), dtype=float))[1].astype(int)
        y[held] = rng.standard_cauchy((len(held), columns)) + 50.0
    one, other = (contrasts.learn(a, b) for a, b in ((num, den), (other_num, other_den)))
    for a, b in zip(one.contrast, other.contrast, strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.share == other.share
    first, second = partitions.fix(one, num, den), partitions.fix(other, other_num, other_den)
    for name in ("live", "edges", "groups", "pairs", "levels"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def table(rows, rng):
    """Return rows with a normal, a two-valued, a count, a zero-inflated, a rare, a constant and a skewed column."""
    return np.column_stack(
        [
            rng.normal(size=rows),
            rng.random(rows) < 0.3,
            rng.poisson(3.0, rows),
            np.where(rng.random(rows) < 0.5, 0.0, rng.lognormal(size=rows)),
            rng.random(rows) < 0.002,
            np.full(rows, 7.0),
            rng.lognormal(0.0, 2.0, rows),
        ]
    )


def fixed(num, den):
    return partitions.fix(contrasts.learn(num, den), num, den)


def test_counts_are_those_of_cells(rng):
    num, x = table(3001, rng), table(9001, rng)
    found = fixed(num, table(3001, rng))
    assert found.live.tolist() == [0, 1, 2, 3, 6] or found.live.tolist() == [0, 1, 2, 3, 4, 6]
    tally = partitions.count(found, x)
    codes = [np.searchsorted(e, x[:, j]) for j, e in zip(found.live, found.edges, strict=True)]
    for row, code in zip(tally.columns, codes, strict=True):
        np.testing.assert_array_equal(row, np.bincount(code, minlength=len(row)))
    coarse = [np.searchsorted(e[g], x[:, j]) for j, e, g in zip(found.live, found.edges, found.groups, strict=True)]
    for row, (i, j) in zip(tally.pairs, found.pairs, strict=True):
        np.testing.assert_array_equal(row, np.bincount(4 * coarse[i] + coarse[j], minlength=16))
    assert (tally.contrast.sum(), tally.pairs.sum(1).min()) == (9001, 9001)


def test_bits_are_counted_without_numpy_2(rng, monkeypatch):
    words = rng.integers(0, 2**63, (3, 4, 5)).astype(np.uint64)
    wanted = [[sum(int(v).bit_count() for v in row) for row in part] for part in words]
    np.testing.assert_array_equal(partitions._ones(words), wanted)
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    np.testing.assert_array_equal(partitions._ones(words), wanted)


def test_cells_have_rows_and_no_edge_is_a_value(rng):
    num = table(3000, rng)
    found = fixed(num, table(3000, rng))
    for counts, at in zip(found.original, found.merged, strict=True):
        pooled = partitions._pooled(counts, at)
        assert (pooled.sum(1) == 1500).all()  # the held-out half, all of it
        assert ((pooled == 0) | (pooled >= 5)).all()
    continuous = num[:, [0, 3, 6]]
    for values in (found.edges, found.levels, found.contrast.center, found.contrast.coef):
        assert not np.isin(values, continuous[continuous != 0.0]).any()
    assert len(found.pairs) <= 256


def test_many_columns_have_a_limited_number_of_pairs(rng):
    num, den = (rng.normal(size=(600, 120)) for _ in range(2))
    found = fixed(num, den)
    assert (len(found.pairs), len(found.live), len(found.contrast.columns)) == (256, 120, contrasts.COLUMNS)
    assert len(np.unique(found.pairs, axis=0)) == 256


def test_the_size_of_what_is_kept_does_not_depend_on_time_or_rows(rng):
    def size(rows, windows):
        est = estimator().fit(moved(0.0, rows, rng))
        for _ in range(windows):
            est.partial_fit(moved(0.5, rows, rng))
        kept = est._state.tracks["original"].partitions
        arrays = [*kept[:4], *kept.contrast[:3], kept.levels, *kept.merged, *kept.original, *kept.current]
        return sum(np.asarray(a).nbytes for a in arrays)

    assert size(1000, 1) == size(1000, 4) == size(5000, 1)


def chained(rho, rows, rng, columns=3):
    x = rng.normal(size=(rows, columns))
    for i in range(1, rows):
        x[i] = rho * x[i - 1] + math.sqrt(1.0 - rho**2) * x[i]
    return x


def test_dependent_rows_count_for_less(rng):
    """Quiet windows of AR(1) rows: taken as independent, counts would show a drift."""
    above = np.zeros(3)
    for _ in range(12):
        est = estimator("quadratic").fit(chained(0.9, 2000, rng))
        for _ in range(2):
            est.partial_fit(chained(0.9, 2000, rng))
        kept = est._state.tracks["original"].partitions
        assert (kept.rows < [250, 500]).all()  # (1 + 0.9) / (1 - 0.9) = 19 rows are worth one
        plain = partitions.floor_of(kept._replace(rows=np.array([1000.0, 0.0])), kept.current, 2000, 0.95)
        above += [est.divergence().floor > 0.0, est.step_divergence().floor > 0.0, plain > 0.0]
    assert above[0] == 0
    assert above[1] <= 1
    assert above[2] >= 6


def test_rows_that_depend_too_far_have_no_floor(rng):
    est = estimator("quadratic").fit(chained(0.995, 400, rng)).partial_fit(chained(0.995, 400, rng))
    assert math.isnan(est.divergence().floor)
    assert math.isnan(est.step_divergence().floor)


def test_rows_that_repeat_do_not_fool_it(rng):
    """Quiet windows, each row five times and in any order: taken as different rows, they fool all bounds."""
    settings, policy = StepSettings(model="quadratic"), Policy()
    above = np.zeros(2)
    for _ in range(10):
        first, last = (rng.permutation(np.repeat(rng.normal(size=(400, 3)), 5, axis=0)) for _ in range(2))
        state = start(first, settings)
        track, taken = state.tracks["original"], log_linear_step(state.tracks["original"].anchor, last, settings, 0)
        copies = Dependence(), own_rows(track.anchor, settings)
        plain, told = (floors.measured(track, track.anchor, taken, rows, rows, settings) for rows in copies)
        assert math.isnan(told[0].floor(0.95))
        np.testing.assert_allclose(told[1].rows, [200, 200])
        above += [floors.floor_on(plain[1], 0.95) > 0.0, floors.floor_on(told[1], 0.95) > 0.0]
    assert above[1] == 0
    assert above[0] >= 3
    assert step(state, {"original": last}, settings, policy)[0].tracks["original"].partitions.rows[0] == 200


def test_few_rows_have_no_floor(rng):
    est = estimator("linear").fit(moved(0.0, 60, rng)).partial_fit(moved(3.0, 60, rng))
    assert not est.divergence().floor > 0.0
    assert not est.step_divergence().floor > 0.0
    for rows in (10, 30):
        est = estimator("linear").fit(moved(0.0, rows, rng)).partial_fit(moved(0.1, 3000, rng))
        assert math.isnan(est.divergence().floor)
        est = estimator("linear").fit(moved(0.0, 3000, rng)).partial_fit(moved(0.1, 3000, rng))
        est.partial_fit(moved(3.0, rows, rng))
        assert math.isnan(est.divergence().floor)
        assert math.isnan(est.step_divergence().floor)


STREAMS = {name: stream for name, stream in CASES.items() if name not in LEAST}


def share_below(stream, replicates, rows=4000):
    """Return the shares of floors that are below the truth, at t=5 and t=20, for all steps and for one of four."""
    big = {t: stream.sample(t, 200_000, np.random.default_rng(99)) for t in (5, 20)}
    truth = {t: max(-float(stream.log_ratio(x, t).mean()), 0.0) for t, x in big.items()}
    step = max(float((stream.log_ratio(big[20], 16) - stream.log_ratio(big[20], 20)).mean()), 0.0)
    below = np.zeros(3)
    for seed in range(replicates):
        rng = np.random.default_rng([31, seed])
        x = {t: stream.sample(t, rows, rng) for t in (0, 1, 5, 16, 20)}
        kept = fixed(x[0], x[1])._replace(rows=np.array([rows / 2.0, 0.0]))
        floors = [partitions.floor_of(kept, partitions.count(kept, x[t]), rows, 0.95) for t in (5, 20)]
        floors.append(held_out_gain(*contrasts.learn(x[16], x[20]).values()).floor(0.95))
        below += [f <= t for f, t in zip(floors, (truth[5], truth[20], step), strict=True)]
    return below / replicates


@pytest.mark.parametrize("name", STREAMS)
def test_floors_are_below_the_truth(name):
    assert (share_below(STREAMS[name], 12) >= 11 / 12).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_floors_are_below_the_truth_in_many_replicates(name):
    assert (share_below(STREAMS[name], 200) >= 0.97).all()
