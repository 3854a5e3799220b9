"""Images: files are read as they are meant, broken ones are named, downloads are checked."""

import gzip
import hashlib
import io
import struct

import numpy as np
import pytest

from experiments import images
from experiments.data import DataMissingError
from experiments.images import _FILES, _fetch, load_images, read_idx


def idx(array):
    head = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(head + array.astype(np.uint8).tobytes())


def write(folder, n=5):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, (n, 4, 4)), np.arange(n), rng.integers(0, 256, (2, 4, 4)), np.arange(2)]
    for name, array in zip(_FILES, arrays, strict=True):
        (folder / name).write_bytes(idx(array))
    return arrays


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """Nothing installed, nothing cached, no network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(images, "_DEBIAN", tmp_path / "debian")
    monkeypatch.delenv("DRIFTLINE_DATA", raising=False)

    def refuse(address, path, digest):
        raise OSError("no network")

    monkeypatch.setattr(images, "_fetch", refuse)
    return tmp_path


@pytest.mark.parametrize("place", ["named", "debian", "cache"])
def test_each_place_is_looked_at(alone, monkeypatch, place):
    folder = {"named": "data/mnist", "debian": "debian/mnist", "cache": "cache/driftline/mnist"}[place]
    arrays = write(alone / folder)
    if place == "named":
        monkeypatch.setenv("DRIFTLINE_DATA", str(alone / "data"))
    found = load_images("mnist")
    for array, got in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(array, got)


def test_absent_data_is_named_with_a_remedy(alone):
    with pytest.raises(DataMissingError, match=r"no fashion-mnist.*DRIFTLINE_DATA.*no network.*dataset-fashion-mnist"):
        load_images("fashion-mnist")
    with pytest.raises(ValueError, match="dataset='cifar' is unknown"):
        load_images("cifar")


def test_images_without_their_labels_are_refused(alone):
    write(alone / "debian" / "mnist")
    (alone / "debian" / "mnist" / _FILES[1]).write_bytes(idx(np.arange(3)))
    with pytest.raises(ValueError, match=r"train images \(5, 4, 4\) and labels \(3,\)"):
        load_images("mnist")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"plain", "not a whole gzip file"),
        (gzip.compress(b"\0\0\x08\x01\0\0\0\x05abcde", mtime=0)[:-6], "not a whole gzip file"),
        (gzip.compress(b"hello world", mtime=0), "not an idx file"),
        (gzip.compress(b"\0\0\x08\x01\0\0\0\x05abc", mtime=0), r"shape \(5,\), but holds 3 bytes"),
        (gzip.compress(b"\0\0\x08\x03\0\0", mtime=0), "should hold"),
        (gzip.compress(b"", mtime=0), "not an idx file"),
    ],
)
def test_broken_files_are_named(tmp_path, data, message):
    path = tmp_path / "broken.gz"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        read_idx(path)


def test_downloads_are_checked(tmp_path):
    data = idx(np.arange(3))

    def answer(address, timeout):
        return io.BytesIO(data)

    path = tmp_path / "deep" / "file.gz"
    with pytest.raises(OSError, match="expected 0000"):
        _fetch("http://nowhere/file.gz", path, "0000", answer)
    assert not path.exists()
    _fetch("http://nowhere/file.gz", path, hashlib.md5(data).hexdigest(), answer)
    np.testing.assert_array_equal(read_idx(path), [0, 1, 2])
