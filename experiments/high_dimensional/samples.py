"""Samples to compare in many dimensions: real images, generated or spoilt ones, Gaussians of known ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.ndimage import gaussian_filter
from scipy.stats import norm

from driftline.inference import terms
from experiments.high_dimensional.estimators import Floats, Pair
from experiments.labelled import Images

__all__ = ["REAL", "SPOILT", "gaussian_pair", "gaussian_truth", "image_pair", "images_of", "known_samples"]

REAL = "real"
_OWN_SEED = 7  # of what is drawn once for all draws
_LEADING, _FURTHER, _FAR = 10, 10, 200  # shifted directions: first ones, and as many from the 200th on


def _noisy(images: Images) -> Images:
    noise = np.random.default_rng(_OWN_SEED).normal(scale=0.03, size=images.shape)
    return np.asarray(np.clip(images + noise, 0.0, 1.0), dtype=np.float32)


SPOILT: Mapping[str, Callable[[Images], Images]] = {
    "blurred": lambda images: np.asarray(gaussian_filter(images, (0.0, 0.4, 0.4)), dtype=np.float32),
    "noisy": _noisy,
}
"""Real images made a little worse, as long as there are no samples of GANs; far worse ones show nothing."""


def known_samples(generated: tuple[str, ...]) -> dict[str, Path | None]:
    """Files by the name of the sample, from NAME=FILE; without any, the spoilt images, which have none."""
    if not generated:
        return dict.fromkeys(SPOILT)
    found: dict[str, Path | None] = {}
    for entry in generated:
        name, _, path = entry.partition("=")
        if not name or not path or name in (REAL, "gaussians", *SPOILT):
            raise ValueError(f"--generated {entry!r} must be NAME=FILE, with samples that the experiment gans kept")
        found[name] = Path(path)
    return found


def images_of(name: str, path: Path | None, others: Images) -> Images:
    """Images (n, height, width) in [0, 1]: of a file that ``gans`` kept, all classes in random order, or spoilt ones.

    ``others`` are the real images that spoilt ones are made of; real ones are taken as they are.
    """
    if path is None:
        return SPOILT[name](others) if name in SPOILT else others
    with np.load(path) as kept:
        images = np.concatenate([kept[label] for label in kept.files])
    order = np.random.default_rng(_OWN_SEED).permutation(len(images))
    return np.asarray(images[order], dtype=np.float32) / np.float32(255.0)


def image_pair(real: Floats, other: Floats, rows: int, new: int, seed: int) -> Pair:
    """Draw rows of two samples' features; ``real`` and ``other`` have no image in common."""
    if (there := min(len(real), len(other))) < rows + new:
        raise ValueError(f"{rows + new} images of each sample are needed, there are {there}")
    rng = np.random.default_rng(seed)
    first, second = (part[rng.permutation(len(part))[: rows + new]] for part in (real, other))
    return Pair(first[:rows], second[:rows], first[rows:], second[rows:])


def gaussian_pair(columns: int, rows: int, new: int, shift: float, seed: int) -> Pair:
    """Gaussians of one covariance, correlated in all columns; the k-th largest variance is 1/k.

    Half of the 20 shifted directions are those of the largest variances; the others lie from the 200th on, or are the
    last ones of fewer columns. Each is shifted by ``shift`` of its standard deviations.
    """
    rng = np.random.default_rng((seed, 1))
    turn = np.linalg.qr(np.random.default_rng(_OWN_SEED).standard_normal((columns, columns)))[0].astype(np.float32)
    scales = np.arange(1, columns + 1, dtype=np.float32) ** -0.5
    moved = np.zeros(columns, dtype=np.float32)
    far = min(_FAR, columns - _FURTHER)
    moved[:_LEADING] = moved[far : far + _FURTHER] = shift

    def draw(n: int, mean: Any) -> Floats:
        found: Floats = ((rng.standard_normal((n, columns), dtype=np.float32) + mean) * scales) @ turn
        return found

    return Pair(draw(rows, 0.0), draw(rows, moved), draw(new, 0.0), draw(new, moved))


def gaussian_truth(measure: str, shift: float) -> float:
    """The divergence of that pair: it is that of two normal laws at a distance of ``shift`` times the root of 20."""
    distance = shift * sqrt(_LEADING + _FURTHER)
    if measure in ("kl", "reverse_kl"):
        return 0.5 * distance * distance
    if measure == "hellinger":
        return 1.0 - exp(-0.125 * distance * distance)
    law = norm(distance)
    near, width = distance / 2.0, distance / 2.0 + 10.0
    value, _ = quad(
        lambda x: float(law.pdf(x) * terms(0.5 * distance**2 - distance * x, measure)), near - width, near + width
    )
    return float(value)
