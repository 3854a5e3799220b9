"""Alarms: the promised run length holds for draws of the law, drift is found, memory is small and obeys its rules."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from driftline import ContinualDensityRatio, DriftAlarm, Estimate
from driftline.alarms import AlarmMemory, AlarmPolicy, Cause, Signal, decide, limit
from driftline.inference import Doubt, DoubtCode


def quiet(value, *, noise=0.02, dof=10.0, shared=0.5):
    scale = noise / dof
    return Estimate(
        value, scale * math.sqrt(2 * dof), 0.0, 1.0, 0.95, noise, scale * math.sqrt(2 * dof), shared, 4 * scale
    )


def run_lengths(count, policy, *, dof, shared, drift=0.0, most=100_000, seed=0):
    """Return looks until the first alarm, for streams drawn from the law: an original's share, then each window's."""
    rng, noise, lengths = np.random.default_rng(seed), 0.02, []
    scale = noise / dof
    mean = np.zeros(int(dof))
    mean[0] = math.sqrt(drift / scale)
    for _ in range(count):
        memory, origin = AlarmMemory(), mean + math.sqrt(shared) * rng.standard_normal(int(dof))
        look = 0
        while look < most:
            look += 1
            sample = origin + math.sqrt(1 - shared) * rng.standard_normal(int(dof))
            memory, decision = decide(memory, policy, quiet(scale * sample @ sample - noise, dof=dof, shared=shared))
            if decision.signal is Signal.ALARM:
                break
        lengths.append(look)
    return np.array(lengths)


@pytest.mark.parametrize(
    ("dof", "shared", "persistence"),
    [
        (10.0, 0.5, 1),
        (10.0, 0.3, 2),
        pytest.param(6.0, 0.5, 1, marks=pytest.mark.slow),
        pytest.param(40.0, 0.1, 1, marks=pytest.mark.slow),
    ],
)
def test_run_length_is_as_promised(dof, shared, persistence):
    lengths = run_lengths(150, AlarmPolicy(run_length=20, persistence=persistence), dof=dof, shared=shared)
    error = lengths.std() / math.sqrt(len(lengths))
    assert abs(lengths.mean() - 20) < 3.5 * error + 2.0
    assert np.median(lengths) > 0.4 * 20  # 0.69 if geometric: the mean must not rest on a few lucky originals


@pytest.mark.slow
def test_a_tolerance_is_kept_at_its_edge_and_found_beyond():
    policy = AlarmPolicy(tolerance=0.05, run_length=20)
    edge = run_lengths(100, policy, dof=10.0, shared=0.2, drift=0.05, most=400)
    assert edge.mean() > 0.8 * 20
    below = run_lengths(20, policy, dof=10.0, shared=0.2, drift=0.0, most=200)
    assert (below == 200).all()
    beyond = run_lengths(50, policy, dof=10.0, shared=0.2, drift=0.15, most=400)
    assert beyond.mean() < 3


def test_limits_grow_with_run_length_and_tolerance():
    estimate = quiet(0.0)
    limits = [limit(estimate, 0.0, n) for n in (10, 100, 1000, 10_000)]
    assert limits == sorted(limits)
    assert limit(estimate, 0.1, 100) > 0.1
    assert limit(estimate, 0.0, 100, persistence=3) < limit(estimate, 0.0, 100)
    assert limit(quiet(0.0, shared=0.0), 0.0, 100) > 0
    plain = Estimate(0.1, 0.01, 0.08, 0.12, 0.95)  # no law: normal
    assert limit(plain, 0.05, 40) == pytest.approx(0.05 + 1.96 * 0.01, abs=1e-4)


def test_signals_persistence_warm_up_and_reset():
    high, low = quiet(0.2), quiet(-0.005)
    alarm = DriftAlarm(run_length=100, persistence=2, warm_up=1)
    signals = [alarm.update(e).signal for e in (high, high, high, low, low, low)]
    assert signals == ["normal", "warning", "alarm", "alarm", "normal", "normal"]
    assert "warming up" in DriftAlarm(warm_up=2).update(high).reason
    assert "(1 in a row, 2 needed)" in DriftAlarm(run_length=100, persistence=2).update(high).reason
    alarm.update(high)
    alarm.reset()
    assert alarm.memory == AlarmMemory()


def test_abrupt_change_and_slow_drift_are_distinguished():
    alarm = DriftAlarm(run_length=100)
    decision = alarm.update(quiet(0.0), step=quiet(0.3, shared=0.0))
    assert decision.signal is Signal.ALARM
    assert decision.drift.signal is Signal.NORMAL
    assert "abrupt change: step of 0.3000 nats" in decision.reason
    slow = DriftAlarm(run_length=100).update(quiet(0.3), step=quiet(0.0, shared=0.0))
    assert slow.signal is Signal.ALARM
    assert slow.reason.startswith("drift of 0.3000 nats is beyond")
    patient = DriftAlarm(run_length=100, persistence=2).update(quiet(0.0), step=quiet(0.3, shared=0.0))
    assert patient.signal is Signal.WARNING


def test_memory_is_small_plain_and_resumable():
    alarm = DriftAlarm(run_length=50)
    rng = np.random.default_rng(0)
    for _ in range(30):
        alarm.update(quiet(0.002 * rng.standard_normal()))
    text = json.dumps(alarm.memory)
    assert len(text) < 3000
    again = DriftAlarm(run_length=50)
    again.memory = AlarmMemory(*json.loads(text))
    assert again.update(quiet(0.01)) == alarm.update(quiet(0.01))
    standing = DriftAlarm(run_length=100, persistence=2)
    for value in (0.2, 0.2):
        standing.update(quiet(value))
    again = DriftAlarm(run_length=100, persistence=2)
    again.memory = AlarmMemory(*json.loads(json.dumps(standing.memory)))
    assert again.update(quiet(-0.005)).signal == standing.update(quiet(-0.005)).signal == "alarm"


def test_extreme_promises_have_limits():
    for run_length in (1.5, 1e12):
        for persistence in (1, 40) if run_length > 2 else (1,):
            for estimate in (quiet(0.0), quiet(0.0, shared=1.0), quiet(0.0, dof=2000.0), quiet(0.0, dof=1.0)):
                assert math.isfinite(limit(estimate, 0.0, run_length, persistence))


def test_bad_policies_and_estimates_without_errors():
    for arguments, message in [
        ({"tolerance": -1}, "tolerance=-1 must be a number of nats"),
        ({"tolerance": math.nan}, "tolerance=nan must be"),
        ({"run_length": 1}, "run_length=1 must be more than 1 window"),
        ({"run_length": math.inf}, "run_length=inf must be"),
        ({"persistence": 1.5}, "persistence=1.5 must be a whole number"),
        ({"persistence": 3, "run_length": 2}, "persistence=3 must be less than run_length=2"),
        ({"run_length": 10, "warning": 20}, "warning=20 must lie between 1 and run_length=10"),
        ({"persistence": 0}, "persistence=0 must be a whole number of windows, at least 1"),
        ({"tolerance": "a"}, "tolerance='a' must be a number"),
        ({"run_length": None}, "run_length=None must be a number"),
    ]:
        with pytest.raises(ValueError, match=message):
            DriftAlarm(**arguments)
    blind = Estimate(0.1, math.nan, math.nan, math.nan, 0.95)
    with pytest.raises(ValueError, match="has no standard error"):
        DriftAlarm().update(blind)
    alarm = DriftAlarm(run_length=100)
    alarm.update(quiet(0.3))
    decision = alarm.update(blind)
    assert decision.signal == "alarm"
    assert "no error bar for this window" in decision.reason


def test_on_a_stream_that_stays_and_then_moves(seed):
    rng = np.random.default_rng(seed)
    est = ContinualDensityRatio(model="quadratic", random_state=0).fit(rng.normal(size=(2000, 5)))
    alarm, signals = DriftAlarm(tolerance=0.005, run_length=1000), []
    for t in range(1, 13):
        est.partial_fit(rng.normal(0.25 * (t > 8), 1.0, (1000, 5)))
        signals.append(alarm.update(est.divergence(), est.step_divergence()).signal)
    assert "alarm" not in signals[:8]
    assert signals[8:] == ["alarm"] * 4


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_run_length_on_streams(rho):
    """The whole path, from rows to the first false alarm, on independent and on AR(1) rows."""
    from driftline.synthetic import GaussianStream

    stream, lengths = GaussianStream(dim=3, delta=0.0, rho=rho), []
    for seed in range(60):
        rng = np.random.default_rng(40_000 + seed)
        est = ContinualDensityRatio(model="quadratic", random_state=0).fit(stream.sample(0, 1500, rng))
        alarm = DriftAlarm(run_length=20)
        t = 0
        while t < 400:
            t += 1
            est.partial_fit(stream.sample(0, 500, rng))
            if alarm.update(est.divergence()).signal is Signal.ALARM:
                break
        lengths.append(t)
    assert 0.5 < np.mean(lengths) / 20 < 2.0


def test_decisions_carry_causes():
    low, high = quiet(-0.01), quiet(0.5)
    alarm = DriftAlarm(run_length=100, persistence=2)
    found = [alarm.update(estimate).causes for estimate in (low, high, high, low, low, low)]
    assert found == [
        (Cause.WITHIN,),
        (Cause.ABOVE_LIMIT, Cause.STREAK),
        (Cause.ABOVE_LIMIT, Cause.STREAK),
        (Cause.BACK_BELOW, Cause.ALARM_CONTINUES),
        (Cause.WITHIN, Cause.ALARM_ENDED),
        (Cause.WITHIN,),
    ]
    assert DriftAlarm(warm_up=1).update(high).causes == (Cause.WARM_UP,)
    assert DriftAlarm(run_length=100).update(low, high).causes == (Cause.ABRUPT_STEP,)
    assert alarm.update(Estimate(0.5, math.nan, math.nan, math.nan, 0.95)).causes == (
        Cause.NO_ERROR_BAR,
        Cause.SIGNAL_STANDS,
    )


@pytest.mark.parametrize("given", [(0.3,), (quiet(0.3), 0.1)])
def test_a_bare_number_is_refused_in_words(given):
    alarm = DriftAlarm()
    with pytest.raises(TypeError, match=r"must be an Estimate, not float: pass what est.divergence\(\)"):
        alarm.update(*given)
    assert alarm.memory.seen == 0


def test_an_alarm_shows_its_policy_and_signal():
    alarm = DriftAlarm(0.02, 500)
    assert repr(alarm).endswith("warm_up=0): normal after 0 windows>")
    alarm.update(quiet(0.9))
    assert repr(alarm) == (
        "<DriftAlarm(tolerance=0.02, run_length=500, warning=None, persistence=1, warm_up=0): alarm after 1 window>"
    )


@pytest.mark.parametrize(
    ("value", "low", "high", "tolerance", "signal"),
    [
        (1.4, 0.4, 2.9, 0.1, "warning"),  # within the limit, since noise is so large
        (1.4, 0.0, 2.9, 0.1, "warning"),  # fourteen times the tolerance
        (1.4, 0.4, 2.9, 0.0, "warning"),
        (0.15, 0.11, 0.9, 0.1, "normal"),  # hardly beyond the tolerance
        (0.25, 0.05, 0.9, 0.1, "normal"),
        (0.25, 0.05, 1.9, 0.1, "warning"),  # nobody knows how far
        (1.4, 0.4, 2.9, 0.8, "normal"),
    ],
)
def test_a_large_drift_with_a_wide_interval_is_not_normal(value, low, high, tolerance, signal):
    wide = Estimate(value, 0.6, low, high, 0.95, noise=0.8, noise_std=0.7, shared=0.3, slope=1.0)
    decision = DriftAlarm(tolerance=tolerance).update(wide)
    assert decision.drift.warning > value
    assert decision.signal == signal
    assert (decision.causes == (Cause.WIDE_INTERVAL,)) == (signal == "warning")
    if signal == "warning":
        ends = f"{low:.2f}" if low else "0", f"{high:.2f}"
        said = f"drift of {value:.2f} nats, interval {ends[0]} to {ends[1]}, is far beyond {tolerance:.3g}"
        assert said in decision.reason
    assert DriftAlarm(tolerance=tolerance, warm_up=1).update(wide).signal == "normal"


def test_a_bare_number_is_refused_with_a_way_to_give_it():
    with pytest.raises(TypeError, match=r"must be an Estimate, not float: .* driftline.Estimate\(value, std_error"):
        DriftAlarm().update(0.5)


@pytest.mark.parametrize("way", [0.0, 0.02, 0.05])
def test_limits_allow_for_the_error_of_the_way(way):
    """A quiet reading has it beside its noise; without it in the limit, three in ten with the larger one exceed it."""
    rng, noise, dof = np.random.default_rng(0), 0.02, 10
    readings = noise * rng.chisquare(dof, 40_000) / dof - noise + way * rng.standard_normal(40_000)
    plain = quiet(0.0, shared=0.0)
    found = replace(plain, way=way, std_error=math.hypot(plain.std_error, way))
    share = float(np.mean(readings > limit(found, 0.0, 100.0)))
    # ends of two laws are added in squares, but for what is within the noise: right to a third
    assert 0.006 < share < 0.014


def test_the_error_of_the_way_counts_once_at_the_tolerance():
    """The slope holds it where the value is at the tolerance, and less of it further away."""
    at, beyond = (replace(quiet(value), std_error=0.06, slope=0.4, way=0.05) for value in (0.08, 0.8))
    assert limit(at, 0.1, 100.0) == limit(replace(at, way=0.0), 0.1, 100.0)
    assert limit(beyond, 0.1, 100.0) > limit(replace(beyond, way=0.0), 0.1, 100.0)
    straight = replace(beyond, std_error=0.08)  # as much again as the way: it need not have gone further than it is
    assert limit(straight, 0.1, 100.0) == limit(replace(straight, way=0.0), 0.1, 100.0)


@pytest.mark.parametrize(
    ("estimate", "cause"),
    [
        (Estimate(0.02, 0.05, -0.05, 0.1, 0.95, doubts=(Doubt(DoubtCode.WEAK_STEP, "weak"),)), Cause.UNSETTLED),
        (Estimate(0.08, 0.05, 0.0, 0.2, 0.95, floor=0.12), Cause.LOWER_BOUND),
    ],
    ids=["weak step", "floor"],
)
def test_what_is_not_known_to_be_within_the_tolerance_is_not_normal(estimate, cause):
    alarm = DriftAlarm(tolerance=0.1)
    decision = alarm.update(estimate)
    assert decision.signal is Signal.WARNING
    assert cause in decision.causes
    assert DriftAlarm(tolerance=0.1).update(replace(estimate, doubts=(), floor=0.0)).signal is Signal.NORMAL
