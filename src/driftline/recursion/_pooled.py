"""Originals and steps whose rows lie in several places: the same state as with ``keep="sums"``, made of answers.

What is asked of places, and what they answer, is in :mod:`_questions` and :mod:`_answers`. ``ask`` returns the joined
answer of all places, so a step with one place and one with many are the same computation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from driftline._inputs import Floats
from driftline.fitting import (
    Features,
    Integers,
    LogLinear,
    Part,
    WindowSums,
    fit_features,
    fit_sums,
    plain_standardizer,
)
from driftline.inference import Doubt
from driftline.recursion._answers import Answer, distinct
from driftline.recursion._diagnostics import OriginalInfo
from driftline.recursion._frames import RARE, STRAY, TAIL, frame_of, moved_anchor
from driftline.recursion._kept import Sums
from driftline.recursion._log_linear import same_kind
from driftline.recursion._looked import dictionary
from driftline.recursion._partitions import Partitions, Tally, merged_cells
from driftline.recursion._problem import EFFECT, plain_prior
from driftline.recursion._questions import GRID, Basis, Question, bare_partitions
from driftline.recursion._rare import few_of
from driftline.recursion._settings import StepSettings
from driftline.recursion._stand_in import two_valued
from driftline.recursion._state import Anchor, Track
from driftline.recursion._taken import Taken, arrived, bare_sums, tally

__all__ = ["MOST_PARAMETERS", "begin_anew", "parameters_of", "pooled_size", "start_pooled", "step_pooled"]

Ask = Callable[[Question], Answer]

MOST_PARAMETERS = 100
"""Products of three features are summed up: with more parameters, answers would be many megabytes."""
_SHARES = np.array([0.01, 0.05, 0.15, 0.32, 0.5, 0.68, 0.85, 0.95, 0.99])
_WIDTH = 19  # edges that a partition has room for, the last one inf
_PAIRS = 256
_LEAST = 100  # rows of an original: counts of fewer say nothing
_MIDDLES: Floats = np.sinh(np.linspace(-0.25 * (len(GRID) // 2), 0.25 * (len(GRID) // 2), len(GRID) + 1))
_ZERO = 3.0  # the smallest c of a fit


def parameters_of(model: str, columns: int) -> int:
    """Return the number of parameters of a model of so many columns, the constant included.

    >>> [parameters_of(model, 3) for model in ("linear", "quadratic", "quadratic-full")]
    [4, 7, 10]
    """
    features = {"linear": columns, "quadratic": 2 * columns, "quadratic-full": columns * (columns + 3) // 2}
    if model not in features:
        raise ValueError(f"model={model!r} is not for rows in several places: choose one of {sorted(features)}")
    parameters = features[model] + 1
    if parameters > MOST_PARAMETERS:
        raise ValueError(
            f"model={model!r} has {parameters} parameters for {columns} columns, and rows in several places allow for "
            f"{MOST_PARAMETERS}: take fewer columns, or model='linear'"
        )
    return parameters


def pooled_size(anchor: Anchor, settings: StepSettings) -> int:
    """Return the number of parameters of a model that goes on; raise a ValueError if it cannot in several places."""
    psi, auto = anchor.psi, settings.model == "auto"
    if anchor.sums is None or not (isinstance(psi, LogLinear) and same_kind(psi.features, settings.model)):
        raise ValueError("a step from sums needs a state with keep='sums' and the model that it began with")
    if not auto:
        return parameters_of(str(settings.model), psi.features.columns)
    parameters = psi.features.size + 1
    if parameters > MOST_PARAMETERS:
        raise ValueError(
            f"model='auto' has {parameters} parameters here, and rows in several places allow for {MOST_PARAMETERS}: "
            "take fewer columns, or model='quadratic'"
        )
    return parameters


def begin_anew(ask: Ask, given: Track, settings: StepSettings, tau: int) -> Track:
    """Begin to trace an original of which each place holds some rows, with the dictionary of another track."""
    size, psi, sums = pooled_size(given.current, settings), given.current.psi, given.current.sums
    assert isinstance(psi, LogLinear)
    assert sums is not None
    basis, columns = Basis(psi.standardizer, psi.features), psi.features.columns
    seen = ask(Question("window", size, basis, {"heap": np.full(columns, np.nan)}, settings.lag))
    candidates, rows, gram = distinct(seen["heap"]), seen.rows, seen["gram"]
    levels = ask(Question("levels", size, basis, {**dictionary(sums.candidates), "heaps": candidates}, settings.lag))
    joining = sums.candidates._replace(level=levels["level"] / rows, mean=levels["total"] / rows, rows=float(rows))
    window = WindowSums(float(rows), gram[-1].copy(), gram)
    center, spread = _place(seen["cells"], *_exact(psi.features, window))
    shift, rate = psi.standardizer.shift, psi.standardizer.rate
    place = *_heap(candidates, levels["same"], rows), center * rate + shift, spread * rate
    kept = bare_sums(window, np.zeros(size), _ZERO, 0.0, place, bool(seen["dependent"]), joining)
    anchor = Anchor(psi._replace(coef=np.zeros(size - 1)), 0.0, np.zeros((0, columns)), sums=kept)
    cells = given.partitions
    if cells is not None:
        names = "live", "edges", "groups", "pairs"
        found = {name: np.asarray(getattr(cells, name), dtype=np.float64) for name in names}
        cells = _counted(ask, basis, found, size, settings, bool(seen["dependent"]))
    return Track(tau, anchor, anchor, np.zeros(0), 0, partitions=cells)


def start_pooled(ask: Ask, columns: int, settings: StepSettings, tau: int) -> Track:
    """Begin to trace an original of which each place holds some rows, (n, columns)."""
    size = parameters_of(str(settings.model), columns)
    moments = ask(Question("moments", size, None, {}, settings.lag))
    rows, mean = moments.rows, moments["mean"]
    spread = np.sqrt(moments["square"] / rows)
    spread = np.where(spread == 1.0, np.nextafter(1.0, 2.0), spread)
    standardizer = plain_standardizer(mean, np.where(spread <= 1e-12 * np.abs(mean), 1.0, spread))
    basis = Basis(standardizer, _raw_features(columns, str(settings.model)))
    candidates = distinct(moments["heap"])
    scales = ask(Question("scales", size, basis, {"heaps": candidates}, settings.lag))
    basis = basis._replace(features=_scaled(basis.features, rows, scales["total"], scales["square"]))
    gram = ask(Question("sums", size, basis, {}, settings.lag))["gram"]
    psi = LogLinear(standardizer, basis.features, np.zeros(basis.features.size))
    window, dependent = WindowSums(float(rows), gram[-1].copy(), gram), bool(scales["dependent"])
    heap, off = _heap(candidates, scales["same"], rows)
    center, width = _place(scales["cells"], *_exact(basis.features, window))
    place = heap, off, center, width
    sums = bare_sums(window, np.zeros(size), _ZERO, 0.0, place, dependent)
    anchor = Anchor(psi, 0.0, np.zeros((0, columns)), sums=sums)
    partitions = _partitions(ask, basis, scales["cells"], gram, settings, dependent) if rows >= _LEAST else None
    return Track(tau, anchor, anchor, np.zeros(0), 0, partitions=partitions)


def step_pooled(
    track: Track, ask: Ask, settings: StepSettings, t: int, further: Sequence[Doubt] = (), places: Sequence[str] = ()
) -> tuple[Track, OriginalInfo]:
    """Advance to a window of which each place holds some rows.

    Arguments:
        further: doubts of the step that are known beforehand.
        places: names of the places, in the order in which answers are joined.
    """
    size, anchor, psi = pooled_size(track.anchor, settings), track.anchor, track.anchor.psi
    assert isinstance(psi, LogLinear)
    assert anchor.sums is not None
    basis = Basis(psi.standardizer, psi.features)
    seen = ask(Question("window", size, basis, {"heap": anchor.sums.heap}, settings.lag))
    den = WindowSums(float(seen.rows), seen["gram"][-1].copy(), seen["gram"])
    place = _place(seen["cells"], *_exact(psi.features, den))
    shift, rate = psi.standardizer.shift, psi.standardizer.rate
    center, spread = place[0] * rate + shift, place[1] * rate
    anchor, den = _followed(ask, anchor, den, place, seen, settings)
    psi, sums = anchor.psi, anchor.sums
    assert isinstance(psi, LogLinear)
    assert sums is not None
    basis = Basis(psi.standardizer, psi.features)
    rows, both = sums.moments.rows + den.rows, sums.off + seen["off"]
    off = np.where(np.isfinite(sums.heap) & (both < 0.5 * rows), both, rows)
    ridge, _ = plain_prior(psi.features, off, rows)
    two = two_valued(sums, psi.features)
    ridge[two] = np.where(ridge[two] > 1.0, 2.0 * ridge[two], ridge[two])
    learned = slice(size - 1 - seen["top"].shape[1], size - 1)
    ridge[learned] = np.maximum(1.0, np.square(_top(psi.features, learned, seen["top"]) / EFFECT))

    known: dict[tuple[bytes, float], Part] = {}

    def slope(coef: Floats, c: float) -> Part:
        if c == _ZERO and not coef.any():
            return _at_zero(den)
        if (coef.tobytes(), c) in known:
            return known[coef.tobytes(), c]
        given = {"coef": coef, "c": np.array(c)}
        found = ask(Question("slope", size, basis, given, settings.lag))
        sums_there = float(found["loss"]), found["pull"], found["gram"], float(found["beyond"])
        known[coef.tobytes(), c] = Part(float(found.rows), *sums_there)
        return known[coef.tobytes(), c]

    fit = fit_sums(sums.moments, slope, den.rows, settings.ridge * ridge)
    taken = Taken(track, anchor, fit, slope(fit.coef, fit.c), den, settings, size)
    candidates = distinct(seen["heap"])
    events = few_of(off[psi.features.linear], rows)
    now, info, scores = arrived(
        ask, taken, t, bool(seen["dependent"]), seen["changed"], candidates, events, further, places
    )
    heap, off_heap = _heap(candidates, scores["same"], int(den.rows))
    current = now.current
    assert current.sums is not None
    current = current._replace(sums=current.sums._replace(heap=heap, off=off_heap, center=center, spread=spread))
    return now._replace(anchor=track.anchor if now.held else current, current=current), info


def _top(features: Features, learned: slice, found: Floats) -> Floats:
    """Return the largest magnitude of each feature of clusters, by its largest and smallest value, (l,)."""
    center, (most, least) = features.center[learned], found
    return np.asarray(np.maximum(most - center, least + center) / features.scale[learned])


def _at_zero(den: WindowSums) -> Part:
    """Return the sums of a denominator at coefficients of zero, which need no further question."""
    c, m = _ZERO, den.rows
    return Part(m, m * (c + 1.0) / (2.0 * c), 0.5 * m * den.mean, (c - 1.0) / (2.0 * c) * m * den.gram, 0.0)


def _raw_features(columns: int, model: str) -> Features:
    """Return the features of a model, neither centred nor scaled."""
    pairs = np.stack(np.triu_indices(columns, 1), 1) if model == "quadratic-full" else None
    found = fit_features(np.zeros((1, columns)), squares=model != "linear", pairs=pairs)
    return found._replace(center=np.zeros(found.size), scale=np.ones(found.size))


def _scaled(features: Features, rows: float, total: Floats, square: Floats) -> Features:
    """Return features centred and scaled by their sums."""
    center = total / rows
    spread = np.sqrt(np.maximum(square / rows - center * center, 0.0))
    return features._replace(center=center, scale=np.where(spread <= 1e-7 * (1.0 + np.abs(center)), 1.0, spread))


def _heap(candidates: Floats, same: Floats, rows: int) -> tuple[Floats, Floats]:
    """Return the value that more than half of all rows hold, nan if there is none, and the rows that do not; (D,)."""
    best = same.argmax(0)[None]
    most = np.take_along_axis(same, best, 0)[0]
    heap = np.where(most > 0.5 * rows, np.take_along_axis(candidates, best, 0)[0], np.nan)
    return heap, np.where(np.isfinite(heap), rows - most, float(rows))


def _exact(features: Features, window: WindowSums) -> tuple[Floats, Floats]:
    """Return means and standard deviations of columns in the present frame, all rows included; (D,) each."""
    at = np.arange(len(features.linear))
    center, spread = np.zeros(features.columns), np.zeros(features.columns)
    variance = np.maximum(window.gram[at, at] - np.square(window.mean[at]), 0.0)
    center[features.linear] = features.center[at] + features.scale[at] * window.mean[at]
    spread[features.linear] = features.scale[at] * np.sqrt(variance)
    return center, spread


def _place(cells: Floats, center: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Return centre and spread of columns by their counts in the grid, (D,) each; exact ones where nothing is far out.

    What lies beyond the outermost quantiles is brought back to them, unless it is a rare second value.
    """
    low, high = _ends(cells)
    share = cells / cells.sum(1, keepdims=True)
    values = np.clip(_MIDDLES, low[:, None], high[:, None])
    middle = (share * values).sum(1)
    width = np.sqrt((share * np.square(values - middle[:, None])).sum(1))
    fine = spread <= 1.5 * width + 0.25
    return np.where(fine, center, middle), np.where(fine, spread, width)


