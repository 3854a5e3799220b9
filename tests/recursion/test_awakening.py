"""Columns that are constant, or have two values, at first: they cost nothing, and are taken in once they change."""

import numpy as np
import pytest

from driftline import ContinualDensityRatio
from driftline.fitting import fit_features
from driftline.recursion import _log_linear, _steps

pytestmark = pytest.mark.filterwarnings("ignore::driftline.UntrustedEstimateWarning")
KINDS = ("kl", "reverse_kl", "js")
SEEDS = (0, 1, 2)
MODELS = [
    pytest.param(model, seed, marks=[pytest.mark.slow] * (seed > 0))
    for model in ("linear", "quadratic", "auto")
    for seed in SEEDS
]


def track(est, name="original"):
    return est._state.tracks[name]


def run(windows, between=lambda est: est, **params):
    est = ContinualDensityRatio(**{"random_state": 0, "model": "quadratic", **params}).fit(windows[0])
    for window in windows[1:]:
        est = between(est).partial_fit(window)
    return est


def reloaded(est):
    return ContinualDensityRatio.from_bytes(est.to_bytes())


@pytest.fixture
def all_from_the_start(monkeypatch):
    """Make models begin with all columns and squares, whether they vary or not."""

    def full(z, model, summary=None):
        return fit_features(z, squares=model != "linear")

    def switch():
        for module in (_log_linear, _steps):
            monkeypatch.setattr(module, "start_features", full)

    return switch


def late(rng, first, n=1500):
    """Return six windows; the last column is 7 at first, then as ``first`` says, and finally normal around 7."""
    windows = [rng.normal(0.1 * t, 1.0, (n + 10 * t, 3)) for t in range(6)]
    for t, rows in enumerate(windows):
        rows[:, 2] = 7.0 if t < 2 else first(rng, len(rows)) if t < 4 else rng.normal(7.3, 0.6, len(rows))
    return windows


FIRST = {
    "normal": lambda rng, n: rng.normal(7.2, 0.5, n),
    "two values": lambda rng, n: 7.0 + (rng.random(n) < 0.4),
    "another constant": lambda rng, n: np.full(n, 7.5),
    "still constant": lambda rng, n: np.full(n, 7.0),
}


@pytest.mark.parametrize(("model", "seed"), MODELS, indirect=["seed"])
@pytest.mark.parametrize("first", ["normal", "still constant"])
def test_a_column_that_was_constant_is_taken_in(first, model, rng, all_from_the_start):
    """The ratio and all that is said about it are those of a model that has had its features from the start."""
    windows = late(rng, FIRST[first])
    found = run(windows, model=model)
    features = track(found).current.psi.features
    assert sorted(features.linear) == [0, 1, 2]
    assert sorted(features.squares) == ([] if model == "linear" else [0, 1, 2])
    all_from_the_start()
    wanted = run(windows, model=model)
    probe = windows[-1][:300]
    (ratios, errors), (true, known) = (est.log_ratio(probe, return_std=True) for est in (found, wanted))
    # the prior's scale of a feature that joins may differ: it is worth one row of a window
    assert np.abs(ratios - true).max() < 0.1 * known.min()
    np.testing.assert_allclose(errors, known, rtol=0.03)
    for kind in KINDS:
        one, other = found.divergence(kind), wanted.divergence(kind)
        assert one.value == pytest.approx(other.value, abs=0.1 * other.std_error)
        assert one.std_error == pytest.approx(other.std_error, rel=0.03)
    parts, others = ({p.column: p.contribution for p in est.attribution()} for est in (found, wanted))
    for column, other in others.items():
        assert parts[column].value == pytest.approx(other.value, abs=0.1 * other.std_error)


