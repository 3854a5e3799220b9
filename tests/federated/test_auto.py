"""``auto`` over several sites, its dictionary fixed beforehand: the numbers of all rows at one site."""

import warnings

import numpy as np
import pytest

from driftline import ContinualDensityRatio, UntrustedEstimateWarning
from driftline.estimators import parse_estimator
from driftline.federated import Coordinator, Site, SiteError
from driftline.inference import DIVERGENCES

CUTS = [1100, 2300, 3900]  # four unequal sites of 6,000 rows


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        yield


def windows(kind, seed=0, count=3, rows=6000):
    rng, found = np.random.default_rng(seed), []
    for t in range(count):
        x = rng.normal(0.15 * t, 1.0 + 0.02 * t, (rows, 3))
        if kind == "skewed":
            x[:, 0] = np.exp(1.2 * x[:, 0])
        if kind == "clusters":
            x[rng.random(rows) < 0.35 + 0.03 * t, :2] += 6.0
        if kind == "moving":
            x[:, 0] = 1.0 + 1.5 * x[:, 0] + 0.9 * t
        if kind == "correlated":
            x[:, 1] = 0.25 * t * x[:, 0] + x[:, 1]
        found.append(x)
    return found


def four(x):
    return [Site(part, name) for name, part in zip("abcd", np.split(x, CUTS), strict=True)]


def one(x):
    return [Site(x, "all")]


def fixed(x):
    return ContinualDensityRatio(model="auto", keep="sums", random_state=0).fit(x)


def traced(stream, sites, begin=False):
    run = Coordinator.of(fixed(stream[0]))
    if begin:
        run.begin(sites(stream[0]))
    for window in stream[1:]:
        run.step(sites(window))
    return run


def in_one_place(stream):
    est = fixed(stream[0])
    for window in stream[1:]:
        est.partial_fit(window)
    return est


