"""MNIST and Fashion-MNIST as arrays: from ``DRIFTLINE_DATA``, from Debian's package, or downloaded with a check."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.data import DataMissingError
from experiments.files import write_atomically

__all__ = ["DATASETS", "Images", "load_images", "read_idx"]

Bytes = npt.NDArray[np.uint8]

_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


class Source(NamedTuple):
    """Places to download a dataset from, and the md5 of its four files in the order of ``_FILES``."""

    mirrors: tuple[str, ...]
    digests: tuple[str, ...]
    debian: str


DATASETS = {
    "mnist": Source(
        ("https://ossci-datasets.s3.amazonaws.com/mnist/",),
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        "",
    ),
    "fashion-mnist": Source(
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        "dataset-fashion-mnist",
    ),
}
_DEBIAN = Path("/usr/share/datasets")


class Images(NamedTuple):
    """Images (n, height, width) of bytes and their labels (n,), to train and to test."""

    train: Bytes
    train_labels: Bytes
    test: Bytes
    test_labels: Bytes


def load_images(dataset: str) -> Images:
    """A dataset from the first place that has it; downloaded to the user's cache if none does."""
    if dataset not in DATASETS:
        raise ValueError(f"dataset={dataset!r} is unknown: choose one of {sorted(DATASETS)}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "driftline" / dataset
    named = os.environ.get("DRIFTLINE_DATA")
    places = [Path(named) / dataset] if named else []
    for folder in [*places, _DEBIAN / dataset, cache]:
        if all((folder / name).is_file() for name in _FILES):
            return _read(folder)
    _download(dataset, cache, places)
    return _read(cache)


def _read(folder: Path) -> Images:
    found = Images(*(read_idx(folder / name) for name in _FILES))
    for images, labels, part in ((found.train, found.train_labels, "train"), (found.test, found.test_labels, "t10k")):
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise ValueError(f"{folder}: {part} images {images.shape} and labels {labels.shape} do not belong together")
    return found


def read_idx(path: Path) -> Bytes:
    """The array of bytes in a gzipped idx file: two zeros, type 8, number of dimensions, their sizes, the bytes."""
    try:
        data = gzip.decompress(path.read_bytes())
    except (EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a whole gzip file: {error}") from error
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an idx file of bytes: it begins with {data[:4]!r}")
    sizes = struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]]) if len(data) >= 4 + 4 * data[3] else ()
    body = data[4 + 4 * data[3] :]
    if not sizes or len(body) != int(np.prod(sizes)):
        raise ValueError(f"{path} should hold an array of shape {sizes}, but holds {len(body)} bytes")
    return np.frombuffer(body, np.uint8).reshape(sizes)


def _download(dataset: str, cache: Path, places: list[Path]) -> None:
    source, errors = DATASETS[dataset], []
    for mirror in source.mirrors:
        try:
            for name, digest in zip(_FILES, source.digests, strict=True):
                if not (cache / name).is_file():
                    _fetch(mirror + name, cache / name, digest)
            return
        except OSError as error:
            errors.append(f"{mirror}: {error}")
    looked = ", ".join(str(place) for place in places) or "DRIFTLINE_DATA is not set"
    package = f", or install Debian's {source.debian}" if source.debian else ""
    raise DataMissingError(
        f"no {dataset}: not found ({looked}) and not to be downloaded ({'; '.join(errors)}). Put {', '.join(_FILES)} "
        f"into a folder {dataset} and let DRIFTLINE_DATA name the folder above it{package}"
    )


def _fetch(address: str, path: Path, digest: str, open_url: Callable[..., object] = urllib.request.urlopen) -> None:
    with open_url(address, timeout=30) as answer:  # type: ignore[attr-defined]
        data = answer.read()
    found = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if found != digest:
        raise OSError(f"{address} has md5 {found}, expected {digest}")
    write_atomically(path, lambda draft: draft.write_bytes(data))
