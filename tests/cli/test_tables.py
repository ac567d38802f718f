"""Tables in and out of the program: what was observed comes out as it went in, in every format."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import squircuit as sq
from squircuit.cli import app
from squircuit.data.content import Content
from squircuit.data.csv_files import CsvSource
from squircuit.data.csv_text import completed_csv, csv_cell, split

from .conftest import call, error_line, table_of

RNG = np.random.default_rng(0)
DATA = {
    "kind": RNG.choice(["älter", "b c", 'd"q', "=x"], 40).tolist(),
    "height": RNG.normal(1.7, 0.1, 40).round(3),
    "n": RNG.integers(0, 5, 40),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    file = tmp_path_factory.mktemp("tables") / "m.safetensors"
    sq.table_model(DATA, units=2, size=4, seed=0).save(file)
    return file


GAPS = (
    "id;kind;note;height;n\r\n"
    '1;;"free; ""text""";NA; 3\r\n'
    '2; b c ;"";+1.50;\r\n'
    "\r\n"
    '3;"d""q";"two\r\nlines";1.7e0;03\r\n'
    "4;älter;x;;?"
)


@pytest.mark.parametrize("encoding", [None, "latin-1", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("method", ["mean", "sample"])
def test_completions_of_csv_differ_in_empty_cells_alone(model, tmp_path, encoding, method):
    content = GAPS.encode(encoding or "utf-8")
    (tmp_path / "g.csv").write_bytes(content)
    options = [] if encoding != "latin-1" else ["--encoding", encoding]
    call("complete", model, tmp_path / "g.csv", "--method", method, "--out", tmp_path / "f.csv", *options)
    found = (tmp_path / "f.csv").read_bytes()
    assert found[:2] == content[:2]
    rows = sq.data.read(tmp_path / "f.csv", like=sq.load(model).schema, encoding=encoding)
    assert not rows.missing.any()
    cells = [row.decode(row_codec(encoding)) for row in (found, content)]
    filled, before = (list(map(split_row, text.split("\r\n"))) for text in cells)
    assert len(filled) == len(before)
    empty = {(1, 1), (1, 3), (2, 4), (6, 3), (6, 4)}
    for i, (new, old) in enumerate(zip(filled, before, strict=True)):
        for j, (one, other) in enumerate(zip(new, old, strict=True)):
            assert (one != other) == ((i, j) in empty), (i, j, one, other)


def row_codec(encoding):
    return encoding or "utf-8"


def split_row(line):
    return split(line, ";") if line.count('"') % 2 == 0 else line.split(";")


CELLS = st.text(st.sampled_from('a1,";\n\r é'), max_size=5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=5), st.data())
def test_cells_that_are_replaced_are_read_back_and_the_others_stay(rows, data):
    def written(cell):
        return data.draw(st.sampled_from([csv_cell(cell), '"' + cell.replace('"', '""') + '"']))

    rows = [[cell or "a" for cell in row] for row in rows]
    ends = data.draw(st.sampled_from(["\n", "\r\n"]))
    lines = [[written(cell) for cell in row] for row in rows]
    text = ends.join(",".join(line) for line in [["x", "y", "z"], *lines]) + data.draw(
        st.sampled_from(["", ends])
    )
    source = CsvSource(Content.of_stream(io.BytesIO(text.encode()), "data"), True, ",")
    new = [data.draw(st.dictionaries(st.integers(0, 2), CELLS.filter(bool), max_size=2)) for _ in rows]
    found = completed_csv(source, [[cells] for cells in new]).decode()
    expected = [[csv_cell(cells[i]) if i in cells else cell for i, cell in enumerate(line)]
                for line, cells in zip(lines, new, strict=True)]  # fmt: skip
    assert (
        found
        == ends.join(",".join(line) for line in [["x", "y", "z"], *expected]) + text[len(text.rstrip(ends)) :]
    )
    again = CsvSource(Content.of_stream(io.BytesIO(found.encode()), "data"), True, ",")
    for (_, cells), own, before in zip(again._rows(), new, source._rows(), strict=True):
        assert cells == [own.get(i, cell) for i, cell in enumerate(before[1])]


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_completions_of_arrow_files_keep_types_and_other_columns(model, tmp_path, ending):
    pa = pytest.importorskip("pyarrow")
    parquet, feather = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.feather")
    table = pa.table({
        "when": pa.array([0, 1, 2], pa.timestamp("ms")),
        "n": pa.array([1, None, 2], pa.int8()),
        "height": pa.array([1.6, 1.7, None], pa.float32()),
        "kind": pa.array(["b c", None, "älter"]).dictionary_encode(),
    })  # fmt: skip
    write = parquet.write_table if ending == "parquet" else feather.write_feather
    write(table, str(tmp_path / f"g.{ending}"))
    out = tmp_path / f"f.{ending}"
    call("complete", model, tmp_path / f"g.{ending}", "-n", 2, "--out", out)
    found = parquet.read_table(out) if ending == "parquet" else feather.read_table(str(out))
    assert found.schema.types == table.schema.types
    assert found.column_names == table.column_names
    assert found.num_rows == 6
    for name in table.column_names:
        cells = table.column(name).to_pylist()
        for row, cell in enumerate(found.column(name).to_pylist()):
            assert cell is not None
            assert cells[row // 2] in (None, cell)
    names, rows = table_of(call("complete", model, tmp_path / f"g.{ending}").stdout)
    assert names == table.column_names
    assert rows[0][1:] == ["1", "1.6", "b c"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "feather"])
def test_samples_go_back_into_score_in_every_format(model, tmp_path, ending):
    call("sample", model, "-n", 5, "--out", tmp_path / f"s.{ending}")
    call("score", model, tmp_path / f"s.{ending}", "--out", tmp_path / "a.csv")
    call("sample", model, "-n", 5, "--out", tmp_path / "s.csv")
    call("score", model, tmp_path / "s.csv", "--out", tmp_path / "b.csv")
    first, second = (np.loadtxt(tmp_path / name, skiprows=1) for name in ("a.csv", "b.csv"))
    np.testing.assert_allclose(first, second, rtol=1e-6)
    call("score", model, tmp_path / "s.csv", "--out", tmp_path / f"l.{ending}")
    assert len(sq.data.read(tmp_path / f"l.{ending}", {"log_prob": "continuous"})) == 5


def piped(content, *words):
    done = CliRunner().invoke(app, [str(word) for word in words], input=content)
    assert done.exit_code == 0, done.output
    return done


def test_standard_input_and_output_are_files_like_others(model, tmp_path):
    content = GAPS.encode()
    (tmp_path / "g.csv").write_bytes(content)
    call("complete", model, tmp_path / "g.csv", "--out", tmp_path / "f.csv")
    expected = (tmp_path / "f.csv").read_bytes()
    assert piped(content, "complete", model, "-").stdout_bytes == expected
    assert piped(content, "complete", model, "-", "--out", "-").stdout_bytes == expected
    assert call("complete", model, tmp_path / "g.csv").stdout_bytes == expected
    call("score", model, tmp_path / "f.csv", "--out", tmp_path / "s.csv")
    scored = piped(expected, "score", model, "-", "--out", "-")
    assert scored.stdout == (tmp_path / "s.csv").read_text()
    assert "mean log-likelihood" in scored.stderr
    assert "standard input: 4 rows" not in scored.stdout
    assert piped(expected, "sample", model, "--given", "-", "-n", 1).stdout.count("\n") == 5


def test_a_model_can_be_fitted_to_standard_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{i % 3}|{i}" for i in range(30)).encode()
    words = ("--no-header", "--delimiter", "|", "--units", 2, "--epochs", 1, "--set", "progress=false")
    done = piped(rows, "fit", "-", *words)
    assert "standard input: 30 rows" in done.stdout
    assert sq.load("model.safetensors").schema.names == ("0", "1")


def test_the_form_of_csv_is_read_and_written_as_it_is_said(model, tmp_path):
    file = tmp_path / "g.txt"
    file.write_bytes("älter#1.5#2\nälter##1\n".encode("latin-1"))
    form = ("--no-header", "--delimiter", "#", "--encoding", "latin-1")
    found = call("complete", model, file, *form).stdout_bytes.decode("latin-1").split("\n")
    assert found[0] == "älter#1.5#2"
    assert float(found[1].split("#")[1]) > 0
    drawn = call("sample", model, "-n", 2, *form).stdout_bytes.decode("latin-1")
    assert [line.count("#") for line in drawn.splitlines()] == [2, 2]
    shown = call("data", "show", file, *form, "--columns", "0=drop").stdout
    assert "1.5" in shown


def test_safe_marks_observed_cells_as_well(model, tmp_path):
    (tmp_path / "g.csv").write_text('kind,height,n,more,"=m"\n=x,1.5,,=1+1,-2\n')
    found = call("complete", model, tmp_path / "g.csv", "--safe").stdout.splitlines()
    assert found[0] == "kind,height,n,more,'=m"
    assert found[1].startswith("'=x,1.5,")
    assert found[1].endswith(",'=1+1,-2")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--encoding", "latin-77"), "encoding='latin-77' is not known. Fix: pass one such as 'utf-8'"),
        (("--delimiter", "ab"), "--delimiter 'ab': not one character. Fix: such as ';' or tab."),
    ],
)
def test_forms_that_are_none_are_refused(model, people, words, said):
    assert said in error_line("score", model, people, *words)


