"""The asymptotic covariance of a step: closed form, quadrature, rows and replicated fits agree."""

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from driftline import DensityRatio
from driftline.inference import covariance, gaussian_mean_shift
from driftline.inference._theory import exponential_family_covariance, step_covariance

CORNERS = ([0, 0, 1], [0, 1, 1])  # the three entries of a symmetric 2 x 2 matrix


def statistics(x):
    return np.stack([x, x**2], axis=-1)


def quadrature(mu, *, normalised):
    """Return nu^2 by exact integration of the influences of both windows' rows, without the formulas."""
    nodes, weights = hermegauss(120)
    weights = weights / weights.sum()
    y = nodes + mu
    log_r = 0.5 * mu**2 - mu * y
    ratio, features = np.exp(log_r), statistics(y)
    numerator = (weights * ratio) @ features  # E[r T], which both windows estimate
    values = ratio[:, None] * features - numerator
    if normalised:  # a ratio of means: its denominator has an error too
        values = values - (ratio - 1.0)[:, None] * numerator
    inverse = np.diag([1.0, 0.5])
    return inverse + inverse @ ((weights[:, None] * values).T @ values) @ inverse


def blocks(formula, rng, mu, count=60, rows=10_000):
    """Return the mean and standard error, over blocks, of a formula applied to rows of N(0,1) and N(mu,1)."""
    values = np.array([formula(rng.normal(0, 1, rows), rng.normal(mu, 1, rows)) for _ in range(count)])
    return values.mean(0), values.std(0, ddof=1) / np.sqrt(count)


def by_theorem(mu, **options):
    return lambda x, y: step_covariance(statistics(x), statistics(y), 3.0 - mu * y, **options)


def by_corollary(mu, **options):
    return lambda x, y: exponential_family_covariance(statistics(x), 0.5 * mu**2 - mu * x, **options)


def to_x_and_its_square(psi):
    """Return the map from coefficients of standardised, centred features to those of (x, x^2), (2, 2)."""
    mean, scale = psi.standardizer.mean.item(), psi.standardizer.scale.item()
    first, second = psi.features.scale.tolist()
    return np.array([[1 / (first * scale), -2 * mean / (second * scale**2)], [0.0, 1 / (second * scale**2)]])


def fit(rng, mu, n, m):
    """Fit a KLIEP step from N(0,1) to N(mu,1); return the anchor it arrives at and the map to (x, x^2)."""
    ratio = DensityRatio(objective="kliep", model="quadratic", ridge=0.0, random_state=0)
    ratio.fit(rng.normal(0, 1, (n, 1)), rng.normal(mu, 1, (m, 1)))
    anchor = ratio._state.tracks["original"].current
    return anchor, to_x_and_its_square(anchor.psi)


