"""Whatever a file holds, reading it gives a table or one clear error on one line; nothing hangs or runs."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import re
import struct
import sys
import time
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from squircuit.data import read, read_idx, scan, table
from squircuit.data.csv_files import CsvSource
from squircuit.errors import DataError, ParameterError, SquircuitError

FUZZ = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def refused(path, words="", reader=read, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(DataError) as caught:
            reader(path, **options)
    message = str(caught.value)
    assert words in message
    assert "Fix: " in message
    assert "\n" not in message
    assert Path(path).name[:40] in message
    return message


def damaged(content, data):
    """Some bytes changed, cut off, or put in."""
    content = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.integers(0, 3)):
            case 0:
                del content[place:]
            case 1:
                content[place:place] = data.draw(st.binary(max_size=6))
            case _:
                content[place] = data.draw(st.integers(0, 255))
        if not content:
            break
    return bytes(content)


def a_table_or_one_error(path, reader=read):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader(path)
    except SquircuitError as error:
        assert "Fix: " in str(error), str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


CSV = "colour,n\n" + "".join(f"{colour},{n}\n" for n, colour in enumerate(["red", "blue"] * 20))


@FUZZ
@given(st.data())
def test_a_damaged_gzip_table_is_a_table_or_one_error(write, data):
    a_table_or_one_error(write(damaged(gzip.compress(CSV.encode()), data), "data.csv.gz"))


@FUZZ
@given(st.data())
def test_a_damaged_table_is_a_table_or_one_error(write, data):
    a_table_or_one_error(write(damaged(b'a,"b c"\n1,"x ""y"""\n2,"z\nw"\n', data), "data.csv"))


@FUZZ
@given(st.data())
def test_a_damaged_array_is_a_table_or_one_error(write, data):
    a_table_or_one_error(write(damaged(npy(np.arange(12.0).reshape(6, 2)), data), "data.npy"))


@FUZZ
@given(st.data())
def test_damaged_arrays_in_one_file_are_a_table_or_one_error(write, data):
    stream = io.BytesIO()
    np.savez_compressed(stream, a=np.arange(5.0), b=np.arange(5))
    a_table_or_one_error(write(damaged(stream.getvalue(), data), "data.npz"))


@FUZZ
@given(st.data())
def test_a_damaged_idx_file_is_an_array_or_one_error(write, data):
    content = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(6)
    packed = gzip.compress(content) if data.draw(st.booleans()) else content
    a_table_or_one_error(write(damaged(packed, data), "data.idx"), read_idx)


@FUZZ
@given(st.data())
def test_a_damaged_parquet_file_is_a_table_or_one_error(write, data):
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'squircuit[data]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    parquet.write_table(arrow.table({"a": [1.5, 2.5, None], "b": ["x", "y", "x"]}), stream)
    a_table_or_one_error(write(damaged(stream.getvalue(), data), "data.parquet"))


@FUZZ
@given(st.data())
def test_a_damaged_image_is_a_table_or_one_error(tmp_path, data):
    images = pytest.importorskip("PIL.Image", reason="images need Pillow: pip install 'squircuit[data]'")
    kind = data.draw(st.sampled_from(["png", "gif", "bmp", "jpeg", "tiff", "webp"]))
    stream = io.BytesIO()
    images.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(stream, format=kind)
    folder = tmp_path / kind
    folder.mkdir(exist_ok=True)
    (folder / f"a.{kind}").write_bytes(damaged(stream.getvalue(), data))
    a_table_or_one_error(folder)


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(CSV.encode())[:-9],
        gzip.compress(CSV.encode())[:30] + b"\0" * 9 + gzip.compress(CSV.encode())[39:],
        gzip.compress(CSV.encode())[:-8] + b"\1" * 8,
        b"no gzip at all",
        b"\x1f\x8b",
    ],
)
def test_a_damaged_gzip_table_is_named(write, content):
    refused(write(content, "data.csv.gz"), "cannot be read as CSV")


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (True, 2), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (3, 2), }",
        "{'descr': 'x', 'fortran_order': 3, 'shape': 'y'}",
        "[" * 5000,
        "1" * 5000,
        "'''",
        "\\",
        "",
    ],
)
def test_a_damaged_header_of_an_array_is_named(write, header):
    text = header.encode() + b"\n"
    refused(write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(48), "data.npy"))


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


@pytest.mark.parametrize("name", ["data.npy", "data.npz"])
def test_pickles_are_never_opened(write, name):
    refused(write(pickle.dumps(Trap()), name), "cannot be read as NumPy")
    stream = io.BytesIO()
    objects = np.array([[Trap(), 1]], dtype=object)
    (np.save if name == "data.npy" else np.savez)(stream, objects, allow_pickle=True)
    refused(write(stream.getvalue(), name), "of object")


