"""Solvers: each finds the exact optimum; the mini-batch loop restores, stops early, repeats and refuses to diverge."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from driftline.fitting import (
    Dense,
    FitDivergedError,
    LogLinearDesign,
    Training,
    bridge_constant,
    fit_convex,
    fit_features,
    fit_lbfgs,
    kliep,
    logistic,
    loss_of,
    lsif,
    nwj,
)

LOGISTIC = loss_of(logistic)


def gaussians(seed=0, n=3000, m=2000, shift=0.4, d=3):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, (n, d)), rng.normal(shift, 1, (m, d))


def design(x):
    return Dense(np.hstack([x, np.ones((len(x), 1))]))


def test_newton_is_scikit_learns_optimum():
    x, y = gaussians()
    fit = fit_convex(design(x), design(y), LOGISTIC, ridge=0.0, tol=1e-9)
    assert fit.info.converged
    rows, labels = np.concatenate([x, y]), np.repeat([1, 0], [len(x), len(y)])
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(rows, labels)
    np.testing.assert_allclose(fit.coef[:-1], peer.coef_[0], atol=1e-5)
    # the peer's constant includes the log-ratio of the sample sizes, ours is that of the densities alone
    assert float(fit.coef[-1]) == pytest.approx(peer.intercept_[0] - math.log(len(x) / len(y)), abs=1e-5)


def by_name(name):
    if name != "bregman":
        return {"logistic": logistic, "nwj": nwj, "lsif": lsif}[name]
    from driftline.fitting import bregman

    return bregman(lambda r: r * r.log())


@pytest.mark.parametrize("name", ["logistic", "nwj", "lsif", pytest.param("bregman", marks=pytest.mark.networks)])
def test_newton_and_lbfgs_agree(name):
    objective, (x, y) = by_name(name), gaussians()
    designs = [LogLinearDesign(fit_features(x), z) for z in (x, y)]
    newton = fit_convex(*designs, loss_of(objective), ridge=1.0, tol=1e-9)
    other = fit_lbfgs(*designs, loss_of(objective), ridge=1.0)
    assert newton.info.converged
    assert other.info.converged
    np.testing.assert_allclose(newton.coef, other.coef, atol=1e-4, rtol=1e-3)


def test_a_sample_without_a_minimum_does_not_stop_a_fit_that_has_one():
    """KLIEP needs the numerator's mean inside the denominator's rows; in a sample of every eighth row it is not."""
    x, y = gaussians(n=20_000, m=20_000, d=1)
    # the eighth of the rows that the start is found on lies above the numerator's mean, the rest does not
    y[::8] = np.maximum(y[::8], 0.1)
    start = np.zeros(2)
    with pytest.raises(FitDivergedError, match="no minimum"):
        fit_convex(design(x[::8]), design(y[::8]), loss_of(nwj), ridge=0.0, start=start)
    found = fit_convex(design(x), design(y), loss_of(nwj), ridge=0.0, tol=1e-9)
    whole = fit_convex(design(x), design(y), loss_of(nwj), ridge=0.0, tol=1e-9, start=start)
    assert found.info.converged
    np.testing.assert_allclose(found.coef, whole.coef, atol=1e-7, rtol=0)


def test_constants_of_kliep_and_lsif_are_finite_where_ratios_are_not():
    num, den = np.array([1e4, 1e4 + 1.0]), np.array([-2e3, 3e3])
    assert bridge_constant(num, den, kliep) == pytest.approx(math.log(2) - 3e3)
    assert bridge_constant(num, den, lsif) == pytest.approx(1e4 + math.log((1 + math.e) / 2) + math.log(2) - 6e3)


def test_large_windows_start_from_a_sample_and_reach_the_same_solution():
    x, y = gaussians(n=20_000, m=20_000)
    thin = fit_convex(design(x), design(y), LOGISTIC, tol=1e-9)
    whole = fit_convex(design(x), design(y), LOGISTIC, tol=1e-9, start=np.zeros(4))
    np.testing.assert_allclose(thin.coef, whole.coef, atol=1e-7, rtol=0)
    np.testing.assert_allclose(thin.hessian, whole.hessian, rtol=1e-3, atol=1e-5)


def test_offsets_are_part_of_the_log_ratio():
    x, y = gaussians()
    fit = fit_convex(design(x), design(y), LOGISTIC, tol=1e-9)
    known = fit.coef[0]
    rest = fit_convex(design(x), design(y), LOGISTIC, offset_num=known * x[:, 0], offset_den=known * y[:, 0], tol=1e-9)
    assert float(rest.coef[0]) == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(rest.coef[1:], fit.coef[1:], atol=1e-6, rtol=0)


def test_separated_data_stay_finite_with_a_ridge():
    x, y = gaussians(shift=40.0)
    fit = fit_convex(design(x), design(y), LOGISTIC, ridge=1.0)
    assert np.isfinite(fit.coef).all()
    assert fit.info.converged


def test_separability_is_detected():
    assert loss_of(logistic).separable
    assert loss_of(nwj).separable
    assert loss_of(lsif).separable
    assert not loss_of(kliep).separable  # its normaliser couples the rows


@pytest.mark.networks
def test_separability_of_functions_of_tensors_is_detected():
    assert loss_of(lambda a, b: (a**2).mean() + b.exp().mean()).separable
    assert not loss_of(lambda a, b: (a.mean() - b.mean()) ** 2).separable


@pytest.mark.parametrize("objective", [logistic, nwj, kliep, lsif], ids=lambda o: o.__name__)
def test_constant_is_the_normaliser(objective, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(0, 1, 20_000), rng.normal(0.3, 1, 10_000)
    found = bridge_constant(-0.3 * x + 7.0, -0.3 * y + 7.0, objective)
    # the truth is 0.045 - 7; the larger standard error is that of the one-sided normaliser, sd(r)/sqrt(m)
    assert abs(found - (0.045 - 7.0)) < 4 * math.sqrt(math.expm1(0.09) / 10_000)


def pairs(shift, n=2000, seed=0, net=None):
    import torch

    from driftline.fitting import Pair

    x, y = gaussians(seed, n, n, shift)
    zero = torch.zeros(n)
    num, den = (torch.from_numpy(rows).float() for rows in (x, y))
    return [Pair(num, den, zero, zero, lambda v: net(v)[:, 0])]


@pytest.mark.networks
def test_network_fit_restores_its_best_epoch_and_repeats():
    import torch

    from driftline.fitting import MLP, fit_network

    def run():
        torch.manual_seed(0)
        net, seen = MLP(3, 1, (32,)), []
        training = Training(epochs=8, batch=200)
        info = fit_network(net, pairs(0.8, net=net), logistic, training, seed=3, progress=lambda *a: seen.append(a))
        return net, info, seen

    net, info, seen = run()
    assert info.converged
    assert [s[0] for s in seen] == list(range(1, info.iterations + 1))
    assert info.held_out == pytest.approx(min(s[3] for s in seen))
    assert info.held_out < math.log(2) - 0.05
    again, _, _ = run()
    for a, b in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.networks
def test_nothing_to_learn_stops_early_and_keeps_the_start():
    import torch

    from driftline.fitting import MLP, fit_network

    torch.manual_seed(0)
    net = MLP(3, 1, (256, 256))
    torch.nn.init.zeros_(net.head.weight)
    torch.nn.init.zeros_(net.head.bias)
    info = fit_network(net, pairs(0.0, n=400, net=net), logistic, Training(epochs=200, batch=50, lr=1e-2, patience=2))
    assert info.iterations < 200
    assert info.held_out <= math.log(2) + 1e-6


@pytest.mark.networks
def test_divergence_is_refused():
    import torch

    from driftline.fitting import MLP, fit_network

    torch.manual_seed(0)
    net = MLP(3, 1, (32,))
    with pytest.raises(FitDivergedError, match=r"diverged in epoch 1.*learning rate"):
        fit_network(net, pairs(0.5, net=net), lsif, Training(epochs=3, batch=100, lr=1e4))


@pytest.mark.networks
@pytest.mark.parametrize("field", ["optimizer", "schedule"])
def test_unknown_training_words(field):
    from driftline.fitting import MLP, fit_network

    net = MLP(3, 1, (4,))
    with pytest.raises(ValueError, match=f"{field}='x' is unknown"):
        fit_network(net, pairs(0.5, net=net), logistic, Training(**{field: "x"}))


@pytest.mark.networks
def test_split_depends_on_size_and_seed_alone():
    import torch

    from driftline.fitting import split_rows

    train, held = split_rows(100, 0.1, 5)
    again, _ = split_rows(100, 0.1, 5)
    assert torch.equal(train, again)
    assert len(held) == 10
    assert sorted(torch.cat([train, held]).tolist()) == list(range(100))
    assert not torch.equal(train, split_rows(100, 0.1, 6)[0])
