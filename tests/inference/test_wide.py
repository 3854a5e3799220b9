"""Divergences from many features: right without drift and with it, over steps, in every frame, with error bars."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from driftline.fitting import LogLinearDesign, feature_kinds, fit_features, fit_wide, logistic, loss_of
from driftline.inference import DoubtCode, advance_wide, reframed_wide, wide_divergence

LOSS = loss_of(logistic)


def follow(windows, *, new_frames=False):
    """Take the steps of a stream; return what is kept and the last window's scores."""
    kept, frame = None, fit_features(windows[0], sparing=True)
    for before, after in pairwise(windows):
        features = frame
        if new_frames:
            features = fit_features(np.concatenate([before, after]), sparing=True)
            if kept is not None:
                center, scale = (features.center - frame.center) / frame.scale, features.scale / frame.scale
                same = np.append(kept.coef * scale, kept.coef @ center)
                kept = reframed_wide(kept, same, (kept.origin - center) / scale)
            frame = features
        num, den = LogLinearDesign(features, before), LogLinearDesign(features, after)
        kept = advance_wide(kept, fit_wide(num, den, LOSS, feature_kinds(features)))
    return kept, den.dot(np.append(kept.coef, 0.0))


def stream(seed, steps, *, rows=600, columns=100, shift=0.0, moved=5, factor=1.0):
    """Return windows whose first columns are shifted, and scaled, evenly over the steps."""
    rng = np.random.default_rng(seed)
    out = rng.normal(size=(steps + 1, rows, columns))
    for t, window in enumerate(out):
        window[:, :moved] = window[:, :moved] * factor ** (t / steps) + shift * t / steps
    return list(out)


@pytest.mark.parametrize("steps", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_without_drift_it_reads_nothing_after_any_number_of_steps(steps):
    kept = [follow(stream(seed, steps)) for seed in range(20)]
    for kind in ("reverse_kl", "kl"):
        found = [wide_divergence(*k, kind, 0.95) for k in kept]
        values, errors = np.array([e.value for e in found]), np.array([e.noise_std for e in found])
        assert abs(values.mean()) < 4.0 * errors.mean() / np.sqrt(len(values))
        assert values.std() < 1.5 * errors.mean()
        assert sum(e.low <= 0.0 for e in found) >= 16


@pytest.mark.parametrize("steps", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_shift_of_means_has_its_closed_form(steps):
    truth = 0.5 * 5 * 0.6**2
    kept = [follow(stream(seed, steps, shift=0.6)) for seed in range(12)]
    for kind in ("reverse_kl", "kl"):
        found = [wide_divergence(*k, kind, 0.95) for k in kept]
        error = np.mean([e.std_error for e in found])
        assert np.mean([e.value for e in found]) == pytest.approx(truth, abs=4.0 * error / np.sqrt(12))
        assert sum(e.low <= truth <= e.high for e in found) >= 9


def test_a_change_of_scale_differs_by_direction():
    s = 1.8**2
    truth = {"reverse_kl": 2.5 * (s - 1 - np.log(s)), "kl": 2.5 * (1 / s - 1 + np.log(s))}
    kept = [follow(stream(seed, 3, factor=1.8)) for seed in range(8)]
    for kind, value in truth.items():
        found = [wide_divergence(*k, kind, 0.95) for k in kept]
        assert np.mean([e.value for e in found]) == pytest.approx(value, rel=0.06)
        assert sum(e.low <= value <= e.high for e in found) >= 6


def test_other_divergences_follow():
    length = 0.8  # of the shift: the log-ratio is normal with this standard deviation
    kept = [follow(stream(s, 2, rows=2000, shift=length / np.sqrt(5))) for s in range(4)]
    hellinger = np.mean([wide_divergence(*k, "hellinger", 0.95).value for k in kept])
    assert hellinger == pytest.approx(1.0 - np.exp(-(length**2) / 8.0), rel=0.1)
    quiet = wide_divergence(*follow(stream(9, 2)), "js", 0.95)
    assert abs(quiet.value) < 4.0 * quiet.noise_std


def test_frames_of_features_may_change():
    windows = stream(3, 3, shift=0.5, factor=1.4)
    one, other = follow(windows), follow(windows, new_frames=True)
    for kind in ("reverse_kl", "kl"):
        a, b = wide_divergence(*one, kind, 0.95), wide_divergence(*other, kind, 0.95)
        assert a.value == pytest.approx(b.value, abs=0.3 * a.std_error)
        assert a.std_error == pytest.approx(b.std_error, rel=0.1)


def test_further_rows_need_no_correction():
    values = []
    for seed in range(12):
        windows = stream(seed, 2, shift=0.5, rows=900)
        kept, _ = follow([w[:600] for w in windows])
        features = fit_features(windows[0][:600], sparing=True)
        scores = LogLinearDesign(features, windows[-1][600:]).dot(np.append(kept.coef, 0.0))
        values.append(wide_divergence(kept, scores, "reverse_kl", 0.95, own_window=False).value)
    assert np.mean(values) == pytest.approx(0.625, abs=4.0 * np.std(values) / np.sqrt(12))


def test_fewer_rows_than_features_are_a_doubt():
    found = [wide_divergence(*follow(stream(s, 1, rows=60, columns=150)), "reverse_kl", 0.95) for s in range(10)]
    assert all(np.isnan(e.std_error) and np.isinf(e.high) for e in found)
    assert all(e.doubts[0].code == DoubtCode.FEW_ROWS for e in found)
    assert abs(np.mean([e.value for e in found])) < 4.0 * np.mean([e.noise_std for e in found]) / np.sqrt(10)


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "factor"), [(0.0, 1.0), (0.6, 1.0), (0.0, 1.5)])
def test_intervals_hold_what_they_promise(shift, factor):
    s = factor**2
    truth = 2.5 * (s - 1 - np.log(s) + shift**2)
    found = [
        wide_divergence(*follow(stream(100 + r, 3, rows=500, shift=shift, factor=factor)), "reverse_kl", 0.95)
        for r in range(100)
    ]
    covered = np.mean([e.low <= truth <= e.high for e in found])
    assert covered >= 0.88  # three standard errors below 0.95
    assert np.std([e.value for e in found]) == pytest.approx(np.mean([e.std_error for e in found]), rel=0.3)
