"""An estimator as bytes: its state under a header with the parameters, seed and columns that continue it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from driftline.files import StateFileError
from driftline.fitting import ModuleFactory, Objective, Stacked, Training
from driftline.recursion import State, dump, parse

__all__ = ["Stored", "dump_estimator", "parse_estimator"]


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
    *,
    padded: bool = True,
) -> bytes:
    """Return an estimator as bytes.

    Arguments:
        state: state of its recursion.
        estimator: name of its class.
        params: its parameters, as scikit-learn's ``get_params(deep=False)`` returns them; those left out are default.
        seed: seed that its steps use.
        columns: names of the columns, if they have any.
        padded: whether the bytes are of the same size at any t; otherwise they are fewer, and grow as features join.
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
    return dump(state, header, padded=padded)


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
    if meta["estimator"] != estimator:
        raise StateFileError(f"{what} holds a {meta['estimator']}, not a {estimator}")
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


def _on_device(state: State, device: str) -> State:
    """Move the networks of a state to a device; those that are shared stay shared."""
    anchors = [anchor for track in state.tracks.values() for anchor in (track.anchor, track.current)]
    modules: list[Any] = [psi.module for anchor in anchors if hasattr(psi := anchor.psi, "module")]
    if modules:
        from driftline.fitting import resolve_device

        for module in modules:
            module.to(resolve_device(device))
    return state
