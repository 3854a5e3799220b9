import hashlib
import os
import sys
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# by default Hypothesis allows 200 ms per example, which fails on a busy machine
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# the same examples in every run: a find of the day belongs to make test-slow, not to somebody's commit
settings.register_profile("driftline", settings.get_profile("explore"), derandomize=True)
settings.load_profile("driftline")
_IDLE = 0.045  # CPU seconds of ``_slowness`` on an idle core


def pytest_addoption(parser):
    parser.addoption("--longest", type=float, help="seconds that a test may take on an idle core")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    """Mark ``full`` what ``make test`` leaves out as a class: further seeds, Spark's JVM, browsers, experiments."""
    for item in items:
        seed = item.callspec.params.get("seed", 0) if hasattr(item, "callspec") else 0
        heavy = {"has_spark", "browser"} & set(getattr(item, "fixturenames", ()))
        if seed in (1, 2) or heavy or item.nodeid.startswith("tests/experiments/"):
            item.add_marker(pytest.mark.full)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test that takes longer than ``--longest``, so that the tier stays quick."""
    longest = item.config.getoption("longest")
    began = _seconds()
    result = yield
    if longest:
        cpu, wall = (now - then for now, then in zip(_seconds(), began, strict=True))
        took = max(cpu, wall / 5)  # other work on the machine stretches the wall clock
        took /= _slowness() if took >= longest else 1.0
        assert took < longest, f"took {took:.1f} s, more than {longest:g}: make it quicker, or mark it full"
    return result


def _slowness():
    """Return how many times longer this machine takes now, beside all else that it does, than an idle core of 2026."""
    rows, began = np.random.default_rng(0).normal(size=(20_000, 40)), time.process_time()
    for _ in range(20):
        np.exp(rows).T @ rows
    sum(len(str(k)) for k in range(200_000))
    return max(1.0, (time.process_time() - began) / _IDLE)


def _seconds():
    """Return CPU seconds of this process and the children that ended, and seconds of the wall clock."""
    user, system, child_user, child_system, wall = os.times()
    return user + system + child_user + child_system, wall


@pytest.fixture(params=[0, 1, 2], ids=lambda s: f"seed{s}")
def seed(request):
    return request.param


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


@pytest.fixture(scope="session", autouse=True)
def _sum_up_each_original_once():
    """Look for the clusters of one and the same original only once; ``auto`` spends most of its time on it.

    Many tests begin with the same rows, and the summary of rows and a seed is always the same: tests/fitting, which
    calls the function itself, has a test of that.
    """
    steps = sys.modules.get("driftline.recursion._log_linear")
    if steps is None:  # nothing that was collected needs it
        yield
        return
    known, found = {}, steps.first_summary

    def first_summary(z, *, seed):
        key = hashlib.sha256(np.ascontiguousarray(z)).digest(), z.shape, z.strides, seed
        if key not in known:
            known[key] = found(z, seed=seed)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "first_summary", first_summary)
        yield
