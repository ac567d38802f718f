"""Tables: `read` from files, of `table`s in memory, or only `scan`ned for the types of their columns."""

from __future__ import annotations

import stat
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from squircuit.data.calendar import Calendar
from squircuit.data.cells import (
    SEVERAL,
    Cells,
    Mask,
    begin_with_a_number,
    columns_of,
    number,
    numbers,
    read_as,
    shown,
)
from squircuit.data.column_facts import Facts
from squircuit.data.columns import Column
from squircuit.data.content import Content
from squircuit.data.csv_files import CsvSource
from squircuit.data.find_dates import calendars_in, part_column, without_dates
from squircuit.data.frames import is_frame, named_columns, names_of, plain
from squircuit.data.image_shards import ParquetImages, TarImages, image_column
from squircuit.data.images import ImageSource
from squircuit.data.infer import in_order, infer, require_no_identifiers
from squircuit.data.layout import Layout
from squircuit.data.numpy_files import NumpySource
from squircuit.data.parquet import FeatherSource, ParquetSource
from squircuit.data.reading import Source, enough_memory, numbered, require_names, wish_of
from squircuit.data.rows import Rows
from squircuit.data.schema import Chunk, HostRows, Schema
from squircuit.errors import DataError, ParameterError, SquircuitWarning, Wording, suggestion
from squircuit.families import Family
from squircuit.storage.checks import status
from squircuit.storage.words import listed

Wishes = Mapping[str, str] | Sequence[str] | None
CSV = frozenset({".csv", ".tsv", ".txt", ".data"})
PARQUET = frozenset({".parquet", ".pq"})
FEATHER = frozenset({".feather", ".arrow"})
NUMPY = frozenset({".npy", ".npz"})
TAR = frozenset({".tar"})
KNOWN = CSV | PARQUET | FEATHER | NUMPY | TAR
MANY_ROWS = 10
"""From this many rows on, texts that are all different are no coincidence."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a file as numbers, and the types of the columns.

    Args:
        cells: the rows, (n, d), int64 where every column is discrete, else float64. Missing: 0 in discrete
            columns, NaN in others.
        schema: the types of the columns.
        source: the file.
        shape: of one row, where it is an image, else (d,).
    """

    cells: HostRows
    schema: Schema
    source: str
    shape: tuple[int, ...]

    @property
    def rows(self) -> NDArray[Any]:
        """The numbers of all cells: (n, d)."""
        return self.cells.x

    @property
    def missing(self) -> Mask:
        """Which cells are missing: (n, d); hand it to models as ``missing=``."""
        return self.cells.missing

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.schema.columns

    def families(
        self, size: int = 24, continuous: str | Callable[[Column], Family] = "hermite"
    ) -> list[Family]:
        """Input functions for each column, fitted to these rows where they are, see `Schema.families`."""
        return self.schema.families(size, continuous, self.cells)

    def encode(self, rows: Any) -> HostRows:
        """New rows as numbers, see `Schema.encode`."""
        return self.schema.encode(rows)

    def decode(
        self, rows: ArrayLike, missing: ArrayLike | None = None, exact: ArrayLike | None = None
    ) -> list[list[Any]]:
        """Numbers as original values, see `Schema.decode`."""
        return self.schema.decode(rows, missing, exact)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return f"{self.source}: {len(self)} rows, {len(self.columns)} columns\n{self.schema}"


