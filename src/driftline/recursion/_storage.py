"""Storage of a State as bytes: its tensors and their layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from driftline.files import StateFileError, pack, unpack
from driftline.fitting import MLP, Features, LogLinear, ModuleFactory, Network, Standardizer, seeded
from driftline.inference import Forward, Uncertainty
from driftline.recursion._evidence import Evidence
from driftline.recursion._screening import capacity
from driftline.recursion._state import Anchor, State, Track

__all__ = ["FORMAT", "VERSION", "StateFileError", "StoredArray", "contents", "dump", "parse"]

VERSION = 3
FORMAT = "driftline-state"
_ANCHOR = "reference"  # the name of the anchor in version 3
_ROWS = "window"  # the only part that holds rows
_MEANINGS = {
    _ROWS: "rows, for the next step",
    "step_log_ratio": "log-ratio of the last step for each of these rows",
    "uncertainty.score": "influence of each of these rows on the last step",
    "uncertainty": "error bars of the coefficients, accumulated",
    "evidence": "sums that show which features the model still needs",
    "module": "weights of the network",
    "mean": "means of the encoded columns in the original",
    "scale": "standard deviations of the encoded columns in the original",
    "coef": "coefficients of the log-ratio",
    "center": "means of the features in the original",
    "unit": "scales of the features in the original",
    **dict.fromkeys(("pairs", "weight", "bias"), "features of the log-ratio"),
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
            parts = parts[3 if parts[2] in ("current", _ANCHOR) else 2 :]
        meaning = _MEANINGS.get(".".join(parts[:2])) or _MEANINGS.get(parts[0], "a number of the recursion")
        found.append(StoredArray(name, values, meaning, original, original is not None and parts == [_ROWS]))
    return tuple(found)


def dump(state: State, header: Mapping[str, Any], *, padded: bool = True) -> bytes:
    """Return a state and a header of your own as bytes: of the same size at any t if ``padded``, fewer otherwise."""
    tensors, layout = _flatten(state, padded)
    return pack(tensors, {"format": FORMAT, "version": VERSION, "layout": layout, **header})


def parse(data: bytes, what: str, factory: ModuleFactory | None = None) -> tuple[State, dict[str, Any]]:
    """Return a state and the header it was dumped with.

    Arguments:
        data: bytes from :func:`dump`.
        what: name of the data in errors, such as the path of a file.
        factory: factory of a custom network, which is not in the data.
    """
    tensors, meta = unpack(data, FORMAT, VERSION, what)
    try:
        return _restore(tensors, meta, factory), meta
    except (KeyError, IndexError, RuntimeError, TypeError, AttributeError) as error:
        raise StateFileError(f"{what}: damaged, its parts do not fit together ({error})") from error


def _flatten(state: State, padded: bool) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return tensors by key and their layout. Numbers that change with t are tensors: as text, their length varies."""
    tensors: dict[str, Tensor] = {"t": torch.tensor(state.t)}
    modules: list[nn.Module] = []
    tracks: dict[str, Any] = {}
    for name, track in state.tracks.items():
        key = f"track.{track.tau}"
        tensors[f"{key}.held"] = torch.tensor(track.held)
        tensors[f"{key}.step_log_ratio"] = track.step_log_ratio
        same = track.anchor is track.current
        entry: dict[str, Any] = {"tau": track.tau, "same": same}
        entry["current"] = _flatten_anchor(track.current, f"{key}.current", tensors, modules, padded)
        if not same:
            entry[_ANCHOR] = _flatten_anchor(track.anchor, f"{key}.{_ANCHOR}", tensors, modules, padded)
        tracks[name] = entry
    for i, module in enumerate(modules):
        for part, value in module.state_dict().items():
            tensors[f"module.{i}.{part}"] = value
    kinds = [{"hidden": list(m.widths)} if isinstance(m, MLP) else {"custom": type(m).__name__} for m in modules]
    return tensors, {"tracks": tracks, "modules": kinds}