@pytest.mark.parametrize("first", FIRST)
def test_the_originals_means_are_known_for_what_joins_later(first, rng, all_from_the_start):
    """KL(original, current) and attributions use that all features have mean 0 in the original: so they must.

    On values that no window before has had, the ratio before is anything; a step between two such windows is not.
    """
    windows = late(rng, FIRST[first])
    found = run(windows)
    forward = found.divergence("kl")
    ends = [found.log_ratio(rows).mean() for rows in (windows[0], windows[-1])]
    if ends[0] > 0.0:  # not where the ratio on the original's rows is anything
        assert forward.value == pytest.approx(ends[0], abs=0.3 * forward.std_error)  # up to its bias
    else:
        assert first == "another constant"
    parts = [part.contribution for part in found.attribution()]
    error = max(part.std_error for part in parts)
    assert sum(part.value for part in parts) == pytest.approx(ends[0] - ends[1], abs=0.3 * error)
    all_from_the_start()
    wanted = run(windows)
    one, other = found.step_divergence(), wanted.step_divergence()
    assert one.value == pytest.approx(other.value, abs=0.05 * other.std_error)
    assert one.std_error == pytest.approx(other.std_error, rel=0.02)


def logs(rows, values):
    """Return the logarithms of the shares of values in a column."""
    return np.log([np.mean(rows[:, 0] == value) for value in values])


@pytest.mark.parametrize(("model", "seed"), MODELS[len(SEEDS) :], indirect=["seed"])  # not the linear one
@pytest.mark.parametrize("values", [(0.0, 1.0, 2.0), (-1.0, 1.0, 3.0)], ids=str)
@pytest.mark.parametrize("between", [lambda est: est, reloaded], ids=["straight", "reloaded"])
def test_a_third_value_is_taken_in(values, model, between, rng):
    """Column and square can express any ratio of three shares, so each step is the ratio of the shares counted."""

    def window(*chances):
        return rng.choice(values[: len(chances)], p=chances, size=(4000, 1))

    windows = [window(0.5, 0.5), window(0.4, 0.6), window(0.3, 0.6, 0.1), window(0.3, 0.5, 0.2), window(0.2, 0.4, 0.4)]
    # shares of one half: the scale of -1 and 1 is exactly 1; in no order, as sorted rows have no error bars
    windows[0][:] = rng.permutation(np.repeat(values[:2], 2000))[:, None]
    est = ContinualDensityRatio(model=model, ridge=1e-6, random_state=0).fit(windows[0])
    probe, seen = np.array(values)[:, None], []
    for now in windows[1:]:
        est = between(est).partial_fit(now)
        seen.append((track(est).current.log_ratio(probe), track(est).current.psi.features))
    assert [len(f.squares) for _, f in seen] == [0, 1, 1, 1]
    assert [len(f.linear) for _, f in seen] == [1, 1, 1, 1]
    # on the two values that the original has, the ratio is that of the shares in the original and now
    for (log_r, _), now in zip(seen, windows[1:], strict=True):
        np.testing.assert_allclose(log_r[:2], logs(windows[0], values[:2]) - logs(now, values[:2]), atol=1e-3)
    assert seen[1][0][2] < -4.0  # the original has no such rows
    for (past, _), (log_r, _), before, now in zip(seen[1:-1], seen[2:], windows[2:-1], windows[3:], strict=True):
        np.testing.assert_allclose(log_r - past, logs(before, values) - logs(now, values), atol=1e-3)
    p, q = np.array([0.5, 0.5]), np.exp(logs(windows[-1], values[:2]))
    drift = est.divergence("kl")
    assert abs(drift.value - float(p @ np.log(p / q))) < 4 * drift.std_error + 1e-3


