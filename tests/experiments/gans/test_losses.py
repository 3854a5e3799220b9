"""Losses of the GANs: the optimum is the log-ratio, bounds are the divergences, penalty and clipping are exact."""

import math

import pytest
import torch
from torch import nn

from experiments.gans.losses import FLOOR, LOSSES, bound, clip_weights, gradient_penalty
from experiments.gans.models import Critic

# p = N(0, 1), q = N(1, 1.25²): p/q is bounded, log p/q = c0 + c1 x + c2 x²
_SCALE = 1.25
TRUTH = (math.log(_SCALE) + 0.5 / _SCALE**2, -1.0 / _SCALE**2, 0.5 * (1.0 / _SCALE**2 - 1.0))


def samples(n=100_000):
    draws = torch.Generator().manual_seed(0)
    real = torch.randn(n, generator=draws, dtype=torch.double)
    return real, 1.0 + _SCALE * torch.randn(n, generator=draws, dtype=torch.double)


def powers(x):
    return torch.stack([torch.ones_like(x), x, x * x], 1)


@pytest.mark.parametrize("name", ["fgan-rvkl", "fgan-js"])
def test_the_best_critic_of_an_f_gan_is_the_log_ratio(name):
    """Three coefficients by gradient from 0; 100,000 samples leave errors of about 0.01."""
    real, made = (powers(x) for x in samples())
    free = torch.zeros(3, dtype=torch.double, requires_grad=True)
    optimiser = torch.optim.LBFGS([free], max_iter=60, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        loss = LOSSES[name].critic(real @ free, made @ free)
        loss.backward()
        return loss

    optimiser.step(closure)
    assert free.tolist() == pytest.approx(TRUTH, abs=0.04)


def test_bounds_are_the_divergences_at_the_log_ratio():
    real, made = samples()
    truth = torch.tensor(TRUTH, dtype=torch.double)
    v_real, v_made = powers(real) @ truth, powers(made) @ truth
    reverse = -math.log(_SCALE) + 0.5 * (_SCALE**2 + 1.0) - 0.5  # KL(q‖p), closed form
    assert bound("fgan-rvkl", v_real, v_made) == pytest.approx(reverse, abs=0.02)
    grid = torch.linspace(-12, 14, 200_001, dtype=torch.double)
    log_p = -0.5 * grid**2 - 0.5 * math.log(2 * math.pi)
    log_q = log_p - powers(grid) @ truth
    middle = torch.logaddexp(log_p, log_q) - math.log(2.0)
    js = torch.trapezoid(0.5 * (log_p.exp() * (log_p - middle) + log_q.exp() * (log_q - middle)), grid)
    assert bound("fgan-js", v_real, v_made) == pytest.approx(2.0 * float(js), abs=0.01)
    for name in ("fgan-rvkl", "fgan-js"):  # any other critic says less
        assert bound(name, v_real, v_made) > bound(name, v_real + 0.3, v_made + 0.3)
        assert bound(name, torch.zeros(2), torch.zeros(2)) == pytest.approx(0.0, abs=1e-6)


def test_the_exponential_of_reverse_kl_is_guarded():
    """Exact above -FLOOR, finite and with a gradient far below."""
    inside = torch.tensor([-FLOOR, 0.0, 3.0], dtype=torch.double)
    zero = torch.zeros(1, dtype=torch.double)
    plain, _ = LOSSES["fgan-rvkl"].functions(safe=False)
    safe, _ = LOSSES["fgan-rvkl"].functions(safe=True)
    assert float(safe(inside, zero)) == pytest.approx(float(plain(inside, zero)))
    far = torch.tensor([-1e4], requires_grad=True)
    loss = safe(far, torch.zeros(1))
    loss.backward()
    assert math.isinf(float(plain(far.detach(), torch.zeros(1))))
    assert math.isfinite(float(loss.detach()))
    assert float(far.grad) == pytest.approx(-math.exp(FLOOR), rel=1e-5)


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("name", list(LOSSES))
def test_critics_part_and_generators_follow(name, safe):
    """The critic's loss falls as real images read higher; the generator's as its images do."""
    low, high = torch.full((4,), -1.0), torch.full((4,), 1.0)
    critic, generator = LOSSES[name].functions(safe=safe)
    assert critic(high, low) < critic(low, low)
    assert critic(high, low) < critic(high, high)
    assert generator(high) < generator(low)


def test_only_the_minimax_generator_of_js_saturates():
    """Far below 0 its gradient vanishes; the other's is that of -v."""
    slopes = {}
    for safe in (True, False):
        v = torch.tensor([-20.0], requires_grad=True)
        LOSSES["fgan-js"].functions(safe=safe)[1](v).backward()
        slopes[safe] = float(v.grad)
    assert slopes[True] == pytest.approx(-1.0)
    assert slopes[False] == pytest.approx(0.0, abs=1e-8)


def test_gradient_penalty_of_a_linear_critic_is_exact_for_images():
    """The norm is over height and width together, one for each image: a critic w·x has it everywhere."""
    weight = torch.arange(12.0).reshape(3, 4)
    norm = float(weight.norm())
    real, made, share = torch.rand(5, 3, 4), torch.rand(5, 3, 4), torch.rand(5)
    found = gradient_penalty(lambda x: (x * weight).sum((1, 2)), real, made, share)
    assert float(found) == pytest.approx((norm - 1.0) ** 2, rel=1e-5)
    scaled = gradient_penalty(lambda x: (x * weight / norm).sum((1, 2)), real, made, share)
    assert float(scaled) == pytest.approx(0.0, abs=1e-10)


def test_gradient_penalty_is_taken_between_real_and_generated():
    """Half the square of one pixel has that pixel as gradient: share 1 is the real image, 0 the other."""
    real, made = torch.full((2, 2, 2), 3.0), torch.full((2, 2, 2), 7.0)
    found = gradient_penalty(lambda x: 0.5 * x[:, 0, 0] ** 2, real, made, torch.tensor([1.0, 0.25]))
    assert float(found.detach()) == pytest.approx(((3.0 - 1.0) ** 2 + (6.0 - 1.0) ** 2) / 2)


def test_the_penalty_trains_the_critic():
    layer = nn.Linear(4, 1)
    found = gradient_penalty(lambda x: layer(x.flatten(1)), torch.rand(3, 2, 2), torch.rand(3, 2, 2), torch.rand(3))
    found.backward()
    assert float(layer.weight.grad.abs().max()) > 0


@pytest.mark.parametrize("architecture", ["paper", "quick"])
def test_clipping_reaches_all_weights(architecture):
    critic = Critic(architecture, (8, 8), 3, batch_norm=True)
    clip_weights(critic, 0.01)
    assert max(float(weight.detach().abs().max()) for weight in critic.parameters()) <= 0.01
