"""Restoring a State from bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from driftline._inputs import Floats
from driftline.files import Array, StateFileError, unpack
from driftline.fitting import (
    Ellipsoids,
    Features,
    Integers,
    Learned,
    Lessers,
    LogLinear,
    Map,
    Mixture,
    ModuleFactory,
    Monomials,
    NormalScores,
    Standardizer,
    Summaries,
    Tangents,
    Trees,
    WindowSums,
    tau_inputs,
)
from driftline.inference import Doubt, DoubtCode, Estimate, Forward, Gain, Parts, Quiet, Uncertainty, Wide
from driftline.recursion._auditor import Auditor
from driftline.recursion._candidates import Candidates
from driftline.recursion._checks import check_arrays
from driftline.recursion._contrast import Contrast
from driftline.recursion._evidence import Evidence
from driftline.recursion._kept import NUMBERS, Readings, Sums, reading_keys
from driftline.recursion._layout import BY_FEATURE, FORMAT, PLACES, SCATTERED, SYMMETRIC, VECTORS, VERSION, WIDE, slots
from driftline.recursion._partitions import Partitions, Tally
from driftline.recursion._state import Anchor, State, Track

__all__ = ["learned_of", "parse"]

_DENSITIES: dict[str, type[Any]] = {kind.__name__: kind for kind in (Mixture, Ellipsoids)}
_PLAIN: dict[str, type[Any]] = {kind.__name__: kind for kind in (Trees, Monomials, Lessers)}


class FactoryError(ValueError):
    """A custom network was not given, or does not fit the saved weights: the file itself is whole."""


def parse(data: bytes, what: str, factory: ModuleFactory | None = None) -> tuple[State, dict[str, Any]]:
    """Return a state and the header it was dumped with.

    Arguments:
        data: bytes from :func:`dump`.
        what: name of the data in errors, such as the path of a file.
        factory: factory of a custom network, which is not in the data.
    """
    arrays, meta = unpack(data, FORMAT, VERSION, what)
    try:
        check_arrays(arrays, meta.get("layout"))
        state = _restore(arrays, meta, factory)
        _try_out(state)
    except FactoryError:
        raise
    except (ValueError, LookupError, ArithmeticError, RuntimeError, TypeError, AttributeError) as error:
        raise StateFileError(f"{what}: damaged, its parts do not fit together ({error})") from error
    return state, meta


def learned_of(arrays: Mapping[str, Array], kinds: Sequence[str]) -> tuple[NormalScores | None, tuple[Learned, ...]]:
    """Return shapes of columns and features of clusters from arrays that have been checked."""
    scores = _read(NormalScores, "scores", arrays) if "scores.columns" in arrays else None
    return scores, tuple(_read_learned(kind, f"learned.{i}", arrays) for i, kind in enumerate(kinds))


def _try_out(state: State) -> None:
    """Ask models for one row: an error of what the shapes do not show comes now, and not in the middle of a run."""
    with np.errstate(all="ignore"):
        for track in state.tracks.values():
            for anchor in (track.current, track.anchor):
                if isinstance(anchor.psi, LogLinear):
                    anchor.psi(anchor.window[:1])


def _restore(arrays: Mapping[str, Array], meta: Mapping[str, Any], factory: ModuleFactory | None) -> State:
    layout = meta["layout"]
    modules: dict[int, Any] = {}

    def module(entry: Mapping[str, Any], columns: int) -> Any:
        index, heads = entry["module"], entry["heads"]
        if index not in modules:
            from torch import from_numpy

            inputs = columns + tau_inputs(heads, entry.get("form", {}).get("one_hot", False))
            built = _rebuild(layout["modules"][index], inputs, heads, factory)
            prefix = f"module.{index}."
            weights = {k[len(prefix) :]: from_numpy(v.copy()) for k, v in arrays.items() if k.startswith(prefix)}
            try:
                built.load_state_dict(weights)
            except RuntimeError as error:
                raise FactoryError(f"the model factory does not fit the saved weights: {error}") from None
            modules[index] = built.eval()
        return modules[index]

    tracks = {}
    for name, entry in sorted(layout["tracks"].items(), key=lambda item: item[1]["tau"]):
        key = f"track.{entry['tau']}"
        current = _restore_anchor(arrays, f"{key}.current", entry["current"], module)
        anchor = current if entry["same"] else _restore_anchor(arrays, f"{key}.anchor", entry["anchor"], module)
        held = int(arrays[f"{key}.held"])
        gain = Gain(*arrays[f"{key}.gain"].tolist())
        partitions = _read_partitions(f"{key}.partitions", arrays) if entry["partitions"] else None
        step = arrays[f"{key}.step_log_ratio"]
        weak, missed, large = arrays[f"{key}.weak"].tolist()
        doubts, *further = _read_doubts(arrays[f"{key}.doubts"], of_readings=entry["readings"])
        moved, hidden, fresh = arrays[f"{key}.moved"].tolist()
        readings = _read_readings(f"{key}.readings", arrays, further) if entry["readings"] else None
        track = Track(entry["tau"], anchor, current, step, held, gain, partitions, weak, missed, doubts)
        track = track._replace(moved=int(moved), hidden=hidden, fresh=bool(fresh))
        tracks[name] = track._replace(readings=readings, large=large)
    return State(tracks, int(arrays["t"]))


def _restore_anchor(
    arrays: Mapping[str, Array], key: str, entry: Mapping[str, Any], module: Callable[[Mapping[str, Any], int], Any]
) -> Anchor:
    window: Floats = arrays[f"{key}.window"]
    scores = _read(NormalScores, f"{key}.scores", arrays) if entry["scores"] else None
    mean, scale, shift, rate = (arrays[f"{key}.{part}"] for part in PLACES)
    standardizer = Standardizer(mean, scale, shift, rate, scores)
    normalizer, lag = float(arrays[f"{key}.log_normalizer"]), int(arrays[f"{key}.lag"])
    forward = Forward(*arrays[f"{key}.forward"].tolist())
    if entry["kind"] == "network":
        from driftline.fitting import Network

        # files of networks without a form have that of the defaults
        form = entry.get("form", {})
        psi = Network(standardizer, module(entry, window.shape[1]), entry["tau"], entry["heads"], **form)
        uncertainty = None
        if entry["uncertainty"]:
            whole: dict[str, Any] = {part: arrays[f"{key}.uncertainty.{part}"] for part in Uncertainty._fields}
            uncertainty = _uncertain(whole)
        return Anchor(psi, normalizer, window, uncertainty, lag=lag, forward=forward)
    features, coef, at = _restore_features(arrays, key, entry)
    size, summaries, uncertainty, evidence = sum(entry["room"]), None, None, None
    if entry["summaries"]:
        density = _DENSITIES[entry["density"]]
        summaries = _read(Summaries, f"{key}.summary", arrays, start=density, now=density)
        summaries = summaries._replace(rows=float(summaries.rows))
    if entry["uncertainty"]:
        uncertainty = _restore_uncertainty(arrays, np.append(at, size), size + 1, key)
    if entry["evidence"]:
        evidence = Evidence(*_read(Evidence, f"{key}.evidence", arrays))
        evidence = evidence._replace(row_variance=float(evidence.row_variance), shared=bool(evidence.shared))
    model = LogLinear(standardizer, features, coef, summaries)
    found = Anchor(model, normalizer, window, uncertainty, evidence, lag, forward, arrays.get(f"{key}.crossed"))
    wide, last = (_read_wide(f"{key}.{part}", at, arrays) if entry[part] else None for part in ("wide", "wide_step"))
    auditor = _read_auditor(f"{key}.auditor", arrays) if entry["auditor"] else None
    sums = _read_sums(f"{key}.sums", arrays) if entry["sums"] else None
    return found._replace(wide=wide, wide_step=last, auditor=auditor, sums=sums)


def _restore_features(
    arrays: Mapping[str, Array], key: str, entry: Mapping[str, Any]
) -> tuple[Features, Floats, Integers]:
    """Return features, their coefficients and their slots."""
    linear, squares, pairs, units = (int(v) for v in arrays[f"{key}.used"])
    learned = (_read_learned(kind, f"{key}.learned.{i}", arrays) for i, kind in enumerate(entry["learned"]))
    bare = Features(
        arrays[f"{key}.linear"][:linear],
        arrays[f"{key}.squares"][:squares],
        arrays[f"{key}.pairs"][:pairs],
        np.ascontiguousarray(arrays[f"{key}.weight"][:units].T),
        arrays[f"{key}.bias"][:units],
        np.zeros(0),
        np.zeros(0),
        entry["curved"],
        tuple(learned),
    )
    at = slots(bare, tuple(entry["room"]))
    center, scale, coef = (arrays[f"{key}.{part}"][at] for part in ("center", "unit", "coef"))
    return bare._replace(center=center, scale=scale), coef, at


def _rebuild(kind: Mapping[str, Any], n_inputs: int, n_outputs: int, factory: ModuleFactory | None) -> Any:
    """Build an empty network of the kind that was saved, which need not be the one the parameters name now."""
    if "hidden" in kind:
        from torch import Generator

        from driftline.fitting import MLP

        return MLP(n_inputs, n_outputs, kind["hidden"], Generator())
    if factory is None:
        raise FactoryError(f"saved with a custom model ({kind['custom']}): pass its factory, load(path, model=...)")
    from torch import device

    from driftline.fitting import seeded

    with seeded(0, device("cpu")):  # a new network draws random weights before it gets the saved ones
        return factory(n_inputs, n_outputs)


def _restore_uncertainty(arrays: Mapping[str, Array], at: Integers, size: int, key: str) -> Uncertainty:
    kept = {part: arrays.get(f"{key}.uncertainty.{part}") for part in Uncertainty._fields}
    parts: dict[str, Any] = {part: np.zeros((0, 0)) if value is None else value for part, value in kept.items()}
    lower = np.tril_indices(size)
    for part in SYMMETRIC:
        if kept[part] is None:  # the check has shown that it is one of those that may be missing
            continue
        full = np.zeros((size, size))
        full[lower] = parts[part]
        full.T[lower] = parts[part]
        parts[part] = full[np.ix_(at, at)]
    parts["origin"] = parts["origin"][np.ix_(at, at)]
    for part in VECTORS:
        parts[part] = parts[part][at]
    for part in BY_FEATURE:
        parts[part] = parts[part][at[:-1]]
    parts["known"] = parts["known"] > 0.0
    return _uncertain(parts)


def _uncertain(parts: dict[str, Any]) -> Uncertainty:
    return Uncertainty(**parts | {"slack": float(parts["slack"]), "quiet": Quiet(*parts["quiet"].tolist())})


def _read_learned(kind: str, key: str, arrays: Mapping[str, Array]) -> Learned:
    """Read features that were learned."""
    if kind not in _PLAIN and kind not in _DENSITIES:
        raise KeyError(f"learned features of an unknown kind, {kind!r}")
    inner = f"{key}.map"
    found: Map = (
        _read(_PLAIN[kind], inner, arrays)
        if kind in _PLAIN
        else _read(Tangents, inner, arrays, density=_DENSITIES[kind])
    )
    return Learned(found, arrays[f"{key}.shift"], arrays[f"{key}.rate"])


def _read_doubts(text: Array, *, of_readings: bool) -> list[tuple[Doubt, ...]]:
    """Read the doubts of a track and, if there are any readings, those of its weights and of each reading."""
    written, lists = json.loads(text.tobytes())
    known = [Doubt(DoubtCode(code), sentence, tuple(concerns)) for code, sentence, concerns in written]
    wanted = 2 + len(reading_keys()) if of_readings else 1
    if len(lists) != wanted:
        raise ValueError(f"it has {len(lists)} lists of doubts instead of {wanted}")
    return [tuple(known[i] for i in places) for places in lists]


def _read_sums(key: str, arrays: Mapping[str, Array]) -> Sums:
    """Read the sums that are kept instead of rows."""
    found = _read(Sums, key, arrays, moments=WindowSums, candidates=Candidates)
    moments = found.moments._replace(rows=float(found.moments.rows), gram=_whole(found.moments.gram))
    candidates = found.candidates._replace(rows=float(found.candidates.rows))
    numbers = {part: float(getattr(found, part)) for part in ("c", "kappa", "copies", "time")}
    scattered = {part: _whole(getattr(found, part)).astype(np.float32) for part in SCATTERED}
    parts = {**scattered, "moments": moments, "candidates": candidates, "dependent": bool(found.dependent)}
    return Sums(**found._asdict() | numbers | parts)


def _read_readings(key: str, arrays: Mapping[str, Array], doubts_of: list[tuple[Doubt, ...]]) -> Readings:
    """Read what was read while rows were at hand; its doubts are those of the weights and of each reading."""
    weights, *of = doubts_of
    numbers, estimates = arrays[f"{key}.estimates"].reshape(-1, len(NUMBERS)).tolist(), {}
    for part, values, doubts in zip(reading_keys(), numbers, of, strict=True):
        fields: dict[str, Any] = dict(zip(NUMBERS, values, strict=True))
        estimates[part] = Estimate(**fields | {"lower_bound": bool(fields["lower_bound"]), "doubts": doubts})
    parts = _read(Parts, f"{key}.parts", arrays)
    parts = parts._replace(linear=_whole(parts.linear), curved=_whole(parts.curved))
    log_mean, normalizer = float(arrays[f"{key}.log_mean"]), float(arrays[f"{key}.log_normalizer"])
    large, coef = bool(arrays[f"{key}.large"]), arrays[f"{key}.coef"]
    return Readings(estimates, log_mean, weights, parts, large, coef, normalizer)


def _read_auditor(key: str, arrays: Mapping[str, Array]) -> Auditor:
    """Read the auditor and what it has seen."""
    found = _read(Auditor, key, arrays)
    numbers = {"width": float(found.width), "rows": float(found.rows), "variance": _whole(found.variance)}
    counts = {"shared": bool(found.shared), **{part: int(getattr(found, part)) for part in ("steps", "since", "gaps")}}
    return Auditor(**found._asdict() | numbers | counts)


def _whole(half: Array) -> Array:
    """Return a symmetric matrix, given its lower half."""
    size = math.isqrt(2 * len(half))
    out = np.zeros((size, size))
    lower = np.tril_indices(size)
    out[lower] = half
    out.T[lower] = half
    return out


def _read_partitions(key: str, arrays: Mapping[str, Array]) -> Partitions:
    """Read the counts that a floor rests on."""
    tallies = dict.fromkeys(("merged", "original", "current"), Tally)
    found: Partitions = _read(Partitions, key, arrays, contrast=Contrast, **tallies)
    return found._replace(merged=Tally(*(cells.astype(np.int32) for cells in found.merged)))


def _read_wide(key: str, at: Integers, arrays: Mapping[str, Array]) -> Wide:
    """Read what is kept of steps where rows are few for the features."""
    found = _read(Wide, key, arrays)
    numbers = {part: float(value) for part, value in found._asdict().items() if part not in WIDE}
    return Wide(found.coef[at], found.origin[at], **numbers)


def _read(kind: type[Any], key: str, arrays: Mapping[str, Array], **nested: type[Any]) -> Any:
    """Read a named tuple of arrays; ``nested`` are the kinds of fields that are tuples themselves."""

    def field(part: str) -> Any:
        return _read(nested[part], f"{key}.{part}", arrays) if part in nested else arrays[f"{key}.{part}"]

    return kind(*(field(part) for part in kind._fields))
