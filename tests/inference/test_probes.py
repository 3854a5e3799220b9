"""The optimism of fits without a curvature."""

from __future__ import annotations

import numpy as np
import pytest

from driftline.fitting import Dense, fit_convex, logistic, loss_of
from driftline.inference import _probes, probed_optimism


@pytest.mark.parametrize("features", [9, 40, 250])
def test_matrices_and_probes_give_one_optimism(features, monkeypatch):
    rng = np.random.default_rng(0)
    num, den = Dense(rng.normal(size=(3000, features))), Dense(rng.normal(size=(3000, features)))
    loss = loss_of(logistic)
    fit = fit_convex(num, den, loss, ridge=1.0)
    rows = loss.rows(fit.log_num, fit.log_den)
    exact = probed_optimism(num, den, rows, fit.weight)
    monkeypatch.setattr(_probes, "_FEW", 0)
    assert probed_optimism(num, den, rows, fit.weight) == pytest.approx(exact, rel=0.03)


def test_a_loss_that_overflows_has_no_optimism():
    one = Dense(np.ones((20, 1)))
    rows = loss_of(logistic).rows(np.zeros(20), np.zeros(20))
    rows = rows._replace(second_den=np.full(20, np.inf))
    with np.errstate(invalid="ignore"):
        assert np.isnan(probed_optimism(one, one, rows, np.ones(1)))
