"""Files in several parts: what is written is read again, and a part that is not what it was is named."""

import gc
import json
import os
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

import squircuit as sq
from squircuit import storage
from squircuit.errors import FormatError
from squircuit.storage import parts
from squircuit.storage.parts import Part

DTYPES = (torch.float32, torch.complex128, torch.int64, torch.uint8, torch.bool)


def some(dtype, shape, seed=0):
    values = torch.randn(shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(seed)) * 3
    return (values if dtype.is_complex else values.real).to(dtype)


TENSORS = {"a": some(torch.complex64, (7, 3)), "b": torch.arange(5), "c": torch.tensor(2.0)}
TENSORS["d"] = some(torch.float64, (40, 2))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file.safetensors"
    storage.write(path, TENSORS, {"n": 1}, "model", part_bytes=200)
    return path


def parts_of(path):
    return sorted(path.parent.glob(f"{path.stem}-*-of-*.safetensors"))


def refused(path):
    with pytest.raises(FormatError) as caught:
        storage.read(path, "model")
    message = str(caught.value)
    assert str(path) in message
    assert message.count("Fix: ") == 1
    assert "\n" not in message
    return message


def assert_holds(path, tensors):
    found = storage.read(path, "model").tensors
    assert found.keys() == tensors.keys()
    for name, value in tensors.items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=4).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3)),
        max_size=4,
    ),
    st.integers(1, 300),
)
def test_tensors_come_back_bit_by_bit_whatever_a_part_holds(tmp_path_factory, description, part_bytes):
    path = tmp_path_factory.mktemp("parts") / "file.safetensors"
    tensors = {name: some(dtype, shape) for name, (dtype, shape) in description.items()}
    storage.write(path, tensors, {"n": 1}, "model", part_bytes=part_bytes)
    assert_holds(path, tensors)
    content = storage.Content(path, "model")
    assert {n: (form.shape, form.dtype) for n, form in content.forms.items() if form.shape} == {
        n: (tuple(v.shape), v.dtype if v.is_floating_point() or v.is_complex() or v.dtype == torch.uint8
            else {torch.int64: "I64", torch.bool: "BOOL"}[v.dtype])
        for n, v in tensors.items() if v.shape
    }  # fmt: skip


