"""Quantities of a fitted ratio: values with their doubts, which never warn."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from driftline.fitting import Training
from driftline.inference import DoubtCode, joined_later
from driftline.recursion import (
    Policy,
    StepSettings,
    attribution,
    divergence,
    has_attribution,
    log_ratio,
    start,
    step,
    track_of,
    weights,
)

SETTINGS = StepSettings(names=("a", "b", "c"))


@pytest.fixture(scope="module")
def windows():
    """Return an original, rows near it, and two windows ever further away that need features of their own."""
    rng = np.random.default_rng(0)
    near = [rng.normal(mean, 1.0, (400, 3)) for mean in (0.0, 0.1)]
    sides = rng.choice([-1.0, 1.0], (400, 1))
    far = [s * sides + rng.normal(0.0, 0.4, (400, 3)) for s in (1.5, 2.5)]
    return [*near, *far]


def stepped(windows):
    state = start(windows[0], SETTINGS)
    for window in windows[1:]:
        state, info = step(state, {"original": window}, SETTINGS, Policy())
    return track_of(state), info.originals["original"]


def codes(found):
    return [doubt.code for doubt in found.doubts]


def test_far_away_all_have_doubts_and_nothing_warns(windows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        track, about = stepped(windows)
        current = track.current
        assert DoubtCode.LITTLE_OVERLAP in codes(about)
        of_steps = {*codes(about), DoubtCode.WEAK_STEP}  # whoever reads a number gets them
        assert codes(weights(track, windows[0]))[0] == DoubtCode.FEW_FOR_WEIGHTS
        assert {*codes(weights(track, windows[0]))} == {DoubtCode.FEW_FOR_WEIGHTS, *of_steps}
        forward = divergence(track, "kl", 0.95, of_step=False)
        if joined_later(current.psi.coef, current.uncertainty).any():
            assert codes(attribution(track, SETTINGS.names, 0.95, None))[0] == DoubtCode.FEW_FOR_ATTRIBUTION
            assert codes(forward)[0] == DoubtCode.FEW_FOR_KL
            assert forward.doubts[0].concerns == ("kl",)
        else:  # the original's means of all features are known: neither rests on weights
            assert {*codes(attribution(track, SETTINGS.names, 0.95, None))} == of_steps
            assert {*codes(forward)} == of_steps
        heavy = divergence(track, "pearson", 0.95, of_step=False)
        assert codes(heavy)[0] == DoubtCode.FEW_FOR_DIVERGENCE
        assert {d.concerns for d in heavy.doubts if d.code not in of_steps} == {("pearson",)}
        assert codes(divergence(track, lambda r: (r - 1) ** 2, 0.95, of_step=False))[0] == DoubtCode.FEW_FOR_DIVERGENCE
        assert {*codes(divergence(track, "reverse_kl", 0.95, of_step=False))} == of_steps
        assert {*codes(divergence(track, "reverse_kl", 0.95, of_step=True))} == of_steps - {DoubtCode.MODEL_MISSES}
        found = log_ratio(track, windows[0])
        assert found.values.shape == (400,)
        assert {*codes(found)} == of_steps


def test_nearby_there_are_no_doubts(windows):
    track, about = stepped(windows[:2])
    found = [about, weights(track, windows[0]), attribution(track, SETTINGS.names, 0.95, None)]
    found += [divergence(track, kind, 0.95, of_step=False) for kind in ("kl", "reverse_kl", "pearson")]
    assert [codes(each) for each in found] == [[]] * 6


def test_kl_that_is_summed_along_the_way_reads_nothing_of_quiet_clusters(seed):
    """Its noise, 0.02 nats here, was once left in: no interval held 0."""
    centres, rng = 4.0 * np.random.default_rng(5).normal(size=(4, 8)), np.random.default_rng(41_000 + seed)
    windows = [rng.normal(size=(1500, 8)) + centres[rng.integers(0, 4, 1500)] for _ in range(3)]
    state = start(windows[0], settings := replace(SETTINGS, names=tuple(map(str, range(8))), model="auto"))
    for window in windows[1:]:
        state, _ = step(state, {"original": window}, settings, Policy())
    found = divergence(track_of(state), "kl", 0.95, of_step=False)
    assert np.isnan(found.noise_std), "it is the ratio's constant, and not summed up"
    assert 0.01 < found.noise < 0.04
    assert found.low < 0.0 < found.high


def test_unknown_originals_are_refused(windows):
    state = start(windows[0], SETTINGS, "spring")
    with pytest.raises(ValueError, match=r"original 'summer' is unknown: choose one of \['spring'\]"):
        track_of(state, "summer")


@pytest.mark.parametrize(
    ("model", "stepped_has_it"), [(SETTINGS.model, True), pytest.param("mlp", False, marks=pytest.mark.networks)]
)
def test_attribution_can_be_asked_only_where_there_is_one(model, stepped_has_it, windows):
    settings = replace(SETTINGS, model=model, hidden=(4,), training=Training(epochs=1))
    state = start(windows[0], settings)
    after, _ = step(state, {"original": windows[1]}, settings, Policy())
    for found, has_it in ((state, False), (after, stepped_has_it)):
        track = track_of(found)
        assert has_attribution(track.current) == has_it
        if has_it:
            assert len(attribution(track, SETTINGS.names, 0.95, None).parts) == 3
        else:
            with pytest.raises(ValueError, match="cannot be attributed"):
                attribution(track, SETTINGS.names, 0.95, None)
