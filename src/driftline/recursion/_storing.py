"""Storing a State as bytes: everything in it as arrays of constant size."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from driftline.files import Array, pack
from driftline.fitting import Features, Integers, LogLinear, Map, Standardizer, Tangents
from driftline.inference import DIVERGENCES, Uncertainty
from driftline.recursion._kept import LEVELS, NUMBERS, Readings, reading_keys
from driftline.recursion._layout import (
    BY_FEATURE,
    FORMAT,
    PLACES,
    READ,
    SCATTERED,
    SYMMETRIC,
    VECTORS,
    VERSION,
    Room,
    counts,
    room_of,
    slots,
)
from driftline.recursion._state import Anchor, State, Track

__all__ = ["dump", "learned_arrays"]

_TEXT = 4096  # bytes, of which the text of doubts takes whole multiples


def dump(state: State, header: Mapping[str, Any], *, padded: bool = True) -> bytes:
    """Return a state and a header of your own as bytes: of the same size at any t if ``padded``, fewer otherwise.

    Padded means: with room for features that may still join. Ridge units join in blocks; only such a block makes the
    bytes more.
    """
    arrays, layout = _flatten(state, padded)
    return pack(arrays, {"format": FORMAT, "version": VERSION, "layout": layout, **header})


def learned_arrays(standardizer: Standardizer, features: Features) -> tuple[dict[str, Array], list[str]]:
    """Return what a model has learned from its original: shapes of columns, clusters, and the kinds of these."""
    arrays: dict[str, Array] = {}
    if standardizer.scores is not None:
        _write(standardizer.scores, "scores", arrays)
    for i, other in enumerate(features.others):
        _write(other, f"learned.{i}", arrays)
    return arrays, [_kind(other.map) for other in features.others]


def _flatten(state: State, padded: bool) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return arrays by key and their layout. Numbers that change with t are arrays: as text, their length varies."""
    arrays: dict[str, Array] = {"t": np.array(state.t)}
    modules: list[Any] = []
    tracks: dict[str, Any] = {}
    for name, track in state.tracks.items():
        key = f"track.{track.tau}"
        arrays[f"{key}.held"] = np.array(track.held)
        arrays[f"{key}.step_log_ratio"] = track.step_log_ratio
        arrays[f"{key}.gain"] = np.array(track.gain, dtype=np.float64)
        arrays[f"{key}.weak"] = np.array([track.weak, track.missed, track.large])
        arrays[f"{key}.moved"] = np.array([track.moved, track.hidden, track.fresh], dtype=np.float64)
        arrays[f"{key}.doubts"] = _flatten_doubts(track)
        if track.partitions is not None:
            _write(track.partitions, f"{key}.partitions", arrays)
            for part, cells in track.partitions.merged._asdict().items():  # few enough for a byte
                arrays[f"{key}.partitions.merged.{part}"] = cells.astype(np.int8)
        if track.readings is not None:
            _flatten_readings(track.readings, f"{key}.readings", arrays)
        same = track.anchor is track.current
        entry: dict[str, Any] = {"tau": track.tau, "same": same, "partitions": track.partitions is not None}
        entry["readings"] = track.readings is not None
        entry["current"] = _flatten_anchor(track.current, f"{key}.current", arrays, modules, padded)
        if not same:
            entry["anchor"] = _flatten_anchor(track.anchor, f"{key}.anchor", arrays, modules, padded)
        tracks[name] = entry
    for i, module in enumerate(modules):
        for part, value in module.state_dict().items():
            arrays[f"module.{i}.{part}"] = value.detach().cpu().numpy()
    kinds = [{"hidden": list(m.widths)} if hasattr(m, "widths") else {"custom": type(m).__name__} for m in modules]
    return arrays, {"tracks": tracks, "modules": kinds}


