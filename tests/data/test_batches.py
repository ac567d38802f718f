"""Streams of batches: every row once an epoch, the same for a seed, resumed anywhere, never all in memory."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from squircuit.data import Batches, image_shards, read, scan
from squircuit.data.parquet import ParquetSource
from squircuit.data.share import Share
from squircuit.errors import DataError, ParameterError


def rows_of(batches):
    return np.concatenate([part.x for part in batches])


def numbered(n):
    return np.stack([np.arange(n), -np.arange(n)], axis=1) + 0.5


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    """A writer of Parquet files with row groups of some size."""
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'squircuit[data]'")
    writer = pytest.importorskip("pyarrow.parquet")

    def write(columns, size):
        path = tmp_path_factory.mktemp("parquet") / "data.parquet"
        writer.write_table(arrow.table(columns), path, row_group_size=size)
        return path

    return write


def test_a_mapped_file_stays_mapped(tmp_path):
    np.save(tmp_path / "x.npy", numbered(20))
    batches = Batches(tmp_path / "x.npy", batch=8)
    assert isinstance(batches._rows.array.base, np.memmap) or isinstance(batches._rows.array, np.memmap)
    part = next(iter(batches))
    part.x[:] = 0  # a copy: writable, and the file does not change
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), numbered(20))


@given(st.integers(1, 30), st.integers(1, 12), st.booleans(), st.integers(0, 5))
def test_an_epoch_has_every_row_once(n, batch, shuffle, seed):
    batches = Batches(numbered(n), batch, shuffle, seed)
    parts = list(batches)
    assert [len(part.x) for part in parts[:-1]] == [batch] * (len(batches) - 1)
    np.testing.assert_array_equal(np.sort(rows_of(parts)[:, 0]), np.arange(n) + 0.5)
    if not shuffle:
        np.testing.assert_array_equal(rows_of(parts), numbered(n))


def check_resumption(make, epochs=3):
    """Stopped after any batch and resumed in a new object, the stream is that of an unbroken run."""
    whole = make()
    unbroken = [part.x for _ in range(epochs) for part in whole]
    for stop in range(len(unbroken)):
        first = make()
        for _ in range(stop):
            next(iter(first))  # a new loop each time: breaks lose nothing
        state = first.state_dict()
        second = make()
        second.load_state_dict(state)
        rest = [part.x for _ in range(epochs - state["epoch"]) for part in second]
        assert len(rest) == len(unbroken) - stop
        for left, right in zip(rest, unbroken[stop:], strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("drop_last", [False, True])
def test_arrays_resume_anywhere(drop_last):
    check_resumption(lambda: Batches(numbered(11), 3, seed=7, drop_last=drop_last))


def test_parquet_resumes_anywhere(parquet):
    path = parquet({"a": list(range(23))}, 3)
    check_resumption(lambda: Batches(path, 4, seed=7), epochs=2)
    check_resumption(lambda: Batches(path, 4, shuffle=False), epochs=2)


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 12), st.booleans())
def test_parquet_epochs_have_every_row_once(parquet, n, size, batch, shuffle):
    batches = Batches(parquet({"a": list(range(n)), "b": [0.5] * n}, size), batch, shuffle)
    parts = list(batches)
    assert [len(part.x) for part in parts[:-1]] == [batch] * (len(batches) - 1)
    found = rows_of(parts)[:, 0]
    np.testing.assert_array_equal(np.sort(found) if shuffle else found, np.arange(n))


def test_parquet_is_mixed_across_row_groups_and_read_a_window_at_a_time(parquet, monkeypatch):
    read_groups = []
    plain = ParquetSource.group
    monkeypatch.setattr(
        ParquetSource,
        "group",
        lambda self, group, names: read_groups.append(group) or plain(self, group, names),
    )
    batches = Batches(parquet({"a": list(range(1000))}, 50), batch=100)
    first = next(iter(batches)).x[:, 0]
    assert len(read_groups) == 4
    assert len({int(row) // 50 for row in first}) == 4
    later = Batches(batches._rows.sources[0].path, batch=100)
    later.load_state_dict({"epoch": 0, "position": 8})
    read_groups.clear()
    assert len(list(later)) == 2
    assert len(read_groups) <= 8  # two for each lane: what was given before is not read again


def test_orders_depend_on_seed_and_epoch():
    batches = Batches(numbered(50), 50, seed=1)
    first, second = rows_of(batches), rows_of(batches)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, rows_of(Batches(numbered(50), 50, seed=1)))
    assert not np.array_equal(first, rows_of(Batches(numbered(50), 50, seed=2)))


def test_texts_and_missing_cells_stream_as_they_are_read(parquet):
    path = parquet({"c": ["x", None, "y", "x", "z"], "v": [0.5, 1.5, None, 2.5, 3.0]}, 2)
    table = read(path)
    for like in (scan(path), table):
        batches = list(Batches(path, 2, shuffle=False, like=like))
        np.testing.assert_array_equal(rows_of(batches), table.rows)
        np.testing.assert_array_equal(np.concatenate([part.missing for part in batches]), table.missing)
    np.testing.assert_array_equal(rows_of(Batches(table, 2, shuffle=False)), table.rows)
    with pytest.raises(DataError, match=r"column 'c': it holds texts. Fix: pass like=scan"):
        list(Batches(path))


def test_mapped_arrays_are_encoded_as_they_are_taken(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[5, 0.5], [7, np.nan], [9, 2.0]]))
    schema = scan(tmp_path / "x.npy", columns={"0": "categorical"})
    for shuffle in (False, True):
        batches = list(Batches(tmp_path / "x.npy", 2, shuffle, like=schema))
        assert sorted(rows_of(batches)[:, 0]) == [0, 1, 2]
        assert sum(int(part.missing.sum()) for part in batches) == 1
    np.save(tmp_path / "x.npy", np.array([[5, 0.5], [6, 1.0]]))
    with pytest.raises(DataError, match=r"x\.npy, row 1, column '0': unknown category 6"):
        list(Batches(tmp_path / "x.npy", 1, like=schema))


def test_numbers_that_are_their_own_codes_are_encoded_as_by_the_schema(tmp_path):
    array = np.array([[0, 3, 0.5], [1, np.nan, 1.5], [0, 7, np.nan], [1, 0, -2.0]])
    np.save(tmp_path / "x.npy", array)
    table = read(tmp_path / "x.npy")
    assert table.schema.encode_numbers(array) is not None
    parts = list(Batches(tmp_path / "x.npy", 3, shuffle=False, like=table))
    np.testing.assert_array_equal(rows_of(parts), table.rows)
    np.testing.assert_array_equal(np.concatenate([part.missing for part in parts]), table.missing)
    for row in ([2, 0, 0], [0.5, 0, 0], [0, 8, 0], [0, -1, 0], [0, 0, np.inf]):
        np.save(tmp_path / "x.npy", np.array([[0, 0, 0], row], dtype=float))
        with pytest.raises(DataError, match=r"x\.npy, row 1, column"):
            list(Batches(tmp_path / "x.npy", like=table, shuffle=False))


def test_masks_follow_nan_and_integers_have_none():
    part = next(iter(Batches(np.array([[np.nan, 1.0]]))))
    np.testing.assert_array_equal(part.missing, [[True, False]])
    assert not next(iter(Batches(np.ones((3, 2), dtype=np.uint8)))).missing.any()


def test_nonsense_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    for make, words in [
        (lambda: Batches(numbered(3), batch=0), "batch=0"),
        (lambda: Batches(numbered(3), batch=4, drop_last=True), "3 rows are less than one batch"),
        (lambda: Batches(np.zeros(3)), "shape (3,)"),
        (lambda: Batches(tmp_path / "x.csv"), "only .npy, Parquet and tar files stream"),
        (lambda: Batches(numbered(3)).load_state_dict({"epoch": 0, "position": 5}), "no place in 1 batches"),
    ]:
        with pytest.raises((DataError, ParameterError), match=re.escape(words)):
            make()


# ------------------------------------------------------------------ several files; a part of every batch


def sharded(folder, sizes, rows_of_file):
    """Files of so many images each, whose pixels say which image it is."""
    Image = pytest.importorskip("PIL.Image")
    start = 0
    for number, size in enumerate(sizes):
        images = []
        for row in range(start, start + size):
            encoded = io.BytesIO()
            Image.fromarray(np.full((2, 3, 3), row, dtype=np.uint8)).save(encoded, "PNG")
            images.append(encoded.getvalue())
        rows_of_file(folder / f"shard{number}", images)
        start += size
    return start


def as_tar(path, images):
    """As webdataset writes them: a label beside each image."""
    with tarfile.open(path.with_suffix(".tar"), "w") as archive:
        for number, image in enumerate(images):
            for suffix, content in (("cls", b"7"), ("png", image)):
                member = tarfile.TarInfo(f"./{number:05}.{suffix}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def as_parquet(path, images):
    """As Hugging Face writes them."""
    arrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    cells = [{"bytes": image, "path": "x.png"} for image in images]
    table = arrow.table({"image": cells, "label": [7] * len(images)})
    writer.write_table(table, path.with_suffix(".parquet"), row_group_size=5)


@pytest.fixture(params=["tar", "parquet"])
def shards(request, tmp_path, monkeypatch):
    """A pattern of three files of 12, 5 and 9 images of 18 numbers."""
    monkeypatch.setattr(image_shards, "GROUP", 5)
    sharded(tmp_path, (12, 5, 9), as_tar if request.param == "tar" else as_parquet)
    return f"{tmp_path}/shard*.{request.param}"


@pytest.mark.parametrize("shuffle", [False, True])
def test_images_of_many_files_are_given_once_an_epoch_and_resume_anywhere(shards, shuffle):
    found = rows_of(Batches(shards, 4, shuffle))
    assert found.shape == (26, 18)
    assert found.dtype == np.uint8
    assert (found == found[:, :1]).all()
    np.testing.assert_array_equal(np.sort(found[:, 0]) if shuffle else found[:, 0], np.arange(26))
    check_resumption(lambda: Batches(shards, 4, shuffle, seed=3), epochs=2)


def test_a_file_of_images_is_read_as_a_folder_of_them_is(shards):
    path = sorted(Path(shards).parent.iterdir())[0]
    table = read(path)
    assert table.shape == (2, 3, 3)
    np.testing.assert_array_equal(table.rows[:, 0], np.arange(12))
    np.testing.assert_array_equal(rows_of(Batches(path, 5, shuffle=False, like=table)), table.rows)


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 12), st.booleans(),
    st.integers(1, 5), st.integers(1, 6), st.booleans(),
)  # fmt: skip
def test_parts_of_all_processes_together_are_the_batches_of_one(
    parquet, sizes, batch, shuffle, size, window, weighs
):
    """However the rows lie in groups, and also where some have the weight 0."""
    n = sum(sizes)
    paths, start = [], 0
    for count in sizes:
        paths.append(parquet({"a": list(range(start, start + count))}, 4))
        start += count
    weights = np.arange(n) % 3 if weighs and n > 1 else None
    for source in (paths, np.arange(n)[:, None]):
        options = {"batch": batch, "shuffle": shuffle, "seed": 5, "weights": weights, "window": window}
        whole = [part.x[:, 0].tolist() for part in Batches(source, **options)]
        kept = np.arange(n) if weights is None else np.flatnonzero(weights)
        assert sorted(row for part in whole for row in part) == kept.tolist()
        assert [len(part) for part in whole[:-1]] == [batch] * (len(whole) - 1)
        joined = [[] for _ in whole]
        for rank in range(size):
            own = [Share(rank, size).of(len(part)) for part in whole]
            numbers = [i for i, part in enumerate(own) if part.start < part.stop]  # empty ones are left out
            for number, part in zip(numbers, Batches(source, **options, share=(rank, size)), strict=True):
                joined[number] += part.x[:, 0].tolist()
        assert joined == whole


def test_each_process_reads_only_the_groups_of_its_part(parquet, monkeypatch):
    """1/N of all, and at most one more at each end of a part, up to as many processes as the window."""
    read_groups, plain = [], ParquetSource.group
    monkeypatch.setattr(ParquetSource, "group", lambda *words: read_groups.append(words[1]) or plain(*words))
    path = parquet({"a": list(range(1600))}, 20)  # 80 groups
    for size, most in ((1, 83), (2, 42), (4, 21)):
        for rank in range(size):
            read_groups.clear()
            assert len(rows_of(Batches(path, 40, share=(rank, size)))) == 1600 // size
            assert len(read_groups) <= most
    read_groups.clear()
    assert len(rows_of(Batches(path, 40, share=(7, 8), window=8))) == 200
    assert len(read_groups) <= 11


def test_wrong_files_of_images_are_refused_in_words(tmp_path):
    Image = pytest.importorskip("PIL.Image")

    def tar(name, **files):
        with tarfile.open(tmp_path / name, "w") as archive:
            for called, content in files.items():
                member = tarfile.TarInfo(called.replace("_", "."))
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        return tmp_path / name

    def png(height):
        encoded = io.BytesIO()
        Image.fromarray(np.zeros((height, 2), dtype=np.uint8)).save(encoded, "PNG")
        return encoded.getvalue()

    whole = tar("whole.tar", a_png=png(2), b_png=png(2)).read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[:1060])
    (tmp_path / "packed.tar").write_bytes(gzip.compress(whole))
    np.save(tmp_path / "x.npy", numbered(3))
    for source, words in [
        (tar("none.tar", a_txt=b"x"), "no images in this tar file"),
        (
            tar("two.tar", a_png=png(2), b_png=png(3)),
            "two.tar, b.png: an image of shape (3, 2), but the first",
        ),
        (tar("bad.tar", a_png=png(2), b_png=png(2)[:40]), "bad.tar, b.png: cannot be read as an image"),
        (tmp_path / "cut.tar", "cut.tar: cannot be read as a tar file (it is cut off)"),
        (tmp_path / "packed.tar", "one that is compressed has to be unpacked first"),
        (f"{tmp_path}/no*.tar.gz", "no file is named so. Fix: check the pattern"),
        (
            [tmp_path / "whole.tar", tmp_path / "x.npy"],
            "x.npy: only .npy, Parquet and tar files stream, and .npy alone",
        ),
    ]:
        with pytest.raises(DataError, match=re.escape(words)):
            list(Batches(source))
    for share in ((2, 2), (-1, 2), (0, 0), ("a", 2)):
        with pytest.raises(ParameterError, match=r"share=\(.*Fix: pass the number of a process"):
            Batches(numbered(3), share=share)