def _ends(cells: Floats) -> tuple[Floats, Floats]:
    """Return the outermost quantiles of columns by their counts in the grid, infinite for rare second values."""
    share = np.cumsum(cells, 1) / cells.sum(1, keepdims=True)
    low, high = _MIDDLES[(share > TAIL).argmax(1)], _MIDDLES[(share >= 1.0 - TAIL).argmax(1)]
    rare = cells.max(1) > (1.0 - RARE) * cells.sum(1)
    return np.where(rare, -np.inf, low), np.where(rare, np.inf, high)


def _followed(
    ask: Ask, anchor: Anchor, den: WindowSums, place: tuple[Floats, Floats], seen: Answer, settings: StepSettings
) -> tuple[Anchor, WindowSums]:
    """Move the frame if the windows have left it, as ``follow_sums`` does; also return the new window's sums in it."""
    psi, sums = anchor.psi, anchor.sums
    assert isinstance(psi, LogLinear)
    assert sums is not None
    before = (sums.center - psi.standardizer.shift) / psi.standardizer.rate, sums.spread / psi.standardizer.rate
    center = 0.5 * (before[0] + place[0])
    gap = before[0] - place[0]
    spread = np.sqrt(0.5 * (np.square(before[1]) + np.square(place[1])) + 0.25 * gap * gap)
    found = frame_of(psi.features.linear, center, spread)
    if found is None:
        return anchor, den
    shift, rate = found
    features = psi.features
    moved = features._replace(weight=features.weight * rate[:, None], bias=features.bias + shift @ features.weight)
    moved = moved._replace(others=tuple(other.framed(shift, rate) for other in features.others))
    low, high = ((end - shift) / rate for end in _ends(seen["cells"]))
    basis = Basis(psi.standardizer.moved(shift, rate), moved)
    size = features.size + 1
    sums_in = ask(Question("place", size, basis, {"low": low, "high": high}, settings.lag))
    into = _scaled(moved, sums_in.rows, sums_in["total"], sums_in["square"])
    here = np.where(into.scale == 1.0, 0.0, 1.0)
    into = _between(into, features, sums, here, shift, rate)
    back = into.express(np.eye(size), features, -shift / rate, 1.0 / rate)
    gram = back.T @ den.gram @ back
    gram = 0.5 * (gram + gram.T)
    return moved_anchor(anchor, psi, shift, rate, into), WindowSums(den.rows, den.mean @ back, gram)


