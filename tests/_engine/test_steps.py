"""Steps and what is read after them, against streams whose truth is known."""

import numpy as np
import pytest

from benchmarks.streams import ThreeWayStream
from driftline._engine import divergence, forget, log_ratio, start, step
from driftline._engine._blocks import Products
from driftline._engine._mixtures import mixture_ratio
from driftline.synthetic import CorrelationStream, GaussianStream, MixtureStream


def followed(stream, rows, last, seed=0, *, keep="rows", model="auto"):
    rng = np.random.default_rng(seed)
    state, joined = start(stream.sample(0, rows, rng), model, seed=seed), 0
    for t in range(1, last + 1):
        before = forget(state) if keep == "sums" else state
        state, info = step(before, stream.sample(t, rows, rng), keep=keep)
        joined += info.joined
    return state, joined


@pytest.mark.parametrize("keep", ["rows", "sums"])
@pytest.mark.parametrize("seed", range(3))
def test_a_gaussian_stream_reads_its_divergence(keep, seed):
    stream = GaussianStream(dim=4)
    state, joined = followed(stream, 1_500, 10, seed, keep=keep)
    for kind in ("reverse_kl", "js", "hellinger"):
        found = divergence(state, kind)
        x = stream.sample(10, 200_000, np.random.default_rng(99))
        log_r = stream.log_ratio(x, 10)
        truth = {
            "reverse_kl": -log_r.mean(),
            "js": np.log(2.0) - 0.5 * (np.exp(log_r) * np.log1p(np.exp(-log_r)) + np.log1p(np.exp(log_r))).mean(),
            "hellinger": 1.0 - np.exp(0.5 * log_r).mean(),
        }[kind]
        assert abs(found.value - truth) < 4.0 * found.std_error
        assert not found.doubts
    assert joined == 0


@pytest.mark.parametrize("keep", ["rows", "sums"])
def test_without_drift_values_scatter_around_0_as_they_say(keep):
    values = []
    for seed in range(8):
        rng = np.random.default_rng([7, seed])
        state = start(rng.normal(size=(800, 4)), seed=seed)
        for _ in range(4):
            state, info = step(forget(state) if keep == "sums" else state, rng.normal(size=(800, 4)), keep=keep)
            assert not info.joined
            assert not info.misses
        found = divergence(state)
        values.append(found.value / found.noise_std)
    assert abs(np.mean(values)) < 4.0 / np.sqrt(8)
    assert np.std(values) < 2.0  # four standard errors of a standard deviation from eight


@pytest.mark.parametrize("keep", ["rows", "sums"])
def test_correlations_that_grow_join_with_the_drift_they_have_missed(keep):
    stream = CorrelationStream(dim=4)
    state, joined = followed(stream, 2_000, 12, keep=keep)
    products = [isinstance(state.basis.blocks[k], Products) for k in state.basis.block[state.active]]
    found = divergence(state)
    assert joined
    assert sum(products) >= 2
    assert abs(found.value - stream.reverse_kl(12)) < 4.0 * found.std_error


def test_three_columns_that_change_together_are_seen():
    stream = ThreeWayStream(top=0.86, last=6, binary=True, dim=5)
    state, joined = followed(stream, 3_000, 6)
    found = divergence(state)
    assert joined
    assert abs(found.value - stream.reverse_kl(6)) < 4.0 * found.std_error


def test_a_drift_that_did_not_join_lies_below_the_upper_end():
    stream = ThreeWayStream(top=0.56, last=1, dim=5)
    state, joined = followed(stream, 600, 1)
    assert not joined
    assert divergence(state).high > stream.reverse_kl(1)


def test_sums_read_what_rows_read():
    stream = MixtureStream(dim=4)
    rows, sums = (divergence(followed(stream, 1_200, 5, keep=keep)[0]) for keep in ("rows", "sums"))
    assert abs(rows.value - sums.value) < 2.0 * rows.std_error
    assert 0.7 < sums.std_error / rows.std_error < 1.4


def test_no_row_stays_where_sums_are_kept():
    x = np.random.default_rng(3).normal(size=(400, 3)) + 1e6 * np.arange(1, 401)[:, None]  # rows that can be found
    state = forget(step(start(x), x + 0.25, keep="sums")[0])
    kept = [np.asarray(part, dtype=np.float64).ravel() for part in state.window if isinstance(part, np.ndarray)]
    for values in kept:
        assert not np.isin(np.round(x + 0.25, 3), np.round(values, 3)).any()
    with pytest.raises(ValueError, match="rows of the current window are gone"):
        divergence(state)


def test_units_do_not_matter():
    stream, rate, shift = GaussianStream(dim=3), np.array([1e3, 1e-4, 1.0]), np.array([5e3, 0.0, -2.0])
    rng = np.random.default_rng(0)
    windows = [stream.sample(t, 800, rng) for t in range(4)]
    states = []
    for change in (lambda x: x, lambda x: shift + rate * x):
        state = start(change(windows[0]))
        for window in windows[1:]:
            state, _ = step(state, change(window))
        states.append(divergence(state))
    assert states[1].value == pytest.approx(states[0].value, rel=1e-4)
    assert states[1].std_error == pytest.approx(states[0].std_error, rel=1e-4)


def test_a_column_that_was_constant_may_move():
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=1_000), np.zeros(1_000)], 1)
    y = np.stack([rng.normal(size=1_000), (rng.random(1_000) < 0.3).astype(float)], 1)
    state, _ = step(start(x), y)
    assert divergence(state).value > 0.1


