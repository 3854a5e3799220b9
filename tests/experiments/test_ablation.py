import math
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from driftline.fitting import FitDivergedError
from driftline.recursion import Policy, StepSettings, start, step
from driftline.synthetic import GaussianStream
from experiments import ablation
from experiments.ablation import (
    FRESH,
    PENALISED,
    SELF,
    SHARED,
    TELESCOPED,
    Args,
    figure,
    ratios,
    renewed,
    run,
    units,
    verdict,
)

TINY = Args(seeds=2, slow_seeds=1, rows=800, dim=3, delta=0.08, last=4, every=1, network_every=2, epochs=2)


def rows_of(args, unit):
    return [{"case": unit.case, "seed": unit.seed, **row} for row in run(args, unit, lambda text: None)]


@cache
def table():
    return pd.DataFrame([row for unit in units(TINY) for row in rows_of(TINY, unit)])


def window(t, seed, n=800):
    return GaussianStream(3, 0.08).sample(t, n, np.random.default_rng([seed, t]))


def test_units_announce_their_rows_and_cross_all_choices():
    counts = table().groupby(["case", "seed"]).size()
    assert {(u.case, u.seed): u.rows for u in units(TINY)} == counts.to_dict()
    convex = table()[(table().model == "quadratic") & (table().seed == 0) & (table().t == 4)]
    assert len(convex) == 3 * 3 * 2
    network = table()[(table().model == "mlp") & (table().t == 4)]
    assert len(network) == 2 * 3 * 2


def test_default_beats_knowing_nothing():
    last = table()[(table().t == 4) & (table().model == "quadratic") & (table().objective == "logistic")]
    ours = last[(last.normalizer == TELESCOPED) & (last.windows == SHARED)]
    assert len(ours) == 2
    assert (ours.mae < 0.5 * ours.true_kl).all()


def test_one_fit_serves_both_normalizers():
    """The rows for "self" taken from a telescoped fit are those of a fit that normalises itself."""
    for model in ("quadratic", "mlp"):
        got = []
        for settings in (
            StepSettings(model=model, seed=3, lag=0, training=ablation.Training(epochs=2)),
            StepSettings(model=model, seed=3, lag=0, training=ablation.Training(epochs=2), normalizer="self"),
        ):
            state = start(window(0, 5), settings)
            for t in (1, 2):
                state, _ = step(state, {"original": window(t, 5)}, settings, Policy())
            name = SELF if settings.normalizer == "telescoped" else TELESCOPED
            got.append(ablation._log_ratio(state, window(2, 6), name))
        np.testing.assert_allclose(got[0], got[1], atol=1e-9)


def test_renewed_anchor_is_the_numerator_of_the_next_step():
    settings = StepSettings(model="quadratic", lag=0)
    state, _ = step(start(window(0, 1), settings), {"original": window(1, 1)}, settings, Policy())
    same = renewed(state, state.tracks["original"].anchor.window)
    other = renewed(state, window(1, 2))
    after = [step(s, {"original": window(2, 1)}, settings, Policy())[0] for s in (state, same, other)]
    test = window(2, 3)
    values = [s.tracks["original"].current.log_ratio(test) for s in after]
    np.testing.assert_allclose(values[0], values[1])  # the same rows: the same step
    assert np.abs(values[0] - values[2]).max() > 1e-3
    past = state.tracks["original"].current
    fit = values[2] - past.log_ratio(test)
    alone, _ = step(start(window(1, 2), settings), {"original": window(2, 1)}, settings, Policy())
    direct = alone.tracks["original"].current.log_ratio(test)  # a static fit from the fresh rows is the same increment
    np.testing.assert_allclose(fit, direct, atol=0.02, rtol=0.02)
    assert after[2].tracks["original"].current.uncertainty is None  # errors without the lost window are not claimed


