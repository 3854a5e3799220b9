"""Damage to files whose digests are right, as a person with a grudge would do it; and a cell in which to open them."""

import copy
import json
import os
import pickle
import resource
import signal
from pathlib import Path

import numpy as np

from driftline.files import pack

NUMBERS = (-1, 0, 1, 2, 7, 40_000, 10**6, 2**31, 2**40, 10**12, 10**30, 1e308, -0.5)
JUNK = (None, True, False, "", "x", [], {}, [[]], {"a": 1}, [1, 2, 3], "\ud800", *NUMBERS)
TYPES = ("float64", "float32", "int64", "int32", "int8", "bool", "uint8", "float16")


def deep(levels=400):
    """Return lists in lists, as deep as JSON can be written; reading fails a little later."""
    found = []
    for _ in range(levels):
        found = [found]
    return found


def places(value, path=()):
    """Yield the path of every entry of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in items:
        yield (*path, key)
        yield from places(entry, (*path, key))


def altered(value, rng, keep=()):
    """Return a copy of a JSON value with one entry replaced, removed or added, and what was done."""
    value = copy.deepcopy(value)
    known = [path for path in places(value) if path[0] not in keep]
    path = known[rng.integers(len(known))]
    inside = value
    for key in path[:-1]:
        inside = inside[key]
    before, way = inside[path[-1]], int(rng.integers(6))
    if way == 0:
        del inside[path[-1]]
        return value, f"{path} removed"
    if way == 1 and isinstance(before, list | dict):
        more = JUNK[rng.integers(len(JUNK))]
        before.append(more) if isinstance(before, list) else before.update(more=more)
        return value, f"{path} gets {more!r}"
    if way == 2 and isinstance(before, int | float):
        new = NUMBERS[rng.integers(len(NUMBERS))]
    elif way == 3:
        inside[path[-1]] = deep()
        return value, f"{path} nested"
    else:
        new = JUNK[rng.integers(len(JUNK))]
    inside[path[-1]] = new
    return value, f"{path}: {str(before)[:30]} -> {new!r}"


def altered_array(arrays, rng):
    """Return arrays of which one has another shape, type or values, or is missing, and what was done."""
    arrays = dict(arrays)
    name = sorted(arrays)[rng.integers(len(arrays))]
    value, way = arrays[name], int(rng.integers(8))
    if way == 0:
        del arrays[name]
    elif way == 1:
        arrays[f"{name}.more"] = value
    elif way == 2:
        with np.errstate(all="ignore"):
            arrays[name] = value.astype(TYPES[rng.integers(len(TYPES))])
    elif way == 3:
        arrays[name] = value.reshape(-1)[: rng.integers(value.size + 1)]
    elif way == 4:  # no bytes, and as large as one likes
        shape = [1] * max(value.ndim, 2)
        shape[:2] = [0, int(NUMBERS[rng.integers(2, 10)])]
        shape = [shape[i] for i in rng.permutation(len(shape))]
        arrays[name] = np.zeros(0, value.dtype).reshape(shape)
    elif way == 5:
        arrays[name] = value[None] if rng.integers(2) else value.T
    elif way == 6:
        arrays[name] = np.concatenate([value, value]) if value.ndim else np.array([value, value])
    else:
        junk = (-1, 0, 1, 10**6, 2**31 - 1, np.nan, np.inf)[rng.integers(7)]
        with np.errstate(all="ignore"):
            arrays[name] = np.full(value.shape, junk, dtype=np.float64).astype(value.dtype)
    return arrays, f"{name} {value.shape} {value.dtype} way {way}"


def altered_bytes(data, rng):
    """Return bytes that are cut, flipped, or have another header of safetensors."""
    way, data = int(rng.integers(4)), bytearray(data)
    if way == 0:
        return bytes(data[: rng.integers(len(data))]), "cut"
    if way == 1:
        for _ in range(int(rng.integers(1, 9))):
            data[rng.integers(len(data))] = rng.integers(256)
        return bytes(data), "flipped"
    length = int.from_bytes(data[:8], "little")
    if way == 2:
        return (2 ** int(rng.integers(1, 64)) - 1).to_bytes(8, "little") + bytes(data[8:]), "length of the header"
    header, what = altered(json.loads(data[8 : 8 + length]), rng)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data[8 + length :]), f"header {what}"


def damaged(data, arrays, meta, rng):
    """Return a damaged file of arrays and a header, and what was done to it; most have a right digest."""
    way = int(rng.integers(8))
    if way == 0:
        return altered_bytes(data, rng)
    said = []
    for _ in range(int(rng.integers(1, 3))):
        if rng.integers(2):
            meta, what = altered(meta, rng, keep=("format", "version"))
        else:
            arrays, what = altered_array(arrays, rng)
        said.append(what)
    try:
        return pack(arrays, meta), "; ".join(said)
    except (ValueError, TypeError, OverflowError, RecursionError):  # this cannot be written at all
        return data[:-1], "cut"


def in_a_cell(cases, attempt, *, seconds=10, room=2 * 10**9):
    """Call ``attempt(case)`` for each case in a process with little time and memory.

    Returns what each call returned, or the name of what went wrong: a signal for a hang, or an error that was raised.
    """
    found = []
    while len(found) < len(cases):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _work(cases[len(found) :], attempt, writing, seconds, room)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            while True:
                try:
                    found.append(pickle.load(pipe))
                except EOFError:
                    break
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            found.append(signal.Signals(os.WTERMSIG(status)).name)
    return found


def _work(cases, attempt, writing, seconds, room):
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        for case in cases:
            signal.setitimer(signal.ITIMER_PROF, seconds)  # of the processor, which others may use, too
            signal.alarm(20 * seconds)
            try:
                result = attempt(case)
            except BaseException as error:
                result = f"{type(error).__name__}: {str(error)[:300]}"
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
            pipe.write(pickle.dumps(result))
    os._exit(0)