@pytest.mark.parametrize("second", [np.arange(3) * 1j, np.array(["2020-01-01"] * 3, dtype="datetime64[D]")])
def test_columns_that_are_neither_numbers_nor_texts_are_refused(tmp_path, second):
    np.savez(tmp_path / "data.npz", a=np.arange(3.0), b=second)
    refused(tmp_path / "data.npz", "Fix: save an (n, d) array of numbers or texts")


def test_a_parquet_file_with_two_columns_of_one_name_is_refused(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow: pip install 'squircuit[data]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    two = arrow.Table.from_arrays([arrow.array([1.5, 2]), arrow.array([3, 4])], names=["a", "a"])
    parquet.write_table(two, tmp_path / "data.parquet")
    refused(tmp_path / "data.parquet", "the name 'a' of column 1 is there twice")
    refused(tmp_path / "data.parquet", "the name 'a' of column 1 is there twice", scan)


def png(width, height):
    """The beginning of a picture, whose header says how large it is."""
    chunks = b""
    for kind, content in [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(bytes(1000))),
        (b"IEND", b""),
    ]:
        check = struct.pack(">I", zlib.crc32(kind + content))
        chunks += struct.pack(">I", len(content)) + kind + content + check
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.mark.parametrize("size", [(60000, 60000), (12000, 12000), (2**31 - 1, 1), (600, 600)])
def test_an_image_that_is_too_large_is_refused_by_its_header(tmp_path, size):
    pytest.importorskip("PIL.Image", reason="images need Pillow: pip install 'squircuit[data]'")
    (tmp_path / "a.png").write_bytes(png(*size))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match=r"a\.png: .*Fix: ") as caught:
            read(tmp_path)
    assert "\n" not in str(caught.value)


