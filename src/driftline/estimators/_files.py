"""An estimator as bytes: its state under a header with the parameters, seed and columns that continue it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from driftline._inputs import resolve_device
from driftline.files import StateFileError
from driftline.fitting import ModuleFactory, Objective, Training
from driftline.recursion import State, dump, parse, track_of

__all__ = ["Stored", "dump_estimator", "parse_estimator"]


class Stored(NamedTuple):
    """What the bytes of an estimator hold, with the state moved to its device."""

    state: State
    params: dict[str, Any]
    seed: int
    device: torch.device
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
        params: its parameters, as scikit-learn's ``get_params(deep=False)`` returns them.
        seed: seed that its steps use.
        columns: names of the columns, if they have any.
        padded: whether the bytes are of the same size at any t; otherwise they are fewer, and grow as features join.
    """
    for name in state.tracks:
        track_of(state, name)
    params = dict(params)
    custom = {name for name in ("objective", "model") if callable(params[name])}
    params.pop("progress")
    training = params.pop("training")
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
    place = resolve_device(params["device"])
    return Stored(_to(state, place), params, meta["seed"], place, meta["columns"])


def _to(value: Any, device: torch.device) -> Any:
    """Move all tensors and networks of a state to a device; parts that are shared stay shared."""
    seen: dict[int, Any] = {}

    def move(item: Any) -> Any:
        if device.type == "cpu":
            return item
        if id(item) in seen:
            return seen[id(item)]
        if isinstance(item, Tensor | nn.Module):
            moved: Any = item.to(device)
        elif isinstance(item, tuple) and hasattr(item, "_fields"):
            moved = type(item)(*(move(part) for part in item))
        elif isinstance(item, dict):
            moved = {key: move(part) for key, part in item.items()}
        else:
            moved = item
        seen[id(item)] = moved
        return moved

    return move(value)
