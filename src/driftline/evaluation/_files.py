"""A running evaluation as one file of arrays and a header; parts that save themselves are in it as their own files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from driftline.estimators import ContinualDensityRatio
from driftline.evaluation._samples import Form
from driftline.evaluation._scores import Reading
from driftline.features import ClassifierFeatures, ContinualVAE
from driftline.files import Array, StateFileError, read_arrays, write_arrays

__all__ = ["Parts", "read", "write"]

_FORMAT, _VERSION = "driftline-evaluation", 2
_OWN = {kind.__name__: kind for kind in (ContinualVAE, ClassifierFeatures)}
"""Features that can be restored from the file alone."""


class Parts(NamedTuple):
    """Parts of an evaluation between two tasks.

    Attributes:
        settings: arguments that are plain values.
        form: shape and columns of one sample.
        last: last generated samples of each task, if features move.
        real: real rows of each task, if they are kept.
        held: snapshot of the features for each task, if they move and are held.
    """

    settings: dict[str, Any]
    features: Any
    metric_features: Any
    ratio: ContinualDensityRatio
    readings: list[Reading]
    floors: dict[str, dict[str, float]]
    form: Form
    last: Mapping[str, Any]
    real: Mapping[str, Any]
    held: Mapping[str, Any]


def write(path: str | os.PathLike[str], parts: Parts) -> None:
    """Write all parts to one file, atomically and without pickle; the user's own features are only named."""
    tasks = list(parts.floors)
    arrays = {"ratio": _packed(parts.ratio.save)}
    kinds: dict[str, str | None] = {}
    for key in ("features", "metric_features"):
        thing = getattr(parts, key)
        kinds[key] = None if thing is None else type(thing).__name__
        if type(thing) in _OWN.values():
            arrays[key] = _packed(thing.save)
    for key in ("last", "real"):
        for name, rows in getattr(parts, key).items():
            arrays[f"{key}.{tasks.index(name)}"] = np.ascontiguousarray(rows)
    for name, features in parts.held.items():
        if type(features) not in _OWN.values():
            raise ValueError(
                f"a snapshot of your own features ({type(features).__name__}) is held for each task and cannot be "
                "written to a file: hold_features=False holds none"
            )
        arrays[f"held.{tasks.index(name)}"] = _packed(features.save)
    numbers = np.array([reading[3:] for reading in parts.readings], dtype=np.float64)
    arrays["readings"] = numbers
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "settings": parts.settings,
        "kinds": kinds,
        **parts.form._asdict(),
        "floors": parts.floors,
        "readings": [list(reading[:3]) for reading in parts.readings],
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
    try:
        found = {key: _features(key, meta["kinds"][key], arrays, given[key], path, device) for key in given}
        ratio = _unpacked(arrays["ratio"], path, lambda p: ContinualDensityRatio.load(p, device=device, **custom))
        texts, numbers = meta["readings"], arrays["readings"].tolist()
        readings = [Reading(*text, *values) for text, values in zip(texts, numbers, strict=True)]
        rows = {
            key: {n: arrays[f"{key}.{i}"] for i, n in enumerate(meta["tasks"]) if f"{key}.{i}" in arrays}
            for key in ("last", "real")
        }
        kind = meta["kinds"]["features"]
        held = {f"held.{i}": name for i, name in enumerate(meta["tasks"]) if f"held.{i}" in arrays}
        rows["held"] = {name: _features(key, kind, arrays, None, path, device) for key, name in held.items()}
        floors = {name: meta["floors"][name] for name in meta["tasks"]}  # the header's keys are sorted, tasks are not
        shape, columns = meta["shape"], meta.get("columns")
        form = Form(None if shape is None else tuple(shape), None if columns is None else tuple(columns))
        whole = {"ratio": ratio, "readings": readings, "floors": floors, "form": form, **found, **rows}
        return Parts(settings=meta["settings"], **whole)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise StateFileError(f"{os.fspath(path)}: damaged, its parts do not fit together ({error})") from error


def _features(
    key: str, kind: str | None, arrays: Mapping[str, Array], given: Any, path: Any, device: str | None
) -> Any:
    if key in arrays:
        if given is not None:
            raise ValueError(f"{os.fspath(path)} holds its {key} (a {kind}) itself: leave {key}= out")
        load = _OWN[str(kind)].load
        return _unpacked(arrays[key], path, lambda p: load(p, device=device))
    if kind is not None and given is None:
        raise ValueError(f"{os.fspath(path)} was saved with your own {key} ({kind}): pass them, load(path, {key}=...)")
    if kind is None and given is not None:
        raise ValueError(f"{os.fspath(path)} was saved without {key}: leave {key}= out")
    return given


def _packed(save: Callable[[Path], None]) -> Array:
    """Return the bytes of the file that ``save`` writes."""
    with tempfile.TemporaryDirectory(prefix="driftline-") as folder:
        save(Path(folder) / "part")
        return np.frombuffer((Path(folder) / "part").read_bytes(), dtype=np.uint8)


def _unpacked(data: Array, path: str | os.PathLike[str], load: Callable[[Path], Any]) -> Any:
    with tempfile.TemporaryDirectory(prefix="driftline-") as folder:
        part = Path(folder) / "part"
        part.write_bytes(data.tobytes())
        try:
            return load(part)
        except ValueError as error:  # the user knows only the whole file
            raise type(error)(str(error).replace(str(part), os.fspath(path))) from error
