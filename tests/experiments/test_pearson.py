"""Objectives for Pearson's divergence, in small: the truth is the closed form, failed fits count, words follow rows."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from driftline import ContinualDensityRatio
from driftline.fitting import FitDivergedError
from experiments.pearson import EXPERIMENT, MODELS, OBJECTIVES, Args, caption, figure, measured, run, verdict, wins

SMALL = Args(seeds=2, network_seeds=1, dim=2, rows=300, steps=2, distance=0.3, hidden=8, epochs=1)
SMALL_RUN = EXPERIMENT, SMALL, EXPERIMENT.work.units(SMALL)

pytestmark = pytest.mark.networks


def doctored(error, seeds=12, steps=3):
    """Rows of which ``error(model, mode, objective, t, seed)`` is the relative error."""
    args = replace(SMALL, seeds=seeds, network_seeds=seeds, steps=steps)
    rows = [
        {
            "model": model,
            "mode": mode,
            "objective": objective,
            "t": t,
            "seed": seed,
            "truth": args.truth(t),
            "found": args.truth(t) * (1.0 + error(model, mode, objective, t, seed)),
            "with_true_ratio": args.truth(t) * 1.1,
        }
        for model in MODELS
        for objective in OBJECTIVES
        for seed in range(seeds)
        for t in range(1, steps + 1)
        for mode in (("continual", "static") if t > 1 else ("continual",))
    ]
    return pd.DataFrame(rows), args


def test_every_case_is_measured(frame):
    assert len(frame) == 3 * 3 * (2 + 1)
    found = measured(frame)
    assert np.isfinite(found.plain).all()
    assert set(frame[frame.t == 1]["mode"]) == {"continual"}
    assert frame.groupby(["seed", "t"]).with_true_ratio.nunique().max() == 1  # all objectives see the same rows


def test_the_truth_is_that_of_the_windows():
    """E_q[(r - 1)²] by many rows, with the true r; its terms have a standard deviation of about 3 at |mu|² = 0.3."""
    args = replace(SMALL, rows=400_000)
    window, mean = args.window(0, 2), args.mean(2)
    assert 2 * mean**2 == pytest.approx(0.3)
    terms = np.square(np.expm1(0.15 - mean * window.sum(1)))
    assert abs(terms.mean() - args.truth(2)) < 4 * terms.std() / math.sqrt(len(terms))
    assert abs(terms.mean() - args.truth(1)) > 4 * terms.std() / math.sqrt(len(terms))


def test_a_failed_step_ends_the_continual_rows_only(monkeypatch):
    real, calls = ContinualDensityRatio.partial_fit, []

    def fail_first(self, window):
        calls.append(1)
        if len(calls) == 1:
            raise FitDivergedError("no minimum")
        return real(self, window)

    monkeypatch.setattr(ContinualDensityRatio, "partial_fit", fail_first)
    unit = next(unit for unit in SMALL_RUN[2] if unit.case == "quadratic kliep")
    rows = pd.DataFrame(run(SMALL, unit, lambda text: None))
    assert rows.groupby("mode").found.apply(lambda found: found.isna().all()).to_dict() == {
        "continual": True,
        "static": False,
    }
    assert len(calls) == 2  # the continual estimator is not asked again


def test_judged_by_seeds(check_form):
    frame, args = doctored(lambda model, mode, objective, t, seed: 0.1 if objective == "lsif" else 0.2)
    assert (wins(frame, "lsif", "kliep").better == 1).all()
    assert check_form(verdict(frame, args)).startswith(
        "**Confirmed: LSIF is clearly closer to Pearson's divergence than KLIEP in 10 of"
    )
    # 9 of 12 is no evidence at 1 %, 12 of 12 is; a failed fit is further off than any other
    frame, args = doctored(lambda model, mode, objective, t, seed: 0.1 + 0.1 * ((objective == "lsif") ^ (seed < 9)))
    assert (wins(frame, "lsif", "kliep").better == 0).all()
    assert check_form(verdict(frame, args)).startswith("**Not seen")
    frame, args = doctored(lambda model, mode, objective, t, seed: math.nan if objective == "lsif" else 5.0)
    said = check_form(verdict(frame, args))
    assert said.startswith("**Contradicted: LSIF is clearly closer to Pearson's divergence than KLIEP in 0 of 10")
    assert ", all for" not in said
    assert "| 12 of 12 failed |" in said
    assert "network, continual, LSIF 36 of 36" in said
    frame, args = doctored(lambda model, mode, objective, t, seed: 0.1 + (mode + objective + model == "staticlsifmlp"))
    assert "clearly further off in 2, all for network, static.**" in check_form(verdict(frame, args))
    frame, args = doctored(lambda model, mode, objective, t, seed: math.nan)
    assert (wins(frame, "lsif", "kliep")["size"] == 0).all()  # nobody is closer where both failed


def test_figure_and_words(frame, check_form):
    drawn = figure(frame, SMALL)
    assert [ax.get_title() for ax in drawn.axes] == [
        f"{m}, {k}" for m in MODELS.values() for k in ("continual", "static")
    ]
    assert all(ax.get_ylabel() for ax in drawn.axes[::2])
    check_form(verdict(frame, SMALL))
    assert "rows a window 10,000 instead of 50,000" in caption(EXPERIMENT.presets["quick"])
    assert "Shortened" not in caption(EXPERIMENT.presets["paper"])


def test_plain_mistakes_are_named():
    with pytest.raises(ValueError, match="--steps 1 must be at least 2"):
        Args(steps=1)
    with pytest.raises(ValueError, match="--distance 0 must be above 0"):
        Args(distance=0.0)
