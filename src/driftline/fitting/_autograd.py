"""Objectives as tensor functions: derivatives by PyTorch, and objectives made from generators. Needs ``[networks]``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from driftline._inputs import Floats
from driftline.fitting._derivatives import Rows, second_differences
from driftline.fitting._objectives import Objective

__all__ = ["AutogradLoss", "TensorObjective", "as_tensor_objective", "bregman", "check_objective", "f_gan"]

TensorObjective = Callable[[Tensor, Tensor], Tensor]


class AutogradLoss:
    """A user's tensor function as a loss with derivatives."""

    def __init__(self, objective: TensorObjective) -> None:
        self._objective = objective

    @property
    def separable(self) -> bool:
        """Whether its second derivative in the log-ratios is diagonal, judged on a small example."""
        generator = torch.Generator().manual_seed(0)
        phi = [torch.randn(6, generator=generator, dtype=torch.float64).mul_(0.3).requires_grad_() for _ in range(2)]
        with torch.enable_grad():
            grads = torch.cat(torch.autograd.grad(self._objective(phi[0], phi[1]), phi, create_graph=True))
            if not grads.requires_grad:
                return False
            sign = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0], dtype=torch.float64)
            signed = torch.autograd.grad(grads @ sign, phi, retain_graph=True, allow_unused=True)
            plain = torch.autograd.grad(grads.sum(), phi, allow_unused=True)
        left = torch.cat([torch.zeros(6, dtype=torch.float64) if v is None else v for v in signed])
        right = torch.cat([torch.zeros(6, dtype=torch.float64) if v is None else v for v in plain])
        return bool(torch.allclose(left, right * sign, atol=1e-12, rtol=1e-8))

    def slopes(self, num: Floats, den: Floats) -> tuple[float, Floats, Floats]:
        """Return the loss and its first derivatives."""
        sides = _leaves(num, den)
        with torch.enable_grad():
            loss = self._objective(*sides)
            first = torch.autograd.grad(loss, sides)
        return float(loss.detach()), first[0].numpy(), first[1].numpy()

    def rows(self, num: Floats, den: Floats) -> Rows:
        """Return the loss, its first and its second derivatives."""
        sides = _leaves(num, den)
        with torch.enable_grad():
            loss = self._objective(*sides)
            first = torch.autograd.grad(loss, sides, create_graph=True)
            total = first[0].sum() + first[1].sum()
            second: Any = (None, None)
            if total.requires_grad:
                second = torch.autograd.grad(total, sides, allow_unused=True)
        curves = [np.zeros(len(p)) if c is None else c.numpy() for c, p in zip(second, sides, strict=True)]
        return Rows(float(loss.detach()), first[0].detach().numpy(), first[1].detach().numpy(), curves[0], curves[1])

    def third(self, num: Floats, den: Floats) -> tuple[Floats, Floats]:
        """Return the third derivatives."""
        return second_differences(self.rows, num, den)


def _leaves(num: Floats, den: Floats) -> tuple[Tensor, Tensor]:
    return torch.tensor(num, requires_grad=True), torch.tensor(den, requires_grad=True)


def as_tensor_objective(objective: Objective) -> TensorObjective:
    """Return an objective that networks can be trained on; a pair of NumPy functions is run on the CPU."""
    if not isinstance(objective, tuple):
        return objective
    value, derivative = objective

    class _Pair(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, num: Tensor, den: Tensor) -> Tensor:
            arrays = [side.detach().double().cpu().numpy() for side in (num, den)]
            ctx.slopes = [torch.as_tensor(np.asarray(s)).to(num) for s in derivative(*arrays)]
            return num.new_tensor(float(value(*arrays)))

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
            return grads[0] * ctx.slopes[0], grads[0] * ctx.slopes[1]

    def objective_of(num: Tensor, den: Tensor) -> Tensor:
        out: Tensor = _Pair.apply(num, den)  # type: ignore[no-untyped-call]
        return out

    return objective_of


def check_objective(objective: TensorObjective) -> None:
    """Check on small samples of unequal size that an objective is a finite scalar with a slope in both of them."""
    num, den = torch.linspace(-0.2, 0.3, 6, dtype=torch.float64), torch.linspace(-0.3, 0.2, 5, dtype=torch.float64)
    num.requires_grad_()
    den.requires_grad_()
    with torch.enable_grad():
        loss = objective(num, den)
        if not isinstance(loss, Tensor) or loss.ndim != 0:
            got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise ValueError(f"the objective must return a scalar tensor, got {got}")
        if not torch.isfinite(loss):
            raise ValueError(f"the objective is {float(loss.detach())} for log-ratios near 0: it must be finite there")
        grads = torch.autograd.grad(loss, (num, den), allow_unused=True) if loss.requires_grad else (None, None)
    for side, grad in zip(("numerator", "denominator"), grads, strict=True):
        if grad is None or not bool(grad.any()):
            raise ValueError(f"the objective does not depend on the log-ratios of the {side} (or has been detached)")


def bregman(generator: Callable[[Tensor], Tensor]) -> TensorObjective:
    r"""Return the Bregman divergence between true and modelled ratio for a convex, differentiable ``f(r)``.

    .. math:: E_q[f'(r)\,r - f(r)] - E_p[f'(r)]

    ``r log r - r`` gives :func:`nwj`, ``(r-1)^2/2`` gives :func:`lsif`,
    ``r log r - (1+r) log(1+r)`` gives :func:`logistic` for equal sizes (up to constants and scale).

    Reference: Sugiyama et al., *Density-ratio matching under the Bregman divergence*, 2012.

    Arguments:
        generator: ``f``, a torch function that is applied elementwise to the ratios.

    >>> from driftline.fitting import lsif
    >>> square = bregman(lambda r: 0.5 * (r - 1) ** 2)
    >>> a, b = torch.linspace(-1, 1, 9), torch.linspace(-0.5, 1, 9)
    >>> bool(torch.isclose(square(a, b), lsif(a, b)))
    True
    """

    def slope_and_value(log_r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.enable_grad():
            r = log_r.exp()
            if not r.requires_grad:
                r = r.requires_grad_()
            value = generator(r)
            (slope,) = torch.autograd.grad(value.sum(), r, create_graph=True)
        return slope, value, r

    def objective(log_r_num: Tensor, log_r_den: Tensor) -> Tensor:
        slope_num, _, _ = slope_and_value(log_r_num)
        slope_den, value_den, r_den = slope_and_value(log_r_den)
        loss = (slope_den * r_den - value_den).mean() - slope_num.mean()
        return loss if log_r_num.requires_grad or log_r_den.requires_grad else loss.detach()

    return objective


def f_gan(generator: Callable[[Tensor], Tensor]) -> TensorObjective:
    r"""Return the f-GAN bound :math:`-(E_p[T] - E_q[f^*(T)])` with critic :math:`T = f'(r)`.

    Its negative is a lower bound on the f-divergence, tight at the true ratio. Since
    :math:`f^*(f'(r)) = f'(r)\,r - f(r)`, it is :func:`bregman` with the same ``f``; :func:`nwj` is the case
    ``r log r``.

    Reference: Nowozin et al., *f-GAN*, 2016.

    >>> bound = f_gan(lambda r: -r.log())  # reverse KL
    >>> float(bound(torch.zeros(3), torch.zeros(5)))
    0.0
    """
    return bregman(generator)
