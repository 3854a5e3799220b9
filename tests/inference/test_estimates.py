"""The law of a plug-in divergence: chi-square near no drift, normal far away."""

import numpy as np
import pytest
from scipy.stats import chi2, ncx2

from driftline.inference import law_of, quantiles, tail


@pytest.mark.parametrize("dof", [1.0, 4.0, 15.0, 130.0, 2000.0])
@pytest.mark.parametrize("extra", [0.0, 3.0, 50.0, 1e5])
def test_tail_is_the_noncentral_chi_square(dof, extra):
    law = ncx2(dof, extra) if extra else chi2(dof)
    for chance in (0.9, 0.5, 0.05, 1e-3):
        x = law.isf(chance)
        assert float(tail(x, dof, extra)) == pytest.approx(chance, rel=0.15)
        assert float(quantiles(np.array([1 - chance]), dof, extra)[0]) == pytest.approx(x, rel=0.02)


def test_law_has_the_moments_it_was_given():
    law = law_of(0.03, 0.0002, 0.01)
    rng, truth = np.random.default_rng(0), 0.2
    draws = law.shift + law.scale * rng.noncentral_chisquare(law.dof, truth / law.scale, 200_000)
    assert draws.mean() == pytest.approx(truth + 0.03, abs=4 * draws.std() / 447)
    assert draws.var() == pytest.approx(0.0002 + 0.01 * truth, rel=0.03)
