"""Whoever wrote a file, with whatever checksum: it is a model, or one clear error within bounded memory."""

import json
import math
import resource
import subprocess
import sys
import tracemalloc
import zlib

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

import squircuit as sq
from squircuit.models.saving import compressed, decompressed, most_bytes
from squircuit.storage.encoding import digest


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    families = [sq.Hermite(4, learnable=True), sq.Categorical(3), sq.Orthonormalised(sq.BSpline(5))]
    sq.SquaredCircuit(sq.build(sq.regions.linear(3), families, units=2, roots=2)).save(path)
    return path


def signed(path, tensors, document, kind="model", complex_names=None):
    """A file with a valid checksum, whatever is in it; texts stay as they are."""
    notes = {
        "complex": json.dumps(complex_names or []),
        "document": document if isinstance(document, str) else json.dumps(document),
        "kind": kind,
    }
    header = {"format": "squircuit", "version": "1", **notes, "sha256": digest(notes, tensors)}
    path.write_bytes(save(tensors, header))


def rewritten(path, change=lambda tensors, document: None, structure=lambda found: found):
    """The file with other tensors, another document or another structure, signed again."""
    tensors, document = sq.storage.read(path, "model")
    found = structure(json.loads(decompressed(tensors["structure"])))
    text = (found if isinstance(found, str) else json.dumps(found)).encode()
    tensors["structure"] = torch.from_numpy(np.frombuffer(bytearray(zlib.compress(text)), dtype=np.uint8))
    document["structure_bytes"] = len(text)
    change(tensors, document)
    sq.storage.write(path, tensors, document, "model")


def refused(path, words="Fix: "):
    with pytest.raises(sq.FormatError, match=words) as caught:
        sq.load(path)
    message = str(caught.value)
    assert str(path) in message
    assert message.count("Fix: ") == 1
    assert "\n" not in message
    assert len(message) < 1000
    return message


WRONG = [math.inf, -math.inf, math.nan, -1, 0, 2**70, 10**400, 10**4000, 1.5, True, "2", None, [2], {}]


@pytest.mark.parametrize("value", WRONG, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize(
    "place", ["side", "shape", "variable", "units", "first_row", "size", "root", "input"]
)
def test_a_number_that_is_none_is_one_error(file, place, value):
    def change(found):
        layers = found["layers"]
        first = next(layer for layer in layers if layer["kind"] == "input")
        if place == "side":
            found["parameters"][0]["shape"][0] = value
        elif place == "shape":
            found["parameters"][0]["shape"] = value
        elif place == "size":
            first["family"]["size"] = value
        elif place == "root":
            found["roots"] = [value]
        elif place == "input":
            layers[-1]["inputs"] = [value]
        else:
            first[place] = value
        return found

    if (place, value) in (("variable", 0), ("first_row", 0)):
        return  # what was there
    rewritten(file, structure=change)
    refused(file, "not a valid model")


@pytest.mark.parametrize("size", [-1, 0, True, 1.5, math.inf, 2**40, "9", None])
def test_the_length_that_a_file_claims_is_no_limit(file, size):
    rewritten(file, change=lambda tensors, document: document.update(structure_bytes=size))
    refused(file, "its structure has .* bytes, expected")


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"a":' * 200_000, "1" * 5000, '{"x": ' + "1" * 5000 + "}", "\0"]
)
def test_deep_nesting_and_endless_numbers_are_one_error(tmp_path, file, text):
    rewritten(file, structure=lambda found: text)
    refused(file, "not JSON text|more brackets than text")
    signed(tmp_path / "other", {"structure": torch.zeros(3, dtype=torch.uint8)}, text)
    refused(tmp_path / "other", "no safetensors file")


@pytest.mark.parametrize("document", ["[]", "3", "null", '[["dtype", "float32"]]', "{}"])
def test_a_document_that_is_no_object_is_one_error(tmp_path, document):
    signed(tmp_path / "file", {"structure": torch.zeros(3, dtype=torch.uint8)}, document)
    refused(tmp_path / "file")


def test_a_version_of_thousands_of_digits_is_one_error(tmp_path):
    (tmp_path / "file").write_bytes(save({}, {"format": "squircuit", "version": "9" * 5000, "kind": "model"}))
    refused(tmp_path / "file", "version 9999999999 of the format")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_refused(file, value):
    tensors, document = sq.storage.read(file, "model")
    for name in document["weights"]:
        damaged = {other: tensor.clone() for other, tensor in tensors.items()}
        damaged[name].reshape(-1)[-1] = value
        sq.storage.write(file, damaged, document, "model")
        refused(file, "NaN or infinity")


def test_sums_of_zeros_are_a_circuit(file):
    rewritten(file, change=lambda tensors, document: [tensors[name].zero_() for name in document["weights"]])
    assert isinstance(sq.load(file), sq.SquaredCircuit)


def test_a_tensor_that_the_structure_does_not_name_is_refused(file):
    rewritten(file, change=lambda tensors, document: tensors.update(more=torch.zeros(5)))
    refused(file, "the tensor 'more' belongs to nothing in the structure")


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [math.inf]},
        {"shape": [-1, -3]},
        {"shape": [1.0, 3]},
        {"shape": [True, 3]},
        {"shape": [2, 2]},
        {"shape": "3"},
        {"shape": [1] * 100_000},
        {"notes": [["a", 1]]},
        {"notes": None},
        {"dtype": []},
        {"dtype": "float16"},
        {"weights": {"input0": "x0"}},
        {"weights": [["input0", ["x0"]]]},
        {"schema": {"columns": []}},
        {"schema": []},
    ],
    ids=lambda change: repr(change)[:30],
)
def test_a_document_with_other_entries_is_one_error(file, change):
    rewritten(file, change=lambda tensors, document: document.update(change))
    refused(file)


