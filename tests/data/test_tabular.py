"""Tables from files: what is written is read back, in every format."""

from __future__ import annotations

import csv
import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from squircuit.data import Schema, csv_files, numpy_files, read, scan
from squircuit.data.cells import MISSING
from squircuit.errors import DataError

words = st.text(st.sampled_from("abcdeß ,;\"'é\n"), min_size=1, max_size=5).filter(
    lambda word: word.strip() == word and word.lower() not in MISSING
)
columns = st.one_of(
    st.lists(st.none() | words, min_size=6, max_size=6),
    st.lists(st.none() | st.integers(-5, 20), min_size=6, max_size=6),
    st.lists(st.none() | st.floats(-1e6, 1e6), min_size=6, max_size=6),
).filter(lambda cells: len({cell for cell in cells if cell is not None}) > 1)
tables = st.lists(columns, min_size=2, max_size=4).map(
    lambda found: [list(row) for row in zip(*found, strict=True)]
)


@given(rows=tables)
def test_csv_files_are_read_back_whatever_their_cells(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([[f"c{i}" for i in range(len(rows[0]))], *rows])
    table = read(path)
    assert table.decode(table.rows, table.missing) == rows
    again = table.encode(rows)
    np.testing.assert_array_equal(again.x, table.rows)
    np.testing.assert_array_equal(again.missing, table.missing)
    scanned = scan(path)
    assert scanned == table.schema
    assert Schema.from_dict(json.loads(json.dumps(scanned.to_dict()))) == scanned


@given(
    arrays(np.float64, (5, 3), elements=st.floats(-1e9, 1e9)).filter(lambda x: (np.ptp(x, axis=0) > 0).all())
)
def test_numpy_files_are_read_back(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("npy") / "data.npy"
    np.save(path, array)
    table = read(path)
    assert table.decode(table.rows) == array.tolist()
    np.savez(path.with_suffix(".npz"), x=array)
    np.testing.assert_array_equal(read(path.with_suffix(".npz")).rows, table.rows)


@settings(max_examples=25)
@given(rows=tables, size=st.integers(1, 7))
def test_parquet_files_are_read_back_whatever_their_row_groups(tmp_path_factory, rows, size):
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'squircuit[data]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path_factory.mktemp("parquet") / "data.parquet"
    columns = {f"c{i}": list(column) for i, column in enumerate(zip(*rows, strict=True))}
    parquet.write_table(arrow.table(columns), path, row_group_size=size)
    table = read(path)
    assert table.decode(table.rows, table.missing) == rows
    assert table.schema.decode(*table.encode(columns)) == rows
    assert [c.kind for c in scan(path).columns] == [c.kind for c in table.columns]


def test_facts_of_pieces_are_those_of_the_whole(write, monkeypatch):
    path = write("x,y\n" + "".join(f"{i * 0.37 - 5},{'abc'[i % 3]}\n" for i in range(50)))
    whole = scan(path)
    monkeypatch.setattr(csv_files, "CHUNK", 7)
    monkeypatch.setattr(numpy_files, "CHUNK", 7)
    pieces = scan(path)
    assert pieces.columns[1] == whole.columns[1]
    assert pieces.columns[0].loc == pytest.approx(whole.columns[0].loc)
    assert pieces.columns[0].scale == pytest.approx(np.std([i * 0.37 - 5 for i in range(50)]))
    assert len(read(path)) == 50


def test_scoring_data_takes_the_types_of_the_training_data(write, mixed):
    table = read(mixed)
    new = read(write("angle,weight,extra,colour,n,height\n5,60,zz,blue,7,0\n", "new.csv"), like=table)
    np.testing.assert_array_equal(new.rows, [[0, 7, 0, 5, 60]])
    assert new.schema is table.schema


def test_columns_may_come_from_frames_and_mappings(write):
    table = read(write("a,b\nx,1.5\ny,2.5\n"))
    expected = [[1, 2.5], [0, np.nan]]
    mapping = {"b": [2.5, None], "other": [0, 0], "a": ["y", "x"]}
    np.testing.assert_array_equal(table.encode(mapping).x, expected)
    for package in ("pandas", "polars"):
        try:
            frame = __import__(package).DataFrame(mapping)
        except ImportError:
            continue  # not installed: the mapping above stands for it
        np.testing.assert_array_equal(table.encode(frame).x, expected)


def test_csv_dialects_are_found(write):
    for name, content in {
        "semicolon.csv": "a;b\n1.5;x\n2;y\n",
        "tab.tsv": "a\tb\n1.5\tx\n2\ty\n",
        "bom.csv": b"\xef\xbb\xbfa,b\r\n1.5,x\r\n2,y\r\n",
        "packed.csv.gz": gzip.compress(b"a,b\n1.5,x\n\n2,y\n"),
    }.items():
        table = read(write(content, name))
        assert table.schema.names == ("a", "b")
        assert table.decode(table.rows), [[1.5, "x"] == [2.0, "y"]]
    table = read(write("0,1\n1,0\n1,1\n", "plain.data"))
    assert table.schema.names == ("0", "1")
    assert table.rows.dtype == np.int64
    assert len(read(write("x,y\nz,y\nx,w\n", "texts.csv"), header=False)) == 3


def test_bytes_in_numpy_files_are_levels_and_texts_are_categories(tmp_path):
    np.save(tmp_path / "images.npy", np.arange(18, dtype=np.uint8).reshape(2, 3, 3))
    table = read(tmp_path / "images.npy")
    assert table.shape == (3, 3)
    assert {f.size for f in table.families()} == {256}
    np.save(tmp_path / "bits.npy", np.eye(3, dtype=bool))
    assert {f.size for f in read(tmp_path / "bits.npy").families()} == {2}
    np.savez(tmp_path / "columns.npz", sex=np.array(["f", "m", "f"]), age=np.array([1.5, 2.5, 3.5]))
    named = read(tmp_path / "columns.npz")
    assert named.decode(named.rows), [["f", 1.5], ["m", 2.5] == ["f", 3.5]]


def test_folders_of_images(tmp_path):
    images = pytest.importorskip("PIL.Image", reason="images need Pillow: pip install 'squircuit[data]'")
    rng = np.random.default_rng(0)
    grey, colour = (
        rng.integers(256, size=(3, 4, 5), dtype=np.uint8),
        rng.integers(256, size=(2, 2, 3), dtype=np.uint8),
    )
    for folder in ("grey/sub", "colour"):
        (tmp_path / folder).mkdir(parents=True)
    for i, name in enumerate(["a.png", "b.png", "sub/c.png"]):
        images.fromarray(grey[i]).save(tmp_path / "grey" / name)
    images.fromarray(colour).save(tmp_path / "colour/x.png")
    table = read(tmp_path / "grey")
    np.testing.assert_array_equal(table.rows, grey.reshape(3, 20))
    assert table.shape == (4, 5)
    assert read(tmp_path / "colour").shape == (2, 2, 3)
    images.fromarray(grey[0][:2]).save(tmp_path / "grey/d.png")
    with pytest.raises(DataError, match=r"d\.png: an image of shape \(2, 5\), but a\.png has \(4, 5\)"):
        read(tmp_path / "grey")
    (tmp_path / "colour/y.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"y\.png: cannot be read as an image"):
        read(tmp_path / "colour")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no images in this folder"):
        read(tmp_path / "empty")
