"""Places that hold no file, or cannot: one clear error, and nothing is replaced that is no file."""

import os

import pytest
import torch

from squircuit import storage
from squircuit.errors import FormatError, SquircuitError
from squircuit.storage.atomic import replace
from squircuit.storage.documents import parsed


@pytest.mark.parametrize("place", ["pipe", "loop", "null\0byte", "x" * 5000, "file/below", "folder", ""])
def test_a_place_that_is_no_file_is_one_error(tmp_path, place):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    before = sorted(os.listdir(tmp_path))
    path = str(tmp_path / place) if place else ""
    with pytest.raises(SquircuitError, match="Fix: "):
        storage.read(path, "model")
    if place != "loop":  # a link to nowhere may be replaced
        with pytest.raises(SquircuitError, match="Fix: "):
            storage.write(path, {"a": torch.zeros(2)}, {}, "model")
        assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("path", [None, 3, b"file", [], object()])
def test_what_is_no_path_is_one_error(path):
    for use in (lambda: storage.read(path, "model"), lambda: storage.write(path, {}, {}, "model")):
        with pytest.raises(SquircuitError, match="names no file"):
            use()


@pytest.mark.parametrize("letter", ["x", "ä"])
def test_a_name_as_long_as_the_system_allows_is_written(tmp_path, letter):
    name = letter * (255 // len(letter.encode()))
    replace(tmp_path / name, b"content")
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_document_that_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(SquircuitError, match="the document is no JSON data"):
        storage.write(tmp_path / "file", {}, {"deep": deep}, "model")
    while deep:
        deep = deep[0]  # freed from outside in: Python would recurse
    monkeypatch.setattr("squircuit.storage.files.MOST_DOCUMENT", 1000)
    with pytest.raises(SquircuitError, match="1,000 are the most"):
        storage.write(tmp_path / "file", {}, {"long": "x" * 1000}, "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["[" * 10**6, "9" * 5000, "{", "", "\ud800", b"\xff", None, 3])
def test_a_text_that_is_no_json_is_one_error(text):
    with pytest.raises(FormatError, match=r"^it: not JSON text \(.*\)\. Fix: write it again\.$"):
        parsed(text, "it", "write it again")