COLUMN = {
    "name": "a", "kind": "continuous", "categories": [], "low": 0.0, "high": 1.0, "loc": 0.5, "scale": 0.1,
    "missing": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"name": 3}, {"kind": "weird"}, {"kind": []}, {"low": math.nan}, {"high": math.inf}, {"scale": -1.0},
        {"loc": True}, {"loc": "0"}, {"low": 10**400}, {"missing": -1}, {"missing": 1.5}, {"more": 1},
        {"kind": "count", "high": 1e300}, {"kind": "count", "high": 0.5}, {"kind": "count", "high": -5.0},
        {"kind": "binary"}, {"kind": "categorical"}, {"kind": "categorical", "categories": [[], {}]},
        {"kind": "categorical", "categories": ["a", "a"]}, {"kind": "categorical", "categories": ["a", 1]},
        {"kind": "categorical", "categories": [math.nan]}, {"kind": "binary", "categories": [1, 2, 3]},
        {"kind": "categorical", "categories": "ab"}, {"kind": "periodic", "high": 0.0},
    ],
    ids=lambda change: repr(change)[:40],
)  # fmt: skip
def test_a_schema_that_describes_no_columns_is_one_error(change):
    sq.data.Schema.from_dict({"columns": [COLUMN]})
    with pytest.raises(sq.FormatError, match=r"not the description of a schema.*Fix: "):
        sq.data.Schema.from_dict({"columns": [COLUMN | change]})


@pytest.mark.slow
def test_a_structure_of_one_byte_repeated_uses_little_memory(file):
    packed = zlib.compress(b" " * 2**30, 9)
    assert len(packed) < 2**21
    bomb = torch.from_numpy(np.frombuffer(bytearray(packed), dtype=np.uint8))
    rewritten(file, change=lambda tensors, document: tensors.update(structure=bomb))
    tracemalloc.start()
    refused(file, "its structure has more than .* bytes, from ")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * most_bytes(len(packed)) < 2**30


def test_a_structure_of_brackets_is_refused_before_it_is_read(file):
    rewritten(file, structure=lambda found: "[" + "[]," * 2**20 + "[]]")
    refused(file, "more brackets than text")