def test_far_rows_end_where_the_window_does():
    rng = np.random.default_rng(0)
    state, _ = step(start(rng.normal(size=(1_000, 2))), rng.normal(0.5, 1.0, (1_000, 2)))
    near = log_ratio(state, state.window.rows)
    far = log_ratio(state, np.array([[1e6, 0.0], [-1e6, 0.0]]))
    assert near.min() - 2.5 < far.min() < far.max() < near.max() + 2.5


def test_few_rows_for_many_columns_begin_with_nothing():
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(300, 80)) for _ in range(2))
    state, info = step(start(x), y)
    assert not state.active.any()
    assert not info.joined
    assert divergence(state).value == pytest.approx(0.0, abs=1e-6)
    moved, info = step(start(x), y + 0.4)
    assert info.joined
    assert divergence(moved).low > 0.0


def test_too_few_rows_are_doubted():
    rng = np.random.default_rng(0)
    state, _ = step(start(rng.normal(size=(40, 2))), rng.normal(size=(20, 2)))
    found = divergence(state)
    assert [doubt.code for doubt in found.doubts] == ["few_rows"]
    assert np.isnan(found.std_error)


def test_rows_that_hardly_change_are_doubted():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(2, 1_500, 3))
    for i in range(1, 1_500):
        noise[:, i] = 0.99 * noise[:, i - 1] + 0.14 * noise[:, i]
    state, _ = step(start(noise[0]), noise[1])
    found = divergence(state)
    assert "dependent_rows" in [doubt.code for doubt in found.doubts]
    assert np.isnan(found.std_error)


def test_mixtures_agree_far_from_all_clusters():
    state, _ = followed(MixtureStream(dim=4), 2_000, 1)
    moved = state.density._replace(means=state.density.means + 0.5)
    far = np.array([[300.0, -200.0, 0.0, 50.0]])
    assert abs(state.density.log_density(far)[0] - moved.log_density(far)[0]) > 20.0
    assert abs(mixture_ratio(state.density, moved, far)[0]) < 1e-6
    near = state.window.z[:50]
    np.testing.assert_allclose(
        mixture_ratio(state.density, moved, near), state.density.log_density(near) - moved.log_density(near), atol=1e-2
    )


@pytest.mark.parametrize("change", [lambda x: 0.5 * x, lambda x: x + 2.0])
def test_a_step_too_large_for_sums_has_no_interval(change):
    rng = np.random.default_rng(0)
    state = forget(start(rng.normal(size=(2_000, 2))))
    state, _ = step(state, change(rng.normal(size=(2_000, 2))), keep="sums")
    found = divergence(state)
    assert "large_step" in [doubt.code for doubt in found.doubts]
    assert (found.low, found.high) == (-np.inf, np.inf)
    state, _ = step(forget(state), change(rng.normal(size=(2_000, 2))), keep="sums")
    assert divergence(state).doubts  # the step is part of all that follows


def test_wrong_uses_are_named():
    x = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.raises(ValueError, match="model='cubic' is unknown: choose one of"):
        start(x, "cubic")
    with pytest.raises(ValueError, match="take a step first"):
        divergence(start(x))


def test_an_abrupt_correlation_is_doubted_where_sums_cannot_follow_it():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 2_000, 3))
    y[:, 1] = 0.5 * y[:, 0] + np.sqrt(0.75) * y[:, 1]
    state, info = step(forget(start(x)), y, keep="sums")
    assert info.joined
    assert "large_step" in [doubt.code for doubt in divergence(state).doubts]
    rows, truth = divergence(step(start(x), y)[0]), -0.5 * np.log(0.75)
    assert not rows.doubts
    assert rows.low < truth < rows.high


def test_a_wider_window_is_no_rare_event():
    rng = np.random.default_rng(0)
    state, _ = step(start(rng.normal(size=(5_000, 2))), 2.0 * rng.normal(size=(5_000, 2)))
    found = divergence(state)
    assert abs(found.value - 2 * (1.5 - np.log(2.0))) < 4.0 * found.std_error


def test_windows_that_hardly_overlap_have_no_interval():
    rng = np.random.default_rng(0)
    state, _ = step(start(rng.normal(size=(800, 30))), rng.normal(0.8, 1.0, (800, 30)))
    found = divergence(state)
    assert "few_rows" in [doubt.code for doubt in found.doubts]
    assert np.isnan(found.std_error)


def test_a_window_of_few_rows_is_remembered():
    rng = np.random.default_rng(0)
    state = start(rng.normal(size=(800, 3)))
    for rows in (20, 800, 800):
        state, _ = step(state, rng.normal(size=(rows, 3)))
        assert np.isnan(divergence(state).std_error)


def test_drift_that_stands_out_and_cannot_join_is_a_lower_bound():
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    spread = turn * np.exp(0.4 * rng.choice([-1.0, 1.0], 40)) @ turn.T
    state, _ = step(start(rng.normal(size=(600, 40))), rng.normal(size=(600, 40)) @ spread)
    found = divergence(state)
    assert "drift_missed" in [doubt.code for doubt in found.doubts]
    assert found.high == np.inf


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones(20), "must have two dimensions"),
        (np.full((20, 2), np.nan), "column 0 holds NaN"),
        (np.zeros((20, 3)), "window has 3 columns, the original has 2"),
    ],
)
def test_rows_that_are_none_are_refused(rows, message):
    state = start(np.random.default_rng(0).normal(size=(50, 2)))
    with pytest.raises(ValueError, match=message):
        step(state, rows)
    with pytest.raises(ValueError, match="keep='sum' is unknown"):
        step(state, np.zeros((20, 2)), keep="sum")
