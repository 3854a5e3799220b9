"""Roots: those of SciPy's brentq, to the last bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from driftline._roots import root


@pytest.mark.parametrize("tolerance", [2e-12, 1e-4])
def test_equals_brentq(tolerance: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, c = rng.normal(size=2)
        functions = [
            lambda x, a=a: x**3 - a,
            lambda x, a=a: math.exp(x) - math.exp(a),
            lambda x, a=a, c=c: math.tanh(3.0 * (x - a)) + 0.01 * (x - a) * abs(c),
            lambda x, a=a: math.log(max(1.0 - 0.5 * (1.0 + math.erf(x - a)), 1e-300)) + 3.0,
        ]
        for function in functions:
            assert root(function, -9.0, 11.0, tolerance) == brentq(function, -9.0, 11.0, xtol=tolerance)


def test_root_at_an_end() -> None:
    assert root(lambda x: x, 0.0, 1.0) == 0.0
    assert root(lambda x: x - 1.0, 0.0, 1.0) == 1.0


def test_same_signs_are_refused() -> None:
    with pytest.raises(ValueError, match="same sign at 1 and 2"):
        root(lambda x: x, 1.0, 2.0)
