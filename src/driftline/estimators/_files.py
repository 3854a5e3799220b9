"""An estimator as bytes: its state under a header with the parameters, seed and columns that continue it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from driftline.files import StateFileError
from driftline.fitting import ModuleFactory, Objective, Stacked, Training
from driftline.recursion import State, dump, parse

__all__ = ["Stored", "dump_estimator", "parse_estimator"]

_LATER = {"weights", "constraint", "inputs", "clip", "tau", "init"}  # of a training; older files do not have them


class Stored(NamedTuple):
    """What the bytes of an estimator hold."""

    state: State
    params: dict[str, Any]
    seed: int
    columns: list[str] | None


def dump_estimator(
    state: State,
    estimator: str,
    params: Mapping[str, Any],
    seed: int,
    columns: Sequence[str] | None,
) -> bytes:
    """Return an estimator as bytes.

    Arguments:
        state: state of its recursion.
        estimator: name of its class.
        params: its parameters, as scikit-learn's ``get_params(deep=False)`` returns them; those left out are default.
        seed: seed that its steps use.
        columns: names of the columns, if they have any.
    """
    changed = [name for name, track in state.tracks.items() if isinstance(track.current.psi, Stacked)]
    if changed:
        raise ValueError(
            f"features of original(s) {changed} have changed, and the next window needs both the previous and the new "
            "ones: save before change_features, or after partial_fit(window, before=...)"
        )
    params = dict(params)
    custom = {name for name in ("objective", "model") if not isinstance(params.get(name, ""), str)}
    params.pop("progress", None)
    training = params.pop("training", None)
    header = {
        "estimator": estimator,
        "params": {k: None if k in custom else list(v) if isinstance(v, tuple) else v for k, v in params.items()},
        "custom": sorted(custom),
        "training": None if training is None else training._asdict(),
        "seed": seed,
        "columns": None if columns is None else list(columns),
    }
    return dump(state, header)


def parse_estimator(
    data: bytes,
    estimator: str,
    what: str,
    *,
    model: ModuleFactory | None = None,
    objective: Objective | None = None,
    device: str | None = None,
) -> Stored:
    """Return what :func:`dump_estimator` wrote.

    Arguments:
        data: bytes of the estimator.
        estimator: name of its class.
        what: name of the data in errors, such as the path of a file.
        model, objective: its custom callables, if any (they are not in the data).
        device: device to continue on, if not the one it was saved from.
    """
    state, meta = parse(data, what, model)
    if meta.get("estimator") != estimator:
        raise StateFileError(f"{what} holds a {meta.get('estimator')}, not a {estimator}")
    problem = _problem(meta, next(iter(state.tracks.values())).current.window.shape[1])
    if problem:
        raise StateFileError(f"{what}: damaged, {problem}")
    params = dict(meta["params"])
    for name, given in (("model", model), ("objective", objective)):
        if name in meta["custom"]:
            if given is None:
                raise ValueError(f"{what} was saved with a custom {name}: pass it, load(path, {name}=...)")
            params[name] = given
    if params.get("hidden") is not None:
        params["hidden"] = tuple(params["hidden"])
    params["training"] = None if meta["training"] is None else Training(**meta["training"])
    if device is not None:
        params["device"] = device
    return Stored(_on_device(state, params.get("device", "auto")), params, meta["seed"], meta["columns"])


def _problem(meta: Mapping[str, Any], width: int) -> str:
    """Say what is wrong with the header of an estimator of this many columns; empty if nothing is."""
    seed, columns, training = (meta.get(part, ...) for part in ("seed", "columns", "training"))
    params = meta.get("params")
    kinds = {"hidden": list, "device": str}
    if not isinstance(params, dict) or any(not isinstance(params.get(k, kind()), kind) for k, kind in kinds.items()):
        return "its parameters are not those of an estimator"
    if meta.get("custom") not in ([], ["model"], ["objective"], ["model", "objective"]):
        return "it does not say which of its parameters are functions"
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        return "its seed is not a number"
    if columns is not None and not (isinstance(columns, list) and all(isinstance(name, str) for name in columns)):
        return "its columns are not names"
    if columns is not None and len(columns) != width:
        return f"it names {len(columns)} of {width} columns"
    if training is not None and not (isinstance(training, dict) and _is_training(training)):
        return "its training is not that of a network"
    return ""


def _is_training(data: Mapping[str, Any]) -> bool:
    """Say whether all settings of a training are there, words where words belong and numbers elsewhere."""
    kinds = {name: str if isinstance(value, str) else int | float for name, value in Training()._asdict().items()}
    needed = set(kinds) - _LATER
    return needed <= set(data) <= set(kinds) and all(isinstance(value, kinds[name]) for name, value in data.items())


def _on_device(state: State, device: str) -> State:
    """Move the networks of a state to a device; those that are shared stay shared."""
    anchors = [anchor for track in state.tracks.values() for anchor in (track.anchor, track.current)]
    modules: list[Any] = [psi.module for anchor in anchors if hasattr(psi := anchor.psi, "module")]
    if modules:
        from driftline.fitting import resolve_device

        for module in modules:
            module.to(resolve_device(device))
    return state
