"""Objectives: losses of the log-ratios on the two samples. Lower is better, and the true ratio is best.

Every objective is a pure function ``(log_r_num, log_r_den) -> scalar`` of the model's log-ratio on the rows of
the numerator (original, or previous window) and of the denominator (current window). None of them knows about
time: a continual step is the same loss on the increment. The two samples may differ in size. The functions here take
arrays or, for networks, tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "OBJECTIVES",
    "Objective",
    "constraint_residual",
    "kliep",
    "log_mean_exp",
    "logistic",
    "lsif",
    "nwj",
    "unnormalised",
]

Objective = Callable[[Any, Any], Any] | tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]
"""Loss of tensors, or a pair of NumPy functions: the loss, and its derivatives ``(n,), (m,)`` in the log-ratios."""


def _is_array(values: Any) -> bool:
    return isinstance(values, np.ndarray)


def _exp(values: Any) -> Any:
    if not _is_array(values):
        return values.exp()
    with np.errstate(over="ignore"):
        return np.exp(values)


def _softplus(values: Any) -> Any:
    if _is_array(values):
        return np.logaddexp(0.0, values)
    from torch.nn.functional import softplus

    return softplus(values)


def log_mean_exp(values: Any) -> Any:
    r"""Stable :math:`\log \frac1n \sum_i e^{v_i}`, of an array or a tensor.

    >>> round(float(log_mean_exp(np.array([0.0, 1000.0]))), 6)
    999.306853
    """
    if not _is_array(values):
        return values.logsumexp(0) - math.log(values.shape[0])
    top = float(values.max())
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.exp(values - top).mean()))


def kliep(log_r_num: Any, log_r_den: Any) -> Any:
    r"""Self-normalised KLIEP, the log-linear form of the paper's Eq. 3 with the sign of a loss.

    .. math:: -\frac1N \sum_i \phi(x_i) + \log \frac1M \sum_j e^{\phi(y_j)}

    It ignores a constant added to :math:`\phi`; see :func:`unnormalised` for the variant that does not.

    Reference: Sugiyama et al., *Direct importance estimation for covariate shift adaptation*, 2008.

    >>> float(kliep(np.zeros(3), np.zeros(5)))
    0.0
    """
    return log_mean_exp(log_r_den) - log_r_num.mean()


def nwj(log_r_num: Any, log_r_den: Any) -> Any:
    r"""The Nguyen-Wainwright-Jordan bound, :math:`-E_p[\log r] + E_q[r] - 1 \ge -\mathrm{KL}(p\|q)`.

    Minimised over a free constant it is :func:`kliep`.

    >>> float(nwj(np.zeros(3), np.zeros(5)))
    0.0
    """
    return _exp(log_r_den).mean() - log_r_num.mean() - 1.0


def logistic(log_r_num: Any, log_r_den: Any) -> Any:
    r"""Logistic regression between the samples, weighted by their sizes :math:`\rho = N/M`.

    .. math:: \frac{1}{N+M}\Big[\sum_i \log(1+e^{-\phi(x_i)-\log\rho}) + \sum_j \log(1+e^{\phi(y_j)+\log\rho})\Big]

    This is the efficient objective, and the default: with a free constant its normaliser is the bridge estimate.

    >>> round(float(logistic(np.zeros(4), np.zeros(4))), 6)  # log 2: the samples cannot be distinguished
    0.693147
    """
    n, m = log_r_num.shape[0], log_r_den.shape[0]
    shift = math.log(n / m)
    total = _softplus(-(log_r_num + shift)).sum() + _softplus(log_r_den + shift).sum()
    return total / (n + m)


def lsif(log_r_num: Any, log_r_den: Any) -> Any:
    r"""Least-squares importance fitting, :math:`\frac12 E_q[r^2] - E_p[r] + \frac12`; best for Pearson's divergence.

    Reference: Kanamori et al., *A least-squares approach to direct importance estimation*, 2009.

    >>> float(lsif(np.zeros(3), np.zeros(5)))
    0.0
    """
    return 0.5 * _exp(2.0 * log_r_den).mean() - _exp(log_r_num).mean() + 0.5


def constraint_residual(log_r_den: Any, psi_prev_num: Any, psi_prev_den: Any, *, inverse: bool = False) -> Any:
    r"""Return the paper's step constraint :math:`\Psi_t/(\Phi_t \Psi_{t-1})` (Eq. 10), which is 1 where it holds.

    The paper adds :math:`\lambda_c(\cdot-1)^2` to a maximised objective; it is a penalty, so the loss
    gets ``+ penalty * (constraint_residual(...) - 1) ** 2``.

    Arguments:
        log_r_den: increment :math:`\phi_t` on the current window, (m,).
        psi_prev_num: :math:`\psi_{t-1}` on the previous window, (n,).
        psi_prev_den: :math:`\psi_{t-1}` on the current window, (m,).
        inverse: whether to return :math:`\Phi_t \Psi_{t-1}/\Psi_t` instead, as the authors' code has it.

    >>> zero = np.zeros(4)
    >>> float(constraint_residual(zero, zero, zero))
    1.0
    """
    log_psi = log_mean_exp(log_r_den + psi_prev_den)
    log_value = log_psi - log_mean_exp(log_r_den) - log_mean_exp(psi_prev_num)
    log_value = -log_value if inverse else log_value
    return math.exp(min(log_value, 700.0)) if isinstance(log_value, float) else log_value.exp()


OBJECTIVES: dict[str, Objective] = {"kliep": kliep, "logistic": logistic, "lsif": lsif, "nwj": nwj}


def unnormalised(objective: Objective) -> Objective:
    """Return the variant of an objective that determines the constant: NWJ for KLIEP, else the objective itself."""
    return nwj if objective is kliep else objective
