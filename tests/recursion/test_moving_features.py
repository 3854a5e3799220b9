"""Features that change: the previous psi still sees the features it was trained on."""

import numpy as np
import pytest

from driftline import ContinualDensityRatio
from driftline.synthetic import GaussianStream

STREAM = GaussianStream(dim=3, delta=0.05)


def windows(seed=0, n=3000, last=6):
    rng = np.random.default_rng(seed)
    return [STREAM.sample(t, n, rng) for t in range(last + 1)]


def turned(seed=0):
    """An invertible affine map, after which the log-ratio is still a quadratic form."""
    matrix = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0] @ np.diag([0.5, 1.0, 3.0])
    return lambda x: x @ matrix + 1.0


def traced(model, seen, encoders, **params):
    """Trace with one encoder per time; a new one is announced by change_features before its first window."""
    est = ContinualDensityRatio(model=model, random_state=0, **params).fit(encoders[0](seen[0]))
    for t in range(1, len(seen)):
        now, then = encoders[t], encoders[t - 1]
        if now is then:
            est.partial_fit(now(seen[t]))
        else:
            est.change_features(now(seen[t - 1])).partial_fit(now(seen[t]), before=then(seen[t]))
    return est


def same(x):
    return x


def test_nothing_changes_where_new_features_express_the_old(seed):
    """Products of columns are closed under affine maps: same divergence and same error bar, before and after."""
    seen, first, second = windows(seed), turned(1), turned(2)
    still = traced("quadratic-full", seen, [same] * 7)
    moving = traced("quadratic-full", seen, [same, same, first, first, second, second, second])
    a, b = still.divergence("reverse_kl"), moving.divergence("reverse_kl")
    assert b.value == pytest.approx(a.value, abs=0.05 * a.std_error)
    assert b.std_error == pytest.approx(a.std_error, rel=0.05)
    rows = seen[-1][:200]
    ours, error = moving.log_ratio(second(rows), return_std=True)
    np.testing.assert_allclose(ours, still.log_ratio(rows), atol=0.02)
    np.testing.assert_allclose(error, still.log_ratio(rows, return_std=True)[1], rtol=0.1)


@pytest.mark.full
@pytest.mark.parametrize("model", ["auto", "quadratic", pytest.param("mlp", marks=pytest.mark.networks)])
def test_the_truth_is_kept_in_a_wider_space(model):
    """New features include the previous ones and more; the divergence of the rows does not change."""
    seen = windows(3)

    def wider(x):
        return np.concatenate([x, np.tanh(x), x[:, :1] * x[:, 1:2]], 1)

    est = traced(model, seen, [same, same, same, wider, wider, wider, wider])
    found, truth = est.divergence("reverse_kl"), STREAM.reverse_kl(6)
    assert est.n_features_in_ == 7
    assert abs(found.value - truth) < 4 * found.std_error + 0.05 * truth


def test_ignoring_the_move_is_wrong():
    """Control: without change_features, the previous psi reads windows in new features as if nothing had moved."""
    seen, turn = windows(4), turned(1)
    announced = traced("quadratic-full", seen, [same] * 3 + [turn] * 4).divergence("reverse_kl").value
    est = ContinualDensityRatio(model="quadratic-full", random_state=0).fit(seen[0])
    for t in range(1, 7):
        est.partial_fit(seen[t] if t < 3 else turn(seen[t]))
    truth = STREAM.reverse_kl(6)
    assert abs(announced - truth) < 0.1 * truth < abs(est.divergence("reverse_kl").value - truth)


def test_before_the_first_window_the_originals_samples_are_the_window():
    seen, turn = windows(5), turned(1)
    est = ContinualDensityRatio(model="quadratic", random_state=0).fit(seen[0])
    est.change_features(turn(seen[0])).partial_fit(turn(seen[1]), before=seen[1])  # not needed, and ignored
    plain = ContinualDensityRatio(model="quadratic", random_state=0).fit(turn(seen[0])).partial_fit(turn(seen[1]))
    assert est.divergence() == plain.divergence()


@pytest.mark.full
@pytest.mark.parametrize("model", ["quadratic", pytest.param("mlp", marks=pytest.mark.networks)])
def test_originals_join_in_the_new_features(model):
    seen, turn = windows(6), turned(1)
    other = [x + 5.0 for x in windows(7)]
    est = ContinualDensityRatio(model=model, random_state=0).fit(seen[0]).partial_fit(seen[1])
    est.change_features(turn(seen[1])).add_original(turn(other[0]), "late")
    est.partial_fit({"original": turn(seen[2]), "late": turn(other[1])}, before={"original": seen[2]})
    for name, t in (("original", 2), ("late", 1)):
        found = est.divergence("reverse_kl", original=name)
        assert abs(found.value - STREAM.reverse_kl(t)) < 4 * found.std_error + 0.02