def test_images_of_more_than_eight_bits_are_refused(tmp_path):
    images = pytest.importorskip("PIL.Image", reason="images need Pillow: pip install 'squircuit[data]'")
    images.fromarray(np.full((4, 4), 4000, dtype=np.uint16)).save(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png: levels of more than 8 bits"):
        read(tmp_path)


ENDINGS = ["data.csv", "data.csv.gz", "data.npy", "data.npz", "data.parquet", "data.idx"]


@pytest.mark.parametrize("name", ENDINGS)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    refused(tmp_path / name, "a pipe or device", read_idx if name.endswith("idx") else read)


@pytest.mark.parametrize("name", ENDINGS)
def test_an_empty_file_is_named(write, name):
    refused(write(b"", name), "the file is empty", read_idx if name.endswith("idx") else read)


@pytest.mark.parametrize("name", ["none.csv", "file/below.csv", "x" * 5000 + ".csv", "a\0b.csv", "loop.csv"])
def test_a_path_that_leads_nowhere_is_one_error(tmp_path, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    for reader in (read, scan, read_idx):
        with pytest.raises(DataError, match="Fix: ") as caught:
            reader(tmp_path / name)
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", ENDINGS)
def test_a_file_that_nobody_may_read_is_one_error(write, name, monkeypatch):
    path = write(b"content", name)

    def refuse(self, *_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    refused(path, "Permission denied", read_idx if name.endswith("idx") else read)


def test_what_is_no_path_is_one_error():
    for path in (3, None, b"data.csv", ["a"]):
        with pytest.raises(ParameterError, match="is no path"):
            read(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('a,b\n1,"x\n2,y\n3,z\n', "line 2: a quote opens a cell there and is never closed"),
        ('a,b\n1,"x\n2,"y"\n3,z\n', "line 2: a quote opens a cell there and is followed by more text"),
        ('a,b\n1,"x\ny"\n2,"z\n', "line 4: a quote opens a cell there and is never closed"),
        ('a,b\n1,"x""\n2,y\n', "line 2: a quote opens a cell there and is never closed"),
        ('a,"b\n1,x\n', "line 1: a quote opens a cell there and is never closed"),
        ('"a\n' + "1\n" * 100_000, "line 1: a quote opens a cell there and is not closed within 131,072"),
        ('a,b\n1,x""\n2,"y" z\n', "line 3: a quote opens a cell there and is followed by more text"),
        ('a,b\n1,"x\n2,y"\n', "line 2, which a quote continues"),
        ("a,b\n1," + "x" * 140_000 + "\n", "line 2: field larger than field limit"),
    ],
)
def test_a_quote_that_is_not_closed_is_named_with_its_line(write, content, words):
    if "continues" in words:
        content = content.replace("a,b", "a,b,c")
    refused(write(content), words)


def test_quotes_that_are_closed_are_read(write):
    path = write('a, "b"\n1, "x, ""y"""\n2,"z\nw"\n3, 5" pipe\n')
    assert read(path, {"b": "categorical"}).columns[1].categories == ('5" pipe', 'x, "y"', "z\nw")


def test_a_line_without_end_does_not_fill_the_memory(write, monkeypatch):
    monkeypatch.setattr("squircuit.data.csv_files.MOST_LINE", 1000)
    refused(write(gzip.compress(b"0" * 10**6), "data.csv.gz"), "a line of more than 1,000 characters")


@pytest.mark.parametrize("content", ["red,3\nblue,4\nred,5\n", "red,3\nblue,4\nred,\n", "x;y\nx;z\nw;y\n"])
def test_a_first_line_that_its_columns_hold_again_is_no_line_of_names(write, content):
    path = write(content)
    refused(path, "line 1: it is no line of names")
    refused(path, "add a first line with a name for each column", scan)
    rows = content.count("\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(read(path, header=False)) == rows
        assert len(read(path, header=True)) == rows - 1


def test_a_column_that_the_user_names_is_a_name(write):
    assert len(read(write("red,3\nblue,4\nred,5\n"), {"red": "categorical"})) == 2


def test_numbers_among_names_are_a_warning_that_says_how_to_add_names(write):
    path = write("region,2019,2020\nnorth,5,6\nsouth,7,9\n")
    with pytest.warns(
        UserWarning, match=r"line 1: it is taken for names.*'2019' is a number.*add a first line"
    ):
        assert len(read(path)) == 2


@pytest.mark.parametrize(
    "content",
    ["smoker,age\nsmoker,31\nnever,52\n", "id,2019\n1,5\n2,6\n", "smoker,sex,x\nsmoker,f,a\nno,m,b\n"],
)
def test_a_text_above_numbers_is_a_name_whatever_else_is_there(write, content):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read(write(content))) == 2


def test_names_that_pandas_made_up_are_a_warning(write):
    with pytest.warns(UserWarning, match=r"line 1: 0, 1, 2, … up to 3 is read as a row of data"):
        assert len(read(write("0,1,2,3\n.5,1,1,0\n1.5,0,0,1\n"))) == 3
    assert len(read(write("0,1,2,3\n.5,1,1,0\n1.5,0,0,1\n"), header=True)) == 2


@pytest.mark.parametrize("delimiter", ["ab", '"', "\n", 3])
def test_a_delimiter_that_is_none_is_one_error(write, delimiter):
    with pytest.raises(ParameterError, match="delimiter="):
        read(write("a,b\n1,2\n"), delimiter=delimiter)


def test_names_of_columns_are_checked_in_linear_time(write):
    path = write(",".join(f"column{i}" for i in range(200_000)) + "\n" + "1," * 199_999 + "2\n")
    start = time.perf_counter()
    CsvSource(path)
    assert time.perf_counter() - start < 5  # 200 s where every name is compared with every other


@pytest.mark.parametrize("big", [1e300, -1e300, 1.7e308, 1e31, 10**400])
def test_a_number_too_large_for_a_model_is_named_with_row_and_column(big, write):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match=r"row 2, column 'b': .*Fix: "):
            table({"a": [0.5, 1.5, 2.5], "b": [0.5, 1.5, big]})
    if abs(big) < sys.float_info.max:
        refused(write(f"a,b\n0.5,1.5\n1.5,{big}\n.5,3.25\n"), "line 3, column 'b'")


def test_numbers_too_close_for_a_model_are_named_with_their_column():
    close = table({"a": [0.5, 1.5, 2.5], "b": [1e-300, 2e-300, 0.0]})
    for kind in ("hermite", "legendre", "fourier"):
        with pytest.raises(DataError, match=r"column 'b': .* too close .*Fix: "):
            close.families(8, kind)


@pytest.mark.parametrize("wish", ["periodic:1e300", "periodic:5:inf", "periodic:1e-300", "periodic:nan"])
def test_periods_that_no_model_computes_with_are_one_error(wish):
    with pytest.raises(ParameterError, match=r"column 'b': period .*Fix: "):
        table({"a": [0.5, 1.5], "b": [0.5, 1.5]}, {"b": wish})


@pytest.mark.parametrize("wish", ["count:-1e300:-1e300", "count:nan:1", "count:inf:inf", "count:0:1e300"])
def test_ranges_that_are_none_are_one_error(wish):
    with pytest.raises(DataError, match=re.escape("column 'b': ")):
        table({"a": [0.5, 1.5], "b": [0, 1]}, {"b": wish})


def test_a_continuous_column_without_a_number_is_one_error():
    with pytest.raises(DataError, match="column 'b': every cell is missing"):
        table({"a": [0.5, 1.5], "b": [None, None]}, {"b": "continuous"})


def test_an_idx_file_that_becomes_too_large_is_refused(write):
    packed = gzip.compress(bytes(2**27))
    assert len(packed) < 2**18
    refused(write(packed, "data.idx"), "Fix: if you trust it, decompress it with gunzip", read_idx)


def test_an_idx_file_of_many_axes_is_one_error(write):
    content = bytes([0, 0, 8, 200]) + bytes([0, 0, 0, 1] * 200) + b"\1"
    refused(write(content, "data.idx"), "an IDX array of 200 axes", read_idx)


def test_rows_that_do_not_fit_into_memory_are_one_error(write, monkeypatch):
    stream = io.BytesIO()
    np.savez_compressed(stream, np.zeros((1000, 1000)))
    monkeypatch.setattr("squircuit.data.reading.memory", lambda: 10**6)
    refused(write(stream.getvalue(), "data.npz"), "do not fit into memory")


def npy_of(descr, shape, data=bytes(64)):
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


@pytest.mark.parametrize("descr", ["'<U0'", "'|V0'", "'|S0'", "[('a', '|V0')]", "'<c16'", "'|O'"])
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_arrays_without_numbers_or_texts_are_refused_before_they_are_mapped(descr, name, write):
    """NumPy divides by the size of a type in C: one of size 0 would end the process."""
    content = npy_of(descr, (4, 2))
    if name.endswith("npz"):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("a.npy", content)
        content = stream.getvalue()
    refused(write(content, name))


@pytest.mark.parametrize("shape", ["(-1, 2)", "(2.0, 2)", "(True, 2)", f"({2**62}, 8)", "()", "(4, 200)"])
def test_shapes_that_are_not_in_the_file_are_refused(shape, write):
    refused(write(npy_of("'<f8'", shape), "a.npy"))


def test_bytes_that_are_no_characters_are_refused(write):
    refused(write(npy_of("'<U4'", (2, 2), b"\xff" * 64), "a.npy"), "no characters")


def test_small_archives_of_large_arrays_are_refused_before_they_are_unpacked(tmp_path):
    file = tmp_path / "bomb.npz"
    np.savez_compressed(file, rows=np.zeros((2**27, 1), dtype=np.uint8))
    refused(file, "in a file so small")


def png_of(tmp_path):
    image = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(stream, format="png")
    (tmp_path / "i").mkdir()
    return tmp_path / "i" / "a.png", stream.getvalue()


def test_an_image_that_is_cut_off_anywhere_is_refused(tmp_path):
    file, content = png_of(tmp_path)
    for length in range(1, len(content)):
        file.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"a\.png"):
            read(file.parent)


