"""Fits where rows are few for the features: nothing without drift, the closed form with it, whatever the units."""

from __future__ import annotations

import numpy as np
import pytest

from driftline.fitting import (
    Dense,
    FitDivergedError,
    LogLinearDesign,
    block_sums,
    choose_strengths,
    discriminant,
    feature_kinds,
    fit_features,
    fit_lbfgs,
    fit_wide,
    logistic,
    loss_of,
    moments,
    strong_part,
    window_gram,
)
from driftline.fitting._lanczos import freedoms, lanczos, signs

LOSS = loss_of(logistic)


def with_ones(x):
    return Dense(np.column_stack([x, np.ones(len(x))]))


def windows(seed, rows, columns, shift=0.0, moved=None, rows_den=None):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(rows, columns)), rng.normal(size=(rows_den or rows, columns))
    b[:, :moved] += shift
    return a, b


def quadratic(a, b):
    z = np.concatenate([a, b])
    features = fit_features(z, sparing=True)
    return LogLinearDesign(features, a), LogLinearDesign(features, b), feature_kinds(features)


def test_moments_are_those_of_the_rows():
    a, b = windows(0, 300, 7, 0.5, 3, rows_den=200)
    a, b = 3.0 + 2.0 * a, 3.0 + 2.0 * b
    of = moments(with_ones(a), with_ones(b))
    both = np.concatenate([a, b])
    z = (b - both.mean(0)) / both.std(0)
    assert of.pooled == pytest.approx(np.corrcoef(both.T), abs=1e-5)
    assert of.den == pytest.approx(z.T @ z / len(z), abs=1e-5)
    assert of.shift == pytest.approx((a.mean(0) - b.mean(0)) / both.std(0), abs=1e-6)
    assert of.part(np.array([1, 4])).pooled == pytest.approx(np.corrcoef(both[:, [1, 4]].T), abs=1e-5)


def test_without_ridge_it_is_least_squares_on_labels():
    a, b = windows(1, 400, 30, 0.3, 5, rows_den=600)
    found = discriminant(moments(with_ones(a), with_ones(b)))
    x, y = np.column_stack([np.concatenate([a, b]), np.ones(1000)]), np.repeat([1.0, 0.0], [400, 600])
    beta = np.linalg.lstsq(x, y, rcond=None)[0][:-1]
    assert found.coef / found.coef[0] == pytest.approx(beta / beta[0], rel=0.02, abs=0.02)
    leverage = np.einsum("ij,jk,ik->i", x, np.linalg.inv(x.T @ x), x) - 1e-3
    assert found.noise_num == pytest.approx(1000 / 400 * leverage[:400].sum() / 400, rel=0.01)
    assert found.noise_den == pytest.approx(1000 / 600 * leverage[400:].sum() / 600, rel=0.01)


@pytest.mark.parametrize("rows_den", [500, 1000])
def test_like_windows_read_nothing_on_average(rows_den):
    found = [discriminant(moments(*map(with_ones, windows(s, 500, 150, rows_den=rows_den)))) for s in range(40)]
    values = np.array([one.divergence for one in found])
    deviation = np.sqrt(np.mean([one.variance for one in found]))
    assert abs(values.mean()) < 4.0 * deviation / np.sqrt(len(values))
    assert values.std() == pytest.approx(deviation, rel=0.35)  # three standard errors of 40 draws


def test_heavy_tails_and_copies_of_columns_read_nothing_either():
    values, deviations = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        x = rng.standard_t(3.0, size=(2, 400, 60)) * (rng.random((2, 400, 60)) < 0.2)  # mostly 0, like pixels
        x = np.concatenate([x, x[:, :, :20]], axis=2)
        found = discriminant(moments(with_ones(x[0]), with_ones(x[1])))
        assert found.dof < 61.0
        values.append(found.divergence)
        deviations.append(found.variance)
    assert abs(np.mean(values)) < 4.0 * np.sqrt(np.mean(deviations) / len(values))


@pytest.mark.parametrize("moved", [10, 200])
def test_a_shift_of_means_has_its_closed_form(moved):
    truth = 1.0  # the symmetric divergence is the squared length of the shift
    values = []
    for seed in range(10):
        a, b = windows(seed, 1500, 200, np.sqrt(truth / moved), moved)
        values.append(discriminant(moments(*map(with_ones, (a, b)))).divergence)
    # variance: 4 J (1/n + 1/m), that of the covariance, and the noise of 200 features
    error = np.sqrt((8.0 / 1500 + 2.0 / 3000 + 2 * 200 * 4 / 1500**2) / 10)
    assert np.mean(values) == pytest.approx(truth, abs=4.0 * error)


def test_units_and_centres_do_not_matter():
    a, b = windows(3, 300, 40, 0.2, 10)
    found = discriminant(moments(with_ones(a), with_ones(b)))
    scale = np.geomspace(0.01, 100.0, 40)
    other = discriminant(moments(with_ones(a * scale), with_ones(b * scale)))
    assert other.divergence == pytest.approx(found.divergence, abs=1e-3)
    assert other.coef * scale == pytest.approx(found.coef, abs=1e-3)


def test_more_features_than_rows_leave_half_of_the_rows_free():
    a, b = windows(4, 200, 600)
    found = discriminant(moments(with_ones(a), with_ones(b)))
    assert found.dof == pytest.approx(200.0, rel=0.1)
    assert abs(found.divergence) < 5.0 * np.sqrt(found.variance)