def test_what_is_wrong_with_standard_input_is_said(model):
    done = CliRunner().invoke(app, ["score", str(model), "-"], input=b"kind,height,n\nb c,tall,1\n")
    assert done.exit_code == 2
    assert done.stderr.startswith(
        "error: standard input, line 2, column 'height': 'tall' is not a number. Fix:"
    )
    empty = CliRunner().invoke(app, ["score", str(model), "-"], input=b"")
    assert "standard input: it is empty. Fix: pass data." in empty.stderr


def test_a_file_that_is_cut_off_is_noticed(model, tmp_path):
    (tmp_path / "g.csv").write_text("kind,height,n\nb c,1.5,1\nb c,1.")
    line = error_line("score", model, tmp_path / "g.csv")
    assert (
        "line 3: 2 cells, but the first line has 3; it is the last line and does not end, so the file" in line
    )
    assert line.endswith("Fix: copy the file again, or delete the line.")
    (tmp_path / "g.csv").write_text("b c,1.5,1\nb c,1.6,2\n")
    assert "or pass --no-header if the first line holds data" in error_line(
        "score", model, tmp_path / "g.csv"
    )


def test_python_reads_streams_too():
    content = "a,b\n1.5,x\n2.5,y\n".encode("utf-16")
    table = sq.data.read(io.BytesIO(content))
    assert table.source == "the stream"
    np.testing.assert_array_equal(table.rows, [[1.5, 0.0], [2.5, 1.0]])
    with pytest.raises(sq.ParameterError, match=r"a stream of texts\. Fix: open it for bytes"):
        sq.data.read(io.StringIO("a,b\n"))
