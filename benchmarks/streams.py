"""Drifting streams with known log-ratios that the engine is judged on; they need no version of driftline.

Time runs from 0; each stream is written so that its drift ends at ``last``. All have ``sample(t, n, rng)`` and
``log_ratio(x, t)``, and ``reverse_kl(t)`` where it has a closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@lru_cache
def truth(stream: Any, t: int, rows: int = 2_000_000) -> float:
    """Return reverse_kl at time t: its closed form if there is one, otherwise from true rows.

    The mean of the ratio is known to be 1, so what it is off by corrects the mean of its logarithm.
    """
    if hasattr(stream, "reverse_kl"):
        return float(stream.reverse_kl(t))
    rng = np.random.default_rng(0)
    log_r = np.concatenate([stream.log_ratio(stream.sample(t, 50_000, rng), t) for _ in range(rows // 50_000)])
    ratio = np.exp(log_r)
    covariance = np.cov(-log_r, ratio)
    return float(-log_r.mean() - covariance[0, 1] / covariance[1, 1] * (ratio.mean() - 1.0))


@dataclass(frozen=True)
class ShrinkStream:
    """Standard normal columns of which the first becomes quieter, by ``factor`` in ``last`` equal steps of its log."""

    dim: int = 1
    factor: float = 10.0
    last: int = 7

    def _scale(self, t: float) -> float:
        return float(self.factor ** (-t / self.last))

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        x = rng.standard_normal((n, self.dim))
        x[:, 0] *= self._scale(t)
        return x

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        scale = self._scale(t)
        return np.asarray(0.5 * ((x[:, 0] / scale) ** 2 - x[:, 0] ** 2) + math.log(scale))

    def reverse_kl(self, t: float) -> float:
        """Return KL(p_t‖p_0) in nats."""
        scale = self._scale(t)
        return 0.5 * (scale**2 - 1.0) - math.log(scale)


@dataclass(frozen=True)
class MoveStream:
    """One normal column that goes from N(2, .15) to N(-1, .08): its mean steadily, its scale in steps of its log."""

    last: int = 40

    def _at(self, t: float) -> tuple[float, float]:
        return 2.0 - 3.0 * t / self.last, 0.15 * (0.08 / 0.15) ** (t / self.last)

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, 1) at time t."""
        mean, scale = self._at(t)
        return mean + scale * rng.standard_normal((n, 1))

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        (mean, scale), (first, wide) = self._at(t), self._at(0)
        quadratic = ((x[:, 0] - mean) / scale) ** 2 - ((x[:, 0] - first) / wide) ** 2
        return np.asarray(0.5 * quadratic + math.log(scale / wide))

    def reverse_kl(self, t: float) -> float:
        """Return KL(p_t‖p_0) in nats."""
        (mean, scale), (first, wide) = self._at(t), self._at(0)
        return math.log(wide / scale) + 0.5 * ((scale**2 + (mean - first) ** 2) / wide**2 - 1.0)


@dataclass(frozen=True)
class RotatedStream:
    """Unit Gaussians whose pairs become correlated up to ``rho``, seen after a rotation: no column stands out."""

    dim: int = 20
    rho: float = 0.8
    last: int = 8
    seed: int = 3

    def _rotation(self) -> Floats:
        q, r = np.linalg.qr(np.random.default_rng(self.seed).standard_normal((self.dim, self.dim)))
        return np.asarray(q * np.sign(np.diag(r)))

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        z, rho = rng.standard_normal((n, self.dim)), self.rho * t / self.last
        z[:, 1::2] = rho * z[:, 0::2] + math.sqrt(1.0 - rho**2) * z[:, 1::2]
        return np.asarray(z @ self._rotation().T)

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        z, rho = x @ self._rotation(), self.rho * t / self.last
        a, b = z[:, 0::2], z[:, 1::2]
        quadratic = (a**2 - 2.0 * rho * a * b + b**2) / (1.0 - rho**2) - a**2 - b**2
        return np.asarray(0.5 * quadratic.sum(1) + 0.25 * self.dim * math.log(1.0 - rho**2))

    def reverse_kl(self, t: float) -> float:
        """Return KL(p_t‖p_0) in nats."""
        return -0.25 * self.dim * math.log(1.0 - (self.rho * t / self.last) ** 2)


_YES = np.array([[0.10, 0.20, 0.70, 0.50], [0.60, 0.30, 0.20, 0.50], [0.80, 0.85, 0.40, 0.50]])
_RATES = np.array([[1.0, 4.0, 2.0], [3.0, 4.0, 5.0], [6.0, 1.5, 2.0]])
_LEVELS = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 2.0], [1.5, 1.0, 1.0]])
_WIDTH = 0.6  # standard deviation of logarithms


