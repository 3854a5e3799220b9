"""Fig. 1 in small: the corrected corollary lies on the fits, the printed one does not, and the verdict says so."""

import pandas as pd
import pytest

from driftline.inference import gaussian_mean_shift
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


def test_verdict_counts_what_is_outside(frame, check_form):
    said = check_form(verdict(frame, SMALL))
    assert said.startswith("**Confirmed in shape, contradicted in the entry for x², as printed.**")
    assert "| x | yes | " in said
    doctored = check_form(verdict(frame.assign(var_x=100 * frame.var_x), SMALL))
    assert "| x | no | 3 of 3 | " in doctored
    printed = gaussian_mean_shift(frame.mu.to_numpy(), as_printed=True)[:, 1, 1]
    agreeing = check_form(verdict(frame.assign(var_x2=printed), SMALL))
    assert agreeing.startswith("**Confirmed.**")
    assert "| x², corrected | no | " in agreeing


@pytest.mark.parametrize("wrong", [{"means": 1}, {"replicates": 1}, {"rows": 0}])
def test_too_little_is_refused(wrong):
    name = next(iter(wrong))
    with pytest.raises(ValueError, match=f"--{name} {wrong[name]}"):
        Args(**wrong)


def test_figure_draws_both_coefficients(frame):
    drawn = figure(frame, SMALL)
    assert [ax.get_title() for ax in drawn.axes] == ["coefficient of x", "coefficient of x²"]