def _flatten_anchor(
    anchor: Anchor, key: str, tensors: dict[str, Tensor], modules: list[nn.Module], padded: bool
) -> dict[str, Any]:
    tensors[f"{key}.log_normalizer"] = torch.tensor(anchor.log_normalizer, dtype=torch.float64)
    tensors[f"{key}.window"] = anchor.window
    tensors[f"{key}.lag"] = torch.tensor(anchor.lag)
    tensors[f"{key}.forward"] = torch.tensor(anchor.forward, dtype=torch.float64)
    psi = anchor.psi
    assert isinstance(psi, LogLinear | Network)
    tensors[f"{key}.mean"], tensors[f"{key}.scale"] = psi.standardizer
    entry: dict[str, Any] = {"uncertainty": anchor.uncertainty is not None, "evidence": anchor.evidence is not None}
    if isinstance(psi, Network):
        if not any(psi.module is m for m in modules):
            modules.append(psi.module)
        index = next(i for i, m in enumerate(modules) if m is psi.module)
        if anchor.uncertainty is not None:
            for part, value in anchor.uncertainty._asdict().items():
                tensors[f"{key}.uncertainty.{part}"] = value
        return entry | {"kind": "network", "module": index, "tau": psi.tau, "heads": psi.heads}
    spare = _spare(psi.features) if padded and anchor.evidence is not None else (0, 0)
    _flatten_log_linear(psi, spare, key, tensors)
    if anchor.uncertainty is not None:
        at = _padded_places(psi.features, spare)
        at = torch.cat([at, at.new_tensor([psi.features.size + sum(spare)])])
        for part, value in anchor.uncertainty._asdict().items():
            by_row = part in ("score", "slack")
            tensors[f"{key}.uncertainty.{part}"] = value if by_row else _scatter(value, at, len(at) + sum(spare))
    if anchor.evidence is not None:
        for part, value in anchor.evidence._asdict().items():
            tensors[f"{key}.evidence.{part}"] = value
    return entry | {"kind": "log-linear", "squares": psi.features.squares}


def _spare(features: Features) -> tuple[int, int]:
    """Count the unused slots of an adaptive model for pairs and units: zeros in the file, to keep its size constant."""
    pairs, units = capacity(features.columns)
    return max(0, pairs - features.pairs.shape[0]), max(0, units - features.bias.shape[0])


def _padded_places(features: Features, spare: tuple[int, int]) -> Tensor:
    fixed, units = features.size - features.bias.shape[0], features.bias.shape[0]
    return torch.cat([torch.arange(fixed), torch.arange(units) + fixed + spare[0]]).to(features.center.device)


def _scatter(value: Tensor, at: Tensor, size: int) -> Tensor:
    out = value.new_zeros((size,) * value.ndim)
    out[at if value.ndim == 1 else (at[:, None], at[None, :])] = value
    return out


def _flatten_log_linear(psi: LogLinear, spare: tuple[int, int], key: str, tensors: dict[str, Tensor]) -> None:
    features, at = psi.features, _padded_places(psi.features, spare)
    size = features.size + sum(spare)
    tensors[f"{key}.used"] = torch.tensor([features.pairs.shape[0], features.bias.shape[0]])
    tensors[f"{key}.pairs"] = torch.cat([features.pairs, features.pairs.new_zeros(spare[0], 2)])
    tensors[f"{key}.weight"] = torch.cat([features.weight, features.weight.new_zeros(features.columns, spare[1])], 1)
    tensors[f"{key}.bias"] = torch.cat([features.bias, features.bias.new_zeros(spare[1])])
    for part, value in (("center", features.center), ("unit", features.scale), ("coef", psi.coef)):
        tensors[f"{key}.{part}"] = _scatter(value, at, size)


def _rebuild(kind: Mapping[str, Any], n_inputs: int, n_outputs: int, factory: ModuleFactory | None) -> nn.Module:
    """Build an empty network of the kind that was saved, which need not be the one the parameters name now."""
    if "hidden" in kind:
        return MLP(n_inputs, n_outputs, kind["hidden"], torch.Generator())
    if factory is None:
        raise ValueError(f"saved with a custom model ({kind['custom']}): pass its factory, load(path, model=...)")
    with seeded(0, torch.device("cpu")):  # a new network draws random weights before it gets the saved ones
        return factory(n_inputs, n_outputs)


