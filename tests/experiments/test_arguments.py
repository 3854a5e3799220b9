"""Arguments: mistakes are named by flag and value, differences by both values."""

from dataclasses import dataclass

import pytest

from experiments.arguments import check_above_zero, check_at_least, check_drift, differences, remark


@dataclass(frozen=True)
class Args:
    slow_seeds: int = 2
    rate: float = 1e-3
    delta: float = 0.1
    last: int = 5
    sizes: tuple[int, ...] = (1, 2)


def test_good_arguments_pass():
    check_at_least(Args(), 2, "slow_seeds", "last")
    check_above_zero(Args(), "rate", "delta")
    check_drift(Args(), "last")


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="--slow-seeds 2 must be at least 3"):
        check_at_least(Args(), 3, "last", "slow_seeds")
    with pytest.raises(ValueError, match="--rate nan must be above 0"):
        check_above_zero(Args(rate=float("nan")), "delta", "rate")
    with pytest.raises(ValueError, match=r"--delta 0\.1 must be above 0 and below 1 / --last 10"):
        check_drift(Args(last=10), "last")


def test_differences_give_both_values():
    names = {"slow_seeds": "seeds of slow fits", "sizes": "sizes", "rate": "rate"}
    assert differences(Args(), Args(), names) == []
    found = differences(Args(sizes=(1,), slow_seeds=1000), Args(), names)
    assert found == ["seeds of slow fits 1,000 instead of 2", "sizes 1 instead of 1, 2"]
    assert remark("Shortened", found[1:]) == " Shortened: sizes 1 instead of 1, 2."
    assert remark("Shortened", []) == ""