def _flatten_anchor(
    anchor: Anchor, key: str, arrays: dict[str, Array], modules: list[Any], padded: bool
) -> dict[str, Any]:
    arrays[f"{key}.log_normalizer"] = np.array(anchor.log_normalizer)
    arrays[f"{key}.window"] = anchor.window
    arrays[f"{key}.lag"] = np.array(anchor.lag)
    arrays[f"{key}.forward"] = np.array(anchor.forward, dtype=np.float64)
    if anchor.crossed is not None:
        arrays[f"{key}.crossed"] = anchor.crossed
    psi: Any = anchor.psi
    standardizer = psi.standardizer
    for part in PLACES:
        arrays[f"{key}.{part}"] = getattr(standardizer, part)
    entry: dict[str, Any] = {"uncertainty": anchor.uncertainty is not None, "evidence": anchor.evidence is not None}
    entry["scores"] = standardizer.scores is not None
    entry["sums"] = anchor.sums is not None
    if anchor.sums is not None:
        _write(anchor.sums, f"{key}.sums", arrays)
        arrays[f"{key}.sums.moments.gram"] = _half(anchor.sums.moments.gram)
        for part in SCATTERED:
            arrays[f"{key}.sums.{part}"] = _half(getattr(anchor.sums, part))
    if standardizer.scores is not None:
        _write(standardizer.scores, f"{key}.scores", arrays)
    if isinstance(psi, LogLinear):
        return entry | _flatten_log_linear(anchor, psi, key, arrays, padded)
    return entry | _flatten_network(anchor, psi, key, arrays, modules)


def _flatten_network(
    anchor: Anchor, psi: Any, key: str, arrays: dict[str, Array], modules: list[Any]
) -> dict[str, Any]:
    if not any(psi.module is m for m in modules):
        modules.append(psi.module)
    index = next(i for i, m in enumerate(modules) if m is psi.module)
    if anchor.uncertainty is not None:  # whole: a wider network knows the original's means in fewer features
        for part, value in anchor.uncertainty._asdict().items():
            arrays[f"{key}.uncertainty.{part}"] = np.asarray(value)
    form = {"raw": psi.raw, "clip": psi.clip, "one_hot": psi.one_hot}
    return {"kind": "network", "module": index, "tau": psi.tau, "heads": psi.heads, "form": form}


def _flatten_log_linear(
    anchor: Anchor, psi: LogLinear, key: str, arrays: dict[str, Array], padded: bool
) -> dict[str, Any]:
    room = room_of(psi.features, padded and anchor.evidence is not None)
    at, size = slots(psi.features, room), sum(room)
    _flatten_features(psi, room, key, arrays)
    if anchor.uncertainty is not None:
        _flatten_uncertainty(anchor.uncertainty, np.append(at, size), size + 1, key, arrays)
    if anchor.evidence is not None:
        _write(anchor.evidence, f"{key}.evidence", arrays)
    if anchor.auditor is not None:
        _write(anchor.auditor, f"{key}.auditor", arrays)
        variance = _half(anchor.auditor.variance)
        arrays[f"{key}.auditor.variance"] = variance if anchor.sums is None else variance.astype(np.float32)
    for name, wide in (("wide", anchor.wide), ("wide_step", anchor.wide_step)):
        if wide is not None:
            coef, origin = (_scatter(value, at, size) for value in (wide.coef, wide.origin))
            _write(wide._replace(coef=coef, origin=origin), f"{key}.{name}", arrays)
    if psi.summaries is not None:
        _write(psi.summaries, f"{key}.summary", arrays)
    for i, other in enumerate(psi.features.others):
        _write(other, f"{key}.learned.{i}", arrays)
    density = {} if psi.summaries is None else {"density": type(psi.summaries.start).__name__}
    return density | {
        "kind": "log-linear",
        "curved": psi.features.curved,
        "room": list(room),
        "auditor": anchor.auditor is not None,
        "wide": anchor.wide is not None,
        "wide_step": anchor.wide_step is not None,
        "summaries": psi.summaries is not None,
        "learned": [_kind(other.map) for other in psi.features.others],
    }


