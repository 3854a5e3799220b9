import math
from functools import cache

import numpy as np
import pandas as pd
import pytest

from driftline.fitting import FitDivergedError
from experiments import step_size
from experiments.step_size import METHODS, Args, ends, figure, plans, run, units, verdict

TINY = Args(seeds=2, network_seeds=1, sizes=(1, 2, 4), network_sizes=(1, 4), rows=600, dim=3, delta=0.1, last=4,
            epochs=2, rate=1e-3, network_epochs=2)  # fmt: skip


def rows_of(args, unit):
    return [{"case": unit.case, "seed": unit.seed, **row} for row in run(args, unit, lambda text: None)]


@cache
def table():
    return pd.DataFrame([row for unit in units(TINY) for row in rows_of(TINY, unit)])


def with_errors(errors):
    """A frame as if the methods had these MAEs, {(method, size): value}."""
    rows = [
        {"case": f"{m} d{d}", "seed": 0, "t": 20, "method": m, "size": d, "length": d or 3.0, "mae": mae,
         "kl": 17.0, "true_kl": 17.0, "warned": 0, "reason": ""}
        for (m, d), mae in errors.items()
    ]  # fmt: skip
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


def test_methods_see_the_same_windows():
    quick = Args(sizes=(4,), network_sizes=(4,), rows=500, dim=2, delta=0.1, last=4)
    by_case = {unit.case: unit for unit in units(quick) if unit.seed == 0}
    first, again = (rows_of(quick, by_case["quadratic logistic d4"]) for _ in range(2))
    assert first == again
    assert rows_of(quick, by_case["auto d4"])[0]["true_kl"] == first[0]["true_kl"]


def test_length_of_adaptive_steps_is_between_one_window_and_all():
    free = ends(table())
    free = free[free["size"] == 0]
    assert len(free)
    assert free.length.between(1.0, TINY.last).all()
    fixed = ends(table())
    fixed = fixed[fixed["size"] > 0]
    assert np.allclose(fixed.length, fixed["size"])


def test_a_fit_without_minimum_is_recorded_and_named(monkeypatch):
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
    assert "quadratic KLIEP d1 (1)" in verdict(frame, TINY)
    assert "no fit at d1" in verdict(frame, TINY)
    figure(frame, TINY).canvas.draw()


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


def test_verdict_calls_a_trade_off_by_its_name():
    frame = with_errors({("mlp", 1): 3.0, ("mlp", 4): 1.0, ("mlp", 10): 2.0, ("mlp", 0): 1.5})
    words = " ".join(verdict(frame, Args()).split())
    assert "mlp d4 (a trade-off; d1 ×3, d10 ×2)" in words
    assert "mlp 1.5 with steps of 3.0 windows (×1.5 the best)" in words
    frame = with_errors({("mlp", 1): 1.0, ("mlp", 4): 2.0, ("mlp", 10): 3.0})
    assert "mlp d1 (the smallest; d10 ×3)" in " ".join(verdict(frame, Args()).split())


def test_verdict_counts_warnings_of_bad_estimates():
    frame = with_errors({("mlp", 1): 3.0, ("mlp", 4): 1.0, ("auto", 1): 1.0})
    frame["kl"], frame["warned"] = [10.0, 10.0, 17.0], [1, 0, 1]
    assert "1 of 2 came with a warning" in " ".join(verdict(frame, Args()).split())


def test_verdict_owns_up_to_a_shorter_training():
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
    assert "20,000 rows a window instead of 50,000" in step_size.caption(presets["quick"])
    assert "Shortened" not in step_size.caption(presets["paper"])