def read(
    path: Any,
    columns: Wishes = None,
    like: Table | Schema | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Table:
    """A table from a file, with the type of every column inferred; print it to see them.

    Args:
        path: a CSV file (.csv, .tsv, .txt, .data, also .gz), Parquet (.parquet, .pq), Feather (.feather,
            .arrow), NumPy (.npy, .npz) or a folder of images; or a stream of the bytes of one that is not of
            NumPy, such as ``sys.stdin.buffer``.
        columns: types that replace the inferred ones, such as ``{"age": "continuous", "day": "periodic:7",
            "id": "drop"}``; or the names of the columns to keep.
        like: take the columns and types of this table instead, for data to be scored.
        header: whether a CSV file begins with names; default: if its first line has a cell that is no number.
        delimiter: of a CSV file; default: the commonest of , ; tab | in its first line.
        encoding: of a CSV file, such as "latin-1"; default: UTF-8, or UTF-16 where it begins so.

    Raises:
        DataError: for empty files, ragged rows, unknown categories, …: it names file, line, column and value.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "people.csv"
        >>> _ = file.write_text("sex,age,height\\nm,31,1.80\\nf,7,1.21\\nf,52,\\n")
        >>> table = read(file)
        >>> print(table.schema)
        column  type        states  values                           missing
        sex     binary      2       f, m                             –
        age     count       53      0 … 52                           –
        height  continuous  –       1.21 … 1.8, mean 1.505 ± 0.295   1
        >>> table.rows
        array([[ 1.  , 31.  ,  1.8 ],
               [ 0.  ,  7.  ,  1.21],
               [ 0.  , 52.  ,   nan]])
        >>> table.families(size=8)[:2]
        [Categorical(size=2), Categorical(size=53, ordered=True)]
    """
    source = open_source(path, header, delimiter, encoding)
    return inferred(source, columns) if like is None else table_like(source, like)


def table_like(source: Source, like: Table | Schema) -> Table:
    """All rows of a source, with columns and types that are known."""
    schema = like.schema if isinstance(like, Table) else like
    with enough_memory(source.path):
        chunks = source.chunks(matched(source, schema))
        return _joined(source, schema, [schema.encode_chunk(chunk) for chunk in chunks])


def table(rows: Any, columns: Wishes = None) -> Table:
    """A table of rows in memory, as `read` makes it of a file.

    Args:
        rows: (n, d) array or tensor, NaN = missing, more axes for images; a list of rows; a mapping from
            names to columns; or a data frame.
        columns: types that replace the inferred ones, as for `read`; columns of arrays are "0", "1", ….

    Raises:
        DataError: that names row, column and value.

    Example:
        >>> points = table(np.array([[0.5, 1.0], [np.nan, 350.0], [0.1, 20.0]]), {"1": "periodic:360"})
        >>> [column.kind for column in points.columns], points.missing.sum()
        (['continuous', 'periodic'], np.int64(1))
        >>> table({"sex": ["f", "m"], "age": [31, 7]}).rows
        array([[0, 1],
               [1, 0]])
    """
    return inferred(MemorySource(rows), columns)


def inferred(source: Source, columns: Wishes = None) -> Table:
    """All rows of a source, with the type of every column inferred or as wished."""
    names, wishes = chosen(source, columns)
    with enough_memory(source.path):
        chunks = list(source.chunks(names))
        calendars = calendars_in(chunks, wishes, str(source.path))
        chunks = _parsed([_plain(chunk.split(calendars)) for chunk in chunks])
        schema = _schema(source, calendars, wishes, chunks, known=bool(columns))
        return _joined(source, schema, [schema.encode_parts(chunk) for chunk in chunks])


def scan(
    path: Any,
    columns: Wishes = None,
    header: bool | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Schema:
    """The types of a file's columns, in one pass that never holds all rows; arguments as for `read`.

    For files larger than memory: scan once, then stream with `Batches(path, like=schema)`.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "points.npy"
        >>> np.save(file, np.array([[0.5, 1.0], [1.5, 7.0], [0.0, 3.0]]))
        >>> [column.kind for column in scan(file).columns]
        ['continuous', 'count']
    """
    source = open_source(path, header, delimiter, encoding)
    names, wishes = chosen(source, columns)
    with enough_memory(source.path):
        calendars = calendars_in(source.chunks(names), wishes, str(source.path))
        chunks = (_plain(chunk.split(calendars)) for chunk in source.chunks(names))
        return _schema(source, calendars, wishes, chunks, known=bool(columns))


def open_source(
    path: Any, header: bool | None = None, delimiter: str | None = None, encoding: str | None = None
) -> Source:
    """The file as chunks of rows, by the end of its name; a stream of bytes by what it begins with."""
    content = _content(path)
    path, suffix = content.path, content.suffix
    if content.is_file and stat.S_ISDIR(status(path, DataError, "file or folder").st_mode):
        return ImageSource(path)
    if suffix in KNOWN:
        content.require_readable()
    if suffix in CSV:
        return CsvSource(content, header, delimiter or ("\t" if suffix == ".tsv" else None), encoding)
    if suffix in PARQUET:
        images = image_column(path) if content.is_file else None
        return ParquetSource(content) if images is None else ParquetImages(path, images)
    if suffix in TAR and content.is_file:
        return TarImages(path)
    if suffix in FEATHER:
        return FeatherSource(content)
    if suffix in NUMPY:
        if not content.is_file:
            raise DataError(f"{path}: an array of NumPy. Fix: pass its file, or CSV, Parquet or Feather.")
        return NumpySource(path)
    known = ", ".join(sorted(KNOWN))
    raise DataError(
        f"{path}: files ending in {suffix!r} are not known. Fix: pass {known} or a folder of images."
    )


def chosen(source: Source, columns: Wishes) -> tuple[list[str], dict[str, str]]:
    """The names of the columns to read, and the types that the user wishes."""
    if isinstance(columns, str):
        raise ParameterError(f"columns={columns!r}. Fix: pass a list of names, or a mapping to types.")
    asked = dict(columns) if isinstance(columns, Mapping) else {}
    present = frozenset(source.names)
    for name in columns or ():
        if name not in present:
            near = suggestion(name, source.names, all_known=False)
            raise ParameterError(f"{source.path}: no column {name!r}. Fix: {near}")
    names = list(source.names) if isinstance(columns, Mapping) or columns is None else list(columns)
    names = [name for name in names if asked.get(name) != "drop"]
    if not names:
        raise ParameterError(f"{source.path}: no column is left. Fix: keep one at least.")
    defaults = dict.fromkeys(names, source.wish) if source.wish else {}
    return names, {name: wish for name, wish in (defaults | asked).items() if wish is not None}


def matched(source: Source, schema: Schema) -> list[str]:
    """The columns of a file that are those of a schema: by name, or by number where the file has no names."""
    if not source.named:
        if len(source.names) != len(schema.table_names):
            raise DataError(
                f"{source.path}: {len(source.names)} columns, expected {len(schema.table_names)}. "
                f"Fix: give one for each of {listed(schema.table_names)}."
            )
        return list(source.names)
    present = frozenset(source.names)
    for name in schema.table_names:
        if name not in present:
            raise DataError(
                f"there is no column {name!r}, only {listed(source.names)}",
                where=str(source.path),
                value=name,
                fix="add it or rename one"
                + Wording(", or pass header=False", ", or pass --no-header")
                + " if the first line holds data",
            )
    return list(schema.table_names)


def _content(path: Any) -> Content:
    if isinstance(path, Content):
        return path
    if hasattr(path, "read"):
        return Content.of_stream(path, "the stream")
    try:
        return Content(Path(path))
    except TypeError as error:
        raise ParameterError(f"{path!r} is no path. Fix: pass the name of a file or folder.") from error


def _schema(
    source: Source,
    calendars: tuple[Calendar, ...],
    wishes: Mapping[str, str],
    chunks: Iterable[Chunk],
    *,
    known: bool,
) -> Schema:
    """The types of the columns; ``known``: the user has named some, so that they are names and no data."""
    facts = _seen(chunks)
    parts = {name: one for one in calendars for name in one.names}
    if source.guessed and source.named and not known:
        _doubt_names(source, facts)
    types = source.layout.types if source.layout is not None else {}
    require_no_identifiers(
        {name: seen for name, seen in facts.items() if name not in parts and name not in wishes},
        str(source.path),
    )
    columns = tuple(
        part_column(parts[name], name, seen, str(source.path))
        if name in parts
        else in_order(infer(name, seen, str(source.path), wishes.get(name)), types.get(name))
        for name, seen in facts.items()
    )
    _warn_of_constants(source, columns)
    _warn_of_names(
        source, [c for c in columns if c.name not in wishes and _is_all_different(c, facts[c.name])]
    )
    return Schema(columns, source.layout, calendars)


def _parsed(chunks: list[Chunk]) -> list[Chunk]:
    """The same with numbers in place of texts where all of a column are some, so that each is parsed once."""
    columns: list[Sequence[Cells]] = []
    for pieces in zip(*(chunk.cells for chunk in chunks), strict=True):
        read = (
            [numbers(cells) for cells in pieces]
            if all(map(begin_with_a_number, pieces))
            else [(pieces[0], 0)]
        )
        is_number = all(wrong is None for _, wrong in read)
        columns.append([values for values, _ in read] if is_number else pieces)
    return [
        Chunk(chunk.names, tuple(column[number] for column in columns), chunk.place)
        for number, chunk in enumerate(chunks)
    ]


def _seen(chunks: Iterable[Chunk]) -> dict[str, Facts]:
    """What all chunks together tell of each column."""
    total: dict[str, Facts] = {}
    for chunk in chunks:
        found = dict(zip(chunk.names, Facts.of_columns(chunk.cells, chunk.place), strict=True))
        total = {name: total[name] + seen for name, seen in found.items()} if total else found
    return total


def _plain(chunk: Chunk) -> Chunk:
    """The chunk with texts in place of dates that have no calendar, as they are all the same."""
    return Chunk(chunk.names, tuple(map(without_dates, chunk.cells)), chunk.place)


def _doubt_names(source: Source, facts: Mapping[str, Facts]) -> None:
    """Refuse, or warn of, a first line that was taken for names and looks like a row of data.

    A text above a column of numbers is a name. Where there is none, a text that its own column holds is most
    likely a value, and a number above numbers may be a value or, say, a year.
    """
    texts = [name for name, seen in facts.items() if seen.text is not None]
    if any(number(name) is None for name, seen in facts.items() if seen.text is None):
        return
    values = [name for name in texts if name in facts[name].distinct]
    ways = "add a first line with a name for each column" + Wording(
        ", or pass header=False to read it as data; if these are the names, pass header=True",
        ", or pass --no-header to read it as data; if these are the names, pass --header",
    )
    if values and 2 * len(values) >= len(texts):
        raise DataError(
            f"it is no line of names, {values[0]!r} is also a value of its column",
            where=f"{source.path}, line 1",
            value=values[0],
            fix=ways,
        )
    numbers = [name for name in facts if number(name) is not None]
    if numbers:
        said = f"{source.path}, line 1: it is taken for names of columns, though {numbers[0]!r} is a number. "
        warnings.warn(SquircuitWarning(said + "If it holds data, " + ways + "."), stacklevel=5)


def _is_all_different(column: Column, facts: Facts) -> bool:
    """Texts of which none is there twice: names, identifiers, dates."""
    return column.is_text and facts.count >= MANY_ROWS and column.size == facts.count


def _warn_of_names(source: Source, columns: Sequence[Column]) -> None:
    for column in columns:
        said = (
            f"{source.path}: column {column.name!r} has another text in every row, such as "
            f"{shown(column.categories[0])}, so it teaches nothing, and new rows will have unknown ones. "
        )
        drop = read_as(column.name, "drop")
        warnings.warn(SquircuitWarning(said + "Leave it out with " + drop + "."), stacklevel=5)


def _warn_of_constants(source: Source, columns: Sequence[Column]) -> None:
    constant = [column.name for column in columns if column.size == 1]
    if constant:
        said = (
            f"{source.path}: constant columns: {listed(constant)}. They have probability 1 and teach "
            "nothing; any other value will be an unknown category. Leave them out with "
        )
        drop = Wording("columns={name: 'drop'}.", "--columns NAME=drop.")
        warnings.warn(SquircuitWarning(said + drop), stacklevel=5)


def _joined(source: Source, schema: Schema, parts: list[HostRows]) -> Table:
    cells = Rows.joined(parts)
    width = cells.x.shape[1]
    shape = source.shape if source.shape and np.prod(source.shape) == width else (width,)
    return Table(cells, schema, str(source.path), tuple(shape))


@final
class MemorySource(Source):
    """Rows in memory, as the readers of files see a file."""

    def __init__(self, rows: Any) -> None:
        self.path = Path("data")  # what errors call it
        self._frame: Any = rows if is_frame(rows) else None
        if self._frame is None:
            array = _array(rows)
            self.named, self.names = False, numbered(int(np.prod(array.shape[1:])))
            self.shape, self.wish = array.shape[1:] if array.ndim > 2 else None, wish_of(array)
            self._columns = array.reshape(len(array), -1)
            self.layout = Layout.of(rows).without_rows
        else:
            self._names = {str(name): name for name in names_of(rows)}
            self.layout = Layout.of(rows).without_rows
            self.names = tuple(str(name) for name in names_of(rows))
            if not self.names:
                raise DataError("no columns are no table. Fix: give some, each a cell for each row.")
        require_names(self.path, self.names)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        if self._frame is None:
            cells = dict(zip(names, columns_of(self._columns[:, self.positions(names)]), strict=True))
        else:
            cells = named_columns(self._frame, [self._names[name] for name in names])
        for name, column in cells.items():
            _require_cells(name, column)
        if not all(len(column) for column in cells.values()):
            raise DataError("columns without rows are no table. Fix: give each a cell for each row.")
        yield Chunk(tuple(names), tuple(cells.values()), lambda row: f"row {row}")


def _require_cells(name: str, cells: Cells) -> None:
    """Refuse cells that hold several values."""
    if cells.dtype != object:
        return
    for row, cell in enumerate(cells):
        if isinstance(cell, SEVERAL):
            raise DataError(
                f"{shown(cell)} is neither number nor text",
                where=f"row {row}, column {name!r}",
                value=cell,
                fix="give one value a cell, or leave the column out, " + read_as(name, "drop"),
            )


def _array(rows: Any) -> Any:
    if isinstance(rows, str | Path):
        raise DataError(f"{str(rows)!r} is a name. Fix: pass sq.data.read(path) or sq.data.load(name).")
    array = plain(rows)
    if array.ndim < 2 or array.size == 0 or array.dtype.kind not in "fiubUO":
        raise DataError(
            f"the data has shape {array.shape} of {array.dtype}. Fix: pass (n, d) numbers or texts, a "
            "mapping from names to columns, or a data frame."
        )
    return array
