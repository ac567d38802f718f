"""What is written is read again bit by bit, and a file that is not what it should be is refused in words."""

import json
import os
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from squircuit import storage
from squircuit.errors import FormatError, ParameterError
from squircuit.storage.encoding import digest

DTYPES = (
    torch.float32, torch.float64, torch.complex64, torch.complex128, torch.int64, torch.int32, torch.uint8,
    torch.bool, torch.bfloat16,
)  # fmt: skip
DOCUMENT = {"text": "Größe", "numbers": [1, 2.5, None, True], "nested": {"a": {}}}


def some(dtype, shape):
    values = torch.randn(shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(0)) * 3
    return (values if dtype.is_complex else values.real).to(dtype)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file.safetensors"
    storage.write(path, {"z": some(torch.complex64, (3, 2)), "n": torch.arange(5)}, DOCUMENT, "model")
    return path


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3)),
        max_size=4,
    )
)
def test_tensors_come_back_bit_by_bit(tmp_path_factory, description):
    path = tmp_path_factory.mktemp("files") / "file"
    tensors = {name: some(dtype, shape) for name, (dtype, shape) in description.items()}
    storage.write(path, tensors, DOCUMENT, "model")
    stored = storage.read(path, "model")
    assert stored.document == DOCUMENT
    assert stored.tensors.keys() == tensors.keys()
    for name, value in tensors.items():
        assert stored.tensors[name].dtype == value.dtype
        assert stored.tensors[name].shape == value.shape
        assert torch.equal(stored.tensors[name], value)


def test_views_conjugates_and_shared_memory_are_stored_as_what_they_show(tmp_path):
    whole = some(torch.complex128, (4, 4))
    views = {"whole": whole, "part": whole[1:3], "turned": whole.mT, "conjugate": whole.conj()}
    views |= {"imag": whole.imag, "learnt": torch.nn.Parameter(whole[:, ::2])}
    storage.write(tmp_path / "views", views, {}, "model")
    read = storage.read(tmp_path / "views", "model").tensors
    assert all(torch.equal(read[name], value) for name, value in views.items())


def test_what_is_read_owns_its_memory(file):
    first = storage.read(file, "model").tensors["n"]
    first += 1
    assert torch.equal(storage.read(file, "model").tensors["n"], torch.arange(5))


def test_writing_replaces_the_file_and_leaves_nothing_else(file):
    storage.write(file, {}, {"second": True}, "model")
    assert storage.read(file, "model").document == {"second": True}
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_a_write_that_fails_leaves_the_old_file(file, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    before = file.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FormatError, match=r"file\.safetensors: cannot .* \(No space left on device\)"):
        storage.write(file, {}, {}, "model")
    assert file.read_bytes() == before
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_others_may_read_the_file_as_the_umask_says(tmp_path):
    (tmp_path / "ordinary").write_text("")
    storage.write(tmp_path / "ours", {}, {}, "model")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


@given(st.data())
def test_a_file_with_one_byte_changed_is_refused_or_the_same(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "file"
    tensors = {"z": some(torch.complex64, (3, 2)), "n": torch.arange(5)}
    storage.write(path, tensors, DOCUMENT, "model")
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        stored = storage.read(path, "model")
    except FormatError as error:
        assert str(path) in str(error)  # noqa: PT017
        assert "Fix: " in str(error)  # noqa: PT017
    else:
        assert stored.document == DOCUMENT
        assert all(torch.equal(stored.tensors[name], value) for name, value in tensors.items())


@given(st.data())
def test_a_truncated_file_is_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("truncated") / "file"
    storage.write(path, {"n": torch.arange(5)}, DOCUMENT, "model")
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(FormatError, match=r"empty|truncated"):
        storage.read(path, "model")


def _torch_save(path):
    torch.save({"a": torch.zeros(2)}, path)


def _plain_pickle(path):
    path.write_bytes(pickle.dumps({"a": 1}))


def _of_others(path):
    save_file({"a": torch.zeros(2)}, path, {"format": "pt"})


def _without_metadata(path):
    save_file({"a": torch.zeros(2)}, path)


def _newer(path):
    save_file({}, path, {"format": "squircuit", "version": "3", "kind": "model"})


def _nonsense(path):
    notes = {"complex": '["a"]', "document": "[1", "kind": "model"}
    plain = {"a": torch.zeros(3)}
    header = {"format": "squircuit", "version": "1", **notes, "sha256": digest(notes, plain)}
    save_file(plain, path, header)


def _other_kind(path):
    storage.write(path, {}, {}, "checkpoint")


def _text(path):
    path.write_text("a,b\n1,2\n3,4\n")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.mkdir(), "a folder, not a file"),
        (lambda path: path.touch(), "the file is empty"),
        (_torch_save, "a pickle, as torch.save writes it"),
        (_plain_pickle, "a pickle"),
        (_text, "no safetensors file"),
        (_of_others, "safetensors, but not written by squircuit"),
        (_without_metadata, "safetensors, but not written by squircuit"),
        (_newer, "version 3 of the format, this release reads up to 2"),
        (_nonsense, "truncated, damaged or no safetensors file"),
        (_other_kind, "of kind 'checkpoint', not 'model'"),
    ],
)
def test_the_error_says_what_the_file_is(tmp_path, make, words):
    path = tmp_path / "file.safetensors"
    make(path)
    with pytest.raises(FormatError, match=words) as caught:
        storage.read(path, "model")
    assert str(path) in str(caught.value)
    assert "Fix: " in str(caught.value)


@pytest.mark.parametrize("path", ["missing/file", "."])
def test_a_place_that_cannot_be_written_is_named(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((FormatError, ParameterError), match="Fix: "):
        storage.write(path, {}, {}, "model")


@pytest.mark.parametrize(
    ("tensors", "document", "words"),
    [
        ({"a": [1, 2]}, {}, "a file holds tensors by name"),
        ({"a": torch.eye(2).to_sparse()}, {}, "cannot be stored"),
        ({"a": torch.zeros(2, device="meta")}, {}, "cannot be stored"),
        ({}, {"f": print}, "no JSON data"),
        ({}, [1], "must be a mapping"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(file, tensors, document, words):
    before = file.read_bytes()
    with pytest.raises(ParameterError, match=words):
        storage.write(file, tensors, document, "model")
    assert file.read_bytes() == before


def test_the_file_is_ordinary_safetensors(file):
    content = file.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header["z"] == {"dtype": "F32", "shape": [3, 2, 2], "data_offsets": header["z"]["data_offsets"]}
    assert header["__metadata__"]["format"] == "squircuit"
    assert json.loads(header["__metadata__"]["complex"]) == ["z"]
