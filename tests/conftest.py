import hashlib
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# by default Hypothesis allows 200 ms per example, which fails on a busy machine
settings.register_profile("driftline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("driftline")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("replicates") and item.callspec.params["seed"] > 0:
            item.add_marker(pytest.mark.slow)


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
