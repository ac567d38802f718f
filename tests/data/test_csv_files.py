"""CSV files by pyarrow, where it is sure to agree, and by Python: one table, or one error."""

import warnings
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from squircuit.data import read
from squircuit.errors import DataError

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'squircuit[data]'")


@pytest.fixture(autouse=True, scope="module")
def every_file_is_large():
    with patch("squircuit.data.csv_files.LARGE", 0):
        yield


CELLS = st.sampled_from(
    ["1", "2.5", "-3", "+4", "01", "1e3", "", " ", "NA", "nan", "?", "null", "x", "y ", " z", "1_0", "inf",
     "nan(1)", "é", "1e400", "0x1", "=1", "٣", "\x0c5", "-nan", "7 "]
)  # fmt: skip
LINES = st.lists(st.lists(CELLS, min_size=1, max_size=3), min_size=1, max_size=6)


def outcome(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read(path, columns={"a": "categorical"} if path.read_bytes().startswith(b"a,") else None)
        except DataError as error:
            return str(error)


@given(lines=LINES, end=st.sampled_from(["\n", "\r\n", "\r", "\n\n"]), start=st.sampled_from(["", "\ufeff"]))
@example(lines=[["a", "b"], ["x", "1"], ["y", "?"], ["x", "3"]], end="\n", start="")
@example(lines=[["a", "b"], ["x", "1"], ["y"]], end="\r\n", start="")
@example(lines=[["1", "2"], ["nan(1)", "3"], ["x", "4"]], end="\n", start="")
def test_both_readers_agree(tmp_path_factory, lines, end, start):
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    path.write_bytes((start + "".join(",".join(cells) + end for cells in lines)).encode())
    quick = outcome(path)
    with patch("squircuit.data.csv_files.installed", lambda module: None):
        careful = outcome(path)
    if isinstance(careful, str):
        assert quick == careful
        return
    assert quick.columns == careful.columns
    np.testing.assert_array_equal(quick.rows, careful.rows)
    np.testing.assert_array_equal(quick.missing, careful.missing)


def test_pyarrow_reads_plain_files_and_leaves_quotes_and_damage_to_python(tmp_path):
    path = tmp_path / "data.csv"
    with patch("squircuit.data.csv_files._cells", side_effect=AssertionError("asked")):
        path.write_text("a,b\n1,x\n2,y\n")
        with pytest.raises(AssertionError, match="asked"):
            read(path)
        path.write_text('a,b\n1,"x"\n2,y\n')
        assert len(read(path)) == 2
        path.write_text("a,b\n1,x\n2\n")
        with pytest.raises(DataError, match=r"line 3: 1 cells, but the first line has 2"):
            read(path)


def test_the_line_of_a_wrong_cell_counts_blank_lines_too(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n\n1,x\n\n\n" + "2,y\n" * 5 + "oops,y\n")
    with pytest.raises(DataError, match=r"line 11, column 'a': 'oops' is not a number"):
        read(path)