def _restore(tensors: Mapping[str, Tensor], meta: Mapping[str, Any], factory: ModuleFactory | None) -> State:
    layout = meta["layout"]
    modules: dict[int, nn.Module] = {}

    def module(entry: Mapping[str, Any], columns: int) -> nn.Module:
        index = entry["module"]
        if index not in modules:
            net = _rebuild(layout["modules"][index], columns + (entry["heads"] > 1), entry["heads"], factory)
            prefix = f"module.{index}."
            try:
                net.load_state_dict({k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)})
            except RuntimeError as error:
                raise ValueError(f"the model factory does not fit the saved weights: {error}") from None
            modules[index] = net.eval()
        return modules[index]

    tracks = {}
    for name, entry in sorted(layout["tracks"].items(), key=lambda item: item[1]["tau"]):
        key = f"track.{entry['tau']}"
        current = _restore_anchor(tensors, entry["current"], f"{key}.current", module)
        anchor = current
        if not entry["same"]:
            anchor = _restore_anchor(tensors, entry[_ANCHOR], f"{key}.{_ANCHOR}", module)
        held = int(tensors[f"{key}.held"])
        tracks[name] = Track(entry["tau"], anchor, current, tensors[f"{key}.step_log_ratio"], held)
    return State(tracks, int(tensors["t"]))


def _restore_anchor(
    tensors: Mapping[str, Tensor], entry: Mapping[str, Any], key: str, module: Callable[..., nn.Module]
) -> Anchor:
    window = tensors[f"{key}.window"]
    standardizer = Standardizer(tensors[f"{key}.mean"], tensors[f"{key}.scale"])
    normalizer, lag = float(tensors[f"{key}.log_normalizer"]), int(tensors[f"{key}.lag"])
    forward = Forward(*tensors[f"{key}.forward"].tolist())
    if entry["kind"] == "network":
        psi = Network(standardizer, module(entry, window.shape[1]), entry["tau"], entry["heads"])
        uncertainty = Uncertainty(**_parts(tensors, key)) if entry["uncertainty"] else None
        return Anchor(psi, normalizer, window, uncertainty, lag=lag, forward=forward)
    used = [int(v) for v in tensors[f"{key}.used"]]
    pairs, weight, bias = (tensors[f"{key}.{part}"] for part in ("pairs", "weight", "bias"))
    spare = pairs.shape[0] - used[0], bias.shape[0] - used[1]
    fixed = window.shape[1] * (1 + entry["squares"]) + used[0]
    at = torch.cat([torch.arange(fixed), torch.arange(used[1]) + fixed + spare[0]])
    center, scale, coef = (tensors[f"{key}.{part}"][at] for part in ("center", "unit", "coef"))
    features = Features(
        entry["squares"], pairs[: used[0]], weight[:, : used[1]].contiguous(), bias[: used[1]], center, scale
    )
    uncertainty = evidence = None
    if entry["uncertainty"]:
        square = torch.cat([at, torch.tensor([len(at) + sum(spare)])])
        parts = _parts(tensors, key)
        for part, value in parts.items():
            if part not in ("score", "slack"):
                at_all = (square[:, None], square[None, :]) if value.ndim == 2 else square
                parts[part] = value[at_all].contiguous()
        uncertainty = Uncertainty(**parts)
    if entry["evidence"]:
        evidence = Evidence(*(tensors[f"{key}.evidence.{part}"] for part in Evidence._fields))
    return Anchor(LogLinear(standardizer, features, coef), normalizer, window, uncertainty, evidence, lag, forward)


def _parts(tensors: Mapping[str, Tensor], key: str) -> dict[str, Tensor]:
    return {part: tensors[f"{key}.uncertainty.{part}"] for part in Uncertainty._fields}
