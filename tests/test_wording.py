import math

import numpy as np
import pytest

from driftline._wording import joined, moment, named, number, percent, shift
from driftline.inference import DIVERGENCES, terms


@pytest.mark.parametrize("kind", sorted(DIVERGENCES))
@pytest.mark.parametrize("distance", [0.1, 0.7, 2.0])
def test_a_shift_is_what_the_divergence_of_two_normals_says(kind, distance):
    x = np.linspace(-9.0, 9.0 + distance, 20001)
    density = np.exp(-0.5 * (x - distance) ** 2) / math.sqrt(2.0 * math.pi)
    log_r = -0.5 * x**2 + 0.5 * (x - distance) ** 2
    value = float((density * terms(log_r, kind)).sum() * (x[1] - x[0]))
    # the error comes from quadrature and, for js, from a table in steps of a tenth of a standard deviation
    assert shift(value, kind) == pytest.approx(distance, rel=0.01)


def test_shift_at_the_bounds():
    assert shift(-0.01, "reverse_kl") == 0.0
    assert math.isinf(shift(1.0, "total_variation"))
    assert math.isinf(shift(math.log(2.0), "js"))
    assert math.isnan(shift(1.0, "something else"))


def test_numbers_of_any_size():
    assert [number(v) for v in (0.0, 1e6, 1e12, math.inf)] == ["0", "1,000,000", "1.00e12", "beyond all numbers"]
    assert number(-0.0001, 2) == "0.00"  # no minus before zero
    assert percent(0.0001) == "under 0.1\xa0%"


def test_names():
    assert named("x y") == "“x y”"
    assert len(named("z" * 500)) <= 42
    assert joined(["a", "b", "c"]) == "a, b and c"
    assert joined([]) == ""


def test_moments_are_utc():
    assert moment("2024-03-01T01:30:00+02:00").isoformat() == "2024-02-29T23:30:00+00:00"
    assert moment("2024-03-01") == moment("2024-03-01T00:00:00Z")
    assert moment("2024-03-01T00:00:00.123456789Z").microsecond == 123456
    assert moment("yesterday") is None
