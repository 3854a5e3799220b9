"""Samples P and Q of the demo experiments: half the classes against all of them, and two noises on the pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.labelled import Data, Images

__all__ = ["CLEAN", "GREY", "HALVES", "NOISES", "TRUTHS", "Noise", "Samples", "corrupted", "halves", "noisy", "truths"]

Mask = npt.NDArray[np.bool_]

GREY = 0.5
"""Value of a corrupted pixel; no byte over 255 has it, so that a corrupted image is never a real one."""


class Noise(NamedTuple):
    """A share of the images has ``pixels`` pixels set to grey: the same ones in all of these, or each image's own."""

    share: float
    pixels: int
    shared: bool


HALVES = {"P half": "P: half of the classes, Q: all", "Q half": "P: all classes, Q: half of them"}
CLEAN = "clean"
NOISES = {
    "few pixels, shared": Noise(0.5, 1, True),
    "many pixels, shared": Noise(0.1, 50, True),
    "few pixels, own": Noise(0.5, 1, False),
    "many pixels, own": Noise(0.1, 50, False),
}
TRUTHS = ("kl", "reverse_kl", "js", "hellinger")


class Samples(NamedTuple):
    """Images to fit on and held-out ones, of P and of Q; no image is in two of them."""

    p: Images
    q: Images
    held_p: Images
    held_q: Images
    share: float
    """Share of the wider distribution (P of ``Q half``, else Q) that lies in the other."""


def halves(data: Data, case: str, rows: int, held: int, seed: int) -> Samples:
    """Half of the classes, the lower labels, against all, in the shares that the data have."""
    rng = np.random.default_rng([seed, list(HALVES).index(case)])
    order = rng.permutation(len(data.train))
    lower = data.train_labels[order] < len(np.unique(data.train_labels)) // 2
    everything, rest = order[: rows + held], order[rows + held :][lower[rows + held :]]
    if len(rest) < rows + held:
        raise ValueError(
            f"--rows {rows} --held {held}: {len(rest)} images of half the classes are left beside {rows + held} of all "
            f"classes, {rows + held} are needed"
        )
    pair = everything, rest[: rows + held]
    p, q = (data.train[part] for part in (pair if case == "Q half" else pair[::-1]))
    return Samples(p[:rows], q[:rows], p[rows:], q[rows:], float(lower.mean()))


def noisy(data: Data, case: str, rows: int, held: int, seed: int) -> Samples:
    """Real images, and as many others with noise; cases of one seed have the same images before the noise."""
    if 2 * (rows + held) > len(data.train):
        raise ValueError(f"--pixel-rows {rows} --held {held}: twice their sum is more than {len(data.train)} images")
    order = np.random.default_rng([seed, 2]).permutation(len(data.train))[: 2 * (rows + held)]
    p, q, held_p, held_q = (data.train[part] for part in np.split(order, np.cumsum([rows, rows, held])))
    if case == CLEAN:
        return Samples(p, q, held_p, held_q, 1.0)
    noise = NOISES[case]
    both, _ = corrupted(np.concatenate([q, held_q]), noise, np.random.default_rng([seed, 3, noise.pixels]))
    return Samples(p, both[:rows], held_p, both[rows:], 1.0 - noise.share)


def corrupted(images: Images, noise: Noise, rng: np.random.Generator) -> tuple[Images, Mask]:
    """A copy with the noise in it, and which of the images (n,) have it; their share is exact over all of them."""
    flat = images.reshape(len(images), -1).copy()
    if not 1 <= noise.pixels <= flat.shape[1]:
        raise ValueError(f"{noise.pixels} pixels of an image that has {flat.shape[1]} cannot be corrupted")
    pixels = rng.permutation(flat.shape[1])[: noise.pixels]
    hit = np.zeros(len(flat), bool)
    hit[rng.permutation(len(flat))[: round(noise.share * len(flat))]] = True
    for row in np.flatnonzero(hit):
        flat[row, pixels if noise.shared else rng.permutation(flat.shape[1])[: noise.pixels]] = GREY
    return flat.reshape(images.shape), hit


def truths(share: float, *, p_within: bool) -> Mapping[str, float]:
    """Divergences if one distribution is the other restricted to a set that holds ``share`` of it.

    ``p_within``: P is the restricted one, and p/q = 1/share there, 0 elsewhere; else it is Q.
    """
    wide = -float(np.log(share))
    kl, reverse = (wide, np.inf) if p_within else (np.inf, wide)
    if share == 1.0:
        kl = reverse = 0.0
    middle = 0.5 * (1.0 + share)
    js = 0.5 * (-np.log(middle) + share * np.log(share / middle) + (1.0 - share) * np.log(2.0))
    return {"kl": kl, "reverse_kl": reverse, "js": float(js), "hellinger": 1.0 - float(np.sqrt(share))}