def test_no_part_holds_more_than_was_asked_and_the_index_names_the_place_of_each_tensor(file):
    index = json.loads((file.parent / "file.safetensors.index.json").read_text())
    entry = max(v.nbytes // len(v) if v.ndim else v.nbytes for v in TENSORS.values())
    total, found = 0, {}
    for part in parts_of(file):
        with safe_open(part, framework="pt") as content:
            held = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
        assert sum(value.nbytes for value in held.values()) < 200 + entry
        total += sum(value.nbytes for value in held.values())
        found |= dict.fromkeys(held, part.name)
    assert index["weight_map"] == found
    assert index["metadata"]["total_size"] == total == sum(value.nbytes for value in TENSORS.values())
    assert len(parts_of(file)) == -(-total // 200)


def test_writing_again_leaves_no_part_of_the_older_file(file):
    first = set(parts_of(file))
    storage.write(file, {"a": torch.arange(99)}, {}, "model", part_bytes=300)
    assert first.isdisjoint(parts_of(file))
    assert_holds(file, {"a": torch.arange(99)})
    (file.parent / "file-of-somebody.safetensors").write_text("")
    storage.write(file, {"a": torch.arange(9)}, {}, "model")
    assert {path.name for path in file.parent.iterdir()} == {file.name, "file-of-somebody.safetensors"}
    assert_holds(file, {"a": torch.arange(9)})


@pytest.mark.parametrize("calls", [1, 3, 9, 10])
def test_a_write_that_fails_in_any_part_leaves_the_old_file_whole(file, monkeypatch, calls):
    ordinary, left = os.fsync, [calls]

    def full(handle):
        left[0] -= 1
        if not left[0]:
            raise OSError(28, "No space left on device")
        ordinary(handle)

    before = {path.name: path.read_bytes() for path in file.parent.iterdir()}
    monkeypatch.setattr(os, "fsync", full)
    other = {name: some(torch.float64, (20, 9), seed=1) for name in ("a", "b")}
    if calls <= len(parts.cut(other, 350)) + 1:
        with pytest.raises(FormatError, match=r"cannot be written \(No space left on device\)"):
            storage.write(file, other, {}, "model", part_bytes=350)
        assert {path.name: path.read_bytes() for path in file.parent.iterdir()} == before
    assert_holds(file, TENSORS)


def test_parts_that_a_killed_process_has_left_are_deleted_and_those_that_somebody_writes_stay(file):
    left = file.with_name("file-0123abcd-00001-of-00002.safetensors")
    left.write_text("begun")
    with parts.PartsWriter(file, TENSORS, 300, {}) as writing:
        storage.write(file, TENSORS, {}, "model", part_bytes=200)
        there = [path.name for path in parts_of(file)]
        assert all(name in there for name, _ in writing.names)
    assert not left.exists()
    assert not any((file.parent / name).exists() for name, _ in writing.names)  # it was never kept
    assert_holds(file, TENSORS)


def test_a_part_that_is_missing_wrong_or_damaged_is_named(file, tmp_path):
    first, second, *_ = parts_of(file)
    count, content = len(parts_of(file)), second.read_bytes()
    second.unlink()
    assert f"part 2 of {count}, {second.name}, is missing" in refused(file)
    second.write_bytes(first.read_bytes())
    assert f"part 2 of {count}, {second.name}, belongs to another file" in refused(file)
    second.write_bytes(content[:-9])
    assert f"part 2 of {count}, {second.name}, is truncated or damaged" in refused(file)
    second.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    assert f"part 2 of {count}, {second.name}, is truncated or damaged" in refused(file)
    second.write_bytes(content)
    assert_holds(file, TENSORS)


@given(st.data())
@settings(max_examples=60)
def test_files_with_one_byte_changed_are_refused_or_the_same(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "file.safetensors"
    storage.write(path, TENSORS, {"n": 1}, "model", part_bytes=250)
    victim = data.draw(st.sampled_from([path, *parts_of(path)]).map(lambda found: found))
    content = bytearray(victim.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    victim.write_bytes(content)
    try:
        assert_holds(path, TENSORS)
    except FormatError as error:
        assert str(path) in str(error)  # noqa: PT017
        assert "Fix: " in str(error)  # noqa: PT017


def test_names_of_parts_are_no_paths_to_elsewhere(file):
    for name in ("../secret", "/etc/passwd", "", "a/b", "..", "x\0"):
        with pytest.raises(ValueError, match="its part 1 has no name"):
            list(parts.named_parts([[name, "0"]]))


def test_parts_are_in_memory_one_at_a_time(file, monkeypatch):
    ordinary, alive, most = Part.tensors, [], []

    def watched(part):
        gc.collect()
        most.append(sum(found() is not None for found in alive))
        held = ordinary(part)
        alive.extend(weakref.ref(value) for value in held.values())
        return held

    monkeypatch.setattr(Part, "tensors", watched)
    total = 0
    for _, _, piece in storage.Content(file, "model").pieces():
        total += piece.nbytes
        del piece
    assert total == sum(value.nbytes for value in TENSORS.values())
    assert most == [0] * len(parts_of(file))


@pytest.mark.parametrize("part_bytes", [1, 300, 900])
def test_a_model_in_parts_is_the_same_model(tmp_path, part_bytes):
    families = [sq.Hermite(6, learnable=True), sq.Fourier(5, 4.0, learnable=True), sq.Categorical(3)]
    circuit = sq.build(sq.regions.linear(3), families, units=3, roots=3, root_weights="learnable")
    model, path = sq.SquaredCircuit(circuit, seed=4), tmp_path / "model.safetensors"
    with torch.no_grad():
        model.root_logits.copy_(torch.tensor([0.5, -0.25, 1.0]))
    model.save(path, part_bytes=part_bytes)
    assert len(parts_of(path)) > 1
    again, state = sq.load(path), model.state_dict()
    assert again.state_dict().keys() == state.keys()
    assert all(torch.equal(again.state_dict()[name], value) for name, value in state.items())
    assert {n: p.constraint for n, p in again.named_parameters()} == {
        n: p.constraint for n, p in model.named_parameters()
    }
    x = torch.tensor([[0.3, -0.2, 1.0], [1.4, 0.4, 2.0]])
    assert torch.equal(again.log_prob(x), model.eval().log_prob(x))
    next(iter(parts_of(path))).unlink()
    with pytest.raises(FormatError, match=r"part 1 of \d+, .* is missing"):
        sq.load(path)
