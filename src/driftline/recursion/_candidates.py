r"""Features that may join where rows are not kept: products and hinges, fixed on the first window.

Nothing of past windows is needed. The original's mean of each candidate is kept, and whether the ratio still holds it
is asked of the new window while its rows are at hand: weighted by the ratio they have the original's means,
:math:`E_t[r f] = E_0[f]`, of whatever the ratio holds. What is left of f after regression on the model's features does
not feel the errors of coefficients. A slow drift adds up in this difference, which knows of no steps.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from driftline._inputs import Floats
from driftline.fitting import Dense, Features, Integers, LogLinear, LogLinearDesign, chunks
from driftline.inference import Dependence, long_run
from driftline.recursion._evidence import coarse

__all__ = ["NOTHING", "Candidates", "Found", "alive", "fixed", "judged", "means_of", "tested", "widened_by"]

Singles = npt.NDArray[np.float32]

_LEVEL = 1e-4  # chance of a false feature in a window, over all candidates
_PAIRS = 500  # products, of the columns that are correlated most where there are more
_QUANTILES = (0.1, 0.5, 0.9)  # where hinges bend
_SUPPORT = 100.0  # effective rows that carry the difference of a candidate, at least: it may join
_SEEN = 20.0  # the same for one that is only looked at: if it stands out it is missed, if not it may hide drift
_LEFT = 1e-2  # share of a candidate's variance that the model's features leave, at least


class Candidates(NamedTuple):
    """The dictionary: k candidates, products of pairs of columns and then hinges, in coordinates of the original.

    Attributes:
        pairs: the two columns of each product, (a, 2).
        columns, knots: column and knot of each hinge, (h,).
        level: the original's means of columns, (D,).
        mean: the original's means of candidates, (k,).
        rows: effective rows that these rest on; 0 where nothing may join.
    """

    pairs: Annotated[Integers, "products 2 <D"]
    columns: Annotated[Integers, "hinges <D"]
    knots: Annotated[Floats, "hinges"]
    level: Annotated[Floats, "level"]
    mean: Annotated[Floats, "candidates"]
    rows: float

    def check(self) -> None:
        """Refuse a wrong number of means."""
        kinds = len(self.pairs) + len(self.knots)
        if len(self.mean) != kinds or (kinds and not len(self.level)):
            raise ValueError(f"it has {len(self.mean)} means of {kinds} candidates, {len(self.level)} of columns")

    def __call__(self, x: Floats) -> Singles:
        """Return the values of all candidates for rows in coordinates of the original (n, D), (n, k)."""
        a, rows = len(self.pairs), x.astype(np.float32)
        out = np.empty((len(x), a + len(self.knots)), dtype=np.float32)
        np.multiply(rows[:, self.pairs[:, 0]], rows[:, self.pairs[:, 1]], out=out[:, :a])
        np.maximum(rows[:, self.columns] - self.knots.astype(np.float32), 0.0, out=out[:, a:])
        return out


_NONE = np.zeros(0, dtype=np.int64)
NOTHING = Candidates(_NONE.reshape(0, 2), _NONE, np.zeros(0), np.zeros(0), np.zeros(0), 0.0)
"""The dictionary of a model that stays as it is."""


def fixed(z: Floats, features: Features, depend: Dependence) -> Candidates:
    """Fix the dictionary on an original's standardised rows (n, D).

    Products are those of all columns that vary, or of those most correlated at first where that would be too many.
    Columns with hinges in the model, or with two values, have none among the candidates.
    """
    d, rows = z.shape[1], z[np.linspace(0, len(z) - 1, min(len(z), 20_000)).astype(np.int64)]
    spread = z.std(0)
    i, j = np.triu_indices(d, 1)
    varies = (spread[i] > 0.0) & (spread[j] > 0.0)
    pairs = np.stack([i[varies], j[varies]], 1)
    if len(pairs) > _PAIRS:
        related = np.abs(np.corrcoef(rows[:, spread > 0.0].T))
        order = np.argsort(-related[np.triu_indices(len(related), 1)], kind="stable")[:_PAIRS]
        pairs = pairs[np.sort(order)]
    ends = coarse(np.quantile(rows, _QUANTILES, axis=0))
    apart = (np.diff(ends, axis=0) > 0.0).all(0) & (spread > 0.0)
    bent = np.flatnonzero(apart & ~(features.weight != 0.0).any(1))
    columns = np.repeat(bent, len(_QUANTILES))
    bare = Candidates(pairs, columns, ends[:, bent].T.ravel(), z.mean(0), np.zeros(0), depend.effective(len(z)))
    total = np.zeros(len(pairs) + len(columns))
    for at in chunks(len(z)):
        total += bare(z[at]).sum(0, dtype=np.float64)
    return bare._replace(mean=total / len(z))


class Found(NamedTuple):
    """What a look at a window finds: products (a, 2), and places of hinges among the candidates' (h,).

    ``hidden`` and ``spread`` are the nats that products outside the model may have moved by without standing out, and
    their standard deviation; ``weak`` is the number of candidates that stand out on too few rows to join.
    """

    pairs: Integers
    hinges: Integers
    hidden: float
    spread: float
    weak: int = 0

    @property
    def any(self) -> bool:
        """Whether a candidate stands out that may join."""
        return len(self.pairs) + len(self.hinges) > 0

    @property
    def left(self) -> int:
        """Number of candidates that stand out, and that the ratio does not hold."""
        return len(self.pairs) + len(self.hinges) + self.weak


def tested(
    candidates: Candidates, psi: LogLinear, design: LogLinearDesign, log_r: Floats, means: Floats, depend: Dependence
) -> Found:
    """Say which candidates the ratio does not hold.

    Arguments:
        psi: the ratio.
        design: that of the window's rows in its features.
        log_r: their log-ratios, (n,).
        means: the original's means of features, (p,).
        depend: how the rows depend on each other.
    """
    differences = _differences(candidates, psi, design, log_r, np.append(means, 1.0), depend)
    return judged(candidates, psi, *differences, depend.effective(len(log_r)))


def judged(
    candidates: Candidates, psi: LogLinear, apart: Floats, variance: Floats, carriers: Floats, effective: float
) -> Found:
    """Say which candidates the ratio does not hold.

    Arguments:
        apart: how far the weighted window is from the original, for each candidate, (k,).
        variance: the variance of that.
        carriers: how many independent rows carry it; 0 where features leave too little of it.
        effective: effective rows of the window.
    """
    z = np.where(carriers > _SEEN, np.abs(apart) / np.sqrt(np.maximum(variance, 1e-300)), 0.0)
    a, (pairs, hinges) = len(candidates.pairs), _here(candidates, psi)
    z[:a][pairs], z[a:][hinges] = 0.0, 0.0
    threshold = NormalDist().inv_cdf(1.0 - 0.5 * _LEVEL / max(len(z), 1))
    weak = int(((z > threshold) & (carriers <= _SUPPORT)).sum())
    able = np.where(carriers > _SUPPORT, z, 0.0)
    strong = np.flatnonzero(able[:a] > threshold)
    strong = strong[np.argsort(-z[strong], kind="stable")]
    bent, taken = [], set()
    for k in (a + np.argsort(-able[a:], kind="stable")).tolist():  # knots of a column are too alike to take two at once
        column = int(candidates.columns[k - a])
        if able[k] > threshold and column not in taken:
            taken.add(column)
            bent.append(k - a)
    squares = np.square(z[:a][z[:a] > 0.0])
    rows = max(min(candidates.rows, effective), 1.0)
    excess = max(float(squares.sum()) - len(squares), 0.0)
    spread = math.sqrt(2.0 * len(squares) + 4.0 * excess) / rows
    return Found(candidates.pairs[strong], np.array(bent, dtype=np.int64), excess / rows, spread, weak)


def _differences(
    candidates: Candidates, psi: LogLinear, design: LogLinearDesign, log_r: Floats, means: Floats, depend: Dependence
) -> tuple[Floats, Floats, Floats]:
    """Return, for each candidate, how far the weighted window is from the original, and the variance of that, (k,).

    The last is how many independent rows carry it; 0 where features leave too little of it.
    """
    n, rows = len(log_r), design.single
    weights = np.exp(np.minimum(log_r, 350.0))
    values = candidates(psi.standardizer.original(design.z))
    weighted = rows * (weights / weights.max()).astype(np.float32)[:, None]
    gram, cross = (np.asarray(weighted.T @ other, dtype=np.float64) for other in (rows, values))
    gram[np.diag_indices_from(gram)] += 1e-7 * max(float(np.trace(gram)), 1e-300) / len(gram)
    slopes = np.linalg.solve(gram, cross)
    whole = values.var(0, dtype=np.float64)
    rest = values - rows @ slopes.astype(np.float32)
    pulled = rest * weights[:, None].astype(np.float32)
    total = float(weights.sum())
    apart = pulled.sum(0, dtype=np.float64) / n - (candidates.mean - means @ slopes)
    spread = np.einsum("ij,ij->j", pulled, rest).astype(np.float64) / total
    if depend.independent:
        own = np.einsum("ij,ij->j", pulled, pulled).astype(np.float64)
    else:
        merged = np.stack([depend.merged(column) for column in pulled.T.astype(np.float64)], 1)
        ones = np.ones(len(merged))
        own = long_run(Dense(merged), ones, Dense(merged), ones, depend.lag, depend.shares).diagonal()
    fourth = np.square(np.square(pulled)).sum(0, dtype=np.float64)
    carriers = np.square(np.square(pulled).sum(0, dtype=np.float64)) / np.maximum(fourth, 1e-300)
    carriers = np.where(alive(spread, whole, own), carriers / (depend.worth * depend.time), 0.0)
    return apart, own / n**2 + spread / max(candidates.rows, 1.0), carriers


def alive(spread: Floats, whole: Floats, own: Floats) -> npt.NDArray[np.bool_]:
    """Say of which candidates features leave enough: of their variances, the parts left, and sums of squares; (k,)."""
    return np.asarray((spread > _LEFT * whole) & (whole > 1e-12) & (own > 0.0))


def _here(candidates: Candidates, psi: LogLinear) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Say which products, and which hinges, are features already."""
    known = {tuple(pair) for pair in psi.features.pairs.tolist()}
    pairs = np.array([tuple(pair) in known for pair in candidates.pairs.tolist()], dtype=np.bool_)
    bent = [_knot(psi, k) for k in range(len(psi.features.bias))]
    near = [
        any(j == column and abs(knot - at) < 1e-6 * (1.0 + abs(at)) for j, at in bent)
        for column, knot in zip(candidates.columns.tolist(), candidates.knots.tolist(), strict=True)
    ]
    return pairs, np.array(near, dtype=np.bool_)


