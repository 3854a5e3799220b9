"""Hold or doubt on public tables: an interval reaches what a boosted classifier finds on other rows, or it is doubted.

The classifier's log-odds u give Donsker and Varadhan's bound of KL(current‖original), E_current[u] - log
E_original[e^u], on rows that neither it nor the estimate has seen: the truth is at least that. From above the truth is
known where both windows are of one pool (0), and where a window is the original with a share s of others mixed in: then
KL(original‖current) is at most -log(1 - s), and the Jensen-Shannon divergence at most that of others that overlap
nowhere. Seeds begin at 700,000, unused while the method was built.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.public import TABLES, Regimes, regimes
from benchmarks.results import INF, Bar, Result
from benchmarks.tables import Floats
from driftline import ContinualDensityRatio, DensityRatio
from driftline.fitting import log_mean_exp
from driftline.inference import Estimate
from driftline.tables import TableEncoder

FIRST_SEED = 700_000
SEEDS = 2
QUIET_SEEDS = 2  # of each pool
_SHARES = (0.25, 0.5, 0.75, 1.0)  # of the new regime, on the slow way
_FOLDS = 4
_UNSEEN = 30.0  # rows; log-odds are clipped to where a row that was not seen changes little

_VERDICT = ": 1 holds, 2 doubts, 0 neither"
_MIXTURES, _BEYOND = ": lows of mixtures", ": lows of mixtures beyond the limit"

AT_ONCE, BREAK, SLOW, MONTHS = "at once", "break", "slowly", "by way of the months between"


class Bound(NamedTuple):
    """A bound of reverse_kl from below, and its standard error."""

    value: float
    error: float


class Seen(NamedTuple):
    """What an estimate says at the end of a way, and the bound; ``above`` are lows beyond what a mixture allows."""

    case: str
    way: str
    seed: int
    estimate: Estimate
    bound: Bound
    mixtures: int = 0
    above: int = 0

    @property
    def doubts(self) -> bool:
        return bool(self.estimate.doubts) or self.estimate.lower_bound

    @property
    def holds(self) -> bool:
        """Whether it has an interval without a doubt that reaches the bound, less its standard error."""
        return not self.doubts and self.estimate.high >= self.bound.value - self.bound.error


def run(table: str, seeds: int) -> Iterator[Result]:
    """Measure each way of a table: value over bound, and whether the estimate holds, doubts, or does neither."""
    mixtures = beyond = 0
    for case in regimes(table):
        for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
            seen = list(looks(case, seed))
            yield Result(f"{case.name}: bound, nats", seed, seen[0].bound.value, None)
            for look in seen:
                what = f"{case.name}, {look.way}"
                yield Result(f"{what}: value / bound", seed, look.estimate.value / look.bound.value, None)
                yield Result(f"{what}{_VERDICT}", seed, float(_verdict(look)), None)
                mixtures, beyond = mixtures + look.mixtures, beyond + look.above
    yield Result(f"{table}{_MIXTURES}", -1, float(mixtures), None)
    yield Result(f"{table}{_BEYOND}", -1, float(beyond), None)


def summary(results: Sequence[Result]) -> Iterator[Result]:
    """Return the shares of estimates that hold and that doubt over all tables, from what :func:`run` has found."""
    verdicts = [r for r in results if r.what.endswith(_VERDICT)]
    at_once = [r.what.endswith(f"{AT_ONCE}{_VERDICT}") for r in verdicts]
    for name, static in (("static", True), ("continual", False)):
        found = np.array([r.value for r, here in zip(verdicts, at_once, strict=True) if here is static])
        if len(found):
            what = f"hold or doubt, {name}, {len(found)} estimates"
            yield Result(f"{what}: share that holds", -1, float((found == 1).mean()), None)
            yield Result(f"{what}: share that doubts", -1, float((found == 2).mean()), None)
            yield Result(f"{what}: share that holds or doubts", -1, float((found > 0).mean()), (0.9, INF))
    mixtures, beyond = (sum(r.value for r in results if r.what.endswith(end)) for end in (_MIXTURES, _BEYOND))
    if mixtures:
        what = f"hold or doubt, {mixtures:.0f} lows of mixtures: share beyond the limit"
        yield Result(what, -1, beyond / mixtures, 0.05)


def _verdict(look: Seen) -> int:
    return 2 if look.doubts else int(look.holds)


def looks(case: Regimes, seed: int) -> Iterator[Seen]:
    """Follow a case on all of its ways, from the same original and with the same rows held out."""
    rng = np.random.default_rng(seed)
    pools = [pool.iloc[rng.permutation(len(pool))] for pool in case.pools]
    first, last = pools[0].iloc[case.held :], pools[-1].iloc[case.held :]
    original, current = first.iloc[: case.rows], last.iloc[: case.rows]
    encoder = TableEncoder.fit(_table(original))
    held = [_encoded(encoder, pool.iloc[: case.held]) for pool in (pools[0], pools[-1])]
    z = _encoded(encoder, original), _encoded(encoder, current)
    bound = bound_of(z, (held[0], held[1]), seed)
    yield Seen(case.name, AT_ONCE, seed, DensityRatio(random_state=seed).fit(*z).divergence(), bound)
    if len(pools) > 2:
        between = [_encoded(encoder, pool.iloc[: case.rows]) for pool in pools[1:-1]]
        estimator = _followed([z[0], *between, z[1]], seed)
        yield Seen(case.name, MONTHS, seed, estimator.divergence(), bound)
        return
    others = [_encoded(encoder, pool.iloc[case.rows : 2 * case.rows]) for pool in (first, last)]
    yield Seen(case.name, BREAK, seed, _followed([z[0], others[0], z[1], others[1]], seed).divergence(), bound)
    yield _slowly(case, seed, encoder, (first, last), bound)


def _slowly(
    case: Regimes, seed: int, encoder: TableEncoder, ends: tuple[pd.DataFrame, pd.DataFrame], bound: Bound
) -> Seen:
    """Mix more and more of the new regime in; each row is used once."""
    estimator = ContinualDensityRatio(random_state=seed).fit(_encoded(encoder, ends[0].iloc[: case.rows]))
    rng, at, mixtures, above = np.random.default_rng([seed, 1]), [case.rows, 0], 0, 0
    for share in _SHARES:
        new = round(share * case.rows)
        parts = ends[0].iloc[at[0] : at[0] + case.rows - new], ends[1].iloc[at[1] : at[1] + new]
        at = [at[0] + case.rows - new, at[1] + new]
        mixed = pd.concat(parts).iloc[rng.permutation(case.rows)]
        estimator.partial_fit(_encoded(encoder, mixed))
        for kind, most in (("kl", _most_kl(share)), ("js", _most_js(share))) if share < 1.0 else ():
            estimate = estimator.divergence(kind)
            mixtures, above = mixtures + 1, above + (estimate.low > most and not estimate.doubts)
    return Seen(case.name, SLOW, seed, estimator.divergence(), bound, mixtures, above)


def _most_kl(share: float) -> float:
    """Return the largest KL(original‖current) if current holds the original but for this share."""
    return -math.log(1.0 - share)


def _most_js(share: float) -> float:
    """Return the Jensen-Shannon divergence of an original, and of it with a share mixed in that it does not hold."""
    kept = 1.0 - share
    both = 0.5 * (1.0 + kept)
    return 0.5 * (-math.log(both) + kept * math.log(kept / both) + share * math.log(2.0))


def _followed(windows: list[Floats], seed: int) -> ContinualDensityRatio:
    estimator = ContinualDensityRatio(random_state=seed).fit(windows[0])
    for window in windows[1:]:
        estimator.partial_fit(window)
    return estimator


def quiet(seeds: int) -> Iterator[Result]:
    """Draw all windows from one pool: the truth is 0."""
    lows: dict[str, list[bool]] = {"static": [], "continual": []}
    doubts: dict[str, list[bool]] = {"static": [], "continual": []}
    for case in chain.from_iterable(map(regimes, TABLES)):
        if len(case.pools) > 2:
            continue  # too few rows for windows of the same
        for seed in range(FIRST_SEED, FIRST_SEED + QUIET_SEEDS):
            pool = case.pools[0].iloc[np.random.default_rng([seed, 2]).permutation(len(case.pools[0]))]
            encoder = TableEncoder.fit(_table(pool.iloc[: case.rows]))
            cuts = [_encoded(encoder, pool.iloc[k * case.rows : (k + 1) * case.rows]) for k in range(4)]
            estimates = {
                "static": DensityRatio(random_state=seed).fit(cuts[0], cuts[1]).divergence(),
                "continual": _followed(cuts, seed).divergence(),
            }
            for name, estimate in estimates.items():
                doubts[name].append(bool(estimate.doubts))
                lows[name].append(estimate.low > 0.0 and not estimate.doubts)
    for name, found in lows.items():
        what = f"quiet pools, {name}, {len(found)} estimates"
        yield Result(f"{what}: share above 0 without a doubt", -1, float(np.mean(found)), _level(len(found)))
        yield Result(f"{what}: share that doubts", -1, float(np.mean(doubts[name])), None)


def _level(count: int) -> Bar:
    """Return 2.5 %, the share to be expected, and two standard errors."""
    return 0.025 + 2.0 * math.sqrt(0.025 * 0.975 / count)


def bound_of(windows: tuple[Floats, Floats], held: tuple[Floats, Floats], seed: int) -> Bound:
    """Return the mean bound of classifiers, each grown on the windows and three quarters of the rows held out."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    folds = [np.arange(len(rows)) % _FOLDS for rows in held]  # rows are in no order
    found = []
    for k in range(_FOLDS):
        grown = [np.concatenate([z, h[f != k]]) for z, h, f in zip(windows, held, folds, strict=True)]
        model = HistGradientBoostingClassifier(
            learning_rate=0.05, max_iter=400, max_leaf_nodes=16, early_stopping=True, random_state=seed
        ).fit(np.concatenate(grown), np.repeat([0, 1], [len(part) for part in grown]))
        shift = math.log(len(grown[1]) / len(grown[0]))
        u = [model.decision_function(h[f == k]) - shift for h, f in zip(held, folds, strict=True)]
        found.append(donsker_varadhan(u[0], u[1]))
    return Bound(
        float(np.mean([each.value for each in found])),
        math.sqrt(sum(each.error**2 for each in found)) / _FOLDS,
    )


def donsker_varadhan(original: Floats, current: Floats) -> Bound:
    """Return the bound by log-odds current/original of new rows of both, clipped to what so many rows can show."""
    most = math.log(max(len(original) / _UNSEEN, 2.0))
    original, current = np.clip(original, -most, most), np.clip(current, -most, most)
    level = log_mean_exp(original)
    variance = np.exp(original - level).var() / len(original) + current.var() / len(current)
    return Bound(float(current.mean() - level), math.sqrt(float(variance)))


def _table(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _encoded(encoder: TableEncoder, frame: pd.DataFrame) -> Floats:
    return np.asarray(encoder.transform(_table(frame)).values, dtype=np.float64)