def _between(into: Features, features: Features, sums: Sums, here: Floats, shift: Floats, rate: Floats) -> Features:
    """Return features centred and scaled between those of the new window and the sums of the other one."""
    back = into.express(np.eye(features.size + 1), features, -shift / rate, 1.0 / rate)
    mean = (sums.moments.mean @ back)[:-1]
    there = (back.T @ sums.moments.gram @ back).diagonal()[:-1] - mean * mean
    most = np.where(here > 0.0, STRAY, np.inf)
    mean, there = np.clip(mean, -most, most), np.clip(there, 0.0, most * most)
    spread = 0.5 * (here + there) + 0.25 * mean * mean
    scale = np.where(spread > 1e-14, np.sqrt(spread), 1.0)
    return into._replace(center=into.center + 0.5 * into.scale * mean, scale=into.scale * scale)


def _partitions(
    ask: Ask, basis: Basis, cells: Floats, gram: Floats, settings: StepSettings, dependent: bool
) -> Partitions | None:
    """Fix partitions, and count the original on them.

    Edges are those of a fixed grid nearest to quantiles of all rows. No half of them is held out, which would differ by
    the places that rows lie in: among so few possible edges, counts say nearly as much as on edges fixed beforehand.
    """
    share = np.cumsum(cells, 1)[:, :-1] / cells.sum(1, keepdims=True)
    columns = len(share)
    found = [np.unique([int(np.abs(row - at).argmin()) for at in _SHARES]) for row in share]
    found = [at[(share[j, at] > 0.0) & (share[j, at] < 1.0)] for j, at in enumerate(found)]
    live = np.array([j for j in range(columns) if len(found[j])], dtype=np.int64)
    if not len(live):
        return None
    edges, groups = np.full((len(live), _WIDTH), np.inf), np.full((len(live), 3), _WIDTH - 1, dtype=np.int64)
    for row, group, j in zip(edges, groups, live, strict=True):
        row[: len(found[j])] = basis.standardizer.mean[j] + basis.standardizer.scale[j] * GRID[found[j]]
        below = share[j, found[j]]
        nearest = sorted({int(np.abs(below - part).argmin()) for part in (0.25, 0.5, 0.75)})
        group[: len(nearest)] = nearest
    pairs = _pairs(gram, live)
    given = {"live": live, "edges": edges, "groups": groups, "pairs": pairs}
    given = {name: np.asarray(value, dtype=np.float64) for name, value in given.items()}
    return _counted(ask, basis, given, basis.features.size + 1, settings, dependent)


def _counted(
    ask: Ask, basis: Basis, given: dict[str, Floats], size: int, settings: StepSettings, dependent: bool
) -> Partitions:
    """Return partitions with these cells and the counts of an original in them."""
    counts = ask(Question("counts", size, basis, given, settings.lag))
    bare = bare_partitions(given, basis.standardizer)
    seen = tally(bare, counts["counts"])
    merged = Tally(*(merged_cells(part, part) for part in seen))
    rows = 0.0 if dependent else float(counts.rows)
    return bare._replace(merged=merged, original=seen, current=seen, rows=np.array([rows, 0.0]))


def _pairs(gram: Floats, live: Integers) -> Integers:
    """Choose pairs of columns, (k, 2) places among the live ones: those that depend on each other most."""
    one, other = np.triu_indices(len(live), 1)
    spread = gram[:-1, :-1] - np.outer(gram[-1, :-1], gram[-1, :-1])
    size = np.sqrt(np.maximum(spread.diagonal(), 1e-12))
    strong = np.abs(spread / np.outer(size, size))[live[one], live[other]]
    kept = np.sort(np.argsort(-strong, kind="stable")[:_PAIRS])
    return np.stack([one[kept], other[kept]], 1)