def assert_same(one, other, rows):
    names = "value", "std_error", "low", "high", "noise", "floor"
    for kind in DIVERGENCES:
        for of in ("divergence", "step_divergence"):
            a, b = getattr(one, of)(kind), getattr(other, of)(kind)
            np.testing.assert_allclose(
                [getattr(a, name) for name in names], [getattr(b, name) for name in names], rtol=1e-8, atol=1e-8
            )
            assert [doubt.code for doubt in a.doubts] == [doubt.code for doubt in b.doubts]
    (a, std_a), (b, std_b) = (est.log_ratio(rows, return_std=True) for est in (one, other))
    np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(std_a, std_b, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(one.weights(rows), other.weights(rows), rtol=1e-8)


@pytest.mark.parametrize(
    ("kind", "words", "begin"),
    [
        ("skewed", "normal scores", False),
        ("clusters", "features of clusters", True),
        ("moving", "3 squares", False),
        ("moving", "3 squares", True),
    ],
)
def test_four_unequal_sites_are_all_rows_at_one(kind, words, begin):
    """Also where a sample's dictionary is all that is there before, and the original begins at the sites."""
    stream = windows(kind)
    runs = [traced(stream, sites, begin) for sites in (four, one)]
    assert words in runs[0].info.originals["original"].model
    assert_same(runs[0].estimator, runs[1].estimator, stream[-1])


@pytest.mark.parametrize("kind", ["skewed", "clusters"])
def test_they_are_the_numbers_of_the_estimator_in_one_place(kind):
    """Up to the errors by which log-ratios are drawn towards zero: these rest on a draw of rows there."""
    stream = windows(kind)
    ours, plain = traced(stream, four).estimator, in_one_place(stream)
    values, errors = plain.log_ratio(stream[-1], return_std=True)
    assert np.abs(ours.log_ratio(stream[-1]) - values).max() < 0.1 * np.median(errors)
    fitted = [parse_estimator(est.to_bytes(), "ContinualDensityRatio", "it").state.tracks for est in (ours, plain)]
    ours_too, theirs = (tracks["original"].current.psi.coef for tracks in fitted)
    np.testing.assert_allclose(ours_too, theirs, atol=1e-8 if kind == "skewed" else 5e-3)  # top has two digits
    for of in ("divergence", "step_divergence"):
        for name in DIVERGENCES:
            a, b = getattr(ours, of)(name), getattr(plain, of)(name)
            assert abs(a.value - b.value) < 0.05 * b.std_error, (of, name)
            assert a.std_error == pytest.approx(b.std_error, rel=0.03), (of, name)
            assert a.high == pytest.approx(b.high, abs=0.1 * b.std_error), (of, name)


def test_log_ratios_are_drawn_towards_zero():
    """Where nothing moves they are nearer to it than those that were fitted, as in one place."""
    rng = np.random.default_rng(3)
    stream = [rng.normal(size=(6000, 6)) for _ in range(2)]
    run = traced(stream, four)
    readings = run._state.tracks["original"].readings
    fitted = run._state.tracks["original"].current.psi.coef
    assert np.abs(readings.coef).sum() < 0.5 * np.abs(fitted).sum()
    plain = in_one_place(stream)
    np.testing.assert_allclose(run.estimator.log_ratio(stream[-1]), plain.log_ratio(stream[-1]), atol=0.01)


def test_products_that_move_cannot_join_and_are_doubted():
    """In one place they join; here the value is a lower bound, which says so."""
    stream = windows("correlated")
    runs = [traced(stream, sites) for sites in (four, one)]
    assert_same(runs[0].estimator, runs[1].estimator, stream[-1])
    found, plain = runs[0].estimator.divergence(), in_one_place(stream).divergence()
    assert "model_misses" in [doubt.code for doubt in found.doubts]
    assert "model_misses" not in [doubt.code for doubt in plain.doubts]
    assert found.value < plain.low
    assert found.high == np.inf
    (doubt,) = [doubt for doubt in found.doubts if doubt.code == "model_misses"]
    assert "cannot join over several sites" in doubt.sentence
    quiet = traced(windows("skewed"), four).estimator.divergence()
    assert "model_misses" not in [doubt.code for doubt in quiet.doubts]


def test_a_step_in_one_place_lets_them_join_and_sites_go_on_with_them():
    stream = windows("correlated", count=4)
    est = in_one_place(stream[:3])
    assert "products" in est.info_.originals["original"].model
    found = Coordinator.of(est).step(four(stream[3])).estimator.divergence()
    assert "model_misses" not in [doubt.code for doubt in found.doubts]
    assert "not_audited" in [doubt.code for doubt in found.doubts]
    assert found.value == pytest.approx(est.partial_fit(stream[3]).divergence().value, abs=0.05 * found.std_error)


def test_an_original_far_away_leaves_few_rows_behind_and_the_step_is_taken_all_the_same():
    rng = np.random.default_rng(4)
    stream = [rng.normal(0.7 * t, 1.0, (6000, 3)) for t in range(7)]
    found = traced(stream, four).estimator
    assert found.divergence().value == pytest.approx(3 * 0.5 * (0.7 * 6) ** 2, rel=0.1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found.weights(stream[-1])
    assert any("the weights rest on" in str(each.message) for each in said)


def test_what_learns_from_rows_does_not_begin_without_them():
    with pytest.raises(ValueError, match=r"go on with Coordinator\.of\(estimator\)"):
        Coordinator(3, model="auto").begin(four(windows("skewed", count=1)[0]))
    with pytest.raises(ValueError, match=r"go on with Coordinator\.of\(estimator\)"):
        _ = Coordinator(3, model="auto").least_rows
    few = [Site(part, name) for name, part in zip("ab", np.split(windows("skewed")[1], [300]), strict=True)]
    with pytest.raises(SiteError, match=r"'a'.*it has 300 rows of 3 columns, .* would reveal rows unless there are"):
        Coordinator.of(fixed(windows("skewed")[0])).step(few)


def test_too_many_features_are_refused_before_anything_is_sent():
    rng = np.random.default_rng(5)
    with pytest.raises(ValueError, match="has 101 parameters here, and rows in several places allow for 100"):
        Coordinator.of(fixed(rng.normal(size=(2000, 50))))
