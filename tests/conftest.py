import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# by default Hypothesis allows 200 ms per example, which fails on a busy machine
settings.register_profile("driftline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("driftline")


@pytest.fixture(params=[0, 1, 2], ids=lambda s: f"seed{s}")
def seed(request):
    return request.param


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)