def test_products_of_products_of_endless_width_are_one_error(file):
    def square(found):
        layers = [layer for layer in found["layers"] if layer["kind"] == "input"][:1]
        layers += [{"kind": "kronecker", "inputs": [i, i]} for i in range(200)]
        return found | {"layers": layers, "roots": [200], "validate": False, "root_weights": None}

    rewritten(file, structure=square)
    refused(file, "a Kronecker product of more than")


def test_families_nested_without_end_are_one_error(file):
    def nest(found):
        family = {"family": "Categorical", "size": 2}
        for _ in range(300):
            family = {"family": "Conjugated", "base": family}
        found["layers"][0]["family"] = family
        return found

    rewritten(file, structure=nest)
    refused(file, "a family nested 33 times")


def test_functions_that_would_need_a_huge_matrix_are_one_error(file):
    def widen(found):
        base = {"family": "BSpline", "size": 10**6, "low": 0.0, "high": 1.0, "degree": 3}
        for layer in found["layers"]:
            if layer["kind"] == "input" and layer["family"]["family"] == "Orthonormalised":
                layer["family"]["base"] = base
        return found

    rewritten(file, structure=widen)
    refused(file, "Orthonormalised: size=1000000 is too large for a file")


def test_a_file_of_holes_is_refused_before_it_is_read(file, tmp_path):
    """Ten gigabytes that take no place on the disk, and a structure that knows nothing of them."""
    content = file.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    end = len(content) - start
    header["holes"] = {"dtype": "U8", "shape": [10 * 2**30], "data_offsets": [end, end + 10 * 2**30]}
    text = json.dumps(header).encode()
    with (tmp_path / "sparse").open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text + content[start:])
        stream.truncate(8 + len(text) + end + 10 * 2**30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(tmp_path / "sparse", "'holes' belongs to nothing")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


def test_tensors_that_do_not_fit_into_memory_are_refused(file, monkeypatch):
    monkeypatch.setattr("squircuit.storage.memory.free_bytes", lambda: 1000)
    refused(file, "this needs about .* GB of memory, and 0 GB are free")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_a_structure_with_any_entry_changed_is_a_model_or_one_error(file, data):
    original = file.read_bytes()

    def change(found):
        place = found
        while isinstance(place, list | dict) and place:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = data.draw(st.sampled_from(list(keys)))
            if not isinstance(place[key], list | dict) or not place[key] or data.draw(st.integers(0, 3)) == 0:
                place[key] = data.draw(st.sampled_from([*WRONG, "x", 1, 2, 3, -2, 1e308, [], [[]], "x0"]))
                return found
            place = place[key]
        return found

    try:
        rewritten(file, structure=change)
        sq.load(file)
    except sq.FormatError as error:
        assert "Fix: " in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    finally:
        file.write_bytes(original)


def test_what_is_too_long_to_be_loaded_is_not_saved():
    with pytest.raises(sq.FormatError, match=r"the structure of the model takes .* Fix: "):
        compressed(b" " * 2**27)


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads the peak from /proc, which is Linux's"
)
@pytest.mark.process
def test_a_small_file_does_not_fill_the_memory(file):
    """As a user meets it, in a process of its own."""
    packed = zlib.compress(b"[" + b'"a",' * 2**24 + b'"a"]', 9)
    bomb = torch.from_numpy(np.frombuffer(bytearray(packed), dtype=np.uint8))
    rewritten(file, change=lambda tensors, document: tensors.update(structure=bomb))
    program = (
        "import pathlib, sys, squircuit as sq\n"
        "try:\n    sq.load(sys.argv[1])\n"
        "except sq.FormatError:\n    print(pathlib.Path('/proc/self/status').read_text())\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=False
    )
    (peak,) = (line for line in answer.stdout.splitlines() if line.startswith("VmHWM:"))
    assert int(peak.split()[1]) < 1_500_000, answer.stderr  # kilobytes
