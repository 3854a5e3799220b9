"""Models: scoring equals the design it stands for, features extend without moving, networks widen without changing."""

import numpy as np
import pytest

from driftline.fitting import Dense, LogLinear, LogLinearDesign, fit_features, fit_standardizer, gram_of


def rows(n=300, d=5, seed=0):
    return np.random.default_rng(seed).normal(3.0, 2.0, (n, d))


def rich(z):
    weight = np.random.default_rng(1).normal(size=(z.shape[1], 4))
    return fit_features(z, pairs=np.array([[0, 1], [2, 4]]), weight=weight, bias=np.zeros(4))


@pytest.mark.parametrize("kind", ["linear", "quadratic", "rich", "full"])
def test_psi_is_its_design(kind):
    x = rows()
    standardizer = fit_standardizer(x)
    z = standardizer(x)
    features = {
        "linear": lambda: fit_features(z, squares=False),
        "quadratic": lambda: fit_features(z),
        "rich": lambda: rich(z),
        "full": lambda: fit_features(z, pairs=np.stack(np.triu_indices(5, 1), 1)),
    }[kind]()
    coef = np.random.default_rng(2).normal(size=features.size)
    dense = features.design(z)
    assert (dense[:, -1] == 1.0).all()
    np.testing.assert_allclose(dense[:, :-1].mean(0), 0.0, atol=1e-9)
    expected = dense[:, :-1] @ coef
    np.testing.assert_allclose(LogLinear(standardizer, features, coef)(x), expected, atol=1e-9)
    # the design that is known only by its products is this matrix
    lazy, solid = LogLinearDesign(features, z), Dense(dense)
    rng = np.random.default_rng(3)
    theta, values = rng.normal(size=features.size + 1), rng.normal(size=len(z))
    np.testing.assert_allclose(lazy.dot(theta), solid.dot(theta), atol=1e-9)
    np.testing.assert_allclose(lazy.pull(values), solid.pull(values), atol=1e-9)
    np.testing.assert_allclose(lazy.gram(values**2), dense.T @ (dense * values[:, None] ** 2), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(lazy.thin(3).dot(theta), solid.dot(theta)[::3], atol=1e-9)


WEIGHTS = {
    "positive": lambda rng, n: rng.random(n),
    "signed": lambda rng, n: rng.normal(size=n),
    "some zero": lambda rng, n: rng.random(n) * (rng.random(n) < 0.1),
    "tiny": lambda rng, n: 1e-60 * rng.random(n),
    "tiny, signed": lambda rng, n: 1e-60 * rng.normal(size=n),
    "uneven": lambda rng, n: np.exp(6.0 * rng.normal(size=n)),
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("n", [1, 300, 4096, 10_001])
def test_gram_matrices_are_right_to_single_precision(kind, n, rng):
    matrix, weights = rng.normal(1.0, 2.0, (n, 6)), WEIGHTS[kind](rng, n)
    wanted = np.einsum("i,ij,ik->jk", weights, matrix, matrix)
    # a sum of n products, each known to 24 bits: what is left of their sizes, where signs cancel
    size = np.einsum("i,ij,ik->jk", np.abs(weights), np.abs(matrix), np.abs(matrix))
    for rows in (matrix, matrix.astype(np.float32)):
        found = gram_of(rows, weights)
        assert found.dtype == np.float64
        assert (np.abs(found - wanted) <= 3e-6 * size).all()
        assert (np.abs(found - found.T) <= 3e-6 * size).all()


def test_gram_matrix_of_no_rows_is_zero():
    np.testing.assert_array_equal(gram_of(np.zeros((0, 3)), np.zeros(0)), np.zeros((3, 3)))
    np.testing.assert_array_equal(gram_of(np.ones((5, 3)), np.zeros(5)), np.zeros((3, 3)))


@pytest.mark.parametrize("sparing", [False, True])
def test_designs_leave_out_what_features_leave_out(sparing, rng):
    x = np.column_stack([rng.normal(size=500), np.full(500, 3.0), rng.random(500) < 0.3, rng.normal(size=500)])
    standardizer = fit_standardizer(x)
    z = standardizer(x)
    features = fit_features(z, sparing=sparing)
    assert features.linear.tolist() == ([0, 2, 3] if sparing else [0, 1, 2, 3])
    assert features.squares.tolist() == ([0, 3] if sparing else [0, 1, 2, 3])
    assert features.prior.tolist() == ([1.0, 0.5, 1.0, 1.0, 1.0, 1.0] if sparing else [1.0] * 9)
    dense, lazy = features.design(z), LogLinearDesign(features, z)
    assert lazy.shape == dense.shape == (500, 6 if sparing else 9)
    theta, values = rng.normal(size=dense.shape[1]), rng.normal(size=500)
    np.testing.assert_allclose(lazy.dot(theta), dense @ theta, atol=1e-10)
    np.testing.assert_allclose(lazy.pull(values), values @ dense, atol=1e-10)
    np.testing.assert_allclose(lazy.gram(values), dense.T @ (dense * values[:, None]), atol=1e-3)
    np.testing.assert_allclose(LogLinear(standardizer, features, theta[:-1])(x), dense[:, :-1] @ theta[:-1], atol=1e-10)


def test_columns_awake_when_they_vary(rng):
    z = np.column_stack([rng.normal(size=200), np.zeros(200), np.sign(rng.normal(size=200))])
    features = fit_features(z, sparing=True)
    later = z.copy()
    assert [found.tolist() for found in features.awake(z, later)] == [[], []]
    later[7, 1] = 0.5  # zero and a half: two values
    assert [found.tolist() for found in features.awake(z, later)] == [[1], []]
    later[150, 1] = -0.5
    later[199, 2] = 3.0  # in a last row, far from the first ones; a square would rest on it alone
    assert [found.tolist() for found in features.awake(z, later)] == [[1], []]
    later[50:100, 1] = 0.5
    later[100:150, 1] = -0.5
    later[150:, 2] = 3.0
    assert [found.tolist() for found in features.awake(z, later)] == [[1], [1, 2]]
    wider = features.extend(z, linear=np.array([1]), squares=np.array([1, 2]))
    assert [found.tolist() for found in wider.awake(z, later)] == [[], []]
    np.testing.assert_array_equal(wider.design(later)[:, features.positions(wider)], features.design(later)[:, :-1])
    assert [found.tolist() for found in fit_features(z, squares=False, sparing=True).awake(z, later)] == [[1], []]


def test_only_constant_columns_have_scale_one():
    x = np.column_stack([np.tile([-1.0, 1.0], 50), np.full(100, 4.0), np.arange(100.0)])
    assert fit_standardizer(x).still.tolist() == [False, True, False]


def test_extended_features_keep_the_old_ones_in_place():
    z = rows()
    old = rich(z)
    new = old.extend(z, pairs=np.array([[1, 3]]), weight=np.eye(5)[:, :1], bias=np.ones(1))
    assert new.size == old.size + 2
    at = old.positions(new)
    np.testing.assert_array_equal(new.design(z)[:, at], old.design(z)[:, :-1])


def test_constant_column_stays_zero():
    x = rows()
    x[:, 2] = 1e6
    z = fit_standardizer(x)(x)
    assert (z[:, 2] == 0).all()
    assert np.isfinite(fit_features(z).design(z)).all()


def test_standardisation_is_frozen():
    x = rows()
    standardizer = fit_standardizer(x)
    moved = standardizer(x + 1.0) - standardizer(x)
    np.testing.assert_allclose(moved, np.broadcast_to(1.0 / standardizer.scale, moved.shape))


@pytest.mark.networks
def test_wider_network_computes_the_same():
    import torch

    from driftline.fitting import MLP, grow

    torch.manual_seed(0)
    old, new = MLP(5, 2, (8, 6)), MLP(6, 3, (16, 9))
    assert grow(old, new)
    x = torch.randn(20, 5)
    wide = torch.cat([x, torch.randn(20, 1)], 1)
    torch.testing.assert_close(new(wide)[:, :2], old(x))
    assert not grow(old, MLP(5, 2, (8,)))
    assert not grow(new, old)  # narrower


@pytest.mark.networks
def test_heads_and_tau_input():
    import torch

    from driftline.fitting import MLP, Network

    x = rows(20)
    standardizer = fit_standardizer(x)
    torch.manual_seed(0)
    module = MLP(6, 3, (8,))
    nets = [Network(standardizer, module, tau, 3) for tau in range(3)]
    assert nets[1].inputs(x).shape == (20, 6)
    assert bool((nets[2].inputs(x)[:, -1] == 2.0).all())
    outputs = [net(x) for net in nets]
    assert not np.allclose(outputs[0], outputs[1])
    with pytest.raises(ValueError, match=r"returned shape \(20, 3\).*expected \(20, 2\)"):
        Network(standardizer, MLP(6, 3, (8,)), 0, 2)(x)


@pytest.mark.networks
def test_a_generator_of_ones_own_draws_the_weights_of_pytorch():
    """The weights of ``nn.Linear`` with the same seed, and nothing is drawn from the global generator."""
    import torch
    from torch import nn

    from driftline.fitting import MLP

    torch.manual_seed(7)
    layers = nn.Linear(5, 8), nn.Linear(8, 2)
    state = torch.random.get_rng_state()
    module = MLP(5, 2, (8,), torch.Generator().manual_seed(7))
    assert torch.equal(torch.random.get_rng_state(), state)
    for layer, ours in zip(layers, (*module.layers, module.head), strict=True):
        assert torch.equal(ours.weight, layer.weight)
        assert torch.equal(ours.bias, layer.bias)


def test_gram_matrices_that_are_kept_are_those_of_their_weights_and_rows_alone(rng):
    z = rng.normal(size=(500, 3))
    lazy, weights = LogLinearDesign(fit_features(z), z), rng.uniform(size=500)
    dense = lazy.take(0, 500, 1)
    flat = np.full(500, 0.3)
    for _ in range(2):
        np.testing.assert_allclose(lazy.gram(flat), 0.3 * dense.T @ dense, rtol=1e-5, atol=1e-3)
    found = lazy.gram(weights)
    lazy.keep(weights, found)
    np.testing.assert_array_equal(lazy.gram(weights.copy()), found)
    few = lazy.pick(np.arange(100))
    np.testing.assert_allclose(few.gram(flat[:100]), 0.3 * dense[:100].T @ dense[:100], rtol=1e-5, atol=1e-3)
    other = weights + 1.0
    assert lazy.gram(other)[-1, -1] == pytest.approx(other.sum(), rel=1e-5)