def replicates(mu, n, m, count, seed):
    """Return n Var of the coefficients of (x, x^2) over independent fits, and its standard error by fourth moments."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        anchor, back = fit(rng, mu, n, m)
        found.append(back @ anchor.psi.coef)
    deviations = np.sqrt(n) * (np.array(found) - np.mean(found, axis=0))
    products = deviations[:, :, None] * deviations[:, None, :]
    return products.sum(0) / (count - 1), products.std(0) / np.sqrt(count)


@pytest.mark.parametrize("as_printed", [False, True])
@pytest.mark.parametrize("mu", [-0.7, 0.0, 0.4, 1.0, 2.0])
def test_closed_form_is_the_integral(mu, as_printed):
    assert gaussian_mean_shift(mu, as_printed=as_printed) == pytest.approx(quadrature(mu, normalised=not as_printed))


@pytest.mark.parametrize("as_printed", [False, True])
@pytest.mark.parametrize("formula", [by_theorem, by_corollary])
@pytest.mark.parametrize("mu", [0.3, 0.6])
def test_rows_estimate_the_closed_form(formula, mu, as_printed, rng):
    value, error = blocks(formula(mu, as_printed=as_printed), rng, mu)
    off = np.abs(value - gaussian_mean_shift(mu, as_printed=as_printed)) / error
    assert off[CORNERS].max() < 4.0


@pytest.mark.parametrize("as_printed", [False, True])
def test_theorem_and_corollary_agree(as_printed, rng):
    a, b = by_theorem(0.6, as_printed=as_printed), by_corollary(0.6, as_printed=as_printed)
    value, error = blocks(lambda x, y: a(x, y) - b(x, y), rng, 0.6)
    assert (np.abs(value) / error)[CORNERS].max() < 4.0


def test_corrected_and_printed_differ_on_the_same_rows(rng):
    right, wrong = by_theorem(1.0), by_theorem(1.0, as_printed=True)
    value, error = blocks(lambda x, y: wrong(x, y) - right(x, y), rng, 1.0)
    assert value[1, 1] > 10.0 * error[1, 1]
    gap = gaussian_mean_shift(1.0, as_printed=True) - gaussian_mean_shift(1.0)
    assert np.linalg.eigvalsh(gaussian_mean_shift(1.0)).min() > 0.0
    assert gap[0, 0] == 0.0
    assert gap[1, 1] == pytest.approx(0.25 * (np.e * 3.0 - 1.0))


def test_constants_matter_only_to_the_printed_formula(rng):
    """KLIEP ignores c in T + c: its coefficients, and so their covariance, cannot depend on c."""
    x, y = rng.normal(0, 1, 5000), rng.normal(0.5, 1, 5000)
    shift = np.array([3.0, -2.0])
    num, den, phi = statistics(x), statistics(y), -0.5 * y
    right = step_covariance(num, den, phi)
    assert step_covariance(num + shift, den + shift, phi + 40.0) == pytest.approx(right, rel=1e-9)
    log_r = 0.125 - 0.5 * x
    right = exponential_family_covariance(num, log_r)
    assert exponential_family_covariance(num + shift, log_r) == pytest.approx(right, rel=1e-9)
    printed = step_covariance(num, den, phi, as_printed=True)
    assert np.abs(step_covariance(num + shift, den + shift, phi, as_printed=True) - printed).max() > 1.0


def test_new_coordinates_transform_the_covariance(rng):
    """Coefficients of A T are those of T times the inverse of A transposed, even where units differ greatly."""
    x, y = rng.normal(0, 1, 5000), rng.normal(0.5, 1, 5000)
    change = np.array([[1e6, 0.0], [3e-7, 1e-7]])
    back = np.linalg.inv(change).T
    plain = step_covariance(statistics(x), statistics(y), -0.5 * y)
    turned = step_covariance(statistics(x) @ change.T, statistics(y) @ change.T, -0.5 * y)
    assert turned == pytest.approx(back @ plain @ back.T, rel=1e-6)


def test_closed_form_over_many_means():
    mu = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
    many = gaussian_mean_shift(mu)
    assert many.shape == (2, 3, 2, 2)
    assert many[1, 2] == pytest.approx(gaussian_mean_shift(mu[1, 2]))
    assert gaussian_mean_shift(0.0) == pytest.approx(np.diag([2.0, 1.0]))
    mirrored = gaussian_mean_shift(-mu) * [[1.0, -1.0], [-1.0, 1.0]]  # x to -x flips the sign of one coefficient
    assert mirrored == pytest.approx(many)


def test_unequal_windows(rng):
    x, y = rng.normal(0, 1, 4000), rng.normal(0.5, 1, 1000)
    own = step_covariance(statistics(x), statistics(y), -0.5 * y)
    equal = step_covariance(statistics(x), statistics(y), -0.5 * y, size_ratio=1.0)
    first = np.linalg.inv(np.cov(statistics(x).T, ddof=0))
    assert own - first == pytest.approx(4.0 * (equal - first))
    whole = exponential_family_covariance(statistics(x), 0.125 - 0.5 * x)
    fourfold = exponential_family_covariance(statistics(x), 0.125 - 0.5 * x, size_ratio=4.0)
    assert fourfold - first == pytest.approx(4.0 * (whole - first))


@pytest.mark.parametrize(
    ("n", "m", "count"),
    [(3000, 1000, 100), *(pytest.param(*sizes, 200, marks=pytest.mark.slow) for sizes in ((3000, 1000), (1500, 1500)))],
)
def test_replicated_fits_spread_as_the_theory_says(n, m, count):
    """A variance is known to 14 % with 100 fits, to 10 % with 200; the second window's part of it is more than half."""
    first = np.diag([1.0, 0.5])
    theory = first + n / m * (gaussian_mean_shift(0.5) - first)
    spread, error = replicates(0.5, n, m, count, seed=0)
    assert (np.abs(spread - theory) / error)[CORNERS].max() < 3.5