def _flatten_features(psi: LogLinear, room: Room, key: str, arrays: dict[str, Array]) -> None:
    features, at = psi.features, slots(psi.features, room)
    arrays[f"{key}.used"] = np.array(counts(features)[:-1])
    arrays[f"{key}.linear"] = _padded(features.linear, room[0], -1)
    arrays[f"{key}.squares"] = _padded(features.squares, room[1], -1)
    arrays[f"{key}.pairs"] = _padded(features.pairs, room[2])
    arrays[f"{key}.weight"] = _padded(features.weight.T, room[3])
    arrays[f"{key}.bias"] = _padded(features.bias, room[3])
    for part, value in (("center", features.center), ("unit", features.scale), ("coef", psi.coef)):
        arrays[f"{key}.{part}"] = _scatter(value, at, sum(room))


def _flatten_uncertainty(uncertainty: Uncertainty, at: Integers, size: int, key: str, arrays: dict[str, Array]) -> None:
    """Write the parts, each entry of a feature in its slot; of symmetric matrices one half."""
    lower = np.tril_indices(size)
    for part, value in uncertainty._asdict().items():
        if part in READ and not value.size:
            continue
        if part in SYMMETRIC:
            value = _scatter(value, at, size)[lower]
        elif part in (*VECTORS, "origin"):
            value = _scatter(value, at, size)
        elif part in BY_FEATURE:
            value = _scatter(value, at[:-1], size - 1)
        arrays[f"{key}.uncertainty.{part}"] = np.asarray(value)


def _flatten_readings(readings: Readings, key: str, arrays: dict[str, Array]) -> None:
    """Write estimates as numbers."""
    every = [readings.estimates[part] for part in reading_keys()]
    shape = (2, len(DIVERGENCES), len(LEVELS), len(NUMBERS))
    numbers = [[float(getattr(estimate, name)) for name in NUMBERS] for estimate in every]
    arrays[f"{key}.estimates"] = np.array(numbers).reshape(shape)
    arrays[f"{key}.log_mean"], arrays[f"{key}.large"] = np.array(readings.log_mean), np.array(readings.large)
    arrays[f"{key}.coef"], arrays[f"{key}.log_normalizer"] = readings.coef, np.array(readings.log_normalizer)
    _write(readings.parts, f"{key}.parts", arrays)
    for part in ("linear", "curved"):
        arrays[f"{key}.parts.{part}"] = _half(getattr(readings.parts, part))


def _flatten_doubts(track: Track) -> Array:
    """Return all doubts as bytes of JSON: of the same size whatever they say, unless they say very much.

    Each is written once, followed by the places of those of the track, of its weights and of all that was read.
    """
    lists, readings = [track.doubts], track.readings
    if readings is not None:
        lists += [readings.doubts, *(readings.estimates[part].doubts for part in reading_keys())]
    known = list(dict.fromkeys(doubt for doubts in lists for doubt in doubts))
    written = [[doubt.code, doubt.sentence, doubt.concerns] for doubt in known]
    text = json.dumps([written, [[known.index(doubt) for doubt in doubts] for doubts in lists]]).encode()
    return np.frombuffer(text.ljust(math.ceil(len(text) / _TEXT) * _TEXT), dtype=np.int8)


def _kind(learned: Map) -> str:
    """Name what features were learned from."""
    return type(learned.density).__name__ if isinstance(learned, Tangents) else type(learned).__name__


def _write(value: Any, key: str, arrays: dict[str, Array]) -> None:
    """Write the fields of a named tuple of arrays, numbers and such tuples."""
    for part, field in value._asdict().items():
        if hasattr(field, "_asdict"):
            _write(field, f"{key}.{part}", arrays)
        else:
            arrays[f"{key}.{part}"] = np.asarray(field)


def _half(matrix: Array) -> Array:
    """Return the lower half of a symmetric matrix."""
    return np.asarray(matrix[np.tril_indices(len(matrix))])


def _scatter(value: Array, at: Integers, size: int) -> Array:
    out = np.zeros((size,) * value.ndim)
    out[at if value.ndim == 1 else np.ix_(at, at)] = value
    return out


def _padded(value: Array, size: int, fill: float = 0) -> Array:
    """Return an array with its first axis padded to this size."""
    out = np.full((size, *value.shape[1:]), fill, dtype=value.dtype)
    out[: len(value)] = value
    return out
