"""Discriminators as base estimators, in small: their losses are least at the true ratio, words follow the rows."""

from dataclasses import replace

import numpy as np
import pytest

from driftline import ContinualDensityRatio
from driftline.fitting import FitDivergedError, logistic, nwj
from experiments.discriminator import CRITICS, EXPERIMENT, OBJECTIVES, Args, caption, factor, figure, run, verdict

SMALL = Args(seeds=1, dim=2, delta=0.1, rows=300, last=2, hidden=8, epochs=1)
SMALL_RUN = EXPERIMENT, SMALL, EXPERIMENT.work.units(SMALL)

pytestmark = pytest.mark.networks


@pytest.mark.parametrize("name", CRITICS)
def test_losses_are_least_at_the_true_ratio(name, seed):
    """N(0, 1) against N(0.4, 1): log r = 0.08 - 0.4 x, better than other slopes and constants."""
    import torch

    rng = np.random.default_rng(seed)
    x, y = (torch.from_numpy(rng.normal(mean, 1.0, 40_000)) for mean in (0.0, 0.4))

    def loss(slope, constant):
        return float(OBJECTIVES[name].loss(slope * x + constant, slope * y + constant))

    for slope, constant in ((-0.25, 0.08), (-0.55, 0.08), (-0.4, 0.38), (-0.4, -0.22)):
        assert loss(slope, constant) > loss(-0.4, 0.08)


def test_twins_are_what_theory_says():
    import torch

    a, b = torch.randn(2, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert float(OBJECTIVES["f-GAN, KL"].loss(a, b)) == pytest.approx(float(nwj(a, b)))
    zero = torch.zeros(50, dtype=torch.float64)
    difference = float(OBJECTIVES["f-GAN, JS"].loss(a, b) - OBJECTIVES["f-GAN, JS"].loss(zero, zero))
    assert difference == pytest.approx(2.0 * float(logistic(a, b) - logistic(zero, zero)))


def test_every_case_is_measured(frame):
    assert len(frame) == len(OBJECTIVES) * 2 * SMALL.last
    assert frame.mae.notna().all()
    assert frame.groupby("t").unmoved.nunique().max() == 1  # all objectives are measured on the same rows


def test_words_follow_the_numbers(frame, check_form):
    drawn = figure(frame, SMALL)
    assert all(ax.get_xlabel() for ax in drawn.axes)
    made = frame.assign(mae=np.where(frame.objective == "KLIEP", 0.1, 0.15) * frame.unmoved, true_kl=1.0)
    said = check_form(verdict(made, SMALL))
    assert said.startswith("**Feasible: a discriminator's error at t=2 is ×1.50 with KL, ×1.50 with JS, ×1.50 with rev")
    assert factor(made[(made.t == 2) & (made.ending == "trained")], "KLIEP", "logistic") == pytest.approx(1 / 1.5)
    bad = made.assign(mae=made.mae.where(made.objective != "f-GAN, JS", 0.6 * made.unmoved))
    assert check_form(verdict(bad, SMALL)).startswith("**Not feasible here")
    lost = made.assign(mae=made.mae.where(made.objective != "f-GAN, KL"))
    said = check_form(verdict(lost, SMALL))
    assert said.startswith("**Not feasible here: a discriminator's error at t=2 is ×1.50 with JS")
    assert "Fits that failed: f-GAN, KL @ polished, f-GAN, KL @ trained." in said


def test_a_failed_fit_leaves_the_rest_without_numbers(monkeypatch):
    calls = []

    def fail(self, *args, **kwargs):
        calls.append(1)
        raise FitDivergedError("inf")

    monkeypatch.setattr(ContinualDensityRatio, "partial_fit", fail)
    rows = list(run(SMALL, SMALL_RUN[2][0], lambda text: None))
    assert all(np.isnan(row["mae"]) for row in rows)
    assert len(calls) == 1


def test_caption_and_plain_mistakes():
    assert "dimensions 8 instead of 64" in caption(EXPERIMENT.presets["quick"])
    assert "Shortened" not in caption(EXPERIMENT.presets["paper"])
    with pytest.raises(ValueError, match=r"--delta 0\.1 must be above 0 and below 1 / --last 10"):
        replace(SMALL, last=10)
