"""The weight of the constraint, in small: fits spread as Theorem 1 says without a penalty, more with a constant one."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from driftline import ContinualDensityRatio
from driftline.fitting import FitDivergedError
from driftline.synthetic import GaussianStream
from experiments.penalty import (
    CORRECTED,
    COVERAGE,
    EXPERIMENT,
    PRINTED,
    STEPS,
    Args,
    caption,
    figure,
    penalties,
    replicate,
    run,
    step_coefficients,
    units,
    verdict,
)

TINY = Args(seeds=2, rows=(200, 400), amounts=(3.0,), dim=2, delta=0.1, last=3, deltas=(0.05, 0.1), replicates=20)
SMALL_RUN = EXPERIMENT, TINY, units(TINY)
_FITS = 400


@cache
def replicated(penalty):
    """Spread of coefficients over what the corrected theorem says, (2,), and both shares of intervals that hold."""
    rng, n = np.random.default_rng(5), 2000
    fits = [replicate(0.05, n, penalty, rng) for _ in range(_FITS)]
    off = np.sqrt(n) * (np.array([fit.coef for fit in fits]) - step_coefficients(0.05))
    variance = np.array([fit.variances[CORRECTED] for fit in fits])
    return off.var(0) / variance.mean(0), (np.abs(off) < 1.96 * np.sqrt(variance)).mean(0)


def test_coefficients_are_those_of_the_stream():
    stream, x = GaussianStream(1, 0.1), np.linspace(-2, 2, 9)[:, None]
    step = stream.log_ratio(x, 5) - stream.log_ratio(x, 4)
    by_coefficients = np.concatenate([x, x**2], 1) @ step_coefficients(0.1)
    assert np.ptp(step - by_coefficients) < 1e-12


def test_fits_without_penalty_spread_as_the_theorem_says():
    spread, held = replicated(0.0)
    # a variance over 400 fits has a relative error of about sqrt(2/400) = 0.07, a share one of 0.011
    np.testing.assert_array_less(np.abs(spread - 1.0), 4 * np.sqrt(2 / _FITS))
    np.testing.assert_array_less(np.abs(held - 0.95), 4 * np.sqrt(0.95 * 0.05 / _FITS))


def test_a_penalty_that_shrinks_changes_little_and_a_constant_one_much():
    none, shrinking, constant = (replicated(penalty)[0] for penalty in (0.0, 1.0 / np.sqrt(2000), 100.0))
    np.testing.assert_allclose(shrinking, none, rtol=0.05)  # the same windows
    assert (constant > 1.2 * none).all()


def test_rules_depend_on_rows_as_their_names_say():
    rules = penalties(Args(amounts=(10.0,), constant=7.0))
    assert {name: (rule.at(100), rule.at(10_000)) for name, rule in rules.items()} == {
        "none": (0.0, 0.0),
        "10/√n": (1.0, 0.1),
        "constant 7": (7.0, 7.0),
    }


def test_both_parts_are_measured_for_each_rule(frame):
    for part, count in ((STEPS, TINY.last), (COVERAGE, 8)):
        own = frame[frame.part == part].groupby(["penalty", "rows", "seed"]).size()
        assert len(own) == 3 * 2 * 2
        assert (own == count).all()
    steps = frame[frame.part == STEPS]
    assert steps[["mae", "residual"]].notna().all().all()
    first = steps[steps.t == 1].pivot_table(index=["rows", "seed"], columns="penalty", values="mae")
    assert (first.nunique(axis=1) == 1).all()  # the first step has no constraint
    far = steps[steps.t == 3].assign(off=lambda last: (last.residual - 1).abs()).groupby("penalty").off.mean()
    assert far["constant 10"] < far["none"]


def test_a_failed_fit_leaves_the_rest_without_numbers(monkeypatch):
    def fail(self, *args, **kwargs):
        raise FitDivergedError("inf")

    monkeypatch.setattr(ContinualDensityRatio, "partial_fit", fail)
    rows = list(run(TINY, next(u for u in units(TINY) if u.case.startswith(STEPS)), lambda text: None))
    assert [row["t"] for row in rows] == [1, 2, 3]
    assert all(np.isnan(row["mae"]) and np.isnan(row["residual"]) for row in rows)


def test_words_follow_the_numbers(frame, check_form):
    right = frame.assign(held=frame.replicates * 0.95)
    said = check_form(verdict(right, TINY))
    assert said.startswith("**At 400 rows a window Theorem 1's intervals are right for λ_c none (Δ=0.05 and 0.1), 3/√n")
    wrong = right.copy()
    wrong.loc[(wrong.penalty == "constant 10") & (wrong.delta == 0.1) & (wrong.formula == CORRECTED), "held"] = 10
    said = check_form(verdict(wrong, TINY))
    assert "constant 10 (Δ=0.05) and no other.**" in said
    assert "50.0 / 50.0 |" in said
    wrong.loc[(wrong.penalty == "3/√n") & (wrong.coefficient == "x²") & (wrong.formula == CORRECTED), "held"] = 10
    assert "none (Δ=0.05 and 0.1), constant 10 (Δ=0.05) and no other.**" in check_form(verdict(wrong, TINY))
    assert "right for no λ_c.**" in check_form(verdict(frame.assign(held=0), TINY))
    only_printed = right.copy()
    only_printed.loc[only_printed.formula == PRINTED, "held"] = 0
    assert check_form(verdict(only_printed, TINY)).split("**")[1] == check_form(verdict(right, TINY)).split("**")[1]
    lower = right.assign(mae=1.0)
    lower.loc[(lower.penalty == "3/√n") & (lower.rows == 400), "mae"] = 0.5
    said = check_form(verdict(lower, TINY))
    assert "with a penalty it is ×1.00 to ×1.00 at n=200 and ×0.50 to ×1.00 at n=400 that without" in said


def test_figure_has_labelled_axes(frame):
    drawn = figure(frame, TINY)
    assert all(ax.get_ylabel() for ax in drawn.axes)
    assert len(drawn.legends[0].get_texts()) == 5


def test_caption_says_what_was_changed():
    assert "Changed" not in caption(EXPERIMENT.presets["paper"])
    assert "dimensions 16 instead of 64" in caption(EXPERIMENT.presets["quick"])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"deltas": (0.2,)}, "--deltas 0.2: each must be above 0 and below 0.2"),
        ({"amounts": ()}, "--amounts"),
        ({"rows": (20,)}, "--rows 20: each must be at least 100"),
        ({"constant": 0.0}, "--constant 0 must be above 0"),
        ({"replicates": 3}, "--replicates 3 must be at least 20"),
    ],
)
def test_plain_mistakes_are_named(wrong, words):
    with pytest.raises(ValueError, match=words):
        replace(Args(), **wrong)
