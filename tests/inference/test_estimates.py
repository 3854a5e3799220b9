"""The law of a plug-in divergence: chi-square near no drift, normal far away."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

from driftline.inference import Doubt, DoubtCode, Estimate, Law, chances_above, law_of, quantiles, tail


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


@pytest.mark.parametrize("dof", [0.2, 1.0, 2.5, 4.0])
@pytest.mark.parametrize("extra", [0.0, 0.01, 0.4, 0.99])
def test_the_tail_is_exact_where_there_are_few_degrees_of_freedom(dof, extra):
    law = ncx2(dof, extra) if extra else chi2(dof)
    x = np.concatenate([[0.0], law.isf([0.99, 0.7, 0.5, 0.2, 0.05, 1e-3, 1e-6])])
    np.testing.assert_allclose(tail(x, dof, extra), law.sf(x), rtol=1e-6, atol=1e-12)
    levels = np.array([0.05, 0.5, 0.95, 0.999])
    np.testing.assert_allclose(quantiles(levels, dof, extra), law.ppf(levels), rtol=1e-6, atol=1e-10)


def test_the_tail_takes_many_noncentralities_at_once():
    """Some of them exact, some by the normal power: each is what it is alone."""
    x, extra = np.linspace(0.1, 40.0, 9)[:, None], np.array([0.0, 0.5, 2.0, 3.5, 20.0])
    found = tail(x, 2.0, extra)
    assert found.shape == (9, 5)
    np.testing.assert_array_equal(found, [[float(tail(a, 2.0, b)) for b in extra] for a in x[:, 0]])
    np.testing.assert_allclose(found, ncx2.sf(x, 2.0, np.maximum(extra, 1e-300)), atol=0.01)
    assert (np.diff(found, axis=0) <= 0.0).all()
    for dof in (2.0, 6.0):  # some exact, none
        at = chances_above(dof, extra)
        np.testing.assert_array_equal([at(a) for a in x[:, 0]], tail(x, dof, extra))


@pytest.mark.parametrize("law", [Law(-0.01, 0.004, 1.5), Law(0.0, 0.002, 10.0), Law(-0.3, 0.001, 400.0)], ids=str)
@pytest.mark.parametrize("reading", [0.005, 0.03, 0.2, 2.0])
def test_truths_are_the_roots_of_the_law(law, reading):
    chances = np.array([0.025, 0.5, 0.975])
    for top in (0.001, 5.0):  # a guess, too small or large enough
        found = law.truths(reading, chances, top)
        for truth, chance in zip(found, chances, strict=True):

            def beyond(at, chance=chance):
                return float(law.above(reading, at)) - chance

            if beyond(0.0) >= 0.0:
                assert truth == 0.0
            else:
                assert truth == pytest.approx(brentq(beyond, 0.0, 100.0, xtol=1e-13), abs=1e-6 * (1.0 + reading))


@pytest.mark.parametrize("dof", [2.5, 4.0, 4.9])
def test_truths_are_found_where_the_tail_turns_from_exact_to_approximate(dof):
    """The chance jumps there, downwards for some readings: an interval may end on either side, but not at 0."""
    law, chances, rng = Law(0.0, 1.0, dof), np.array([0.025, 0.975]), np.random.default_rng(0)
    turn = 5.0 - dof
    for chance in chances:
        centre = float(quantiles(np.array([1.0 - chance]), dof, turn)[0])
        for reading in centre + rng.uniform(-0.05, 0.05, 500):
            found = law.truths(reading, chances, reading + 12.0 * np.sqrt(2.0 * dof + 4.0 * reading))
            wanted = law.above(reading, 0.0) < chances
            assert ((found > 0.0) == wanted).all(), reading
            assert (np.abs(law.above(reading, found) - chances)[wanted] < 0.01).all(), reading


def test_an_estimate_is_ordered_and_formatted_as_its_value():
    small, large = Estimate(0.05, 0.01, 0.03, 0.07, 0.95), Estimate(0.42, 0.02, 0.38, 0.46, 0.95)
    assert small < 0.1 < large
    assert large > small
    assert large >= np.float64(0.42)
    assert 0.42 <= large <= 0.42
    assert sorted([large, small]) == [small, large]
    assert (f"{large:.3f}", f"{large:>8.1%}", f"{large}", round(large, 1)) == ("0.420", "   42.0%", str(large), 0.4)
    assert np.array([small, large], dtype=float).tolist() == [0.05, 0.42]
    unknown = Estimate(float("nan"), 0.1, 0.0, 1.0, 0.95)
    assert not unknown > 0.1
    assert not unknown < 0.1
    assert large != 0.42  # equal only if the interval is, too
    with pytest.raises(TypeError, match="'>' not supported"):
        large > "0.1"  # noqa: B015


def test_the_representation_of_an_estimate_is_short_and_names_its_doubts():
    doubted = Estimate(0.42, float("nan"), 0, 1, 0.95, doubts=(Doubt(DoubtCode.FEW_ROWS, "few rows"),))
    assert repr(doubted) == "<Estimate 0.42 (no interval); doubts: few_rows>"
