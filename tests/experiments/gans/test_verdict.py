"""The verdict on the GANs follows the numbers."""

import numpy as np
import pandas as pd
import pytest

from experiments.gans.judge import AGREEMENT, DIVERGENCES, STATIC, WARNED, averages
from experiments.gans.losses import LOSSES
from experiments.gans.verdict import ranks, verdict_of


def invented(values, agreement=0.9, factor=1.0):
    """Rows of all models at two tasks: each measure is the model's value, CDRE's by a factor."""
    rows = []
    for model, value in values.items():
        for task, measure in ((t, m) for t in (1, 2) for m in ("fid", "kid", *DIVERGENCES)):
            rows.append({"case": model, "seed": 0, "task": task, "measure": measure, "value": value})
            if measure in DIVERGENCES:
                rows[-1]["value"] = factor * value
                rows.append({**rows[-1], "measure": STATIC + measure, "value": value})
        for task, measure, level in ((t, m, v) for t in (1, 2) for m, v in ((AGREEMENT, agreement), (WARNED, 3.0))):
            rows.append({"case": model, "seed": 0, "task": task, "measure": measure, "value": level})
    return pd.DataFrame(rows)


EXPECTED = dict(zip(LOSSES, (1.0, 1.1, 5.0, 2.0), strict=True))


def test_verdict_follows_the_numbers(check_form):
    good = check_form(verdict_of(invented(EXPECTED)))
    assert good.startswith("**As asked, on 1 seed: f-GAN by reverse KL is the worst, ")
    assert "| KL | 4 of 4 | 100% | 1.00 | 1.00 | 1.00 |" in good
    assert "CDRE warned 3 times a model" in good
    worse = check_form(verdict_of(invented({**EXPECTED, "wgan": 9.0})))
    assert "here it is not (" in worse
    assert worse.startswith("**In part as asked, on 1 seed: f-GAN by reverse KL is not the worst, ")
    assert "WGAN-GP are not all recognised" in check_form(verdict_of(invented(EXPECTED, agreement=0.5)))
    far = check_form(verdict_of(invented(EXPECTED, factor=1.5)))
    assert "in 0 of 16 cases" in far
    assert "+50%" in far
    assert "Outside: Hellinger, squared, Jensen-Shannon, KL, reverse KL." in far


def test_ranks_are_over_models():
    means = averages(invented(EXPECTED))
    assert ranks(means, "js") == pytest.approx(1.0)
    assert ranks(means.assign(js=-means.js), "js") == pytest.approx(-1.0)
    assert np.isnan(ranks(means[means.case == "wgan"], "js"))
