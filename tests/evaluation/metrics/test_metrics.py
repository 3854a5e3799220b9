"""Measures on features agree with implementations of their formulas written here, and mean what they say."""

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist

from driftline.evaluation.metrics import fid, kid, neighbours, prd
from driftline.evaluation.metrics._curves import curve


def samples(seed=0, n=600, m=500, d=6, shift=0.4, scale=1.3):
    rng = np.random.default_rng(seed)
    mix = rng.standard_normal((d, d))
    return rng.standard_normal((n, d)) @ mix, shift + scale * rng.standard_normal((m, d)) @ mix


def test_fid_is_the_frechet_distance(seed):
    x, y = samples(seed)
    root = sqrtm(np.cov(x.T) @ np.cov(y.T)).real
    truth = ((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(np.cov(x.T) + np.cov(y.T) - 2 * root)
    assert fid(x, y) == pytest.approx(truth, rel=1e-6)


def test_fid_of_gaussians_with_diagonal_covariances():
    """The closed form is the sum of squared differences of means and of standard deviations."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((200_000, 3)), 0.5 + 2.0 * rng.standard_normal((200_000, 3))
    assert fid(x, y) == pytest.approx(3 * 0.25 + 3 * 1.0, abs=6 * 3 * 4 / np.sqrt(200_000))
    assert abs(fid(x, x)) < 1e-8


def test_kid_over_all_rows_is_the_unbiased_mmd():
    x, y = samples(n=300, m=300)

    def kernel(a, b):
        return (a @ b.T / a.shape[1] + 1.0) ** 3

    m = len(x)
    same = sum((k.sum() - np.trace(k)) / (m * (m - 1)) for k in (kernel(x, x), kernel(y, y)))
    truth = same - 2 * kernel(x, y).mean()
    found = kid(x, y, subsets=3, size=300)
    assert found.mean == pytest.approx(truth, rel=1e-6)
    assert found.std == pytest.approx(0.0, abs=1e-9 * abs(truth))


def test_kid_is_repeatable_and_leaves_the_global_generator_alone():
    import torch

    x, y = samples()
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = kid(x, y, size=100)
    assert torch.rand(1) == expected
    assert kid(x, y, size=100) == first
    assert kid(x, y, size=100, random_state=1) != first


def test_kid_of_samples_from_one_distribution_is_zero_on_average():
    """It is unbiased: over draws of both samples its mean is within three standard errors of 0."""
    values = [kid(*np.random.default_rng(s).standard_normal((2, 200, 4)), subsets=1, size=200).mean for s in range(100)]
    assert abs(np.mean(values)) < 3 * np.std(values) / 10


def test_curve_is_the_definition():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(8))
    precision, recall = curve(p, q, 101)
    for k in (1, 20, 50, 99):
        slope = np.tan(1e-6 + k / 100 * (np.pi / 2 - 2e-6))
        alpha = sum(min(slope * a, b) for a, b in zip(p, q, strict=True))
        assert precision[k] == pytest.approx(alpha, rel=1e-6)
        assert recall[k] == pytest.approx(alpha / slope, rel=1e-6)
    swapped = curve(q, p, 101)
    np.testing.assert_allclose(swapped[0][::-1], recall, atol=1e-6)


def test_prd_distinguishes_lost_modes_from_bad_samples():
    rng = np.random.default_rng(0)
    modes = 10 * rng.standard_normal((10, 5))
    real = np.concatenate([m + rng.standard_normal((200, 5)) for m in modes])
    half, more = real[:1000], np.concatenate([real, real + 100.0])
    lost, bad = prd(real, half), prd(real, more)
    assert lost.f_1_8 > 0.9 > 0.7 > lost.f_8
    assert bad.f_8 > 0.9 > 0.7 > bad.f_1_8
    assert prd(real, half, random_state=0).f_8 == lost.f_8
    assert lost.precision.shape == lost.recall.shape == (1001,)


def test_neighbours_are_the_definitions(seed):
    x, y = samples(seed, n=150, m=130)
    k, n_m = 4, len(y)
    reach = {id(a): np.sort(cdist(a, a), 1)[:, k] for a in (x, y)}
    d = cdist(x, y)
    within = d <= reach[id(x)][:, None]
    found = neighbours(x, y, k=k)
    assert found.precision == pytest.approx(within.any(0).mean())
    assert found.recall == pytest.approx((d <= reach[id(y)]).any(1).mean())
    assert found.density == pytest.approx(within.sum() / (k * n_m))
    assert found.coverage == pytest.approx(within.any(1).mean())


def test_duplicates_are_within_reach_of_each_other():
    """A collapsed generator repeats itself; distances of 0 must be 0, wherever the rows lie."""
    x = np.repeat(np.random.default_rng(0).standard_normal((10, 5)), 20, 0)
    for offset in (0.0, 100.0):
        found = neighbours(x + offset, x + offset)
        assert found.precision == found.recall == found.coverage == 1.0
        assert found.density == pytest.approx(4.0)  # twenty equal rows, k = 5


def test_fid_does_not_depend_on_where_zero_is():
    x, y = samples()
    for offset in (1e6, 1e8):
        assert fid(x + offset, y + offset) == pytest.approx(fid(x, y), rel=1e-4)


def test_fid_with_fewer_rows_than_columns_is_not_negative():
    x = np.random.default_rng(0).standard_normal((20, 40))
    assert 0.0 <= fid(x, x) < 1e-6
    x[:, 3] = 7.0  # a constant column
    assert np.isfinite(fid(x, x + 1.0))


def test_blocks_change_nothing(monkeypatch):
    x, y = samples(n=300, m=200)
    whole = neighbours(x, y)
    monkeypatch.setattr("driftline.evaluation.metrics._nearest._BLOCK", 7)
    assert neighbours(x, y) == whole


@pytest.mark.parametrize("measure", [fid, kid, prd, neighbours], ids=lambda f: f.__name__)
def test_bad_samples_are_named(measure):
    x, y = samples()
    with pytest.raises(ValueError, match="generated has 5 columns, real has 6"):
        measure(x, y[:, :5])
    y[3, 2] = np.nan
    with pytest.raises(ValueError, match="generated"):
        measure(x, y)


def test_bad_settings_are_named():
    x, y = samples()
    with pytest.raises(ValueError, match="clusters=1"):
        prd(x, y, clusters=1)
    with pytest.raises(ValueError, match="angles=2"):
        prd(x, y, angles=2)
    with pytest.raises(ValueError, match="k=500"):
        neighbours(x, y, k=500)
    with pytest.raises(ValueError, match="size=1"):
        kid(x, y, size=1)
