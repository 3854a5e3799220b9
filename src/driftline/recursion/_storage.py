"""Storage of a State as bytes: its arrays and their layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from driftline._inputs import Floats
from driftline.files import Array, StateFileError, pack, unpack
from driftline.fitting import (
    Ellipsoids,
    Features,
    Integers,
    Learned,
    LogLinear,
    Map,
    Mixture,
    ModuleFactory,
    NormalScores,
    Standardizer,
    Summaries,
    Tangents,
    Trees,
)
from driftline.inference import Forward, Gain, Uncertainty, Wide
from driftline.recursion._auditor import Auditor
from driftline.recursion._contrast import Contrast
from driftline.recursion._evidence import Evidence
from driftline.recursion._partitions import Partitions, Tally
from driftline.recursion._screening import capacity
from driftline.recursion._state import Anchor, State, Track

__all__ = ["FORMAT", "VERSION", "StateFileError", "StoredArray", "contents", "dump", "parse"]

VERSION = 9
FORMAT = "driftline-state"
_SYMMETRIC = ("covariance", "inverse_hessian", "meat", "meat_num", "first", "origin_spread")
_VECTORS = ("bias", "step_bias")
_PLACES = ("mean", "scale", "shift", "rate")
_WIDE = ("coef", "origin")
_BY_FEATURE = ("mean", "known")  # without an entry for the constant
_ROWS = "window"  # the only part that holds rows
_MEANINGS = {
    _ROWS: "rows, for the next step",
    "step_log_ratio": "log-ratio of the last step for each of these rows",
    "uncertainty.score": "influence of each of these rows on the last step",
    "wide": "sums of steps where rows are few for the features, and the original's means of these",
    "wide_step": "the same of the last step",
    "crossed": "a learned feature of each of these rows",
    "uncertainty": "error bars of the coefficients, accumulated",
    "auditor": "random functions on which the model must leave nothing, and sums that show what it does leave",
    "evidence": "sums that show which features the model still needs, and the original's means of these",
    "scores": "shapes of columns in the original: curves through averages of many rows",
    "summary": "summary densities of the original and of the window: clusters of many rows each",
    "learned": "features of the log-ratio that were learned from the original: clusters of many rows each",
    "partitions": "counts of rows in cells that were fixed at the first step, of the original and of the window",
    "gain": "what held-out rows of the last step say for a drift",
    "module": "weights of the network",
    "mean": "means of the encoded columns in the original",
    "scale": "standard deviations of the encoded columns in the original",
    "shift": "place of the latest windows, in units of the original",
    "rate": "spread of the latest windows, in units of the original",
    "coef": "coefficients of the log-ratio",
    "center": "centres of the features",
    "unit": "scales of the features",
    **dict.fromkeys(("linear", "squares", "pairs", "weight", "bias"), "features of the log-ratio"),
}


class StoredArray(NamedTuple):
    """An array in the bytes of a state.

    Attributes:
        name: name in the bytes.
        values: the array.
        what: meaning, in words.
        original: original that it belongs to; None if it belongs to all.
        holds_rows: whether it holds rows of a window; all others hold numbers made of rows.
    """

    name: str
    values: Any
    what: str
    original: str | None
    holds_rows: bool


def contents(data: bytes, what: str) -> tuple[StoredArray, ...]:
    """Return everything in the bytes of a state, in the order of names; ``what`` names the data in errors."""
    arrays, meta = unpack(data, FORMAT, VERSION, what)
    originals = {str(entry["tau"]): name for name, entry in meta["layout"]["tracks"].items()}
    found = []
    for name, values in sorted(arrays.items()):
        parts, original = name.split("."), None
        if parts[0] == "track":
            original = originals[parts[1]]
            parts = parts[3 if parts[2] in ("current", "anchor") else 2 :]
        meaning = _MEANINGS.get(".".join(parts[:2])) or _MEANINGS.get(parts[0], "a number of the recursion")
        found.append(StoredArray(name, values, meaning, original, original is not None and parts == [_ROWS]))
    return tuple(found)


def dump(state: State, header: Mapping[str, Any], *, padded: bool = True) -> bytes:
    """Return a state and a header of your own as bytes: of the same size at any t if ``padded``, fewer otherwise.

    Padded means: with room for features that may still join. Ridge units join in blocks; only such a block makes the
    bytes more.
    """
    arrays, layout = _flatten(state, padded)
    return pack(arrays, {"format": FORMAT, "version": VERSION, "layout": layout, **header})


def parse(data: bytes, what: str, factory: ModuleFactory | None = None) -> tuple[State, dict[str, Any]]:
    """Return a state and the header it was dumped with.

    Arguments:
        data: bytes from :func:`dump`.
        what: name of the data in errors, such as the path of a file.
        factory: factory of a custom network, which is not in the data.
    """
    arrays, meta = unpack(data, FORMAT, VERSION, what)
    try:
        return _restore(arrays, meta, factory), meta
    except (KeyError, IndexError, RuntimeError, TypeError, AttributeError) as error:
        raise StateFileError(f"{what}: damaged, its parts do not fit together ({error})") from error


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
        arrays[f"{key}.weak"] = np.array([track.weak, track.weak_now])
        if track.partitions is not None:
            _write(track.partitions, f"{key}.partitions", arrays)
        same = track.anchor is track.current
        entry: dict[str, Any] = {"tau": track.tau, "same": same, "partitions": track.partitions is not None}
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
    for part in _PLACES:
        arrays[f"{key}.{part}"] = getattr(standardizer, part)
    entry: dict[str, Any] = {"uncertainty": anchor.uncertainty is not None, "evidence": anchor.evidence is not None}
    entry["scores"] = standardizer.scores is not None
    if standardizer.scores is not None:
        _write(standardizer.scores, f"{key}.scores", arrays)
    if not isinstance(psi, LogLinear):
        if not any(psi.module is m for m in modules):
            modules.append(psi.module)
        index = next(i for i, m in enumerate(modules) if m is psi.module)
        if anchor.uncertainty is not None:  # whole: a wider network knows the original's means in fewer features
            for part, value in anchor.uncertainty._asdict().items():
                arrays[f"{key}.uncertainty.{part}"] = np.asarray(value)
        return entry | {"kind": "network", "module": index, "tau": psi.tau, "heads": psi.heads}
    room = _room(psi.features, padded and anchor.evidence is not None)
    _flatten_log_linear(psi, room, key, arrays)
    if anchor.uncertainty is not None:
        at = np.append(_slots(psi.features, room), sum(room))
        _flatten_uncertainty(anchor.uncertainty, at, sum(room) + 1, key, arrays)
    if anchor.evidence is not None:
        _write(anchor.evidence, f"{key}.evidence", arrays)
    entry["auditor"] = anchor.auditor is not None
    if anchor.auditor is not None:
        _write(anchor.auditor, f"{key}.auditor", arrays)
    for name, wide in (("wide", anchor.wide), ("wide_step", anchor.wide_step)):
        entry[name] = wide is not None
        if wide is not None:
            at = _slots(psi.features, room)
            coef, origin = (_scatter(value, at, sum(room)) for value in (wide.coef, wide.origin))
            _write(wide._replace(coef=coef, origin=origin), f"{key}.{name}", arrays)
    if psi.summaries is not None:
        _write(psi.summaries, f"{key}.summary", arrays)
        entry["density"] = type(psi.summaries.start).__name__
    for i, other in enumerate(psi.features.others):
        _write(other, f"{key}.learned.{i}", arrays)
    entry |= {"summaries": psi.summaries is not None, "learned": [_kind(o.map) for o in psi.features.others]}
    return entry | {"kind": "log-linear", "curved": psi.features.curved, "room": list(room)}


def _write(value: Any, key: str, arrays: dict[str, Array]) -> None:
    """Write the fields of a named tuple of arrays, numbers and such tuples."""
    for part, field in value._asdict().items():
        if hasattr(field, "_asdict"):
            _write(field, f"{key}.{part}", arrays)
        else:
            arrays[f"{key}.{part}"] = np.asarray(field)


def _read(kind: type[Any], key: str, arrays: Mapping[str, Array], **nested: type[Any]) -> Any:
    """Read a named tuple of arrays; ``nested`` are the kinds of fields that are tuples themselves."""

    def field(part: str) -> Any:
        return _read(nested[part], f"{key}.{part}", arrays) if part in nested else arrays[f"{key}.{part}"]

    return kind(*(field(part) for part in kind._fields))


_DENSITIES: dict[str, type[Any]] = {kind.__name__: kind for kind in (Mixture, Ellipsoids)}


def _kind(learned: Map) -> str:
    """Name what features were learned from."""
    return type(learned.density).__name__ if isinstance(learned, Tangents) else type(learned).__name__


def _read_learned(kind: str, key: str, arrays: Mapping[str, Array]) -> Learned:
    """Read features that were learned."""
    if kind != "Trees" and kind not in _DENSITIES:
        raise KeyError(f"learned features of an unknown kind, {kind!r}")
    inner = f"{key}.map"
    found: Map = (
        _read(Trees, inner, arrays) if kind == "Trees" else _read(Tangents, inner, arrays, density=_DENSITIES[kind])
    )
    return Learned(found, arrays[f"{key}.shift"], arrays[f"{key}.rate"])


Room = tuple[int, int, int, int, int]


def _counts(features: Features) -> Room:
    """Return the numbers of columns, squares, pairs, units and learned features."""
    learned = sum(other.size for other in features.others)
    return len(features.linear), len(features.squares), len(features.pairs), len(features.bias), learned


def _room(features: Features, padded: bool) -> Room:
    """Return the slots for columns, squares, pairs, units and learned features in the file; unused ones are zeros.

    Units are few, or join in blocks.
    """
    d, (_, _, pairs, units, learned) = features.columns, _counts(features)
    if not padded:
        return d, d * features.curved, pairs, units, learned
    most, tiers = capacity(d)
    pairs = max(min(most, d * (d - 1) // 2), pairs)
    return d, d * features.curved, pairs, next((t for t in tiers if t >= units), units), learned


def _slots(features: Features, room: Room) -> Integers:
    """Return the slot of each feature, (p,)."""
    starts = np.cumsum([0, *room[:-1]])
    counts = _counts(features)
    return np.concatenate([np.arange(start, start + count) for start, count in zip(starts, counts, strict=True)])


def _scatter(value: Array, at: Integers, size: int) -> Array:
    out = np.zeros((size,) * value.ndim)
    out[at if value.ndim == 1 else np.ix_(at, at)] = value
    return out


def _padded(value: Array, size: int, fill: float = 0) -> Array:
    """Return an array with its first axis padded to this size."""
    out = np.full((size, *value.shape[1:]), fill, dtype=value.dtype)
    out[: len(value)] = value
    return out


def _flatten_uncertainty(uncertainty: Uncertainty, at: Integers, size: int, key: str, arrays: dict[str, Array]) -> None:
    """Write the parts, each entry of a feature in its slot; of symmetric matrices one half."""
    lower = np.tril_indices(size)
    for part, value in uncertainty._asdict().items():
        if part in _SYMMETRIC:
            value = _scatter(value, at, size)[lower]
        elif part in (*_VECTORS, "origin"):
            value = _scatter(value, at, size)
        elif part in _BY_FEATURE:
            value = _scatter(value, at[:-1], size - 1)
        arrays[f"{key}.uncertainty.{part}"] = np.asarray(value)


def _restore_uncertainty(arrays: Mapping[str, Array], at: Integers, size: int, key: str) -> Uncertainty:
    parts: dict[str, Any] = {part: arrays[f"{key}.uncertainty.{part}"] for part in Uncertainty._fields}
    lower = np.tril_indices(size)
    for part in _SYMMETRIC:
        full = np.zeros((size, size))
        full[lower] = parts[part]
        full.T[lower] = parts[part]
        parts[part] = full[np.ix_(at, at)]
    parts["origin"] = parts["origin"][np.ix_(at, at)]
    for part in _VECTORS:
        parts[part] = parts[part][at]
    for part in _BY_FEATURE:
        parts[part] = parts[part][at[:-1]]
    parts["known"] = parts["known"] > 0.0
    return Uncertainty(**parts | {"slack": float(parts["slack"])})


def _flatten_log_linear(psi: LogLinear, room: Room, key: str, arrays: dict[str, Array]) -> None:
    features, at = psi.features, _slots(psi.features, room)
    arrays[f"{key}.used"] = np.array(_counts(features)[:-1])
    arrays[f"{key}.linear"] = _padded(features.linear, room[0], -1)
    arrays[f"{key}.squares"] = _padded(features.squares, room[1], -1)
    arrays[f"{key}.pairs"] = _padded(features.pairs, room[2])
    arrays[f"{key}.weight"] = _padded(features.weight.T, room[3])
    arrays[f"{key}.bias"] = _padded(features.bias, room[3])
    for part, value in (("center", features.center), ("unit", features.scale), ("coef", psi.coef)):
        arrays[f"{key}.{part}"] = _scatter(value, at, sum(room))


def _rebuild(kind: Mapping[str, Any], n_inputs: int, n_outputs: int, factory: ModuleFactory | None) -> Any:
    """Build an empty network of the kind that was saved, which need not be the one the parameters name now."""
    if "hidden" in kind:
        from torch import Generator

        from driftline.fitting import MLP

        return MLP(n_inputs, n_outputs, kind["hidden"], Generator())
    if factory is None:
        raise ValueError(f"saved with a custom model ({kind['custom']}): pass its factory, load(path, model=...)")
    from torch import device

    from driftline.fitting import seeded

    with seeded(0, device("cpu")):  # a new network draws random weights before it gets the saved ones
        return factory(n_inputs, n_outputs)


def _restore(arrays: Mapping[str, Array], meta: Mapping[str, Any], factory: ModuleFactory | None) -> State:
    layout = meta["layout"]
    modules: dict[int, Any] = {}

    def module(entry: Mapping[str, Any], columns: int) -> Any:
        index, heads = entry["module"], entry["heads"]
        if index not in modules:
            from torch import from_numpy

            built = _rebuild(layout["modules"][index], columns + (heads > 1), heads, factory)
            prefix = f"module.{index}."
            weights = {k[len(prefix) :]: from_numpy(v.copy()) for k, v in arrays.items() if k.startswith(prefix)}
            try:
                built.load_state_dict(weights)
            except RuntimeError as error:
                raise ValueError(f"the model factory does not fit the saved weights: {error}") from None
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
        weak, weak_now = arrays[f"{key}.weak"].tolist()
        tracks[name] = Track(entry["tau"], anchor, current, step, held, gain, partitions, weak, bool(weak_now))
    return State(tracks, int(arrays["t"]))


def _restore_anchor(
    arrays: Mapping[str, Array], key: str, entry: Mapping[str, Any], module: Callable[[Mapping[str, Any], int], Any]
) -> Anchor:
    window: Floats = arrays[f"{key}.window"]
    scores = _read(NormalScores, f"{key}.scores", arrays) if entry["scores"] else None
    mean, scale, shift, rate = (arrays[f"{key}.{part}"] for part in _PLACES)
    standardizer = Standardizer(mean, scale, shift, rate, scores)
    normalizer, lag = float(arrays[f"{key}.log_normalizer"]), int(arrays[f"{key}.lag"])
    forward = Forward(*arrays[f"{key}.forward"].tolist())
    if entry["kind"] == "network":
        from driftline.fitting import Network

        psi = Network(standardizer, module(entry, window.shape[1]), entry["tau"], entry["heads"])
        uncertainty = None
        if entry["uncertainty"]:
            whole: dict[str, Any] = {part: arrays[f"{key}.uncertainty.{part}"] for part in Uncertainty._fields}
            uncertainty = Uncertainty(**whole | {"slack": float(whole["slack"])})
        return Anchor(psi, normalizer, window, uncertainty, lag=lag, forward=forward)
    linear, squares, pairs, units = (int(v) for v in arrays[f"{key}.used"])
    room = tuple(entry["room"])
    summaries = None
    if entry["summaries"]:
        density = _DENSITIES[entry["density"]]
        summaries = _read(Summaries, f"{key}.summary", arrays, start=density, now=density)
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
    at = _slots(bare, room)
    center, scale, coef = (arrays[f"{key}.{part}"][at] for part in ("center", "unit", "coef"))
    uncertainty = evidence = None
    if entry["uncertainty"]:
        uncertainty = _restore_uncertainty(arrays, np.append(at, sum(room)), sum(room) + 1, key)
    if entry["evidence"]:
        evidence = Evidence(*_read(Evidence, f"{key}.evidence", arrays))
        evidence = evidence._replace(row_variance=float(evidence.row_variance), shared=bool(evidence.shared))
    model = LogLinear(standardizer, bare._replace(center=center, scale=scale), coef, summaries)
    found = Anchor(model, normalizer, window, uncertainty, evidence, lag, forward, arrays.get(f"{key}.crossed"))
    wide, last = (_read_wide(f"{key}.{part}", at, arrays) if entry[part] else None for part in ("wide", "wide_step"))
    auditor = _read_auditor(f"{key}.auditor", arrays) if entry["auditor"] else None
    return found._replace(wide=wide, wide_step=last, auditor=auditor)


def _read_auditor(key: str, arrays: Mapping[str, Array]) -> Auditor:
    """Read the auditor and what it has seen."""
    found = _read(Auditor, key, arrays)
    numbers = {"width": float(found.width), "rows": float(found.rows)}
    counts = {"shared": bool(found.shared), "steps": int(found.steps), "since": int(found.since)}
    return Auditor(**found._asdict() | numbers | counts)


def _read_partitions(key: str, arrays: Mapping[str, Array]) -> Partitions:
    """Read the counts that a floor rests on."""
    tallies = dict.fromkeys(("merged", "original", "current"), Tally)
    found: Partitions = _read(Partitions, key, arrays, contrast=Contrast, **tallies)
    return found


def _read_wide(key: str, at: Integers, arrays: Mapping[str, Array]) -> Wide:
    """Read what is kept of steps where rows are few for the features."""
    found = _read(Wide, key, arrays)
    numbers = {part: float(value) for part, value in found._asdict().items() if part not in _WIDE}
    return Wide(found.coef[at], found.origin[at], **numbers)
