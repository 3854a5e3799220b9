"""Lanczos' method: the spectrum of a large matrix as some vectors see it, and all ridge solutions from one of them.

Reference: Golub and Meurant, *Matrices, Moments and Quadrature*, 2010.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.fitting._designs import Singles

__all__ = ["Run", "freedoms", "lanczos", "signs"]

_STEPS = 48  # products with the matrix; more change a chosen ridge by less than a tenth
_PROBES = 3  # random vectors for degrees of freedom: with thousands of features each knows them to a few per cent


class Run(NamedTuple):
    """Lanczos' method from one vector: its length, the basis (k, p) and the tridiagonal matrix in it (k, k)."""

    size: float
    basis: Floats
    inner: Floats

    def spectrum(self) -> tuple[Floats, Floats]:
        """Return nodes and masses that stand for the spectrum of the matrix as the vector sees it."""
        values, vectors = np.linalg.eigh(self.inner)
        return np.maximum(values, 0.0), (self.size * vectors[0]) ** 2

    def solution(self, ridge: float) -> Floats:
        """Return the solution of (matrix + ridge) x = vector, (p,)."""
        unit = np.zeros(len(self.inner))
        unit[0] = self.size
        return np.asarray(np.linalg.solve(self.inner + ridge * np.eye(len(unit)), unit) @ self.basis)


def lanczos(matrix: Singles, scale: Floats, starts: Floats) -> list[Run]:
    """Run Lanczos' method from several vectors (p, b) at once, on a symmetric matrix times ``scale`` on both sides.

    Vectors are made orthogonal to all before them: without that, rounding would repeat parts of the spectrum.
    """
    p, b = starts.shape
    single = scale.astype(np.float32)[:, None]
    steps = min(_STEPS, p)
    sizes = np.linalg.norm(starts, axis=0)
    basis, inner = np.zeros((b, steps, p)), np.zeros((b, steps, steps))
    q = starts / np.maximum(sizes, 1e-300)
    for k in range(steps):
        basis[:, k] = q.T
        w = (single * (matrix @ (single * q.astype(np.float32)))).astype(np.float64)
        for j in range(b):
            for _ in range(2):  # once leaves rounding errors that grow
                along = basis[j, : k + 1] @ w[:, j]
                w[:, j] -= along @ basis[j, : k + 1]
                inner[j, k, k] += along[k]
            if k + 1 < steps:
                length = float(np.linalg.norm(w[:, j]))
                enough = length > 1e-5  # below it the vectors so far span all that the start sees
                inner[j, k, k + 1] = inner[j, k + 1, k] = length if enough else 0.0
                q[:, j] = w[:, j] / length if enough else 0.0
    return [Run(float(sizes[j]), basis[j], inner[j]) for j in range(b)]


def signs(size: int) -> Floats:
    """Return vectors of random signs, probes of a trace, (p, probes); always the same."""
    return np.asarray(np.random.default_rng(0).choice([-1.0, 1.0], (size, _PROBES)))


def freedoms(probes: list[Run], ridges: Floats) -> Floats:
    """Return degrees of freedom, the trace of matrix/(matrix + ridge), for each ridge, from runs that start at signs.

    >>> freedoms(lanczos(np.eye(50, dtype=np.float32), np.ones(50), signs(50)), np.array([1.0, 4.0])).round(3).tolist()
    [25.0, 10.0]
    """
    spectra = [run.spectrum() for run in probes]
    return np.asarray(np.mean([(values / (values + ridges[:, None])) @ mass for values, mass in spectra], axis=0))
