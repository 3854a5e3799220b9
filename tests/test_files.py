"""Bytes of arrays: those of the safetensors library."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from driftline.files import _TYPES, _joined, pack, unpack

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
