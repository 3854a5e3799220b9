"""Objectives: losses of the log-ratios on the two samples. Lower is better, and the true ratio is best.

Every objective is a pure function ``(log_r_num, log_r_den) -> scalar`` of the model's log-ratio on the rows of
the numerator (original, or previous window) and of the denominator (current window). None of them knows about
time: a continual step is the same loss on the increment. The two samples may differ in size.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

__all__ = [
    "OBJECTIVES",
    "Objective",
    "bregman",
    "constraint_residual",
    "f_gan",
    "kliep",
    "log_mean_exp",
    "logistic",
    "lsif",
    "nwj",
    "resolve_objective",
    "unnormalised",
]

Objective = Callable[[Tensor, Tensor], Tensor]


def log_mean_exp(values: Tensor) -> Tensor:
    r"""Stable :math:`\log \frac1n \sum_i e^{v_i}`."""
    return torch.logsumexp(values, 0) - math.log(values.shape[0])


def kliep(log_r_num: Tensor, log_r_den: Tensor) -> Tensor:
    r"""Self-normalised KLIEP, the log-linear form of the paper's Eq. 3 with the sign of a loss.

    .. math:: -\frac1N \sum_i \phi(x_i) + \log \frac1M \sum_j e^{\phi(y_j)}

    It ignores a constant added to :math:`\phi`; see :func:`unnormalised` for the variant that does not.

    Reference: Sugiyama et al., *Direct importance estimation for covariate shift adaptation*, 2008.

    >>> float(kliep(torch.zeros(3), torch.zeros(5)))
    0.0
    """
    return log_mean_exp(log_r_den) - log_r_num.mean()


def nwj(log_r_num: Tensor, log_r_den: Tensor) -> Tensor:
    r"""The Nguyen-Wainwright-Jordan bound, :math:`-E_p[\log r] + E_q[r] - 1 \ge -\mathrm{KL}(p\|q)`.

    Minimised over a free constant it is :func:`kliep`.

    >>> float(nwj(torch.zeros(3), torch.zeros(5)))
    0.0
    """
    return log_r_den.exp().mean() - log_r_num.mean() - 1.0


def logistic(log_r_num: Tensor, log_r_den: Tensor) -> Tensor:
    r"""Logistic regression between the samples, weighted by their sizes :math:`\rho = N/M`.

    .. math:: \frac{1}{N+M}\Big[\sum_i \log(1+e^{-\phi(x_i)-\log\rho}) + \sum_j \log(1+e^{\phi(y_j)+\log\rho})\Big]

    This is the efficient objective, and the default: with a free constant its normaliser is the bridge estimate.

    >>> round(float(logistic(torch.zeros(4), torch.zeros(4))), 6)  # log 2: the samples cannot be distinguished
    0.693147
    """
    n, m = log_r_num.shape[0], log_r_den.shape[0]
    shift = math.log(n / m)
    total = softplus(-(log_r_num + shift)).sum() + softplus(log_r_den + shift).sum()
    return total / (n + m)


def lsif(log_r_num: Tensor, log_r_den: Tensor) -> Tensor:
    r"""Least-squares importance fitting, :math:`\frac12 E_q[r^2] - E_p[r] + \frac12`; best for Pearson's divergence.

    Reference: Kanamori et al., *A least-squares approach to direct importance estimation*, 2009.

    >>> float(lsif(torch.zeros(3), torch.zeros(5)))
    0.0
    """
    return 0.5 * (2.0 * log_r_den).exp().mean() - log_r_num.exp().mean() + 0.5


def bregman(generator: Callable[[Tensor], Tensor]) -> Objective:
    r"""Return the Bregman divergence between true and modelled ratio for a convex, differentiable ``f(r)``.

    .. math:: E_q[f'(r)\,r - f(r)] - E_p[f'(r)]

    ``r log r - r`` gives :func:`nwj`, ``(r-1)^2/2`` gives :func:`lsif`,
    ``r log r - (1+r) log(1+r)`` gives :func:`logistic` for equal sizes (up to constants and scale).

    Reference: Sugiyama et al., *Density-ratio matching under the Bregman divergence*, 2012.

    Arguments:
        generator: ``f``, a torch function that is applied elementwise to the ratios.

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


def f_gan(generator: Callable[[Tensor], Tensor]) -> Objective:
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


def constraint_residual(log_r_den: Tensor, psi_prev_num: Tensor, psi_prev_den: Tensor) -> Tensor:
    r"""Return the paper's step constraint :math:`\Psi_t/(\Phi_t \Psi_{t-1})` (Eq. 10), which is 1 where it holds.

    The paper adds :math:`\lambda_c(\cdot-1)^2` to a maximised objective; it is a penalty, so the loss
    gets ``+ penalty * (constraint_residual(...) - 1) ** 2``.

    Arguments:
        log_r_den: increment :math:`\phi_t` on the current window, (m,).
        psi_prev_num: :math:`\psi_{t-1}` on the previous window, (n,).
        psi_prev_den: :math:`\psi_{t-1}` on the current window, (m,).

    >>> zero = torch.zeros(4)
    >>> float(constraint_residual(zero, zero, zero))
    1.0
    """
    log_psi = log_mean_exp(log_r_den + psi_prev_den)
    return (log_psi - log_mean_exp(log_r_den) - log_mean_exp(psi_prev_num)).exp()


OBJECTIVES: dict[str, Objective] = {"kliep": kliep, "logistic": logistic, "lsif": lsif, "nwj": nwj}


def resolve_objective(objective: str | Objective) -> Objective:
    """Return the objective of that name, or the callable itself after checking that it is a loss."""
    if callable(objective):
        _check(objective)
        return objective
    if objective not in OBJECTIVES:
        raise ValueError(
            f"objective={objective!r} is unknown: choose one of {sorted(OBJECTIVES)} or pass a callable "
            "(log_r_num, log_r_den) -> scalar loss"
        )
    return OBJECTIVES[objective]


def _check(objective: Objective) -> None:
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


def unnormalised(objective: Objective) -> Objective:
    """Return the variant of an objective that determines the constant: NWJ for KLIEP, else the objective itself."""
    return nwj if objective is kliep else objective
