"""One clear error for each way in which a file, a wish or a row can be wrong."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

from squircuit.data import MissingPackageError, Schema, read, table
from squircuit.errors import DataError, FormatError, ParameterError


def quiet(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read(path, **options)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "data.csv: the file is empty"),
        ("\n\n", "data.csv: the file is empty"),
        ("a,b\n", "data.csv: no rows below the header"),
        ("a,b\n1,2\n3\n", "data.csv, line 3: 1 cells, but the first line has 2"),
        ('a,b\n"1\n",2\n3,4,5\n', "data.csv, line 4: 3 cells"),
        ("a,a\n1,2\n", "the name 'a' of column 1 is there twice"),
        ("a,\n1,2\n", "the name '' of column 1 is empty"),
        ("a,b\n1,\n2,NA\n", "data.csv, column 'b': every cell is missing"),
        ("a\n1\n2\n3\nx7\n", "data.csv, line 5, column 'a': 'x7' is not a number, but most"),
        ("a\n1.5\ninf\n2\n", "data.csv, line 3, column 'a': inf is not finite"),
        (
            "a\n" + "".join(f"n{i}\n" for i in range(300)),
            "data.csv, column 'a': 300 different texts, such as 'n0'",
        ),
        (",a\n0,1\n", "an index that pandas wrote is left out by to_csv(…, index=False)"),
        ("a;b\n1,5;2\n-2;3\n3,25;3\n", "data.csv, line 2, column 'a': '1,5' looks like a number"),
        ("a,b\n5%,2\n3%,3\n", "data.csv, line 2, column 'a': '5%' looks like a number"),
        ("a\n1.5\ninf\n", "data.csv, line 3, column 'a': inf is not finite"),
        (b"a\n\xff\xfe\n", "data.csv: cannot be read as CSV"),
    ],
)
def test_bad_csv_files(write, content, words):
    with pytest.raises(DataError, match=re.escape(words)):
        quiet(write(content))


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        (
            {"colour": "continuous"},
            DataError,
            "line 2, column 'colour': 'red' is not a number, but the column is read",
        ),
        ({"height": "count"}, DataError, "column 'height': it holds numbers that are no integers"),
        ({"colour": "binary"}, DataError, "column 'colour': 3 different values ('blue', 'green', 'red', …)"),
        ({"n": "count:0:5"}, DataError, "line 5, column 'n': 7 is not one of the integers 0 to 5"),
        ({"n": "count:5:0"}, DataError, "5 to 0 is no range"),
        ({"n": "counts"}, ParameterError, "'counts' is no type of a column. Fix: did you mean 'count'"),
        (
            {"n": "count:a:b"},
            ParameterError,
            "'count:a:b' is not understood. Fix: write 'count' or 'count:LOW:HIGH'",
        ),
        ({"angle": "periodic"}, ParameterError, "'periodic' is not understood"),
        ({"angle": "periodic:-1"}, ParameterError, "period -1"),
        ({"hight": "count"}, ParameterError, "no column 'hight'. Fix: did you mean 'height'"),
        (["colours"], ParameterError, "did you mean 'colour'"),
        ("colour", ParameterError, "columns='colour'"),
        (
            dict.fromkeys(["colour", "n", "height", "angle", "weight"], "drop"),
            ParameterError,
            "no column is left",
        ),
    ],
)
def test_bad_wishes(mixed, columns, error, words):
    with pytest.raises(error, match=re.escape(words)):
        read(mixed, columns=columns)


def test_wrong_data_at_scoring_time(write, mixed):
    table = read(mixed)
    for content, words in {
        "colour,n,height,angle,weight\nred,3,1,0,1\npink,3,1,0,1\n": "new.csv, line 3, column 'colour': "
        "unknown category 'pink'; known are 'blue', 'green', 'red'",
        "colour,n,height,angle,weight\nred,9,1,0,1\n": "line 2, column 'n': 9 is not one of the integers 0",
        "colour,n,height,angle,weight\nred,3,tall,0,1\n": "line 2, column 'height': 'tall' is not a number",
        "colour,n\nred,3\n": "there is no column 'height', only colour, n",
        "1,2\n": "2 columns, expected 5",
    }.items():
        with pytest.raises(DataError, match=re.escape(words)):
            read(write(content, "new.csv"), like=table)
    good = ["red", 3, 1.0, 0, 1]
    for rows, words in [
        ([good, good[:4]], "row 1: ['red', 3, 1.0, 0] is not a row of 5 cells"),
        (["red,3"], "row 0: 'red,3' is not a row of 5 cells"),
        (np.zeros((2, 3)), "expected rows of shape (n, 5), got (2, 3)"),
        ({"colour": ["red"]}, "there is no column 'n'"),
        ({"colour": ["red"], "n": [1, 2], "height": [1], "angle": [1], "weight": [1]}, "different lengths"),
    ]:
        with pytest.raises(DataError, match=re.escape(words)):
            table.encode(rows)
    with pytest.raises(DataError, match=r"column 'colour': 3\.0 is no state"):
        table.decode([[3, 0, 0, 0, 0]])
    with pytest.raises(FormatError, match="not the description of a schema"):
        Schema.from_dict({"columns": [{"name": "a"}]})


def test_files_of_other_kinds(write, tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        read(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"files ending in '\.xlsx' are not known"):
        read(write("", "book.xlsx"))
    with pytest.raises(DataError, match="cannot be read as NumPy"):
        read(write("no array", "data.npy"))
    for array, words in [
        (np.zeros((0, 3)), "the array is empty"),
        (np.array(1.0), "shape ()"),
        (np.eye(2) * 1j, "complex"),
    ]:
        np.save(tmp_path / "bad.npy", array)
        with pytest.raises(DataError, match=re.escape(words)):
            read(tmp_path / "bad.npy")
    np.savez(tmp_path / "two.npz", a=np.eye(2), b=np.eye(3))
    with pytest.raises(DataError, match="several arrays, of shapes"):
        read(tmp_path / "two.npz")


@pytest.mark.parametrize(("module", "name"), [("pyarrow", "data.parquet"), ("PIL.Image", "folder")])
def test_missing_packages_name_the_extra(monkeypatch, tmp_path, module, name):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    path = tmp_path / name
    path.write_text("PAR1") if "." in name else path.mkdir()
    with pytest.raises(MissingPackageError, match=re.escape("pip install 'squircuit[data]'")):
        read(path)


def test_bad_parquet_files(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'squircuit[data]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "data.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read(path)
    parquet.write_table(arrow.table({"a": [[1], [2]], "b": [True, False]}), path)
    with pytest.raises(DataError, match="column 'a': the type list<"):
        read(path)
    assert read(path, columns={"a": "drop"}).rows.tolist(), [[1] == [0]]
    parquet.write_table(arrow.table({"a": arrow.array([], arrow.int64())}), path)
    with pytest.raises(DataError, match="the file has no rows"):
        read(path)


@pytest.mark.parametrize("cells", [["1,5", "2,5"], ["5 €", "3 €"]])
def test_numbers_written_otherwise_are_categories_if_the_user_says_so(cells):
    assert table({"a": cells, "b": [1, 2]}, {"a": "categorical"}).columns[0].categories == tuple(
        sorted(cells)
    )


@pytest.mark.parametrize("cells", [["2-1", "0-3"], ["10 of 31", "2 of 31"], ["a1", "b2"]])
def test_other_texts_with_digits_are_categories(cells):
    assert table({"a": cells, "b": [1, 2]}).columns[0].is_text


def test_texts_that_are_all_different_are_a_warning_that_names_the_column():
    rows = {"id": [f"u{i:02d}" for i in range(12)], "b": range(12)}
    with pytest.warns(UserWarning, match=r"column 'id' has another text in every row, such as 'u00'.*'drop'"):
        table(rows)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ({"id": [f"u{i}" for i in range(12)], "b": range(12)}, {"id": "categorical"}),  # the user knows
        ({"id": [f"u{i}" for i in range(6)] * 2, "b": range(12)}, None),
        ({"id": ["x", "y", "z"], "b": range(3)}, None),
    ],
)
def test_other_texts_are_no_warning(rows, columns):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table(rows, columns)


def test_a_path_is_no_table_in_memory():
    with pytest.raises(DataError, match=r"'people\.csv' is a name\. Fix: pass sq\.data\.read\(path\)"):
        table("people.csv")


def test_photographs_are_refused_by_their_size_before_all_are_read(tmp_path):
    images = pytest.importorskip("PIL.Image")
    images.new("RGB", (1200, 300)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png: an image of shape \(300, 1200, 3\) has 1,080,000 values"):
        read(tmp_path)


def test_columns_of_names_are_refused_together():
    names = {who: [f"{who} {i}" for i in range(300)] for who in ("person", "place")}
    with pytest.raises(DataError, match=r"columns person, place seem .* columns=\{'person': 'drop', 'place'"):
        table(names | {"x": range(300)})


def test_a_category_that_is_called_as_the_rare_values_together_keeps_its_name():
    cells = ["(other)"] * 40 + ["b"] * 200 + [f"rare {i}" for i in range(60)]
    found = table({"c": cells, "x": range(300)})
    assert found.columns[0].states == ("(other)", "b", "((other))")
    assert [row[0] for row in found.decode(found.rows)][:41] == ["(other)"] * 40 + ["b"]