def test_a_moved_state_is_saved_and_loaded(tmp_path):
    seen, turn = windows(8), turned(1)
    est = traced("auto", seen[:5], [same, same, turn, turn, turn])
    est.save(tmp_path / "run.safetensors")
    again = ContinualDensityRatio.load(tmp_path / "run.safetensors")
    for one in (est, again):
        one.partial_fit(turn(seen[5]))
    assert again.divergence() == est.divergence()


def test_kl_does_not_use_unknown_means():
    """In the new features, the original's means are unknown: KL(original‖current) is summed over steps, correctly."""
    seen = windows(9, n=20_000, last=3)
    est = traced("quadratic-full", seen, [same, same, turned(1), turned(1)])
    est.change_features(seen[3])  # and back
    est.partial_fit(seen[3], before=turned(1)(seen[3]))
    truth = 3 * 0.5 * (1 / 0.85**2 + (0.15 / 0.85) ** 2 - 1 + 2 * np.log(0.85))
    found = est.divergence("kl")
    assert 0.0 < found.std_error < 0.05 * truth
    assert abs(found.value - truth) < 4 * found.std_error


def test_mistakes_are_named_and_harmless():
    seen, turn = windows(10), turned(1)
    est = ContinualDensityRatio(model="quadratic", random_state=0).fit(seen[0]).partial_fit(seen[1])
    with pytest.raises(ValueError, match="before= is for the first window after change_features"):
        est.partial_fit(seen[2], before=seen[2])
    with pytest.raises(ValueError, match=r"window of 'original' has 100 rows, its last window 3000"):
        est.change_features(turn(seen[1])[:100])
    with pytest.raises(ValueError, match=r"needed for all of \['original'\]"):
        est.change_features({"other": seen[1]})
    kept = est.divergence()
    assert kept.value > 0
    now = turn(seen[2])[:, :2]
    est.change_features(turn(seen[1])[:, :2])
    with pytest.raises(ValueError, match="before of 'original' has 10 rows, its window 3000"):
        est.partial_fit(now, before=seen[2][:10])
    est.partial_fit(now, before=seen[2])
    with pytest.raises(ValueError, match="before= is for the first window after change_features"):
        est.partial_fit(now, before=seen[2])
    assert est.t_ == 2
    assert est.n_features_in_ == 2


def test_without_error_bars_the_next_window_is_needed_in_both_features():
    seen, turn = windows(10), turned(1)
    est = ContinualDensityRatio(model="quadratic", normalizer="self", random_state=0).fit(seen[0]).partial_fit(seen[1])
    est.change_features(turn(seen[1])[:, :2])
    for question in (est.divergence, lambda: est.log_ratio(seen[1][:, :2])):
        with pytest.raises(ValueError, match="have changed: call partial_fit"):
            question()
    with pytest.raises(ValueError, match=r"save before change_features, or after partial_fit\(window, before=...\)"):
        est.save("nowhere")
    with pytest.raises(ValueError, match="no window since features changed"):
        est.change_features(seen[1])
    now = turn(seen[2])[:, :2]
    with pytest.raises(ValueError, match=r"before= must hold the windows of \['original'\]"):
        est.partial_fit(now)
    with pytest.raises(ValueError, match="before of 'original' has 2 columns"):
        est.partial_fit(now, before=now)
    with pytest.raises(ValueError, match="before of 'original' has 10 rows, its window 3000"):
        est.partial_fit(now, before=seen[2][:10])
    est.partial_fit(now, before=seen[2])
    assert est.t_ == 2
    assert est.n_features_in_ == 2


def test_kl_summed_up_beats_importance_weights():
    """Bias and error of both ways to KL(original‖current) on eight streams with new features in every window."""
    truth, summed, weighed = 0.5 * 1.4**2, [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        before, est = rng.standard_normal((1000, 3)), ContinualDensityRatio(model="quadratic", random_state=0)
        est.fit(before)
        for t in range(1, 8):
            window = rng.standard_normal((1000, 3))
            window[:, 0] += 0.2 * t
            now, then = turned(t), turned(t - 1)
            est.change_features(now(before)).partial_fit(now(window), before=then(window) if t > 1 else None)
            before = window
        summed.append(est.divergence("kl").value - truth)
        weighed.append(est.divergence("kl", now(window)).value - truth)
    assert abs(np.mean(summed)) < 4 * np.std(summed) / np.sqrt(8) + 0.03 * truth
    assert np.sqrt(np.mean(np.square(summed))) < 0.7 * np.sqrt(np.mean(np.square(weighed)))
