"""Objectives: each is least at the true ratio, agrees with its Bregman form, and survives large log-ratios."""

import math

import numpy as np
import pytest
from sklearn.metrics import log_loss

from driftline.fitting import (
    OBJECTIVES,
    constraint_residual,
    kliep,
    logistic,
    lsif,
    nwj,
    resolve_objective,
    unnormalised,
)

GENERATORS = {
    "nwj": (lambda r: r * r.log() - r, nwj, 1.0, -1.0),
    "lsif": (lambda r: 0.5 * (r - 1) ** 2, lsif, 1.0, 0.0),
    "logistic": (lambda r: r * r.log() - (1 + r) * r.log1p(), logistic, 0.5, 0.0),
}


def samples(seed, n=40_000, m=20_000, shift=0.4):
    """N(0,1) against N(shift,1): log r = shift^2/2 - shift x."""
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, n), rng.normal(shift, 1, m), shift


def of_tensors(objective):
    """Return an objective of tensors as a function of arrays."""
    import torch

    return lambda *arrays: float(objective(*map(torch.from_numpy, arrays)))


def by_name(name):
    if name in OBJECTIVES:
        return OBJECTIVES[name]
    from driftline.fitting import bregman, f_gan

    return of_tensors({"bregman": bregman(lambda r: r.log() * r), "f-gan": f_gan(lambda r: -r.log())}[name])


@pytest.mark.parametrize(
    "name", [*OBJECTIVES, *(pytest.param(made, marks=pytest.mark.networks) for made in ("bregman", "f-gan"))]
)
def test_least_at_the_true_ratio(name, seed):
    objective, (x, y, shift) = by_name(name), samples(seed)

    def loss(slope, constant):
        return float(objective(slope * x + constant, slope * y + constant))

    best = loss(-shift, shift**2 / 2)
    for slope, constant in ((-shift + 0.15, shift**2 / 2), (-shift - 0.15, shift**2 / 2), (0.0, 0.0), (shift, 0.0)):
        # 0.15 in the slope costs about 0.15^2/2 times the curvature; the sampling error of that difference is below it
        assert loss(slope, constant) > best
    if name != "kliep":  # KLIEP ignores a constant
        assert loss(-shift, shift**2 / 2 + 0.3) > best
        assert loss(-shift, shift**2 / 2 - 0.3) > best


def test_kliep_ignores_a_constant_and_is_nwj_minimised_over_it(seed):
    x, y, shift = samples(seed)
    a, b = -shift * x, -shift * y
    assert float(kliep(a + 3.0, b + 3.0)) == pytest.approx(float(kliep(a, b)), abs=1e-12)
    best = math.log(np.exp(b).mean())
    assert float(nwj(a - best, b - best)) == pytest.approx(float(kliep(a, b)), abs=1e-12)
    assert unnormalised(kliep) is nwj
    assert unnormalised(logistic) is logistic


@pytest.mark.networks
@pytest.mark.parametrize("name", OBJECTIVES)
def test_tensors_have_the_loss_of_arrays(name, seed):
    x, y, _ = samples(seed, 50, 40)
    assert of_tensors(OBJECTIVES[name])(x, y) == pytest.approx(float(OBJECTIVES[name](x, y)), abs=1e-12)


@pytest.mark.networks
@pytest.mark.parametrize("name", GENERATORS)
def test_bregman_form(name):
    from driftline.fitting import bregman

    generator, objective, scale, constant = GENERATORS[name]
    a, b = np.random.default_rng(0).normal(size=(2, 50))
    assert float(objective(a, b)) == pytest.approx(scale * of_tensors(bregman(generator))(a, b) + constant, abs=1e-12)


def test_nwj_bounds_the_divergence(seed):
    x, y, shift = samples(seed)
    truth = shift**2 / 2
    at_truth = -float(nwj(truth - shift * x, truth - shift * y))
    spread = shift / math.sqrt(len(x)) + math.sqrt(math.expm1(shift**2) / len(y))
    assert abs(at_truth - truth) < 4 * spread
    assert -float(nwj(truth - 2 * shift * x, truth - 2 * shift * y)) < at_truth


def test_logistic_weights_samples_by_size():
    a, b = np.array([0.3, -0.2]), np.array([0.1, 0.5, -1.0, 0.2])
    # doubling both samples changes nothing; this is plain logistic regression with the log-odds of the sizes as offset
    assert float(logistic(np.tile(a, 2), np.tile(b, 2))) == pytest.approx(float(logistic(a, b)))
    odds = np.concatenate([a, b]) + math.log(2 / 4)
    assert float(logistic(a, b)) == pytest.approx(log_loss([1] * 2 + [0] * 4, 1 / (1 + np.exp(-odds))))


@pytest.mark.parametrize("objective", [kliep, logistic])
def test_finite_for_huge_log_ratios(objective):
    assert np.isfinite(objective(np.array([900.0, -900.0]), np.array([-900.0, 900.0])))


@pytest.mark.networks
@pytest.mark.parametrize("objective", [kliep, logistic])
def test_tensors_of_huge_log_ratios_have_finite_derivatives(objective):
    import torch

    a = torch.tensor([900.0, -900.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([-900.0, 900.0], dtype=torch.float64, requires_grad=True)
    loss = objective(a, b)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(a.grad).all()
    assert torch.isfinite(b.grad).all()


def residual_of_tensors(*arrays):
    return of_tensors(constraint_residual)(*arrays)


@pytest.mark.parametrize(
    "function",
    [constraint_residual, pytest.param(residual_of_tensors, marks=pytest.mark.networks)],
    ids=["arrays", "tensors"],
)
def test_constraint_holds_for_true_ratios_only(function):
    # three Gaussians N(0,1), N(.2,1), N(.4,1): psi_1 = log p/q1 on samples of q1 and q2, phi = log q1/q2
    rng = np.random.default_rng(0)
    q1, q2 = rng.normal(0.2, 1, 200_000), rng.normal(0.4, 1, 200_000)
    increment = 0.06 - 0.2 * q2
    residual = float(function(increment, 0.02 - 0.2 * q1, 0.02 - 0.2 * q2))
    assert residual == pytest.approx(1.0, abs=0.01)
    assert float(function(increment + 5.0, 0.02 - 0.2 * q1, 0.02 - 0.2 * q2)) == pytest.approx(residual)
    wrong = float(function(0.2 * q2, 0.02 - 0.2 * q1, 0.02 - 0.2 * q2))
    assert abs(wrong - 1.0) > 0.05


def test_resolve():
    assert resolve_objective("lsif") is lsif
    with pytest.raises(ValueError, match=r"'nope' is unknown.*kliep"):
        resolve_objective("nope")


@pytest.mark.networks
def test_functions_of_tensors_are_taken_as_they_are():
    from driftline.fitting import bregman

    own = bregman(lambda r: r * r)
    assert resolve_objective(own) is own
