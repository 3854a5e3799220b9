"""Values as arrays, and back: a named tuple is written and read by the annotations of its fields.

A field holds a number, an array, text, another tuple, several of these, or None where its type allows that. The shape
of an array stands in its annotation, ``Annotated[Floats, "D k"]``: names of sizes, numbers, or a name and a number,
``"P+1"``. Names in capitals hold for a whole value, others for one tuple; those in the annotation of a tuple begin anew
in it. After the shape may stand ``half`` (symmetric: one half is written), ``single`` (written in single precision),
``<D`` (entries are places among D) or ``derived`` (not written: it follows from the rest).

A file may come from anywhere. Nothing is built before its arrays are compared with the types, so that no header can ask
for more memory than the file takes. A tuple may have a method ``check``, which raises a ValueError if its parts do not
fit together, and ``packed`` and ``unpacked``, which make another tuple of it that is written in its place.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from driftline.files import Array

__all__ = ["Kinds", "flatten", "restore"]

Layout = Any
"""What arrays do not say, as JSON: which optional parts are there, of which kinds, and text."""
Build = Callable[[str, Mapping[str, Any], Layout, Mapping[str, Array]], Any]
"""Makes a network, given its name, the other fields of its tuple, its layout and its weights."""


class Kinds:
    """Tuples of which a field may hold any: exports of a package, which are not imported before they are needed."""

    def __init__(self, package: str, *names: str) -> None:
        self.package, self.names = package, names

    def named(self, name: Any) -> type[Any]:
        """Return one of them."""
        if name not in self.names:
            raise ValueError(f"unknown kind, {name!r}")
        return typing.cast(type[Any], getattr(import_module(self.package), name))


def flatten(value: Any) -> tuple[dict[str, Array], Layout]:
    """Return the arrays of a named tuple by name, and its layout."""
    writer = _Writer()
    return writer.arrays, writer.put(value, type(value), "")


def restore(kind: type[Any], arrays: Mapping[str, Array], layout: Layout, build: Build | None = None) -> Any:
    """Return the named tuple that arrays and a layout describe; raise a ValueError if they do not."""
    reader = _Reader(arrays, build)
    value = reader.get(kind, "", layout, {})
    unknown = sorted(set(arrays) - reader.seen)
    _need(not unknown, f"it holds {', '.join(map(repr, unknown[:3]))}, which its layout does not name")
    return value


_OPTIONS = ("derived", "half", "single")


class _Form(NamedTuple):
    """What an annotation says of a field."""

    kind: Any
    optional: bool = False
    derived: bool = False
    half: bool = False
    single: bool = False
    dims: tuple[str, ...] = ()
    below: str = ""
    kinds: Kinds | None = None


@cache
def _forms(kind: Any) -> dict[str, _Form]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: _form(hints[name]) for name in kind._fields}


def _form(hint: Any) -> _Form:
    notes: tuple[Any, ...] = ()
    if typing.get_origin(hint) is typing.Annotated:
        hint, *rest = typing.get_args(hint)
        notes = tuple(rest)
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else ()
    if parts:
        hint = next(part for part in parts if part is not types.NoneType)
    words = [word for note in notes if isinstance(note, str) for word in note.split()]
    below = next((word[1:] for word in words if word.startswith("<")), "")
    dims = tuple(word for word in words if word[0] != "<" and word not in _OPTIONS)
    kinds = next((note for note in notes if isinstance(note, Kinds)), None)
    derived, half, single = (option in words for option in _OPTIONS)
    return _Form(hint, types.NoneType in parts, derived, half, single, dims, below, kinds)


def _element(kind: Any) -> np.dtype[Any] | None:
    """Return the type of an array's entries; None if it is no array."""
    if typing.get_origin(kind) is np.ndarray:
        kind = typing.get_args(typing.get_args(kind)[1])[0]
    elif kind not in (bool, int, float):
        return None
    found: np.dtype[Any] = np.dtype(kind)
    return found


def _is_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _is_text(kind: Any) -> bool:
    return isinstance(kind, type) and (issubclass(kind, str) or dataclasses.is_dataclass(kind))