@dataclass(frozen=True)
class LatentClassStream:
    """A table of four binary, three count and three lognormal columns, independent within each of three classes.

    The first class loses weight to the third, whose second count and third amount grow: 0.56 nats at the end.
    """

    last: int = 20

    def _weights(self, t: float) -> Floats:
        return np.array([0.5, 0.3, 0.2]) + 0.35 * t / self.last * np.array([-1.0, 0.0, 1.0])

    def _rates(self, t: float) -> Floats:
        return np.asarray(_RATES + t / self.last * np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))

    def _levels(self, t: float) -> Floats:
        return np.asarray(_LEVELS + t / self.last * np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.4]]))

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, 10) at time t."""
        of = rng.choice(3, n, p=self._weights(t))
        yes = rng.random((n, 4)) < _YES[of]
        amounts = np.exp(self._levels(t)[of] + _WIDTH * rng.standard_normal((n, 3)))
        return np.hstack([yes, rng.poisson(self._rates(t)[of]), amounts])

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        return self._log_density(x, 0) - self._log_density(x, t)

    def _log_density(self, x: Floats, t: float) -> Floats:
        """Return the log-density up to terms that do not depend on t."""
        yes, counts, amounts = x[:, :4], x[:, 4:7], np.log(x[:, 7:])
        rates, levels = self._rates(t), self._levels(t)
        logits = yes @ np.log(_YES / (1.0 - _YES)).T + np.log1p(-_YES).sum(1)
        logits += counts @ np.log(rates).T - rates.sum(1)
        logits += (amounts @ levels.T - 0.5 * (levels**2).sum(1)) / _WIDTH**2
        return _log_sum(logits + np.log(self._weights(t)))


@dataclass(frozen=True)
class HeavyClustersStream:
    """Three clusters with heavy tails (Student's t) and correlations of their own, which change weights and places."""

    dim: int = 6
    freedom: float = 6.0
    last: int = 20
    seed: int = 11

    def _clusters(self, t: float) -> tuple[Floats, Floats, Floats]:
        """Return weights (3,), centres (3, dim) and Cholesky factors of scale matrices (3, dim, dim)."""
        rng, part = np.random.default_rng(self.seed), t / self.last
        centres = 1.6 * rng.standard_normal((3, self.dim))
        moves = rng.standard_normal((3, self.dim))
        mixing = rng.standard_normal((3, self.dim, self.dim)) / math.sqrt(self.dim)
        factors = np.linalg.cholesky(mixing @ mixing.transpose(0, 2, 1) + 0.3 * np.eye(self.dim))
        weights = np.array([0.5, 0.3, 0.2]) + 0.3 * part * np.array([-1.0, 0.0, 1.0])
        return weights, centres + 0.32 * part * moves, factors

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        weights, centres, factors = self._clusters(t)
        of = rng.choice(3, n, p=weights)
        z = rng.standard_normal((n, self.dim)) / np.sqrt(rng.chisquare(self.freedom, (n, 1)) / self.freedom)
        return np.asarray(centres[of] + np.einsum("nij,nj->ni", factors[of], z))

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        return self._log_density(x, 0) - self._log_density(x, t)

    def _log_density(self, x: Floats, t: float) -> Floats:
        """Return the log-density up to a constant."""
        logits = []
        for weight, centre, factor in zip(*self._clusters(t), strict=True):
            distance = (np.linalg.solve(factor, (x - centre).T) ** 2).sum(0)
            tail = 0.5 * (self.freedom + self.dim) * np.log1p(distance / self.freedom)
            logits.append(math.log(weight) - np.log(np.diag(factor)).sum() - tail)
        return _log_sum(np.stack(logits, 1))


@dataclass(frozen=True)
class SkewedStream:
    """Four correlated lognormal columns and two gamma ones: levels rise, correlations grow, one gamma stretches."""

    last: int = 20

    def _logs(self, t: float) -> tuple[Floats, Floats]:
        """Return mean and covariance of the logarithms of the first four columns."""
        part = t / self.last
        rho = 0.3 + 0.25 * part
        covariance = 0.64 * ((1.0 - rho) * np.eye(4) + rho)
        return part * np.array([0.5, 0.2, 0.0, -0.2]), covariance

    def _stretch(self, t: float) -> float:
        return 1.0 + 0.3 * t / self.last

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, 6) at time t."""
        mean, covariance = self._logs(t)
        logs = mean + rng.standard_normal((n, 4)) @ np.linalg.cholesky(covariance).T
        return np.hstack([np.exp(logs), rng.gamma(2.0, [self._stretch(t), 1.0], (n, 2))])

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        return self._log_density(x, 0) - self._log_density(x, t)

    def _log_density(self, x: Floats, t: float) -> Floats:
        """Return the log-density up to terms that do not depend on t."""
        (mean, covariance), stretch = self._logs(t), self._stretch(t)
        z = np.linalg.solve(np.linalg.cholesky(covariance), (np.log(x[:, :4]) - mean).T)
        of_logs = -0.5 * (z**2).sum(0) - 0.5 * np.linalg.slogdet(covariance)[1]
        return np.asarray(of_logs - x[:, 4] / stretch - 2.0 * math.log(stretch))

    def reverse_kl(self, t: float) -> float:
        """Return KL(p_t‖p_0) in nats."""
        (mean, now), (_, then), stretch = self._logs(t), self._logs(0), self._stretch(t)
        far = mean @ np.linalg.solve(then, mean) + np.trace(np.linalg.solve(then, now)) - 4.0
        of_logs = 0.5 * (far + np.linalg.slogdet(then)[1] - np.linalg.slogdet(now)[1])
        return float(of_logs + 2.0 * (stretch - 1.0 - math.log(stretch)))


@dataclass(frozen=True)
class StillStream:
    """A stream that stays where another one begins."""

    stream: Any
    last: int = 20

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim), at any time."""
        return np.asarray(self.stream.sample(0, n, rng))

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return zeros, (n,)."""
        return np.zeros(len(x))

    def reverse_kl(self, t: float) -> float:
        """Return 0."""
        return 0.0


def _log_sum(logits: Floats) -> Floats:
    """Return the log of the sum of exponentials of each row."""
    top = logits.max(1)
    return np.asarray(top + np.log(np.exp(logits - top[:, None]).sum(1)))


@dataclass(frozen=True)
class BananaStream:
    """Normal columns of which the second of each of the first ``pairs`` pairs bends over the first: no mean moves."""

    bend: float = 0.4
    last: int = 20
    dim: int = 6
    pairs: int = 2

    def _bent(self, x: Floats, t: float) -> Floats:
        """Return what the second columns of pairs are shifted by, (n, pairs)."""
        return np.asarray(self.bend * t / self.last * (x[:, : 2 * self.pairs : 2] ** 2 - 1.0))

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        x = rng.standard_normal((n, self.dim))
        x[:, 1 : 2 * self.pairs : 2] += self._bent(x, t)
        return x

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        bent = x[:, 1 : 2 * self.pairs : 2]
        return np.asarray(0.5 * (np.square(bent - self._bent(x, t)) - np.square(bent)).sum(1))

    def reverse_kl(self, t: float) -> float:
        """Return KL(current‖original) at time t: half the mean square of the shifts, each of variance 2."""
        return self.pairs * (self.bend * t / self.last) ** 2


@dataclass(frozen=True)
class ThreeWayStream:
    """Normal columns of which three change together: their product becomes positive in ``top`` of the rows.

    Each two of them stay independent, so that no pair of columns shows it. If ``binary``, the columns are -1 and 1.
    """

    dim: int = 6
    top: float = 0.9
    last: int = 20
    binary: bool = False

    def _share(self, t: float) -> float:
        return 0.5 + (self.top - 0.5) * t / self.last

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        x = rng.standard_normal((n, self.dim))
        flip = (x[:, :3].prod(1) > 0.0) != (rng.random(n) < self._share(t))
        x[flip, 2] *= -1.0
        return np.sign(x) if self.binary else x

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        share = self._share(t)
        return np.where(x[:, :3].prod(1) > 0.0, math.log(0.5 / share), math.log(0.5 / (1.0 - share)))

    def reverse_kl(self, t: float) -> float:
        """Return KL(current‖original) at time t."""
        share = self._share(t)
        return share * math.log(2.0 * share) + (1.0 - share) * math.log(2.0 * (1.0 - share))


@dataclass(frozen=True)
class LowRankStream:
    """Unit normal columns whose correlations grow along ``rank`` random directions: 2.0 nats at the end.

    Each column is a mix of the factors and noise of its own, so that its variance stays 1.
    """

    dim: int = 40
    rank: int = 2
    share: float = 0.164
    last: int = 10
    seed: int = 5

    def _loadings(self, t: float) -> tuple[Floats, Floats]:
        """Return loadings of the factors (dim, rank) and the variances of the noise (dim,)."""
        ways = np.random.default_rng(self.seed).standard_normal((self.dim, self.rank))
        ways *= math.sqrt(self.share * t / self.last) / np.linalg.norm(ways, axis=1, keepdims=True)
        return ways, 1.0 - np.square(ways).sum(1)

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        loadings, noise = self._loadings(t)
        x = np.sqrt(noise) * rng.standard_normal((n, self.dim))
        return np.asarray(x + rng.standard_normal((n, self.rank)) @ loadings.T)

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        loadings, noise = self._loadings(t)
        covariance = loadings @ loadings.T + np.diag(noise)
        far = np.einsum("ni,ni->n", x, np.linalg.solve(covariance, x.T).T) - np.square(x).sum(1)
        return np.asarray(0.5 * (far + np.linalg.slogdet(covariance)[1]))

    def reverse_kl(self, t: float) -> float:
        """Return KL(p_t‖p_0) in nats: the variances stay 1."""
        loadings, noise = self._loadings(t)
        return float(-0.5 * np.linalg.slogdet(loadings @ loadings.T + np.diag(noise))[1])


@dataclass(frozen=True)
class RingStream:
    """A ring in two columns whose radius grows by ``growth``, beside two normal columns that stay."""

    radius: float = 3.0
    width: float = 0.5
    growth: float = 0.5
    last: int = 10

    def _grown(self, t: float) -> float:
        return self.growth * t / self.last

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, 4) at time t."""
        angle = 2.0 * math.pi * rng.random(n)
        radius = self.radius + self._grown(t) + self.width * rng.standard_normal(n)
        return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), rng.standard_normal((n, 2))])

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,); a radius below 0 is six of its standard deviations away."""
        far = np.hypot(x[:, 0], x[:, 1]) - self.radius
        return np.asarray(0.5 * (np.square(far - self._grown(t)) - np.square(far)) / self.width**2)

    def reverse_kl(self, t: float) -> float:
        """Return KL(p_t‖p_0) in nats."""
        return 0.5 * (self._grown(t) / self.width) ** 2


@dataclass(frozen=True)
class EmbeddingStream:
    """Columns like those of an embedding: many mixes of few factors, and noise. The first factor's mean moves to 1."""

    dim: int = 384
    factors: int = 64
    noise: float = 0.2
    last: int = 5
    seed: int = 9

    def _mixing(self) -> Floats:
        ways = np.random.default_rng(self.seed).standard_normal((self.factors, self.dim))
        return np.asarray(ways / math.sqrt(self.factors))

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        factors = rng.standard_normal((n, self.factors))
        factors[:, 0] += t / self.last
        return np.asarray(factors @ self._mixing() + self.noise * rng.standard_normal((n, self.dim)))

    def _tilt(self, t: float) -> tuple[Floats, Floats]:
        """Return the shift of the means, (dim,), and the same by the inverse covariance."""
        mixing = self._mixing()
        shift = mixing[0] * t / self.last
        return shift, np.linalg.solve(mixing.T @ mixing + self.noise**2 * np.eye(self.dim), shift)

    def log_ratio(self, x: Floats, t: float) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        shift, tilt = self._tilt(t)
        return np.asarray((0.5 * shift - x) @ tilt)

    def reverse_kl(self, t: float) -> float:
        """Return KL(p_t‖p_0) in nats."""
        shift, tilt = self._tilt(t)
        return float(0.5 * shift @ tilt)


