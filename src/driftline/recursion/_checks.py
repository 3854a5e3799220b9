"""Checks of a state: what its header says of sizes is compared with its arrays before anything is built.

A file may come from anywhere. Its digest shows accidents, but whoever writes a file can write a digest, too: without
these checks a few bytes in a header would ask for any amount of memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from driftline.files import Array
from driftline.fitting import LESSER, lessers, monomials, tau_inputs
from driftline.inference import DIVERGENCES
from driftline.recursion._kept import LEVELS
from driftline.recursion._shapes import (
    ANCHOR,
    AUDITOR,
    AUDITOR_OF_SUMS,
    COLUMNS,
    DENSITIES,
    EVIDENCE,
    FEATURES,
    LEARNED,
    LESSERS,
    MONOMIALS,
    NETWORK_UNCERTAINTY,
    PARTITIONS,
    READINGS,
    SCORES,
    SUMS,
    TRACK,
    TREES,
    UNCERTAINTY,
    UNCERTAINTY_OF_SUMS,
    WIDE,
)

__all__ = ["check_arrays", "check_learned"]

_NAMES = {"f": "float64", "i": "int64", "c": "int32", "b": "bool", "s": "float32", "t": "int8"}
_TYPES: Mapping[str, np.dtype[Any]] = {kind: np.dtype(name) for kind, name in _NAMES.items()}
_DEEPEST = 64  # levels of a tree; those of ours have 9 at most

Sizes = dict[str, int]


def check_arrays(arrays: Mapping[str, Array], layout: Any) -> None:
    """Raise a ValueError unless a state's arrays are exactly those that its layout describes, with fitting shapes."""
    _Check(arrays).state(layout)


def check_learned(arrays: Mapping[str, Array], kinds: Any, columns: int) -> int:
    """Check what a model has learned from its original, as it is sent to sites; return the number of its features.

    ``kinds`` are those of clusters; arrays that do not begin with ``scores.`` or ``learned.`` are not looked at.
    """
    check = _Check(arrays)
    _need(isinstance(kinds, list), "it does not list what was learned")
    if any(name.startswith("scores.") for name in arrays):
        check.table("scores", SCORES, {"d": columns})
        _need(bool((np.diff(arrays["scores.knots"], axis=1) > 0.0).all()), "scores.knots do not increase")
    features = 0
    for i, kind in enumerate(kinds):
        _need(isinstance(kind, str) and kind in DENSITIES, f"learned.{i} is of an unknown kind, {kind!r}")
        features += check.learned(f"learned.{i}", kind, columns)
        group = arrays[f"learned.{i}.map.density.group"]
        check.within(f"learned.{i}.map.density.group", 0, max(len(group), 1))
    known = [name for name in arrays if name.startswith(("scores.", "learned."))]
    _need(check.seen >= set(known), "it holds more than it should")
    return features


