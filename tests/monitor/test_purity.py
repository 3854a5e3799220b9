"""The monitor holds a pure state: it neither raises nor catches warnings, so threads do not meet."""

import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from driftline import ContinualDensityRatio, Monitor, inference
from driftline.monitor import FIRST, Settings, read_run
from driftline.monitor._advance import fit_encoder, step_settings
from driftline.monitor._tracker import Tracker
from driftline.recursion import _steps as steps
from driftline.recursion import contents
from driftline.tables import Rows

ROWS = 300


def frames(seed, windows=5):
    """Return windows whose last ones have doubts."""
    rng = np.random.default_rng(seed)
    return [
        pl.DataFrame({name: rng.normal(max(0, t - 1) * 0.8, 1.0 / (1 + t), ROWS) for name in "abc"})
        for t in range(windows)
    ]


def watched(tables, model="auto"):
    with Monitor(window=ROWS, divergences=("reverse_kl", "kl", "pearson"), model=model) as monitor:
        return [replace(record, seconds=0.0) for record in monitor.watch(tables)]


@pytest.mark.full
def test_eight_monitors_in_eight_threads_are_eight_monitors_in_turn():
    streams = [frames(seed) for seed in range(8)]
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(8) as eight:  # both in threads, whose sums have one order
        in_turn, at_once = list(one.map(watched, streams)), list(eight.map(watched, streams))
    assert any(record.doubts for records in in_turn for record in records)
    assert at_once == in_turn


def by_networks(tables):
    return [record.to_json() for record in watched(tables, "mlp")]  # nan is not equal to that of a process


def in_turn(streams):
    with ThreadPoolExecutor(1) as one:
        return list(one.map(by_networks, streams))


@pytest.mark.networks
@pytest.mark.slow
def test_networks_in_threads_are_those_of_another_process():
    import torch

    streams, state = [frames(seed, windows=3) for seed in range(3)], torch.random.get_rng_state()
    with ThreadPoolExecutor(3) as threads:
        at_once = list(threads.map(by_networks, streams))
    assert torch.equal(torch.random.get_rng_state(), state)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        assert at_once == process.submit(in_turn, streams).result()


@pytest.mark.parametrize("place", ["step", "divergence"])
def test_warnings_of_a_library_are_not_doubts(monkeypatch, place):
    tables = frames(0)
    before = watched(tables)
    module, name = (steps, "log_linear_step") if place == "step" else (inference, "read_divergence")
    real = getattr(module, name)

    def deprecated(*args, **options):
        warnings.warn("numpy.old is deprecated", DeprecationWarning, stacklevel=2)
        return real(*args, **options)

    monkeypatch.setattr(module, name, deprecated)
    with pytest.warns(DeprecationWarning, match=r"numpy\.old"):  # it passes through to whoever listens
        assert watched(tables) == before


def test_the_filters_of_the_process_are_left_alone():
    before = list(warnings.filters)
    with Monitor(window=ROWS) as monitor:
        for _ in monitor.watch(frames(0)):
            assert warnings.filters == before


def test_records_hold_the_doubts_of_an_estimator_each_once():
    tables, kinds = frames(1), ("reverse_kl", "kl", "pearson")
    settings = Settings(window=ROWS, divergences=kinds)
    encoder = fit_encoder(Rows(tables[0].to_arrow()), settings)
    values = [encoder.transform(table.to_arrow()).values for table in tables]
    est = ContinualDensityRatio(random_state=0).fit(values[0])
    for record, window in zip(watched(tables)[1:], values[1:], strict=True):
        est.partial_fit(window)
        said = tuple(dict.fromkeys(est.divergence(kinds[0]).doubts))
        assert record.doubts[: len(said)] == said
        assert len(set(record.doubts)) == len(record.doubts)
        codes = {doubt.code for doubt in said}
        for estimate, kept in (
            *((est.divergence(kind), record.divergences[kind]) for kind in kinds[1:]),
            (est.step_divergence(kinds[0]), record.step),
        ):  # what the drift is not doubted for stays with the measure
            assert {doubt.code for doubt in estimate.doubts} <= codes | {doubt.code for doubt in kept.doubts}
            assert set(kept.doubts) <= set(estimate.doubts)


@pytest.mark.parametrize("model", ["auto", "linear", pytest.param("mlp", marks=pytest.mark.networks)])
def test_a_step_is_that_of_an_estimator_with_the_same_settings(model):
    settings = Settings(window=ROWS, model=model, seed=3)
    encoder = fit_encoder(Rows(frames(0)[0].to_arrow()), settings)
    est = ContinualDensityRatio(model=model, random_state=3)
    assert step_settings(settings, encoder) == replace(est._settings(3), names=tuple(encoder.names))


def test_a_tracker_holds_what_an_estimator_would_save(tmp_path):
    tables, path = frames(2), tmp_path / "run.tracker"
    with Monitor(path, window=ROWS, seed=5) as monitor:
        list(monitor.watch(tables))
        monitor.add_original("spring")
        log_ratio = monitor.log_ratio(tables[0])
    with Tracker(path, readonly=True) as tracker:
        data = tracker.read().state
    est = ContinualDensityRatio.from_bytes(data)
    saved, held = ({a.name: a.values.tobytes() for a in contents(each, "")} for each in (est.to_bytes(), data))
    assert saved == held
    assert (est.seed_, est.random_state, est.originals_) == (5, 5, [FIRST, "spring"])
    with Monitor.open(path, readonly=True) as monitor:
        first, last = (monitor.encoder.transform(tables[t].to_arrow()).values for t in (0, -1))
    np.testing.assert_array_equal(est.log_ratio(first, FIRST), log_ratio)
    np.testing.assert_array_equal(est.current_window("spring"), last)  # it joined with the window that was current
    assert [original.name for original in read_run(path).originals] == est.originals_
