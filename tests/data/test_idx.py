"""The IDX format: what is written by hand is read back, and damage is named."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from squircuit.data import read_idx
from squircuit.data.idx import TYPES, parse_idx
from squircuit.errors import DataError


def as_idx(code, array):
    """The bytes of an IDX file, from the definition of the format."""
    return bytes([0, 0, code, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


@st.composite
def files(draw):
    code = draw(st.sampled_from(sorted(TYPES)))
    return code, draw(arrays(np.dtype(TYPES[code]), array_shapes(max_dims=3, max_side=4)))


@given(files())
def test_arrays_of_every_type_are_read_back(file):
    code, array = file
    read = parse_idx(as_idx(code, array), "here")
    assert read.dtype.isnative
    np.testing.assert_array_equal(read, array)


def test_plain_and_compressed_files_are_told_by_their_content(tmp_path):
    array = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    (tmp_path / "plain.gz").write_bytes(as_idx(8, array))
    (tmp_path / "packed").write_bytes(gzip.compress(as_idx(8, array)))
    for name in ("plain.gz", "packed"):
        np.testing.assert_array_equal(read_idx(tmp_path / name), array)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"a,b\n1,2\n", "not an IDX file, it begins with 61 2c 62 0a"),
        (bytes([0, 0, 8, 3, 0, 0]), "cut off after 6 of 16 bytes"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 3, 1, 2]), r"shape \(3,\) takes 11 bytes, the file has 10"),
    ],
)
def test_damage_is_named_with_the_file(tmp_path, content, words):
    path = tmp_path / "bad.idx"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"bad.idx: .*{words}"):
        read_idx(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.idx: there is no such file"):
        read_idx(tmp_path / "none.idx")


def test_empty_arrays_of_shapes_that_no_array_has_are_refused(tmp_path):
    file = tmp_path / "a.idx"
    file.write_bytes(bytes([0, 0, 8, 3]) + (0).to_bytes(4, "big") + b"\xff" * 8)
    with pytest.raises(DataError, match="too large"):
        read_idx(file)
