import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from driftline._wording import (
    _SMALL,
    between,
    joined,
    measure,
    moment,
    named,
    number,
    percent,
    precise,
    shift,
    title,
)
from driftline.inference import DIVERGENCES, Estimate, terms


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


@given(st.floats())
@example(999.7)  # not 1e+03
def test_numbers_are_short_and_near(value):
    text = number(value)
    if abs(value) < 1e300:  # beyond, rounding may pass the largest number
        assert abs(float(text.replace(",", "").replace("−", "-")) - value) <= max(_SMALL, 5.001e-3 * abs(value))
        assert len(text) <= 12
        assert "e+" not in text
    elif not math.isfinite(value):
        assert text in ("unknown", "beyond all numbers")


def test_a_value_and_its_interval_have_the_digits_of_the_error_bar():
    for error, shown in [(0.2, ("1.23", "1.03 to 1.43")), (0.02, ("1.234", "1.214 to 1.254"))]:
        estimate = Estimate(1.23412, error, 1.23412 - error, 1.23412 + error, 0.95)
        assert (precise(estimate), between(estimate)) == shown


def test_every_divergence_has_a_name():
    assert all(measure(kind) != kind and title(kind, "a", "b") != kind for kind in DIVERGENCES)


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
