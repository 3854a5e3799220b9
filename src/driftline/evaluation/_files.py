"""A running evaluation as one file of arrays and a header; parts that save themselves are in it as their own files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from driftline.estimators import ContinualDensityRatio
from driftline.evaluation._samples import Form
from driftline.evaluation._scores import Reading
from driftline.evaluation._state import EvaluationState
from driftline.features import ClassifierFeatures, ContinualVAE
from driftline.files import Array, StateFileError, read_arrays, write_arrays

__all__ = ["Parts", "read", "write"]

_FORMAT, _VERSION = "driftline-evaluation", 2
_TEXTS = 3  # parts of a reading that are words: the other ones are numbers
_OWN = {kind.__name__: kind for kind in (ContinualVAE, ClassifierFeatures)}
"""Features that can be restored from the file alone."""


class Parts(NamedTuple):
    """Parts of an evaluation between two tasks: arguments that are plain values, metric features, and its state."""

    settings: dict[str, Any]
    metric_features: Any
    state: EvaluationState


def write(path: str | os.PathLike[str], parts: Parts) -> None:
    """Write all parts to one file, atomically and without pickle; the user's own features are only named."""
    state = parts.state
    assert state.ratio is not None
    tasks = list(state.floors)
    arrays = {"ratio": _packed(state.ratio.to_bytes())}
    kinds: dict[str, str | None] = {}
    for key, thing in (("features", state.features), ("metric_features", parts.metric_features)):
        kinds[key] = None if thing is None else type(thing).__name__
        if type(thing) in _OWN.values():
            arrays[key] = _packed(thing.to_bytes())
    for key, kept in (("last", state.last), ("real", state.real)):
        for name, rows in kept.items():
            arrays[f"{key}.{tasks.index(name)}"] = np.ascontiguousarray(rows)
    for name, features in state.held.items():
        if type(features) not in _OWN.values():
            raise ValueError(
                f"a snapshot of your own features ({type(features).__name__}) is held for each task and cannot be "
                "written to a file: hold_features=False holds none"
            )
        arrays[f"held.{tasks.index(name)}"] = _packed(features.to_bytes())
    numbers = np.array([reading[_TEXTS:] for reading in state.readings], dtype=np.float64)
    arrays["readings"] = numbers
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "settings": parts.settings,
        "kinds": kinds,
        **state.form._asdict(),
        "floors": state.floors,
        "readings": [list(reading[:_TEXTS]) for reading in state.readings],
        "tasks": tasks,
    }
    write_arrays(path, arrays, header)


def read(path: str | os.PathLike[str], given: Mapping[str, Any], device: str | None, **custom: Any) -> Parts:
    """Read the parts from a file.

    Arguments:
        given: features that are not in the file, under "features" and "metric_features".
        custom: further arguments of :meth:`driftline.ContinualDensityRatio.load`.
    """
    arrays, meta = read_arrays(path, _FORMAT, _VERSION)
    problem = _problem(arrays, meta)
    if problem:
        raise StateFileError(f"{os.fspath(path)}: damaged, {problem}")
    try:
        found = {key: _features(key, meta["kinds"][key], arrays, given[key], path, device) for key in given}
        data, what = _unpacked(arrays["ratio"]), os.fspath(path)
        ratio = ContinualDensityRatio.from_bytes(data, what=what, device=device, **custom)
        texts, numbers = meta["readings"], arrays["readings"].tolist()
        readings = tuple(Reading(*text, *values) for text, values in zip(texts, numbers, strict=True))
        rows: dict[str, Any] = {
            key: {n: arrays[f"{key}.{i}"] for i, n in enumerate(meta["tasks"]) if f"{key}.{i}" in arrays}
            for key in ("last", "real")
        }
        kind = meta["kinds"]["features"]
        held = {f"held.{i}": name for i, name in enumerate(meta["tasks"]) if f"held.{i}" in arrays}
        rows["held"] = {name: _features(key, kind, arrays, None, path, device) for key, name in held.items()}
        floors = {name: meta["floors"][name] for name in meta["tasks"]}  # the header's keys are sorted, tasks are not
        shape, columns = meta["shape"], meta.get("columns")
        form = Form(None if shape is None else tuple(shape), None if columns is None else tuple(columns))
        state = EvaluationState(found["features"], ratio, readings, floors, form, **rows)
        return Parts(meta["settings"], found["metric_features"], state)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise StateFileError(f"{os.fspath(path)}: damaged, its parts do not fit together ({error})") from error


def _problem(arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> str:
    """Say what in a header does not fit the arrays, before anything is made of them; empty if nothing is wrong."""
    tasks, texts, numbers = meta.get("tasks"), meta.get("readings"), arrays.get("readings")
    if not isinstance(tasks, list) or not all(isinstance(task, str) for task in tasks) or len(set(tasks)) < len(tasks):
        return "its tasks are not names"
    parts = len(Reading._fields) - _TEXTS
    if not isinstance(texts, list) or numbers is None or numbers.dtype != np.float64:
        return "it has no readings"
    if not all(isinstance(text, list) and [*map(type, text)] == [str] * _TEXTS for text in texts):
        return "its readings are not about tasks"
    if numbers.shape != (len(texts), parts) and not (len(texts) == numbers.size == 0):
        return f"it has {len(texts)} readings, and numbers of the shape {numbers.shape} instead of {parts} each"
    if not isinstance(meta.get("settings"), dict) or not isinstance(meta.get("kinds"), dict):
        return "its settings are not an object"
    kinds = [meta["kinds"].get(key, 0) for key in ("features", "metric_features")]
    if not all(isinstance(kind, str | None) for kind in kinds):
        return "its features are of no kind"
    floors = meta.get("floors")
    if not isinstance(floors, dict) or not all(isinstance(floor, dict) for floor in floors.values()):
        return "its floors are not numbers of tasks"
    return ""


def _features(
    key: str, kind: str | None, arrays: Mapping[str, Array], given: Any, path: Any, device: str | None
) -> Any:
    if key in arrays:
        if given is not None:
            raise ValueError(f"{os.fspath(path)} holds its {key} (a {kind}) itself: leave {key}= out")
        return _OWN[str(kind)].from_bytes(_unpacked(arrays[key]), what=os.fspath(path), device=device)
    if kind is not None and given is None:
        raise ValueError(f"{os.fspath(path)} was saved with your own {key} ({kind}): pass them, load(path, {key}=...)")
    if kind is None and given is not None:
        raise ValueError(f"{os.fspath(path)} was saved without {key}: leave {key}= out")
    return given


def _packed(data: bytes) -> Array:
    return np.frombuffer(data, dtype=np.uint8)


def _unpacked(data: Array) -> bytes:
    return data.tobytes()