def test_an_image_with_any_byte_changed_is_refused(tmp_path):
    file, content = png_of(tmp_path)
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(DataError, match=r"a\.png"):
            read(file.parent)


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\u2028b", "x" * 100_000, "tab\tbed", "\x00"])
def test_names_from_files_are_shown_on_one_short_printable_line(name, write):
    file = write(f'"{name}",b\n1.5,2\n2.5,4\n')
    like = table({"group": ["a", "b"], "n": [1, 2]})
    message = refused(file, like=like)
    assert message.isprintable()
    assert len(message) < 1000


@pytest.mark.skipif(sys.platform == "win32", reason="such names cannot be there")
def test_names_of_images_are_shown_on_one_line(tmp_path):
    (tmp_path / "z\ny\x1b[2J.png").write_bytes(b"x")
    pytest.importorskip("PIL")
    with pytest.raises(DataError) as caught:
        read(tmp_path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("unit", [1e-320, 1e-200])
def test_different_numbers_have_a_deviation_above_0(unit, write):
    (column, _) = read(write(f"a,b\n{unit},1\n{2 * unit},2\n{3 * unit},3\n")).columns
    assert column.scale > 0


def test_endless_blank_lines_are_refused(write):
    refused(write(gzip.compress(b"\n" * 2**21), "a.csv.gz"), "blank lines")
    refused(write(gzip.compress(b"a,b\n" + b"\r\n" * 2**21), "b.csv.gz"), "blank lines")


def test_tables_that_become_far_too_large_are_refused(write, monkeypatch):
    monkeypatch.setattr("squircuit.data.reading.SMALL", 10_000)
    refused(write(gzip.compress(b"0,1\n" * 100_000), "a.csv.gz"), "gunzip")


def test_the_checksum_of_an_array_is_compared_also_where_bytes_follow_it(tmp_path):
    stream = io.BytesIO()
    np.save(stream, np.arange(6.0).reshape(3, 2))
    file = tmp_path / "a.npz"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", stream.getvalue() + b"more")
    assert read(file).rows.shape == (3, 2)
    file.write_bytes(file.read_bytes().replace(b"more", b"mare"))
    refused(file, "CRC")


def test_parts_of_archives_that_are_no_arrays_are_refused(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, a=np.arange(3), b=np.arange(3))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("c.n`y", b"damaged name")
    refused(file, "no array")
