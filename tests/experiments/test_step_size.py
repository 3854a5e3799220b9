import math
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from driftline.fitting import FitDivergedError
from experiments import step_size
from experiments.experiment import Unit
from experiments.step_size import METHODS, Args, ends, figure, plans, run, units, verdict

TINY = Args(
    seeds=2,
    network_seeds=1,
    sizes=(1, 2, 4),
    network_sizes=(1, 4),
    rows=600,
    dim=3,
    delta=0.1,
    last=4,
    epochs=2,
    rate=1e-3,
    network_epochs=2,
)


def rows_of(args, unit):
    return [{"case": unit.case, "seed": unit.seed, **row} for row in run(args, unit, lambda text: None)]


@cache
def table():
    return pd.DataFrame([row for unit in units(TINY) for row in rows_of(TINY, unit)])


def with_errors(errors, seeds=3):
    """A frame as if the methods had these MAEs, {(method, size): value}."""
    rows = [
        {
            "case": f"{m} d{d}",
            "seed": seed,
            "t": 20,
            "method": m,
            "size": d,
            "length": d or 3.0,
            "mae": mae,
            "kl": 17.0,
            "true_kl": 17.0,
            "warned": 0,
            "reason": "",
        }
        for (m, d), mae in errors.items()
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows)


def test_units_announce_their_rows_and_each_plan_reaches_the_last_window():
    counts = table().groupby(["case", "seed"]).size()
    assert {(u.case, u.seed): u.rows for u in units(TINY)} == counts.to_dict()
    assert (table().groupby("case").t.max() == TINY.last).all()
    assert set(table().method) == set(METHODS)
    assert "CKLIEP adaptive" not in plans(TINY)


def test_convex_fits_know_the_drift():
    last = ends(table())
    exact = last[last.method.isin(["auto", "quadratic logistic"])]
    unweighted = exact.true_kl  # a log-ratio of 0 is off by at least this much on average
    assert (exact.mae < 0.5 * unweighted).all()
    assert (exact.off.abs() < 40).all()


def test_methods_see_the_same_windows(monkeypatch):
    quick = Args(sizes=(2,), network_sizes=(2,), rows=500, dim=2, delta=0.1, last=4, network_epochs=1)
    given, original = {}, step_size.ContinualDensityRatio.partial_fit
    for case in ("quadratic logistic d2", "quadratic KLIEP d2", "mlp d2"):

        def recorded(self, window, y=None, case=case):
            given.setdefault(case, []).append(window)
            return original(self, window, y)

        monkeypatch.setattr(step_size.ContinualDensityRatio, "partial_fit", recorded)
        given[case, "truth"] = [row["true_kl"] for row in rows_of(quick, Unit(case, 0, 2))]
    first = given["quadratic logistic d2"]
    assert len(first) == 2
    assert not np.array_equal(*first)
    for case in ("quadratic KLIEP d2", "mlp d2"):
        np.testing.assert_array_equal(given[case], first)
        assert given[case, "truth"] == given["quadratic logistic d2", "truth"]  # test rows


@pytest.mark.parametrize(
    "wrong",
    [{name: 0} for name in ("seeds", "network_seeds", "rows", "dim", "last", "epochs", "network_epochs", "rate")]
    + [{"delta": -0.1}, {"delta": 0.05}],
)
def test_plain_mistakes_are_named_by_flag_and_value(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} {value:g} must"):
        replace(Args(), **wrong)


@pytest.mark.parametrize("field", ["sizes", "network_sizes"])
@pytest.mark.parametrize("sizes", [(1, 3), (0, 1), (), (40,)])
def test_sizes_that_do_not_end_at_the_last_window_are_refused(field, sizes):
    shown = " ".join(map(str, sizes))
    with pytest.raises(ValueError, match=f"--{field.replace('_', '-')} {shown}: each must divide --last 20"):
        replace(Args(), **{field: sizes})


def test_length_of_adaptive_steps_is_between_one_window_and_all():
    free = ends(table())
    free = free[free["size"] == 0]
    assert len(free)
    assert free.length.between(1.0, TINY.last).all()
    fixed = ends(table())
    fixed = fixed[fixed["size"] > 0]
    assert np.allclose(fixed.length, fixed["size"])


def test_a_fit_without_minimum_is_recorded_and_named(monkeypatch, check_form):
    original = step_size.ContinualDensityRatio.partial_fit

    def failing(self, window, y=None):
        if self.t_ == 1:
            raise FitDivergedError("no minimum here")
        return original(self, window, y)

    monkeypatch.setattr(step_size.ContinualDensityRatio, "partial_fit", failing)
    unit = next(u for u in units(TINY) if u.case == "quadratic KLIEP d1")
    rows = rows_of(TINY, unit)
    assert len(rows) == unit.rows
    assert math.isfinite(rows[0]["mae"])
    assert all(math.isnan(row["mae"]) and "no minimum here" in row["reason"] for row in rows[1:])
    frame = pd.concat([table()[table().case != unit.case], pd.DataFrame(rows)])
    words = check_form(verdict(frame, TINY))
    assert "quadratic KLIEP d1 (1 of 1)" in words
    assert "| quadratic KLIEP | 1 of 1 failed | " in words
    figure(frame, TINY).canvas.draw()