class _Writer:
    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.places: list[tuple[Any, str]] = []  # what has been written where: the same thing is written once

    def put(self, value: Any, form: Any, key: str) -> Layout:
        form = form if isinstance(form, _Form) else _form(form)
        if value is None or form.derived:
            return None
        element = _element(form.kind)
        if element is not None:
            found = np.asarray(value, dtype=np.float32 if form.single else element)
            self.arrays[key] = found[np.tril_indices(len(found))] if form.half else found
            return True
        if _is_text(form.kind):
            return _written(value)
        if isinstance(value, dict):  # as a list: JSON does not keep the order of names
            items = enumerate(value.items())
            return [[name, self.put(each, _inside(form), _join(key, str(i)))] for i, (name, each) in items]
        if typing.get_origin(form.kind) is tuple:
            return [self.put(each, _inside(form), _join(key, str(i))) for i, each in enumerate(value)]
        for known, place in self.places:
            if known is value:
                return {"same": place}
        self.places.append((value, key))
        value = value.packed() if hasattr(value, "packed") else value
        layout: dict[str, Any] = {} if form.kinds is None else {"kind": type(value).__name__}
        if hasattr(value, "state_dict"):
            weights = {name: part.detach().cpu().numpy() for name, part in value.state_dict().items()}
            self.arrays |= {_join(key, name): part for name, part in weights.items()}
            widths = getattr(value, "widths", None)
            return {"weights": sorted(weights), "custom": None if widths is not None else type(value).__name__}
        kind: Any = type(value)
        for name, inner in _forms(kind).items():
            found = self.put(getattr(value, name), inner, _join(key, name))
            if found is not None and not (found is True and not inner.optional):
                layout[name] = found
        return layout


class _Reader:
    def __init__(self, arrays: Mapping[str, Array], build: Build | None) -> None:
        self.arrays, self.build, self.seen = arrays, build, set[str]()
        self.made: dict[str, Any] = {}

    def get(self, form: Any, key: str, layout: Layout, sizes: dict[str, int]) -> Any:
        form = form if isinstance(form, _Form) else _form(form)
        if form.derived or (form.optional and layout is None):
            return None
        if _element(form.kind) is not None:
            return self.array(form, key, sizes)
        if _is_text(form.kind):
            return _parsed(form.kind, layout, key)
        if typing.get_origin(form.kind) is dict:
            _need(_is_named(layout), f"{key} is not a list of names")
            items = enumerate(layout)
            return {name: self.get(_inside(form), _join(key, str(i)), each, sizes) for i, (name, each) in items}
        if typing.get_origin(form.kind) is tuple:
            _need(isinstance(layout, list), f"{key} is not a list")
            return tuple(self.get(_inside(form), _join(key, str(i)), each, sizes) for i, each in enumerate(layout))
        _need(isinstance(layout, dict), f"{key or 'the state'} is not described")
        kind = form.kind if form.kinds is None else self.kind(form.kinds, layout, key)
        if "same" in layout:
            found = self.made.get(layout["same"]) if isinstance(layout["same"], str) else None
            _need(isinstance(found, kind), f"{key} is to be the same as {layout['same']!r}, which is not there")
            return found
        _need(_is_tuple(kind), f"{key} is of an unknown kind")
        for name in form.dims:
            sizes.pop(name, None)
        self.made[key] = self.tuple(kind, key, layout, sizes)
        return self.made[key]

    def kind(self, kinds: Kinds, layout: Mapping[str, Any], key: str) -> Any:
        if "same" in layout:
            return tuple
        try:
            return kinds.named(layout.get("kind"))
        except ValueError as error:
            raise ValueError(f"{key} is of an {error}") from None

    def tuple(self, kind: Any, key: str, layout: Mapping[str, Any], sizes: dict[str, int]) -> Any:
        if hasattr(kind, "packed"):
            packed = typing.get_type_hints(kind.packed)["return"]
            return kind.unpacked(self.tuple(packed, key, layout, sizes))
        own = {name: size for name, size in sizes.items() if name.isupper()}
        forms, values = _forms(kind), dict[str, Any]()
        wrong = sorted(set(layout) - set(forms) - {"kind"})
        _need(not wrong, f"{key} does not have {', '.join(map(repr, wrong[:3]))}")
        networks = [name for name, form in forms.items() if getattr(form.kind, "__name__", "") == "Module"]
        for name in (name for name in forms if name not in networks):
            values[name] = self.get(forms[name], _join(key, name), layout.get(name), own)
        for name in networks:
            values[name] = self.network(_join(key, name), layout.get(name), values)
        sizes |= {name: size for name, size in own.items() if name.isupper()}
        made = kind(**values)
        if hasattr(made, "check"):
            try:
                made.check()
            except ValueError as error:
                raise ValueError(f"{key or 'the state'}: {error}") from None
        return made

    def network(self, key: str, layout: Layout, values: Mapping[str, Any]) -> Any:
        if isinstance(layout, dict) and "same" in layout and layout["same"] in self.made:
            return self.made[layout["same"]]
        _need(isinstance(layout, dict) and isinstance(layout.get("weights"), list), f"{key} has no weights")
        weights = {}
        for name in layout["weights"]:
            _need(isinstance(name, str) and _join(key, name) in self.arrays, f"{key} lacks {name!r}")
            self.seen.add(_join(key, name))
            weights[name] = self.arrays[_join(key, name)]
        assert self.build is not None  # whoever has tuples with networks knows how to build them
        self.made[key] = self.build(key, values, layout, weights)
        return self.made[key]

    def array(self, form: _Form, key: str, sizes: dict[str, int]) -> Any:
        _need(key in self.arrays, f"it lacks {key!r}")
        self.seen.add(key)
        found, element = self.arrays[key], np.dtype(np.float32) if form.single else _element(form.kind)
        if found.dtype != element:
            raise ValueError(f"{key} holds {found.dtype.name} instead of {element}")
        shape = found.shape
        if form.half:
            _need(found.ndim == 1, f"{key} has the shape {shape} instead of that of half a matrix")
            size = math.isqrt(2 * len(found))
            _need(size * (size + 1) == 2 * len(found), f"{key} has {len(found)} entries, not those of half a matrix")
            shape = (size, size)
        _need(len(shape) == len(form.dims), f"{key} has the shape {found.shape} instead of {len(form.dims)} dimensions")
        for dim, size in zip(form.dims, shape, strict=True):
            wanted = _size(dim, size, sizes)
            if size != wanted:
                raise ValueError(f"{key} has the shape {shape}, with {size} instead of {wanted}")
        if form.below:
            high = _size(form.below, 0, sizes)
            fits = found.size == 0 or (found.min() >= 0 and found.max() < high)
            _need(bool(fits), f"{key} has entries outside 0 to {high - 1}")
        if form.kind in (bool, int, float):
            return form.kind(found)
        found = found.astype(_element(form.kind), copy=False)
        return _whole(found, shape[0]) if form.half else found