def test_a_fit_without_minimum_is_recorded(monkeypatch, check_form):
    def failing(state, *args):
        if state.t == 1:
            raise FitDivergedError("no minimum here")
        return step(state, *args)

    monkeypatch.setattr(ablation, "step", failing)
    unit = next(u for u in units(TINY) if u.case == "quadratic lsif shared")
    rows = rows_of(TINY, unit)
    assert len(rows) == unit.rows
    assert [math.isnan(row["mae"]) for row in rows] == [False, False] + 6 * [True]
    assert "t=2: no minimum here" in rows[-1]["reason"]
    others = with_errors(lambda r: 1.0)
    frame = pd.concat([others[(others.case != unit.case) | (others.seed != unit.seed)], pd.DataFrame(rows)])
    words = check_form(verdict(frame, TINY))
    assert "quadratic LSIF, telescoped: 1 of 4" in words
    assert "| ×1 (1 to 1; 3 pairs) |" in words  # of telescoping; four without the failure
    assert "| ×1 (1 pair) |" in words  # of shared windows; two without it
    figure(frame, TINY).canvas.draw()


def with_errors(factor):
    """All choices at MAE 1, times what ``factor(row)`` says."""
    frame = table().copy()
    frame["mae"] = [factor(row) for row in frame.itertuples()]
    return frame


@pytest.mark.parametrize(
    "wrong",
    [{name: 0} for name in ("seeds", "slow_seeds", "rows", "dim", "last", "every", "network_every", "epochs", "delta")]
    + [{"penalty": -1.0}, {"delta": 0.05}, {"every": 3}, {"network_every": 8}],
)
def test_plain_mistakes_are_named_by_flag_and_value(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} {value:g} must"):
        replace(Args(), **wrong)


def test_worth_is_the_ratio_with_all_else_the_same():
    frame = with_errors(lambda r: (3.0 if r.windows == FRESH else 1.0) * (7.0 if r.objective == "kliep" else 1.0))
    last = frame[frame.t == 4]
    np.testing.assert_allclose(ratios(last, "windows", FRESH, SHARED), 3.0)
    np.testing.assert_allclose(ratios(last, "objective", "kliep", "logistic"), 7.0)
    np.testing.assert_allclose(ratios(last, "normalizer", SELF, TELESCOPED), 1.0)
    assert ratios(last[last.windows == FRESH], "windows", FRESH, SHARED).empty
    assert len(ratios(last[last.model == "quadratic"], "normalizer", SELF, TELESCOPED)) == 3 * 2 * 2


def test_verdict_turns_with_the_numbers(check_form):
    def lead(factor):
        return check_form(verdict(with_errors(factor), TINY)).split("**")[1]

    assert lead(lambda r: 5.0 if r.normalizer != TELESCOPED else 1.0).startswith("Telescoping is worth most")
    assert lead(lambda r: 5.0 if r.windows == FRESH else 1.0).startswith("Sharing windows is worth most")
    assert lead(lambda r: 5.0 if r.objective == "kliep" else 1.0).startswith("Logistic instead of KLIEP is worth most")
    against = {TELESCOPED: 9.0, SELF: 1.0, PENALISED: 1.0}
    assert "none helps" in lead(
        lambda r: against[r.normalizer] * (0.9 if r.windows == FRESH else 1) * (0.9 if r.objective == "kliep" else 1)
    )
    nothing = check_form(verdict(with_errors(lambda r: math.nan), TINY))
    assert nothing.startswith("**No number")
    assert "(no pair of fits to compare)" in nothing


def test_verdict_gives_factors_by_objective_and_how_many_seeds_networks_have(check_form):
    factors = {"logistic": 5.0, "kliep": 3.0, "lsif": 2.0}
    frame = with_errors(lambda r: factors[r.objective] if r.normalizer == SELF else 1.0)
    words = check_form(verdict(frame, TINY))
    assert "| factor in MAE, convex model | logistic | KLIEP | LSIF |" in words
    each = "×5 (5 to 5; 4 pairs) | ×3 (3 to 3; 4 pairs) | ×2 (2 to 2; 4 pairs) |"
    assert f"| telescoping instead of self-normalising | {each}" in words
    assert "not fitted by LSIF; it and the penalised fits rest on 1 seed." in words
    assert "seed(s)" not in words + ablation.caption(TINY)


def test_figure_draws_with_labelled_axes():
    fig = figure(table(), TINY)
    fig.canvas.draw()
    assert all(ax.get_xlabel() for ax in fig.axes)
    assert "[nats]" in fig.axes[0].get_ylabel()


def test_caption_says_what_was_shortened():
    presets = ablation.EXPERIMENT.presets
    assert "rows a window 20,000 instead of 50,000" in ablation.caption(presets["quick"])
    assert "Shortened" not in ablation.caption(presets["paper"])