def test_dependent_rows_are_worth_fewer():
    def rows(rng):
        out = rng.normal(size=(3000, 60))
        for i in range(1, len(out)):
            out[i] = 0.7 * out[i - 1] + np.sqrt(1 - 0.49) * out[i]
        return with_ones(out)

    plain, careful, ratio = [], [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        num, den = rows(rng), rows(rng)
        of = moments(num, den)
        found = discriminant(of, (block_sums(num, of, 12), block_sums(den, of, 12)))
        careful.append(found.divergence / np.sqrt(found.variance))
        plain.append(discriminant(of).divergence / np.sqrt(discriminant(of).variance))
        ratio.append(found.repetition)
    assert np.mean(ratio) == pytest.approx(1.7 / 0.3, rel=0.1)  # (1 + rho) / (1 - rho)
    assert abs(np.mean(careful)) < 2.0
    assert np.mean(plain) > 10.0  # the negative control


def test_strong_features_mend_what_fisher_misses():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 4000, 60))
    b[:, :4] *= 0.5
    num, den, _ = quadratic(a, b)
    of = moments(num, den)
    strong, half = strong_part(num, den, LOSS, of), 0.5 * discriminant(of).divergence
    assert set(strong.at) == {60, 61, 62, 63}  # their squares
    truth = 4 * 0.5 * (0.25 - 1 - np.log(0.25)), 4 * 0.5 * (4.0 - 1 + np.log(0.25))
    assert half + strong.reverse == pytest.approx(truth[0], rel=0.06)
    assert half + strong.forward == pytest.approx(truth[1], rel=0.06)
    assert half < 0.75 * truth[1]  # the negative control


def test_nothing_stands_out_without_drift():
    a, b = windows(6, 1000, 300)
    num, den, _ = quadratic(a, b)
    strong = strong_part(num, den, LOSS, moments(num, den))
    assert len(strong.at) == 0
    assert strong.reverse == strong.forward == 0.0


def test_lanczos_solves_and_counts():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(500, 80)) @ rng.normal(size=(80, 80)) / 9.0
    matrix = x.T @ x / 500
    scale, vector, ridges = rng.uniform(0.5, 2.0, 80), rng.normal(size=80), np.array([0.03, 0.3, 3.0])
    scaled = scale[:, None] * matrix * scale
    run = lanczos(matrix.astype(np.float32), scale, vector[:, None])[0]
    values = np.linalg.eigvalsh(scaled)
    dof = freedoms(lanczos(matrix.astype(np.float32), scale, signs(80)), ridges)
    for ridge, count in zip(ridges, dof, strict=True):
        assert run.solution(ridge) == pytest.approx(
            np.linalg.solve(scaled + ridge * np.eye(80), vector), rel=0.02, abs=0.02
        )
        assert count == pytest.approx((values / (values + ridge)).sum(), rel=0.25)


@pytest.mark.parametrize(("squares", "favoured"), [(False, 0), (True, 1)])
def test_the_kind_that_moves_is_held_back_less(squares, favoured):
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(2, 1000, 200))
    b = b * 0.93 if squares else b + 0.07
    num, den, kinds = quadratic(a, b)
    chosen = choose_strengths(moments(num, den), kinds, np.zeros(0, dtype=np.int64))
    assert chosen.favoured == favoured
    assert chosen.gain > 0.1


def test_held_back_it_serves_new_rows_and_says_how_well():
    rng = np.random.default_rng(9)
    a, b = rng.normal(size=(2, 3000, 200))
    b[:, :20] += 0.22  # half a nat
    num, den, kinds = quadratic(a[:1000], b[:1000])
    new_num, new_den = LogLinearDesign(num.features, a[1000:]), LogLinearDesign(num.features, b[1000:])
    found = fit_wide(num, den, LOSS, kinds)
    none = LOSS.slopes(np.zeros(1), np.zeros(1))[0]

    def on_new_rows(coef):
        return LOSS.slopes(new_num.dot(coef), new_den.dot(coef))[0]

    plain = fit_lbfgs(num, den, LOSS, ridge=1.0)
    assert on_new_rows(found.fit.coef) < none - 0.04
    assert on_new_rows(found.fit.coef) < on_new_rows(plain.coef) - 0.05
    assert found.fit.info.held_out == pytest.approx(on_new_rows(found.fit.coef), abs=0.02)


def test_like_windows_are_held_back_altogether_or_nearly():
    a, b = windows(10, 1000, 300)
    num, den, kinds = quadratic(a, b)
    found = fit_wide(num, den, LOSS, kinds, gram_num=window_gram(num))
    assert np.std(found.fit.log_den) < 0.15
    assert abs(found.reverse) < 4.0 * 0.5 * np.sqrt(found.discriminant.variance)
    assert found.fit.info.held_out == pytest.approx(LOSS.slopes(np.zeros(1), np.zeros(1))[0], abs=2e-3)
    assert found.mean_num == pytest.approx(num.pull(np.full(1000, 1e-3))[:-1], abs=1e-9)


def test_values_that_are_not_finite_are_an_error():
    a, b = windows(11, 100, 5)
    of = moments(with_ones(a), with_ones(b))
    with pytest.raises(FitDivergedError, match="not positive"):
        discriminant(of._replace(pooled=np.full_like(of.pooled, np.nan)))


def test_what_stands_out_has_its_variance():
    """The jackknife's variance of the exact part is that over replicates, within three standard errors."""
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(2, 2000, 10))
        x[1] += 0.4**0.5
        num, den = (Dense(np.column_stack([z, np.square(z), np.ones(2000)])) for z in x)
        found.append(strong_part(num, den, loss_of(logistic), moments(num, den)))
    spread = np.var([part.reverse for part in found], ddof=1)
    assert np.mean([part.variance for part in found]) / spread == pytest.approx(1.0, abs=3.0 * (2.0 / 59) ** 0.5)