class _Check:
    """Arrays of a state, and which of them a layout has named so far."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self.arrays, self.seen = arrays, set[str]()

    def state(self, layout: Any) -> None:
        """Check everything."""
        _need(isinstance(layout, dict), "its layout is not an object")
        tracks, modules = layout.get("tracks"), layout.get("modules")
        _need(isinstance(tracks, dict) and len(tracks) > 0, "it traces no original")
        _need(isinstance(modules, list) and all(isinstance(m, dict) for m in modules), "its networks are not a list")
        self.table("", {"t": "i"}, {})
        taus = [entry.get("tau") for entry in tracks.values() if isinstance(entry, dict)]
        _need(len(taus) == len(tracks) and all(map(_is_count, taus)), "an original has no number")
        _need(len(set(taus)) == len(taus), "two originals have the same number")
        widths = {self.track(entry, modules) for entry in tracks.values()}
        _need(len(widths) == 1, f"its windows have {' and '.join(map(str, sorted(widths)))} columns")
        kept = tuple(f"module.{i}." for i in range(len(modules)))
        unknown = sorted(name for name in self.arrays if name not in self.seen and not name.startswith(kept))
        _need(not unknown, f"it holds {', '.join(map(repr, unknown[:3]))}, which its layout does not name")

    def track(self, entry: Mapping[str, Any], modules: Sequence[Any]) -> int:
        """Check the arrays of an original; return the number of its columns."""
        key = f"track.{entry['tau']}"
        _flags(entry, "same", "partitions", "readings")
        sizes = self.anchor(f"{key}.current", entry.get("current"), modules)
        if not entry["same"]:
            other = self.anchor(f"{key}.anchor", entry.get("anchor"), modules)
            _need(other["d"] == sizes["d"], f"windows of {key} have {other['d']} and {sizes['d']} columns")
        self.table(key, TRACK, {})
        when, _, fresh = self.arrays[f"{key}.moved"].tolist()
        _need(when >= 0.0 and when % 1.0 == 0.0 and fresh in (0.0, 1.0), f"{key}.moved says {when:g} and {fresh:g}")
        steps = self.array(f"{key}.step_log_ratio", "f", 1).shape[0]
        _need(steps in (0, sizes["n"]), f"{key}.step_log_ratio has {steps} entries for {sizes['n']} rows")
        if entry["partitions"]:
            found = self.table(f"{key}.partitions", PARTITIONS, {"d": sizes["d"]})
            terms = 2 * found["columns"] + found["products"]
            _need(found["terms"] == terms, f"{key}.partitions.contrast.coef has {found['terms']} entries, not {terms}")
        if entry["readings"]:
            d, kinds = sizes["d"], {"kinds": len(DIVERGENCES), "levels": len(LEVELS)}
            found = self.table(f"{key}.readings", READINGS, kinds | {"d": d, "half": d * (d + 1) // 2})
            _need(found["p"] == sizes.get("p"), f"{key}.readings has {found['p']} features")
        return sizes["d"]

    def anchor(self, key: str, entry: Any, modules: Sequence[Any]) -> Sizes:
        """Check a window and its model; return their sizes."""
        _need(isinstance(entry, dict), f"{key} is not described")
        _flags(entry, "uncertainty", "evidence", "scores", "sums")
        sizes = self.table(key, ANCHOR, {})
        _need(
            (sizes["n"] > 0) is not entry["sums"] and sizes["d"] > 0,
            f"{key}.window has the shape {self.arrays[f'{key}.window'].shape}",
        )
        self.within(f"{key}.lag", 0, 2**31)
        if entry["scores"]:
            self.table(f"{key}.scores", SCORES, {"d": sizes["d"]})
        if entry.get("kind") == "network":
            self.network(key, entry, modules, sizes)
        else:
            _need(entry.get("kind") == "log-linear", f"{key} is of an unknown kind, {entry.get('kind')!r}")
            sizes |= {"p": self.log_linear(key, entry, sizes)}
        return sizes

    def network(self, key: str, entry: Mapping[str, Any], modules: Sequence[Any], sizes: Sizes) -> None:
        """Check a network by its weights, before one of that size is built."""
        at, heads, tau = (_whatever(entry, name) for name in ("module", "heads", "tau"))
        _need(_is_count(at) and at < len(modules), f"{key} has no network")
        _need(_is_count(heads) and _is_count(tau) and tau < heads, f"{key} has output {tau!r} of {heads!r}")
        form = entry.get("form", {"raw": False, "clip": 0.0, "one_hot": False})  # files before there was one
        _need(isinstance(form, dict) and set(form) == {"raw", "clip", "one_hot"}, f"{key} has an unknown form")
        _flags(form, "raw", "one_hot")
        _need(isinstance(form["clip"], int | float) and 0.0 <= form["clip"] < np.inf, f"{key} is clipped at no number")
        kind, prefix = modules[at], f"module.{at}"
        if "hidden" in kind:
            hidden = kind["hidden"]
            _need(isinstance(hidden, list) and all(map(_is_count, hidden)), f"{prefix} has no widths")
            widths = [sizes["d"] + tau_inputs(heads, form["one_hot"]), *hidden]
            for i, (before, after) in enumerate(pairwise(widths)):
                self.table(f"{prefix}.layers.{i}", {"weight": f"s {after} {before}", "bias": f"s {after}"}, {})
            self.table(f"{prefix}.head", {"weight": f"s {heads} {widths[-1]}", "bias": f"s {heads}"}, {})
            extra = [name for name in self.arrays if name.startswith(f"{prefix}.") and name not in self.seen]
            _need(not extra, f"{prefix} does not have {', '.join(map(repr, extra[:3]))}")
        else:
            _need(isinstance(kind.get("custom"), str), f"{prefix} is of an unknown kind")
        if entry["uncertainty"]:
            self.table(f"{key}.uncertainty", NETWORK_UNCERTAINTY, {"n": sizes["n"]})

    def log_linear(self, key: str, entry: Mapping[str, Any], sizes: Sizes) -> int:
        """Check a log-linear model and what is kept beside it; return the number of its features."""
        _flags(entry, "curved", "auditor", "wide", "wide_step", "summaries")
        room, d = _whatever(entry, "room"), sizes["d"]
        _need(
            isinstance(room, list) and len(room) == 5 and all(map(_is_count, room)), f"{key} has no room for features"
        )
        _need(room[:2] == [d, d * entry["curved"]], f"{key} has room for {room[0]} of {d} columns")
        self.features(key, room, sizes)
        learned, p = _whatever(entry, "learned"), int(sum(room))
        _need(isinstance(learned, list), f"{key} does not list what was learned")
        count = sum(self.learned(f"{key}.learned.{i}", kind, d) for i, kind in enumerate(learned))
        _need(count == room[4], f"{key} has room for {room[4]} learned features, and holds {count}")
        wider = sizes | {"p": p, "q": p + 1, "half": (p + 1) * (p + 2) // 2}
        if entry["uncertainty"]:
            self.table(f"{key}.uncertainty", UNCERTAINTY_OF_SUMS if entry["sums"] else UNCERTAINTY, wider)
        if entry["evidence"]:
            found = self.table(f"{key}.evidence", EVIDENCE, {"d": d})
            curves = len(monomials(d))
            _need(found["curves"] == curves, f"{key}.evidence has {found['curves']} of {curves} curved products")
            pairs = len(lessers(d))
            _need(found["lessers"] == pairs, f"{key}.evidence has {found['lessers']} of {pairs} pairs' lessers")
        if entry["auditor"]:
            found = self.table(f"{key}.auditor", AUDITOR_OF_SUMS if entry["sums"] else AUDITOR, {"d": d})
            functions = found["units"] + found["corners"] + found["centres"] - 1
            half = functions * (functions + 1) // 2
            _need(found["half"] == half, f"{key}.auditor has {found['half']} of {half} covariances")
            _need(found["m"] == functions, f"{key}.auditor has {found['m']} means of {functions} functions")
        for part in ("wide", "wide_step"):
            if entry[part]:
                self.table(f"{key}.{part}", WIDE, wider)
        if entry["summaries"]:
            for part in ("start", "now"):
                self.density(f"{key}.summary.{part}", entry.get("density"), d)
            self.table(f"{key}.summary", {"rows": "f"}, {})
        if f"{key}.crossed" in self.arrays:
            crossed = self.table(key, {"crossed": "f n k"}, {"n": sizes["n"]})
            _need(crossed["k"] <= room[4], f"{key}.crossed has {crossed['k']} of {room[4]} learned features")
        if entry["sums"]:
            sums, used = self.table(f"{key}.sums", SUMS, wider), int(self.arrays[f"{key}.used"].sum())
            functions = found["m"] if entry["auditor"] else 0
            _need(sums["m"] in (0, functions), f"{key}.sums has {sums['m']} means of {functions} functions")
            kinds = sums["products"] + sums["hinges"]
            _need(sums["candidates"] == kinds, f"{key}.sums has {sums['candidates']} means of {kinds} candidates")
            # an original of one column, or of constant ones, has means of columns, and nothing that may join
            level = (d,) if kinds else (0, d)
            _need(sums["level"] in level, f"{key}.sums has {sums['level']} means of {d} columns")
            _need(used == p - room[4], f"{key} uses {used + room[4]} of {p} features, and has sums of all")
        return p

    def features(self, key: str, room: Sequence[int], sizes: Sizes) -> None:
        """Check the features that are not learned, and which of their slots are used."""
        slots = {f"room{i}": size for i, size in enumerate(room)}
        self.table(key, FEATURES, sizes | slots | {"p": sum(room)})
        used = self.arrays[f"{key}.used"].tolist()
        fits = all(0 <= count <= size for count, size in zip(used, room, strict=False))
        _need(fits, f"{key} uses {used} of {list(room[:4])} slots")
        for part, count in zip((*COLUMNS, "pairs"), used, strict=False):
            self.within(f"{key}.{part}", 0, sizes["d"], count)
        linear, squares = (
            set(self.arrays[f"{key}.{part}"][:count].tolist()) for part, count in zip(COLUMNS, used[:2], strict=True)
        )
        once = [len(linear), len(squares)] == used[:2] and squares <= linear
        _need(once, f"{key} has columns twice, or squares of columns that it does not have")

    def learned(self, key: str, kind: Any, d: int) -> int:
        """Check features that were learned; return their number."""
        self.table(key, LEARNED, {"d": d})
        if kind == "Trees":
            self.table(f"{key}.map", TREES, {"d": d})
            _check_trees(self.arrays[f"{key}.map.child"], self.arrays[f"{key}.map.start"], key)
            return 1
        if kind == "Monomials":
            return self.table(f"{key}.map", MONOMIALS, {"factors": 3 * d + 1})["k"]
        if kind == "Lessers":
            return LESSER * self.table(f"{key}.map", LESSERS, {"d": d})["k"]
        found = self.density(f"{key}.map.density", kind, d)
        kept = self.table(f"{key}.map", {"kept": "i kept"}, {})["kept"]
        most = found["k"] * (1 + found["g"] + found["b"] + found["g"] * (found["g"] + 1) // 2)
        self.within(f"{key}.map.kept", 0, most)
        return kept

    def density(self, key: str, kind: Any, d: int) -> Sizes:
        """Check a density; return its sizes."""
        _need(isinstance(kind, str) and kind in DENSITIES, f"{key} is of an unknown kind, {kind!r}")
        found = self.table(key, DENSITIES[kind], {"d": d})
        _need(found["k"] > 0, f"{key} has no clusters")
        return found

    def table(self, key: str, shapes: Mapping[str, str], sizes: Sizes) -> Sizes:
        """Check arrays against a table of shapes; return the sizes that it names."""
        sizes = dict(sizes)
        for name, shape in shapes.items():
            full = f"{key}.{name}" if key else name
            kind, dims, below = _read_shape(shape)
            found = self.array(full, kind, len(dims)).shape
            for dim, size in zip(dims, found, strict=True):
                wanted = dim if isinstance(dim, int) else sizes.setdefault(dim, size)
                if size != wanted:
                    raise ValueError(f"{full} has the shape {found}, with {size} instead of {wanted}")
            if below:
                self.within(full, 0, int(below) if below.isdecimal() else sizes[below])
        return sizes

    def array(self, name: str, kind: str, ndim: int) -> Array:
        """Return an array of this kind and number of dimensions."""
        _need(name in self.arrays, f"it lacks {name!r}")
        found = self.arrays[name]
        if found.dtype != _TYPES[kind]:  # names of types are slow to make, and a state has a hundred arrays
            raise ValueError(f"{name} holds {found.dtype.name} instead of {_NAMES[kind]}")
        if found.ndim != ndim:
            raise ValueError(f"{name} has the shape {found.shape} instead of {ndim} dimensions")
        self.seen.add(name)
        return found

    def within(self, name: str, low: int, high: int, count: int | None = None) -> None:
        """Check that the first entries of an array, or all, are at least ``low`` and below ``high``."""
        values = self.arrays[name][:count] if count is not None else self.arrays[name]
        fits = values.size == 0 or (values.min() >= low and values.max() < high)
        _need(bool(fits), f"{name} has entries outside {low} to {high - 1}")


@cache
def _read_shape(shape: str) -> tuple[str, tuple[int | str, ...], str]:
    """Return the kind of an array, its dimensions, and what its entries are below, if anything."""
    shape, _, below = shape.partition(" <")
    kind, *dims = shape.split()
    return kind, tuple(int(dim) if dim.isdecimal() else dim for dim in dims), below


def _check_trees(child: Array, start: Array, key: str) -> None:
    """Check that each question leads to two later nodes, and that no path is longer than a tree of ours."""
    nodes = np.arange(len(child))
    asks = child != nodes
    _need(bool(((child > nodes) & (child + 1 < len(child)))[asks].all()), f"{key} has trees that do not end")
    level = np.unique(start)
    for _ in range(_DEEPEST):
        left = child[level[asks[level]]]
        level = np.unique(np.concatenate([left, left + 1]))
    _need(len(level) == 0, f"{key} has trees of more than {_DEEPEST} levels")


def _whatever(entry: Mapping[str, Any], name: str) -> Any:
    """Return what a header says, which may be anything."""
    return entry.get(name)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _flags(entry: Mapping[str, Any], *names: str) -> None:
    for name in names:
        _need(isinstance(entry.get(name), bool), f"its layout does not say whether there is {name!r}")


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
