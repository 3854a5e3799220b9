"""Bytes of arrays: those of the safetensors library."""

import errno
import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from driftline.files import _TYPES, StateFileError, _joined, pack, read_arrays, replacing, unpack, write_arrays

ARRAYS = st.dictionaries(
    st.text(max_size=5).filter(lambda key: key != "__metadata__"),
    st.tuples(st.sampled_from(sorted(_TYPES)), st.lists(st.integers(0, 3), max_size=3), st.integers(0, 9)),
    max_size=6,
)


def made(kind, shape, seed):
    return np.asarray(100 * np.random.default_rng(seed).random(shape)).astype(kind)


@given(ARRAYS, st.text(max_size=20))
def test_bytes_are_those_of_the_library(shapes, note):
    arrays = {key: made(*parts) for key, parts in shapes.items()}
    assert _joined(arrays, {"driftline": note}) == save(arrays, metadata={"driftline": note})


def test_other_byte_orders_and_layouts_are_written_as_the_library_does():
    arrays = {"big": np.arange(3.0).astype(">f8"), "text": np.asfortranarray(np.arange(6.0).reshape(2, 3))}
    found = load(_joined(arrays | {"text": np.ascontiguousarray(arrays["text"])}, {}))
    for key, value in arrays.items():
        np.testing.assert_array_equal(found[key], value)
    meta = {"format": "mine", "version": 1}
    kept, _ = unpack(pack({"text": arrays["text"].T[::2]}, meta), "mine", 1, "data")
    np.testing.assert_array_equal(kept["text"], arrays["text"].T[::2])


def test_types_that_the_format_does_not_have_are_refused():
    with pytest.raises(KeyError, match="complex128"):
        pack({"x": np.zeros(2, dtype=complex)}, {"format": "mine", "version": 1})


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod"])
def test_a_disk_that_fails_leaves_the_old_file(call, tmp_path, monkeypatch):
    write_arrays(tmp_path / "state", {"x": np.zeros(3)}, {"format": "mine", "version": 1})
    before = (tmp_path / "state").read_bytes()

    def fail(*args):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match=r"Input/output error: '.*state'"):  # names the file, not a temporary one
        write_arrays(tmp_path / "state", {"x": np.ones(3)}, {"format": "mine", "version": 1})
    monkeypatch.undo()
    assert (tmp_path / "state").read_bytes() == before
    assert os.listdir(tmp_path) == ["state"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a disk that is full is needed")
def test_a_disk_that_is_full_says_so():
    with pytest.raises(OSError, match="No space left"):
        write_arrays("/dev/full", {"x": np.zeros(3)}, {"format": "mine", "version": 1})
    assert not os.path.isfile("/dev/full")


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="a file that cannot be read is needed")
def test_a_file_that_cannot_be_read():
    with pytest.raises(OSError, match="Input/output error"):
        read_arrays("/proc/self/mem", "mine", 1)


def test_pipes_are_written_to_and_not_replaced(tmp_path):
    """As root, a report to /dev/null would otherwise put a file in its place."""
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    with replacing(tmp_path / "pipe") as file:
        file.write(b"hello")
    reader.join()
    assert found == [b"hello"]
    assert (tmp_path / "pipe").is_fifo()


def test_long_names_can_be_written(tmp_path):
    with replacing(tmp_path / ("x" * 255)) as file:
        file.write(b"hello")
    assert os.listdir(tmp_path) == ["x" * 255]


@pytest.mark.parametrize(
    "meta", ["[1]", "3", "null", '"x"', "[" * 5000, '{"format": []}', '{"format": "mine"}', "1" * 9999]
)
def test_headers_that_are_not_ours(meta):
    data = save({"x": np.zeros(2)}, metadata={"driftline": meta})
    with pytest.raises(StateFileError):
        unpack(data, "mine", 1, "data")
