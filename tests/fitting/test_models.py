"""Models: scoring equals the design it stands for, features extend without moving, networks widen without changing."""

import numpy as np
import pytest
import torch

from driftline.fitting import (
    MLP,
    Dense,
    LogLinear,
    LogLinearDesign,
    Network,
    fit_features,
    fit_standardizer,
    grow,
)


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


def test_wider_network_computes_the_same():
    torch.manual_seed(0)
    old, new = MLP(5, 2, (8, 6)), MLP(6, 3, (16, 9))
    assert grow(old, new)
    x = torch.randn(20, 5)
    wide = torch.cat([x, torch.randn(20, 1)], 1)
    torch.testing.assert_close(new(wide)[:, :2], old(x))
    assert not grow(old, MLP(5, 2, (8,)))
    assert not grow(new, old)  # narrower


def test_heads_and_tau_input():
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