def _knot(psi: LogLinear, unit: int) -> tuple[int, float]:
    """Return column and knot of a hinge, in coordinates of the original."""
    weight, standardizer = psi.features.weight[:, unit], psi.standardizer
    j = int(np.abs(weight).argmax())
    return j, float(standardizer.shift[j] - psi.features.bias[unit] / weight[j] * standardizer.rate[j])


def widened_by(candidates: Candidates, found: Found, psi: LogLinear, z: Floats) -> Features:
    """Return the features with those found, in the present frame, centred and scaled on its rows (n, D)."""
    columns, knots = candidates.columns[found.hinges], candidates.knots[found.hinges]
    weight = np.zeros((psi.features.columns, len(columns)))
    weight[columns, np.arange(len(columns))] = psi.standardizer.rate[columns]
    return psi.features.extend(z, pairs=found.pairs, weight=weight, bias=psi.standardizer.shift[columns] - knots)


def means_of(candidates: Candidates, psi: LogLinear, features: Features, new: Integers) -> Floats:
    """Return the original's means of features at these places, products and hinges among the candidates, (k,)."""
    shift, rate, level = psi.standardizer.shift, psi.standardizer.rate, candidates.level
    place = {tuple(pair): k for k, pair in enumerate(candidates.pairs.tolist())}
    raw, base, a = np.full(features.size, np.nan), features.base, len(features.pairs)
    for at, (i, j) in enumerate(features.pairs.tolist(), base):
        if (i, j) in place:
            about = candidates.mean[place[i, j]] - shift[j] * level[i] - shift[i] * level[j] + shift[i] * shift[j]
            raw[at] = about / (rate[i] * rate[j])
    wider = psi._replace(features=features)
    for unit in range(len(features.bias)):
        j, knot = _knot(wider, unit)
        same = (candidates.columns == j) & np.isclose(candidates.knots, knot, rtol=1e-6, atol=1e-6)
        if same.any():
            scale = abs(features.weight[j, unit]) / rate[j]
            raw[base + a + unit] = scale * candidates.mean[len(candidates.pairs) + int(same.argmax())]
    return np.asarray((raw[new] - features.center[new]) / features.scale[new])
