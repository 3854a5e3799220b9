"""A state as bytes: all of it as arrays that do not grow with t, written and read by their types, without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from driftline import _codec
from driftline.files import Array, StateFileError, pack, unpack
from driftline.fitting import LogLinear, ModuleFactory, tau_inputs
from driftline.recursion._state import State

__all__ = ["FORMAT", "VERSION", "StoredArray", "contents", "dump", "parse"]

VERSION = 16
FORMAT = "driftline-state"
_ROWS = "window"  # the only part that holds rows
_BY_ROW = (_ROWS, "step_log_ratio", "uncertainty.score", "crossed")  # parts with an entry for each of them
_MEANINGS = {
    _ROWS: "rows, for the next step",
    "step_log_ratio": "log-ratio of the last step for each of these rows",
    "sums": "sums of the window, for the next step: means of features, products of these, and the auditor's functions",
    "readings": "what was read of the window while its rows were at hand: divergences with their intervals",
    "uncertainty.score": "influence of each of these rows on the last step",
    "uncertainty": "error bars of the coefficients, accumulated",
    "wide": "sums of steps where rows are few for the features, and the original's means of these",
    "wide_step": "the same of the last step",
    "crossed": "a learned feature of each of these rows",
    "auditor": "random functions on which the model must leave nothing, and sums that show what it does leave",
    "evidence": "sums that show which features the model still needs, and the original's means of these",
    "psi.module": "weights of the network",
    "psi.coef": "coefficients of the log-ratio",
    "psi.features": "features of the log-ratio; of clusters: of many rows each",
    "psi.summaries": "summary densities of the original and of the window: clusters of many rows each",
    "psi.standardizer.scores": "shapes of columns in the original: curves through averages of many rows",
    "psi.standardizer.mean": "means of the encoded columns in the original",
    "psi.standardizer.scale": "standard deviations of the encoded columns in the original",
    "psi.standardizer.shift": "place of the latest windows, in units of the original",
    "psi.standardizer.rate": "spread of the latest windows, in units of the original",
    "partitions": "counts of rows in cells that were fixed at the first step, of the original and of the window",
    "gain": "what held-out rows of the last step say for a drift",
    "weak": "when a step could not be measured",
    "missed": "when features joined without their drift so far",
    "large": "when a step was large",
    "moved": "when features were replaced last",
    "hidden": "drift that features which were replaced did not show",
}


class StoredArray(NamedTuple):
    """An array in the bytes of a state.

    Attributes:
        name: name in the bytes.
        values: the array.
        what: meaning, in words.
        original: original that it belongs to; None if it belongs to all.
        holds_rows: whether it holds rows of a window; all others hold numbers made of rows.
        by_row: whether it has an entry for each row of a window, which may tell of that row.
    """

    name: str
    values: Any
    what: str
    original: str | None
    holds_rows: bool
    by_row: bool


class FactoryError(ValueError):
    """A custom network was not given, or does not fit the saved weights: the file itself is whole."""


def dump(state: State, header: Mapping[str, Any]) -> bytes:
    """Return a state and a header of your own as bytes."""
    arrays, layout = _codec.flatten(state)
    return pack(arrays, {"format": FORMAT, "version": VERSION, "layout": layout, **header})


def parse(data: bytes, what: str, factory: ModuleFactory | None = None) -> tuple[State, dict[str, Any]]:
    """Return a state and the header it was dumped with.

    Arguments:
        data: bytes from :func:`dump`.
        what: name of the data in errors, such as the path of a file.
        factory: factory of a custom network, which is not in the data.
    """
    arrays, meta = unpack(data, FORMAT, VERSION, what)
    return _restored(arrays, meta, what, factory), meta


def contents(data: bytes, what: str) -> tuple[StoredArray, ...]:
    """Return everything in the bytes of a state, in the order of names; ``what`` names the data in errors."""
    arrays, meta = unpack(data, FORMAT, VERSION, what)
    state = _restored(arrays, meta, what, _unbuilt)
    originals = list(state.tracks)
    found = []
    for name, values in sorted(arrays.items()):
        parts, original = name.split("."), None
        if parts[0] == "tracks":
            original = originals[int(parts[1])]
            parts = parts[3 if parts[2] in ("current", "anchor") else 2 :]
            original = None if parts[:2] == ["psi", "module"] else original  # a network is shared
        meaning = next(
            (words for n in (3, 2, 1) if (words := _MEANINGS.get(".".join(parts[:n])))), "a number of the recursion"
        )
        by_row = original is not None and ".".join(parts) in _BY_ROW and len(values) > 0
        found.append(StoredArray(name, values, meaning, original, by_row and parts == [_ROWS], by_row))
    text = np.frombuffer(json.dumps(meta["layout"]).encode(), dtype=np.int8)
    return (
        *found,
        StoredArray(
            "layout", text, "which parts there are, and reasons not to trust them, as text", None, False, False
        ),
    )


def _restored(arrays: Mapping[str, Array], meta: Mapping[str, Any], what: str, factory: Any) -> State:
    def build(key: str, values: Mapping[str, Any], layout: Any, weights: Mapping[str, Array]) -> Any:
        return None if factory is _unbuilt else _network(key, values, layout, weights, factory)

    try:
        state: State = _codec.restore(State, arrays, meta.get("layout"), build)
        _try_out(state)
    except FactoryError:
        raise
    except (ValueError, LookupError, ArithmeticError, RuntimeError, TypeError, AttributeError) as error:
        raise StateFileError(f"{what}: damaged, its parts do not fit together ({error})") from error
    return state


def _unbuilt(n_inputs: int, n_outputs: int) -> Any:
    """Stand for the factory of networks that nobody is going to ask."""
    raise NotImplementedError


def _try_out(state: State) -> None:
    """Ask models for one row: an error of what the shapes do not show comes now, and not in the middle of a run."""
    with np.errstate(all="ignore"):
        for track in state.tracks.values():
            for anchor in (track.current, track.anchor):
                if isinstance(anchor.psi, LogLinear):
                    anchor.psi(anchor.window[:1])


def _network(
    key: str, values: Mapping[str, Any], layout: Any, weights: Mapping[str, Array], factory: ModuleFactory | None
) -> Any:
    """Build a network of the kind that was saved, which need not be the one the parameters name now."""
    from torch import Generator, device, from_numpy

    from driftline.fitting import MLP, seeded

    heads, tau = values["heads"], values["tau"]
    if not 0 <= tau < heads or not 0.0 <= values["clip"] < np.inf:
        raise ValueError(f"{key} has output {tau} of {heads}, clipped at {values['clip']}")
    n_inputs = len(values["standardizer"].mean) + tau_inputs(heads, values["one_hot"])
    if layout.get("custom") is None:
        built = MLP(n_inputs, heads, _widths(key, weights, n_inputs, heads), Generator())
    elif factory is None:
        raise FactoryError(f"saved with a custom model ({layout['custom']}): pass its factory, load(path, model=...)")
    else:
        with seeded(0, device("cpu")):  # a new network draws random weights before it gets the saved ones
            built = factory(n_inputs, heads)
    try:
        built.load_state_dict({name: from_numpy(part.copy()) for name, part in weights.items()})
    except RuntimeError as error:
        raise FactoryError(f"the model factory does not fit the saved weights: {error}") from None
    return built.eval()


def _widths(key: str, weights: Mapping[str, Array], n_inputs: int, n_outputs: int) -> list[int]:
    """Return the hidden widths of an MLP by its weights, all of which are checked before one of that size is built."""
    layers = [f"layers.{i}" for i in range(len(weights) // 2 - 1)]
    wanted = {f"{layer}.{part}" for layer in [*layers, "head"] for part in ("weight", "bias")}
    if set(weights) != wanted or any(part.dtype != np.float32 for part in weights.values()):
        raise ValueError(f"{key} does not have the weights of a network")
    widths = [n_inputs, *(len(weights[f"{layer}.bias"]) for layer in layers), n_outputs]
    for layer, (before, after) in zip([*layers, "head"], pairwise(widths), strict=True):
        if weights[f"{layer}.weight"].shape != (after, before) or weights[f"{layer}.bias"].shape != (after,):
            raise ValueError(f"{key}.{layer} has the shape {weights[f'{layer}.weight'].shape}, not {(after, before)}")
    return widths[1:-1]
