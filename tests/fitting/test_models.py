"""Models: scoring equals the design it stands for, features extend without moving, networks widen without changing."""

import pytest
import torch
from torch import nn

from driftline.fitting import MLP, Dense, LogLinear, Network, fit_features, fit_standardizer, grow, log_linear_design


def rows(n=300, d=5, seed=0, **kwargs):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 + 3


def rich(z):
    d = z.shape[1]
    weight = torch.randn(d, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return fit_features(
        z, pairs=torch.tensor([[0, 1], [2, 4]]), weight=weight, bias=torch.zeros(4, dtype=torch.float64)
    )


@pytest.mark.parametrize("kind", ["linear", "quadratic", "rich", "full"])
def test_psi_is_its_design(kind):
    x = rows()
    standardizer = fit_standardizer(x)
    z = standardizer(x)
    features = {
        "linear": lambda: fit_features(z, squares=False),
        "quadratic": lambda: fit_features(z),
        "rich": lambda: rich(z),
        "full": lambda: fit_features(z, pairs=torch.triu_indices(5, 5, 1).T.contiguous()),
    }[kind]()
    coef = torch.randn(features.size, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    dense = features.design(z)
    torch.testing.assert_close(dense[:, -1], torch.ones(len(z), dtype=torch.float64))
    torch.testing.assert_close(
        dense[:, :-1].mean(0), torch.zeros(features.size, dtype=torch.float64), atol=1e-9, rtol=0
    )
    expected = dense[:, :-1] @ coef
    torch.testing.assert_close(features.score(z, coef), expected)
    torch.testing.assert_close(LogLinear(standardizer, features, coef)(x), expected)
    # the design that is known only by its products is this matrix
    lazy, solid = log_linear_design(features, z), Dense(dense)
    torch.manual_seed(3)
    theta, values = torch.randn(features.size + 1, dtype=torch.float64), torch.randn(len(z), dtype=torch.float64)
    torch.testing.assert_close(lazy.dot(theta), solid.dot(theta))
    torch.testing.assert_close(lazy.pull(values), solid.pull(values))
    torch.testing.assert_close(lazy.gram(values**2), dense.T @ (dense * values[:, None] ** 2), rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(lazy.thin(3).dot(theta), solid.dot(theta)[::3])


def test_extended_features_keep_the_old_ones_in_place():
    z = rows()
    old = rich(z)
    new = old.extend(z, torch.tensor([[1, 3]]), torch.eye(5, dtype=torch.float64)[:, :1], torch.ones(1).double())
    assert new.size == old.size + 2
    at = old.positions(new)
    torch.testing.assert_close(new.design(z)[:, at], old.design(z)[:, :-1])


def test_constant_column_stays_zero():
    x = rows()
    x[:, 2] = 1e6
    z = fit_standardizer(x)(x)
    assert bool((z[:, 2] == 0).all())
    assert bool(torch.isfinite(fit_features(z).design(z)).all())


def test_standardisation_is_frozen():
    x = rows()
    standardizer = fit_standardizer(x)
    moved = standardizer(x + 1.0) - standardizer(x)
    torch.testing.assert_close(moved, (1.0 / standardizer.scale).expand_as(moved))


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
    assert not torch.allclose(outputs[0], outputs[1])
    with pytest.raises(ValueError, match=r"returned shape \(20, 3\).*expected \(20, 2\)"):
        Network(standardizer, MLP(6, 3, (8,)), 0, 2)(x)


def test_a_generator_of_ones_own_draws_the_weights_of_pytorch():
    """The weights of ``nn.Linear`` with the same seed, and nothing is drawn from the global generator."""
    torch.manual_seed(7)
    layers = nn.Linear(5, 8), nn.Linear(8, 2)
    state = torch.random.get_rng_state()
    module = MLP(5, 2, (8,), torch.Generator().manual_seed(7))
    assert torch.equal(torch.random.get_rng_state(), state)
    for layer, ours in zip(layers, (*module.layers, module.head), strict=True):
        assert torch.equal(ours.weight, layer.weight)
        assert torch.equal(ours.bias, layer.bias)