@dataclass(frozen=True)
class MeansStream:
    """Unit normal columns, all with the mean that a list has for each time: there, and back if it ends as it begins."""

    means: tuple[float, ...] = (0.0, 0.8, 1.6, 0.8, 0.0)
    dim: int = 2

    def sample(self, t: int, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        return self.means[t] + rng.standard_normal((n, self.dim))

    def log_ratio(self, x: Floats, t: int) -> Floats:
        """Return log p_0/p_t of rows, (n,)."""
        shift = self.means[t] - self.means[0]
        return np.asarray(shift * (0.5 * shift - (x - self.means[0])).sum(1))

    def reverse_kl(self, t: int) -> float:
        """Return KL(p_t‖p_0) in nats."""
        return 0.5 * self.dim * (self.means[t] - self.means[0]) ** 2


@dataclass(frozen=True)
class ColumnStream:
    """Unit normal columns of which the first moves by its standard deviation."""

    dim: int = 10
    last: int = 20

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        x = rng.standard_normal((n, self.dim))
        x[:, 0] += t / self.last
        return x

    def reverse_kl(self, t: float) -> float:
        """Return KL(p_t‖p_0) in nats."""
        return 0.5 * (t / self.last) ** 2


@dataclass(frozen=True)
class PairStream:
    """Unit normal columns of which the first two become correlated, up to ``rho``."""

    dim: int = 10
    rho: float = 0.8
    last: int = 20

    def sample(self, t: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw rows (n, dim) at time t."""
        x, rho = rng.standard_normal((n, self.dim)), self.rho * t / self.last
        x[:, 1] = rho * x[:, 0] + math.sqrt(1.0 - rho**2) * x[:, 1]
        return x

    def reverse_kl(self, t: float) -> float:
        """Return KL(p_t‖p_0) in nats."""
        return -0.5 * math.log1p(-((self.rho * t / self.last) ** 2))