def test_a_size_with_failed_fits_is_neither_the_best_nor_a_mean_of_the_rest(check_form):
    frame = with_errors({("mlp", 1): 1.0, ("mlp", 4): 2.0, ("mlp", 10): 3.0, ("mlp", 0): 1.5})
    frame.loc[(frame["size"] < 2) & (frame.seed == 1), "mae"] = math.nan
    words = check_form(verdict(frame, Args()))
    assert "contradicted for mlp.**" in words
    row = "| mlp | 1 of 3 failed | 2 | d4 (a trade-off) | d1 1 of 3 failed, d10 ×1.5 | 1 of 3 failed | 3.0 |"
    assert row in words
    assert "mlp d1 (1 of 3)" in words
    line = next(line for line in figure(frame, Args()).axes[0].lines if line.get_label() == "mlp")
    assert list(line.get_xdata()) == [4, 10]


@pytest.mark.parametrize(("seeds", "few"), [(1, "one seed"), (2, "2 seeds")])
def test_few_seeds_only_suggest(seeds, few, check_form):
    frame = with_errors({("mlp", 1): 3.0, ("mlp", 4): 1.0, ("auto", 1): 1.0, ("auto", 4): 3.0}, seeds)
    lead = check_form(verdict(frame, Args())).split("**")[1]
    assert f"the numbers of {few} point the other way for mlp" in lead
    assert f"the numbers of {few} point that way for auto" in lead
    assert "confirmed" not in lead
    assert "contradicted" not in lead


def test_a_size_that_was_not_run_is_not_a_fit_that_failed(check_form):
    words = check_form(verdict(with_errors({("mlp", 2): 3.0, ("mlp", 4): 1.0}), Args()))
    assert "undecided for mlp.**" in words
    assert "| mlp | not run | 1 | " in words


@pytest.mark.parametrize(
    ("small", "large", "word"),
    [(1.0, 2.0, "confirmed"), (2.0, 1.0, "contradicted"), (1.0, 1.02, "undecided"), (1.0, math.nan, "confirmed")],
)
def test_verdict_turns_with_the_numbers(small, large, word):
    frame = with_errors({("mlp", 1): small, ("mlp", 4): large, ("mlp", 10): 3.0, ("mlp", 0): 1.5})
    lead = verdict(frame, Args()).split("**")[1]
    assert f"{word} for" in lead
    clause = next(part for part in lead.split(";") if "mlp" in part)
    assert word in clause


def test_verdict_calls_a_trade_off_by_its_name(check_form):
    frame = with_errors({("mlp", 1): 3.0, ("mlp", 4): 1.0, ("mlp", 10): 2.0, ("mlp", 0): 1.5})
    words = check_form(verdict(frame, Args()))
    assert "| mlp | 3 | 1 | d4 (a trade-off) | d1 ×3, d10 ×2 | 1.5 (×1.5) | 3.0 |" in words
    frame = with_errors({("mlp", 1): 1.0, ("mlp", 4): 2.0, ("mlp", 10): 3.0})
    assert "| d1 (the smallest) | d10 ×3 | | |" in check_form(verdict(frame, Args()))


def test_verdict_counts_warnings_of_bad_estimates(check_form):
    frame = with_errors({("mlp", 1): 3.0, ("mlp", 4): 1.0, ("auto", 1): 1.0})
    frame = frame[frame.seed == 0].assign(kl=[10.0, 10.0, 17.0], warned=[1, 0, 1])
    assert "1 of 2 came with a warning" in check_form(verdict(frame, Args()))


def test_verdict_admits_a_shorter_training():
    frame = with_errors({("CKLIEP", 1): 3.0, ("CKLIEP", 4): 1.0})
    assert "may favour d4" in verdict(frame, step_size.EXPERIMENT.presets["quick"])
    assert "may favour d4" not in verdict(frame, step_size.EXPERIMENT.presets["paper"])


def test_figure_draws_with_labelled_axes():
    fig = figure(table(), TINY)
    fig.canvas.draw()
    for ax in fig.axes:
        assert "[" in ax.get_xlabel()
        assert "[" in ax.get_ylabel()
    labels = [text.get_text() for text in fig.legends[0].get_texts()]
    assert labels == list(METHODS)


def test_caption_says_what_was_shortened():
    presets = step_size.EXPERIMENT.presets
    assert "rows a window 20,000 instead of 50,000" in step_size.caption(presets["quick"])
    assert "Shortened" not in step_size.caption(presets["paper"])
