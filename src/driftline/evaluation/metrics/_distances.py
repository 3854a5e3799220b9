"""FID and KID by torchmetrics, on features instead of images."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from driftline._extras import needs
from driftline._inputs import as_rows
from driftline.fitting import seeded

__all__ = ["KID", "fid", "kid"]


class KID(NamedTuple):
    """Mean and standard deviation over subsets."""

    mean: float
    std: float


class _Identity(nn.Module):
    """Features that are already computed; torchmetrics asks for their number."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features

    def forward(self, x: Tensor) -> Tensor:
        return x


def fid(real: Any, generated: Any) -> float:
    r"""Compute the Fréchet distance of the Gaussians with the samples' means and covariances.

    .. math:: \|\mu_r-\mu_g\|^2 + \mathrm{tr}(\Sigma_r+\Sigma_g-2(\Sigma_r\Sigma_g)^{1/2})

    Reference: Heusel et al., *GANs trained by a two time-scale update rule*, 2017.

    Arguments:
        real, generated: features (n, D) and (m, D).

    >>> import numpy as np
    >>> x = np.random.default_rng(0).standard_normal((500, 3))
    >>> round(fid(x, x + 2.0), 6)
    12.0
    """
    rows, fakes = _both(real, generated)
    # torchmetrics keeps sums of squares, which lose the spread of features far from 0
    centre = 0.5 * (rows.mean(0) + fakes.mean(0))
    measure = _torchmetrics()[0](_Identity(rows.shape[1])).set_dtype(torch.float64)
    measure.update(rows - centre, real=True)
    measure.update(fakes - centre, real=False)
    return max(0.0, float(measure.compute()))


def kid(real: Any, generated: Any, *, subsets: int = 100, size: int = 1000, random_state: int = 0) -> KID:
    r"""Compute the squared maximum mean discrepancy of the kernel :math:`(x^\top y/D+1)^3`, over random subsets.

    Reference: Bińkowski et al., *Demystifying MMD GANs*, 2018.

    Arguments:
        real, generated: features (n, D) and (m, D).
        subsets: number of subsets.
        size: rows of each subset, at most those of the smaller sample.

    >>> import numpy as np
    >>> x, y = np.random.default_rng(0).standard_normal((2, 500, 3))
    >>> kid(x, y).mean < 0.05 < kid(x, y + 1.0).mean
    True
    """
    if subsets < 1 or size < 2:
        raise ValueError(f"subsets={subsets} and size={size}: need at least 1 subset of 2 rows")
    rows, fakes = _both(real, generated)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*will save all extracted features")  # they are in memory anyway
        measure = _torchmetrics()[1](
            _Identity(rows.shape[1]), subsets=subsets, subset_size=min(size, len(rows), len(fakes))
        )
    measure.update(rows, real=True)
    measure.update(fakes, real=False)
    with seeded(random_state, torch.device("cpu")):  # subsets are drawn with the global generator
        mean, std = measure.compute()
    return KID(float(mean), float(std))


def _both(real: Any, generated: Any) -> tuple[Tensor, Tensor]:
    rows = as_rows(real, "real", copy=False)
    fakes = as_rows(generated, "generated", width=rows.shape[1], of="real", copy=False)
    return torch.tensor(rows), torch.tensor(fakes)


def _torchmetrics() -> tuple[Any, Any]:
    needs("torchmetrics", "a FID or KID")
    from torchmetrics.image.fid import FrechetInceptionDistance
    from torchmetrics.image.kid import KernelInceptionDistance

    return FrechetInceptionDistance, KernelInceptionDistance
