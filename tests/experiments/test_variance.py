"""Fig. 1 in small: the corrected corollary lies on the fits, the printed one does not, and the verdict says so."""

import pandas as pd
import pytest

from driftline.theory import gaussian_mean_shift
from experiments.variance import LIMIT, Args, figure, run, units, verdict

SMALL = Args(means=3, replicates=1500)


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame([{"case": u.case, "seed": u.seed, **row} for u in units(SMALL) for row in run(SMALL, u, print)])


def test_fits_lie_on_the_corrected_curve(frame):
    part = frame[frame.case == LIMIT]
    for flag, good in ((False, True), (True, False)):
        theory = gaussian_mean_shift(part.mu.to_numpy(), as_printed=flag)[:, 1, 1]
        off = (abs(part.var_x2 - theory) / part.se_x2)[part.mu == 1.0]
        assert (off < 4.0).all() == good


def test_verdict_counts_what_is_outside(frame):
    assert "of 3 outside" in " ".join(verdict(frame, SMALL).split())
    doctored = frame.assign(var_x=100 * frame.var_x)
    assert "(3 of 3 points outside" in " ".join(verdict(doctored, SMALL).split())


def test_figure_draws_both_coefficients(frame):
    drawn = figure(frame, SMALL)
    assert [ax.get_title() for ax in drawn.axes] == ["coefficient of x", "coefficient of x²"]