@pytest.mark.parametrize("model", ["linear", "quadratic", "auto"])
def test_two_values_need_no_square(model, rng, all_from_the_start):
    windows = [np.column_stack([rng.random(800) < 0.3 + 0.05 * t, rng.normal(size=800)]) for t in range(5)]
    found = run(windows, model=model)
    features = track(found).current.psi.features
    assert features.squares.tolist() == ([] if model == "linear" else [1])
    all_from_the_start()
    wanted = run(windows, model=model)
    carried = [track(est).current.log_ratio(windows[0]) for est in (found, wanted)]
    np.testing.assert_allclose(*carried, atol=1e-5)
    for kind in KINDS:
        one, other = found.divergence(kind), wanted.divergence(kind)
        assert one.value == pytest.approx(other.value, abs=0.02 * other.std_error)
        assert one.std_error == pytest.approx(other.std_error, rel=0.01)


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize(("model", "seed"), MODELS, indirect=["seed"])
def test_saving_in_between_changes_nothing(first, model, rng):
    windows = late(rng, FIRST[first], n=603)
    assert run(windows, reloaded, model=model).to_bytes() == run(windows, model=model).to_bytes()


def test_files_grow_with_the_columns_that_are_taken_in_alone(rng):
    windows, sizes = late(rng, FIRST["two values"]), []
    est = ContinualDensityRatio(model="quadratic", random_state=0).fit(windows[0])
    for window in windows[1:]:
        est.partial_fit(window[:1500])
        sizes.append(len(est.to_bytes()))
    assert sizes == sorted(sizes)
    assert sizes[-1] < sizes[0] + 2_000


def test_every_original_has_features_of_its_own(rng):
    windows = late(rng, FIRST["normal"])
    other = rng.normal(7.0, 1.0, (1500, 3))  # here the last column varies from the start
    other[:, 0] = 0.0
    both = ContinualDensityRatio(random_state=0, model="quadratic").fit(windows[0]).add_original(other, name="b")
    for t, window in enumerate(windows[1:]):
        both.partial_fit({"original": window, "b": window})
        if t == 0:
            assert track(both).current.psi.features.linear.tolist() == [0, 1]
            assert track(both, "b").current.psi.features.linear.tolist() == [1, 2, 0]
        both = reloaded(both)
    alone = run(windows)
    np.testing.assert_array_equal(both.log_ratio(windows[-1], "original"), alone.log_ratio(windows[-1]))
    alone = run([other, *windows[1:]])
    np.testing.assert_array_equal(both.log_ratio(windows[-1], "b"), alone.log_ratio(windows[-1]))


def test_what_is_left_out_costs_nothing(rng):
    """Six columns vary, two of them between two values; thirty are constant: 6 + 4 features and a constant."""

    def window(n=700):
        live = np.hstack([rng.normal(size=(n, 4)), rng.random((n, 2)) < 0.5])
        return np.insert(np.full((n, 30), 3.0), [0, 5, 5, 11, 20, 30], live, axis=1)

    est = run([window(), window(), window()])
    assert track(est).current.design.shape == (700, 11)
    assert track(est).current.uncertainty.covariance.shape == (11, 11)
    assert run([window(), window(), window()], model="linear")._state.tracks["original"].current.design.shape == (
        700,
        7,
    )


def test_nothing_varies(rng):
    still = np.full((60, 2), 5.0)
    for model in ("linear", "quadratic", "auto"):
        est = run([still, still, still], reloaded, model=model)
        assert est.log_ratio(still).tolist() == [0.0] * 60
        assert abs(est.divergence().value) < 1e-12
        est.partial_fit(still + rng.normal(0.0, 0.1, still.shape))
        assert np.isfinite(est.log_ratio(still)).all()


@pytest.mark.parametrize("value", [0.1, -1.0 / 3.0, 1.1e25, 3.3e-200])
def test_a_constant_is_left_out_though_its_mean_is_rounded(value, rng):
    """The mean of 5000 times 0.1 is not 0.1: what is left of the column must be 0, in any unit."""
    windows = [rng.normal(0.1 * t, 1.0, (5000, 3)) for t in range(3)]
    for window in windows:
        window[:, 1] = value
    est = ContinualDensityRatio(random_state=0)
    for window in windows:
        est.partial_fit(window)
    features = est._state.tracks["original"].current.psi.features
    assert 1 not in features.linear
    assert 1 not in features.squares
    assert est.divergence("reverse_kl").value < 0.2
