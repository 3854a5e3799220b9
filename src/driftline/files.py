"""Arrays on disk: one safetensors file with a JSON header, written atomically, checked when read. No pickle."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "StateFileError", "pack", "read_arrays", "replacing", "unpack", "write_arrays"]

Array = npt.NDArray[Any]

_UMASK = os.umask(0)  # it can only be read by setting it: once, while no other thread saves a file
os.umask(_UMASK)

_TYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "float16": "F16",
    "int32": "I32",
    "uint32": "U32",
    "float32": "F32",
    "float64": "F64",
    "int64": "I64",
    "uint64": "U64",
}
"""Names of types in a safetensors file, in its order."""


class StateFileError(ValueError):
    """Error raised for a file that is not a driftline state, is damaged, or belongs to another version."""


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to write to; afterwards the path holds either the old file or the whole new one, whatever happened.

    A device or a pipe is written to as it is: it must not be replaced by a file.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/x") as file:
    ...         _ = file.write(b"hello")
    ...     Path(f"{folder}/x").read_text()
    'hello'
    """
    target = Path(path).resolve()  # a link stays a link, now to the new file
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a directory: name a file")
    if Path(path).exists() and not Path(path).is_file():
        with open(path, "wb") as file:
            yield file
        return
    # names of files have a greatest length, which a name and more would exceed
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:50]}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), 0o666 & ~_UMASK)  # the permissions open() would have set
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename in (None, temporary):  # such as a full disk
            error.filename = os.fspath(path)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def pack(arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> bytes:
    """Return arrays and a header as the bytes of a safetensors file.

    Arguments:
        meta: header; must hold ``format`` and ``version``, which :func:`unpack` checks.

    >>> data = pack({"ones": np.ones(2)}, {"format": "mine", "version": 1, "note": "hello"})
    >>> arrays, meta = unpack(data, "mine", 1, "my data")
    >>> arrays["ones"].tolist(), meta["note"]
    ([1.0, 1.0], 'hello')
    """
    arrays = {key: np.ascontiguousarray(value).reshape(value.shape) for key, value in arrays.items()}
    parts = {str(name): json.dumps(value, sort_keys=True, default=_plain) for name, value in meta.items()}
    header = {**parts, "digest": json.dumps(_digest(arrays, _object(parts)))}
    return _joined(arrays, {"driftline": _object(header)})


def unpack(data: bytes, kind: str, version: int, what: str) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return arrays and header if ``format`` is ``kind``; otherwise raise :class:`StateFileError` about ``what``."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = dict(sorted(load(data).items()))
        length = int.from_bytes(data[:8], "little")
        meta = json.loads(json.loads(data[8 : 8 + length]).get("__metadata__", {}).get("driftline", "null"))
    except (SafetensorError, ValueError, TypeError, AttributeError, LookupError, RuntimeError) as error:
        raise StateFileError(f"{what}: damaged, or not a driftline state ({error})") from None
    if not isinstance(meta, dict) or meta.get("format") != kind:
        known = isinstance(meta, dict) and "format" in meta
        found = f"has format {meta['format']!r}" if known else "is a safetensors file"
        raise StateFileError(f"{what}: {found}, but is not a driftline state of format {kind!r}")
    if meta.get("version") != version:
        raise StateFileError(
            f"{what}: written as version {meta.get('version')}, this driftline reads version {version}: begin anew, or "
            "go on with the driftline that wrote it"
        )
    digest = meta.pop("digest", None)
    try:
        matches = digest == _digest(arrays, json.dumps(meta, sort_keys=True))
    except (ValueError, RecursionError):  # text that is not Unicode, or a header nested without end
        matches = False
    if not matches:
        raise StateFileError(f"{what}: damaged, its content does not match its digest")
    return arrays, meta


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
    """Write arrays and a header to a file, atomically, in the form that :func:`pack` makes."""
    data = pack(arrays, meta)
    with replacing(path) as file:
        file.write(data)


def read_arrays(path: str | os.PathLike[str], kind: str, version: int) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read arrays and a header from a file, with the checks of :func:`unpack`."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{os.fspath(path)}: no such file")
    return unpack(Path(path).read_bytes(), kind, version, os.fspath(path))


def _joined(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Return the bytes that ``safetensors.numpy.save`` returns, but copy each array once instead of twice.

    A state is mostly one window, and is written at every step. The format: the length of a JSON header, the header,
    and the arrays, those of wide types first.
    """
    entries: dict[str, Any] = {"__metadata__": metadata}
    wide = {name: -place for place, name in enumerate(_TYPES)}
    ordered, end = sorted(arrays, key=lambda key: (wide[_name(arrays[key].dtype)], key)), 0
    for key in ordered:
        value, begin = arrays[key], end
        end += value.nbytes
        entries[key] = {
            "dtype": _TYPES[_name(value.dtype)],
            "shape": list(value.shape),
            "data_offsets": [begin, end],
        }
    header = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # so that the arrays are aligned
    return b"".join([len(header).to_bytes(8, "little"), header, *(_little(arrays[key]).data for key in ordered)])


def _little(value: Array) -> Array:
    return value.astype(value.dtype.newbyteorder("<"), copy=False)


def _plain(value: Any) -> Any:
    """Convert numpy numbers to Python numbers."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written to a state file")


def _object(parts: Mapping[str, str]) -> str:
    """Return an object as ``json.dumps`` writes it with sorted keys, from the JSON of its parts: these are long."""
    return "{" + ", ".join(f"{json.dumps(name)}: {parts[name]}" for name in sorted(parts)) + "}"


@cache
def _name(kind: np.dtype[Any]) -> str:
    """Return the name of a type, which numpy puts together anew each time."""
    return kind.name


def _digest(arrays: Mapping[str, Array], meta: str) -> str:
    total = hashlib.sha256(meta.encode())
    for key in sorted(arrays):
        value = np.ascontiguousarray(arrays[key])
        total.update(f"{key} {_name(value.dtype)} {arrays[key].shape}".encode())
        total.update(value.data)
    return total.hexdigest()
