"""Data sets by name: splits, checksums, downloads, and what is said without a network."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import urllib.error
import urllib.request

import numpy as np
import pytest

from squircuit.data import download, load, names, registry, split, verify
from squircuit.data.download import RemoteFile, data_folder, fetch
from squircuit.data.optional import MissingPackageError, need
from squircuit.errors import DataError, ParameterError

SHAPES = {
    "mnist": ((57000, 784), (3000, 784), (10000, 784)),
    "fashion-mnist": ((57000, 784), (3000, 784), (10000, 784)),
    "nltcs": ((16181, 16), (2157, 16), (3236, 16)),
    "plants": ((17412, 69), (2321, 69), (3482, 69)),
    "baudio": ((15000, 100), (2000, 100), (3000, 100)),
    "dna": ((1600, 180), (400, 180), (1186, 180)),
}
CONTENT = b"0,1\n1,1\n"


def need_files(name):
    """Skip, saying so, where the files of a data set are absent: tests download nothing."""
    if "SQUIRCUIT_DATA" not in os.environ:
        pytest.skip(f"{name}: set SQUIRCUIT_DATA to a folder with its files to run this test")
    if "missing" in verify(name).values():
        pytest.skip(f"{name}: its files are not in SQUIRCUIT_DATA")


@pytest.fixture
def file(tmp_path):
    """A remote file whose mirror is a folder of this machine."""
    (tmp_path / "mirror.csv").write_bytes(CONTENT)
    url = (tmp_path / "mirror.csv").as_uri()
    return RemoteFile("debd/small.gz", hashlib.sha256(CONTENT).hexdigest(), (url,))


@pytest.mark.parametrize("name", SHAPES)
def test_published_sets_have_their_published_shapes(name):
    need_files(name)
    data = load(name)
    assert tuple(part.shape for part in (data.train, data.valid, data.test)) == SHAPES[name]
    assert data.train.max() == (255 if "mnist" in name else 1)
    assert len(data.columns) == np.prod(data.shape) == data.train.shape[1]
    assert {family.size for family in data.families()} == {256 if "mnist" in name else 2}


def test_digits_are_8_by_8_with_17_levels():
    pytest.importorskip("sklearn", reason="digits needs scikit-learn: pip install 'squircuit[data]'")
    data = load("digits")
    assert len(data.train) + len(data.valid) + len(data.test) == 1797
    assert data.shape == (8, 8)
    assert data.train.max() == 16
    assert {family.size for family in data.families()} == {17}


def test_digits_without_scikit_learn_name_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    with pytest.raises(MissingPackageError, match=re.escape("pip install 'squircuit[data]'")):
        load("digits")
    with pytest.raises(ImportError, match="no_such_package"):
        need("no_such_package", "this test")


@pytest.mark.parametrize("name", ["ring", "spinner", "spiral"])
def test_points_lie_in_their_domain_and_are_the_same_each_time(name):
    first, second = load(name), load(name)
    np.testing.assert_array_equal(first.train, second.train)
    assert not np.array_equal(first.train[:1000], first.valid)
    domain = first.families(9)[0].domain
    for part in (first.train, first.valid, first.test):
        assert part.min() >= domain.low
        assert part.max() <= domain.high


def test_unknown_names_give_the_nearest():
    with pytest.raises(ParameterError, match="did you mean 'fashion-mnist'"):
        load("fashionmnist")
    assert {"mnist", "digits", "spiral"} <= set(names())


def test_a_split_is_a_partition_of_the_rows():
    rows = np.arange(1000)[:, None]
    most, few = split(rows, 0.05)
    assert len(few) == 50
    assert sorted([*most[:, 0], *few[:, 0]]) == list(range(1000))
    np.testing.assert_array_equal(few, split(rows, 0.05)[1])


def test_images_take_five_percent_for_validation(monkeypatch, tmp_path):
    images = np.arange(40 * 4, dtype=np.uint8).reshape(40, 2, 2)
    idx = bytes([0, 0, 8, 3]) + np.array(images.shape, ">u4").tobytes() + images.tobytes()
    files = tuple(
        RemoteFile(f"mnist/{part}.gz", hashlib.sha256(idx).hexdigest(), ()) for part in ("train", "test")
    )
    (tmp_path / "mnist").mkdir()
    for file in files:
        (tmp_path / file.path).write_bytes(gzip.compress(idx))
    monkeypatch.setitem(registry.FILES, "mnist", files)
    data = load("mnist", tmp_path)
    assert (len(data.train), len(data.valid), len(data.test)) == (38, 2, 40)
    assert data.shape == (2, 2)
    np.testing.assert_array_equal(data.test, images.reshape(40, 4))
    assert repr(data) == "Dataset('mnist', train=38, valid=2, test=40, shape=(2, 2))"


def test_the_folder_is_the_argument_else_the_variable_else_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SQUIRCUIT_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder("there").name == "there"
    monkeypatch.delenv("SQUIRCUIT_DATA")
    assert data_folder().parts[-2:] == (".cache", "squircuit")


def test_a_download_is_packed_checked_and_leaves_no_other_file(file, tmp_path):
    seen = []
    (content,) = fetch([file], tmp_path / "data", lambda *progress: seen.append(progress))
    assert content == CONTENT
    assert gzip.decompress((tmp_path / "data/debd/small.gz").read_bytes()) == CONTENT
    assert os.listdir(tmp_path / "data/debd") == ["small.gz"]
    assert seen[-1] == ("small.gz", len(CONTENT), len(CONTENT))


def test_what_is_there_is_not_downloaded_again(file, tmp_path, monkeypatch):
    fetch([file], tmp_path)
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: pytest.fail("went to the network"))
    assert fetch([file], tmp_path) == [CONTENT]


def test_a_mirror_that_fails_is_followed_by_the_next(file, tmp_path):
    two = RemoteFile(file.path, file.sha256, ("file:///no/such/mirror", *file.urls))
    assert fetch([two], tmp_path / "data") == [CONTENT]


def test_a_mirror_with_other_content_is_refused_and_nothing_written(file, tmp_path):
    wrong = RemoteFile(file.path, "0" * 64, file.urls)
    with pytest.raises(DataError, match="wrong checksum"):
        fetch([wrong], tmp_path / "data")
    assert not (tmp_path / "data/debd/small.gz").exists()


def test_without_a_network_every_missing_file_is_named_with_its_place(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise urllib.error.URLError("Network is unreachable")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(DataError) as caught:
        load("mnist", tmp_path)
    message = str(caught.value)
    assert "Network is unreachable" in message
    assert "SQUIRCUIT_DATA" in message
    for path in ("mnist/train-images-idx3-ubyte.gz", "mnist/t10k-images-idx3-ubyte.gz"):
        assert str(tmp_path / path) in message


def test_a_damaged_file_is_an_error_that_names_it(file, tmp_path):
    path = tmp_path / file.path
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"0,0\n"))
    with pytest.raises(DataError, match=r"small\.gz: the SHA-256"):
        fetch([file], tmp_path)
    path.write_bytes(gzip.compress(CONTENT)[:-6])
    with pytest.raises(DataError, match="damaged gzip"):
        fetch([file], tmp_path)


def test_verify_tells_good_missing_and_damaged_files(monkeypatch, file, tmp_path):
    monkeypatch.setitem(registry.FILES, "dna", (file,))
    assert verify("dna", tmp_path) == {"debd/small.gz": "missing"}
    fetch([file], tmp_path)
    assert verify("dna", tmp_path) == {"debd/small.gz": "ok"}
    (tmp_path / file.path).write_bytes(b"")
    assert "the file is empty" in verify("dna", tmp_path)["debd/small.gz"]
    assert verify("ring") == {}


def test_progress_is_shown_on_terminals_only(capsys, monkeypatch):
    download.print_progress("a.gz", 1, 2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    download.print_progress("a.gz", 1, 2)
    download.print_progress("a.gz", 2048, 0)
    assert capsys.readouterr().err == "\ra.gz:  50 %\ra.gz: 2 KiB"
