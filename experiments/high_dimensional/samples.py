"""Samples to compare in many dimensions: real images, generated ones, Gaussians of known ratio."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from math import exp, sqrt
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

from driftline import Training
from driftline.features import ClassifierFeatures
from driftline.inference import terms
from experiments.experiment import Report
from experiments.files import write_arrays
from experiments.gans.training import ContinualGAN, Settings
from experiments.high_dimensional.estimators import Floats, Pair
from experiments.labelled import Data, Images

__all__ = [
    "GENERATORS",
    "Generator",
    "features",
    "gaussian_pair",
    "gaussian_truth",
    "generator",
    "image_pair",
]

GENERATORS = {"wgan-gp": "WGAN-GP", "mixture": "Gaussian mixture", "single": "one Gaussian"}
"""Names of the generators and how figures call them."""

_OWN_SEED = 7  # of networks and mixtures trained once for all draws
_BATCH = 2000
_PIXELS = 100  # principal components of the pixels
_LEADING, _FURTHER, _FAR = 10, 10, 200  # shifted directions: first ones, and as many from the 200th on


class Generator(Protocol):
    """Something that images can be drawn from."""

    def draw(self, n: int, seed: int) -> Images:
        """Images (n, height, width) in [0, 1]."""
        ...


class _Gan:
    """A GAN that learned all classes at once, as one task: without labels."""

    def __init__(self, gan: ContinualGAN) -> None:
        self._gan = gan

    def draw(self, n: int, seed: int) -> Images:
        noise = torch.rand(n, self._gan.settings.noise, generator=torch.Generator().manual_seed(seed)) * 2.0 - 1.0
        with torch.no_grad():
            parts = [self._gan.generator(z, torch.zeros(len(z), dtype=torch.int64)) for z in noise.split(_BATCH)]
        return np.asarray(torch.cat(parts).numpy(), dtype=np.float32)


class _Mixture:
    """Gaussians with full covariances in principal components of the pixels, clipped to [0, 1]."""

    def __init__(self, tensors: dict[str, npt.NDArray[Any]], shape: tuple[int, ...]) -> None:
        self._tensors, self._shape = tensors, shape

    @classmethod
    def fit(cls, images: Images, components: int) -> _Mixture:
        pixels = images.reshape(len(images), -1)
        pca = PCA(min(_PIXELS, pixels.shape[1] - 1), random_state=_OWN_SEED).fit(pixels)
        model = GaussianMixture(components, reg_covar=1e-4, max_iter=20, random_state=_OWN_SEED)
        model.fit(pca.transform(pixels).astype(np.float64))
        roots = np.linalg.cholesky(model.covariances_)
        found = {
            "weights": model.weights_,
            "means": model.means_,
            "roots": roots,
            "axes": pca.components_,
            "centre": pca.mean_,
        }
        return cls(found, images.shape[1:])

    def draw(self, n: int, seed: int) -> Images:
        rng, t = np.random.default_rng(seed), self._tensors
        which = rng.choice(len(t["weights"]), n, p=t["weights"] / t["weights"].sum())
        noise = rng.standard_normal((n, t["means"].shape[1]))
        hidden = t["means"][which]
        for k in np.unique(which):
            hidden[which == k] += noise[which == k] @ t["roots"][k].T
        pixels = np.clip(hidden @ t["axes"] + t["centre"], 0.0, 1.0)
        return np.asarray(pixels.reshape(n, *self._shape), dtype=np.float32)

    def save(self, path: Path) -> None:
        write_arrays(path, **self._tensors)

    @classmethod
    def load(cls, path: Path, shape: tuple[int, ...]) -> _Mixture:
        with np.load(path) as kept:
            return cls(dict(kept), shape)


def _kept(folder: Path, what: str, ending: str, *settings: Any) -> Path:
    digest = sha256(json.dumps(settings).encode()).hexdigest()[:10]
    return folder / f"{what}-{digest}.{ending}"


def generator(
    kind: str, data: Data, dataset: str, seen: int, folder: Path, *, settings: Settings, components: int, report: Report
) -> Generator:
    """Trained on the first ``seen`` images, once for all draws: kept in ``folder``.

    Two units that begin together both train it and write the same, as with the classifier.
    """
    images = data.train[:seen]
    if kind == "wgan-gp":
        gan = ContinualGAN(kind, data.train.shape[1:], 1, settings, seed=_OWN_SEED)
        path = _kept(folder, kind, "safetensors", dataset, seen, *vars(settings).values())
        if path.exists():
            return _Gan(gan.load(path))
        gan.learn(images, lambda i, n: report(f"{kind} {i}/{n}"))
        gan.save(path)
        return _Gan(gan)
    number = 1 if kind == "single" else components
    path = _kept(folder, kind, "npz", dataset, seen, number)
    if path.exists():
        return _Mixture.load(path, data.train.shape[1:])
    report(f"{kind} of {number}")
    found = _Mixture.fit(images, number)
    found.save(path)
    return found


def features(
    data: Data, dataset: str, seen: int, folder: Path, *, columns: int, width: float, epochs: int
) -> ClassifierFeatures:
    """Activations of ``columns`` units of a classifier of the first ``seen`` images; kept in ``folder``.

    They are taken after the ReLU, as inception's. Images it was trained on are not compared: it has adapted to them,
    and would separate them from any others.
    """
    path = _kept(folder, "features", "safetensors", dataset, seen, columns, width, epochs)
    if path.exists():
        return ClassifierFeatures.load(path)
    training = Training(epochs=epochs, min_epochs=epochs, batch=128)
    net = ClassifierFeatures(width=width, dense=(columns,), training=training, random_state=_OWN_SEED)
    net.fit(data.train[:seen], data.train_labels[:seen])
    path.parent.mkdir(parents=True, exist_ok=True)
    net.save(path)
    return net


def image_pair(
    data: Data,
    seen: int,
    rows: int,
    new: int,
    seed: int,
    encode: Callable[[Images], Floats],
    made: Generator | None,
) -> Pair:
    """Real images that nothing was trained on, and generated ones, or other real ones if nothing generates."""
    unseen = np.concatenate([data.train[seen:], data.test])
    need = (rows + new) * (2 if made is None else 1)
    if len(unseen) < need:
        raise ValueError(f"{need} images are needed beside the {seen} to train on, there are {len(unseen)}")
    order = np.random.default_rng(seed).permutation(len(unseen))
    real = encode(unseen[order[:need]])
    first = real[: rows + new]
    second = real[rows + new :] if made is None else encode(made.draw(rows + new, seed))
    return Pair(first[:rows], second[:rows], first[rows:], second[rows:], encode(data.train[: min(seen, rows)]))


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

    return Pair(draw(rows, 0.0), draw(rows, moved), draw(new, 0.0), draw(new, moved), draw(rows, 0.0))


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