@pytest.mark.slow
def test_replicated_fits_at_a_unit_shift_refute_the_printed_formula():
    """Variance of the square's coefficient: 7.05 in the paper, 5.26 corrected; the replicates determine it to 5 %."""
    spread, error = replicates(1.0, 20_000, 20_000, 800, seed=0)
    assert (np.abs(spread - gaussian_mean_shift(1.0)) / error)[CORNERS].max() < 3.5
    printed = gaussian_mean_shift(1.0, as_printed=True)
    assert printed[1, 1] - spread[1, 1] > 5.0 * error[1, 1]


def test_error_bars_of_a_step_are_those_of_the_theory(seed):
    """The covariance estimated from 200,000 rows and the limit are a few percent apart."""
    n, mu = 200_000, 0.5
    anchor, back = fit(np.random.default_rng(seed), mu, n, n)
    found = n * back @ covariance(anchor.uncertainty)[:2, :2] @ back.T
    assert found == pytest.approx(gaussian_mean_shift(mu), rel=0.1)
    assert found[1, 1] < 0.93 * gaussian_mean_shift(mu, as_printed=True)[1, 1]


@pytest.mark.parametrize(
    ("num", "den", "phi", "message"),
    [
        ((9,), (8, 2), (8,), r"grad_num has shape \(9,\): expected \(rows, coefficients\)"),
        ((1, 2), (8, 2), (8,), r"grad_num has shape \(1, 2\): .*at least \(2, 1\)"),
        ((9, 2), (8, 3), (8,), r"grad_num has 2 columns and grad_den 3"),
        ((9, 2), (8, 2), (9,), r"phi_den has 9 values for the 8 rows of grad_den"),
        ((9, 2), (8, 2), (8, 1), r"phi_den has shape \(8, 1\): expected one value"),
    ],
)
def test_shapes_are_checked(num, den, phi, message, rng):
    with pytest.raises(ValueError, match=message):
        step_covariance(rng.normal(size=num), rng.normal(size=den), rng.normal(size=phi))


def test_undetermined_coefficients_are_refused(rng):
    x, log_r = rng.normal(size=(50, 2)), np.zeros(50)
    with pytest.raises(ValueError, match=r"log_ratio_num has 7 values for the 50 rows"):
        exponential_family_covariance(x, log_r[:7])
    with pytest.raises(ValueError, match=r"log_ratio_num reaches 900: at most 700"):
        exponential_family_covariance(x, log_r + 900.0)
    with pytest.raises(ValueError, match=r"column\(s\) \[1\] do not vary"):
        exponential_family_covariance(np.column_stack([x[:, 0], np.full(50, 0.1)]), log_r)
    with pytest.raises(ValueError, match=r"the 3 columns span 2 directions"):
        exponential_family_covariance(np.column_stack([x, x.sum(1)]), log_r)
    with pytest.raises(ValueError, match=r"features_num is not finite in 1 of 100 entries"):
        exponential_family_covariance(np.where(x == x[0, 0], np.nan, x), log_r)
    with pytest.raises(ValueError, match=r"size_ratio=0.0 must be positive"):
        exponential_family_covariance(x, log_r, size_ratio=0.0)