def _size(dim: str, size: int, sizes: dict[str, int]) -> int:
    """Return the size that a dimension should have; a name that is new stands for the size at hand."""
    if dim.isdecimal():
        return int(dim)
    name, _, more = dim.partition("+")
    return sizes.setdefault(name, size - int(more or 0)) + int(more or 0)


def _whole(half: Array, size: int) -> Array:
    out = np.zeros((size, size), dtype=half.dtype)
    lower = np.tril_indices(size)
    out[lower] = half
    out.T[lower] = half
    return out


def _inside(form: _Form) -> _Form:
    """Return the form of what a tuple or a dictionary holds."""
    arguments = [each for each in typing.get_args(form.kind) if each is not Ellipsis]
    return _form(arguments[-1])._replace(kinds=form.kinds)


def _written(value: Any) -> Layout:
    """Return text, or a record of texts, as JSON."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    return [_written(getattr(value, field.name)) for field in dataclasses.fields(value)]


def _parsed(kind: Any, layout: Layout, key: str) -> Any:
    if issubclass(kind, str):
        _need(isinstance(layout, str), f"{key} is not text")
        return kind(layout)  # a ValueError if it is none of an enumeration's
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    _need(isinstance(layout, list) and len(layout) == len(names), f"{key} does not have {len(names)} parts")
    parts = []
    for name, part in zip(names, layout, strict=True):
        if typing.get_origin(hints[name]) is tuple:
            _need(isinstance(part, list) and all(isinstance(word, str) for word in part), f"{key} is not made of words")
            parts.append(tuple(part))
        else:
            _need(issubclass(hints[name], str | StrEnum), f"{key} has a part that is no text")
            parts.append(_parsed(hints[name], part, key))
    return kind(*parts)


def _is_named(layout: Layout) -> bool:
    """Say whether a layout is a list of different names, each with the layout of its value."""
    pairs = isinstance(layout, list) and all(isinstance(each, list) and len(each) == 2 for each in layout)
    names = [name for name, _ in layout] if pairs else [None]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
