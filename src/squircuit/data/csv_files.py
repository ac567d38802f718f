"""CSV files as chunks of rows."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, final

import numpy as np

from squircuit.data.cells import EMPTY, Cells, Texts, number, numbers
from squircuit.data.content import BOM, Content, codec
from squircuit.data.optional import installed, need
from squircuit.data.reading import Source, numbered, plausible, readable, require_names
from squircuit.data.schema import Chunk
from squircuit.errors import DataError, ParameterError, SquircuitWarning, Wording
from squircuit.storage.words import one_line

CHUNK, BLOCK = 65_536, 2**20
"""Rows, and bytes, that are looked at at once."""
LARGE = 2**20
"""Bytes of a file for which it pays to load pyarrow, which takes a gigabyte of addresses."""
MOST_LINE = 2**26
"""Characters of one line of a CSV file."""
BLANK, MOST_BLANK = frozenset({"\n", "\r\n", "\r"}), 2**20
"""Blank lines are passed over, but not for ever."""
SOME_COLUMNS = 4
"""From this many columns on, a first row of 0, 1, 2, … is no coincidence."""


@final
class CsvSource(Source):
    """A CSV file, plain or gzip; ``header``, ``delimiter`` and ``encoding`` are found where they are None."""

    def __init__(
        self,
        content: Content | Path,
        header: bool | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> None:
        self.content = content if isinstance(content, Content) else Content(content)
        path, self.delimiter = self.content.path, delimiter or ","
        self.path = path
        _require_delimiter(self.delimiter)
        with self._readable(), self._bytes() as stream:
            self.codec = codec(stream.read(2), encoding)
        first = self._first_line()
        self.delimiter = delimiter or max(",;\t|", key=first.count)
        _, cells = next(self._lines())
        self.named = header if header is not None else any(number(cell) is None for cell in cells)
        self.guessed = header is None
        self.names = tuple(cell.strip() for cell in cells) if self.named else numbered(len(cells))
        fix = "; if the first line holds data, pass " + Wording("header=False", "--no-header")
        require_names(path, self.names, fix)
        if self.guessed and not self.named:
            _warn_of_numbers_as_names(path, cells)

    def chunks(self, names: Sequence[str]) -> Iterator[Chunk]:
        quick = self._by_arrow(names)
        if quick is not None:
            yield quick
            return
        chosen, block, found = self.positions(names), [], False
        for entry in self._rows():
            block.append(entry)
            if len(block) == CHUNK:
                yield self._chunk(block, chosen, names)
                block, found = [], True
        if not block and not found:
            raise DataError(f"{self.path}: no rows below the header. Fix: pass a file with data.")
        if block:
            yield self._chunk(block, chosen, names)

    def _by_arrow(self, names: Sequence[str]) -> Chunk | None:
        """All rows at once by pyarrow, many times as fast, where it is installed and sure to agree.

        None: the file is small, is compressed, has quotes, or is not as it should be. Then Python's own
        reader, which knows the line of each row, reads it or says what is wrong.
        """
        is_small = self.content.size < LARGE
        if is_small or self.content.is_packed or self.codec != "utf-8" or _is_odd(self.content):
            return None
        if installed("pyarrow.csv") is None:
            return None
        chosen = [f"f{position}" for position in self.positions(names)]
        try:
            found = self._arrow_table(chosen, {})
            texts = {name: "string" for name in chosen if not is_plain(found.column(name))}
            again = self._arrow_table(list(texts), texts) if texts else found
        except (ValueError, LookupError, NotImplementedError, OSError):  # of pyarrow
            return None
        if not len(found):
            return None
        cells = tuple(_cells(again.column(name) if name in texts else found.column(name)) for name in chosen)
        return Chunk(tuple(names), cells, lambda row: f"{self.path}, line {self._line_of(row)}")

    def _arrow_table(self, chosen: list[str], texts: dict[str, str]) -> Any:
        """Some columns: those that are not read as texts have the types that pyarrow finds."""
        arrow = need("pyarrow.csv", "reading CSV files")
        place = self.path if self.content.is_file else self.content.open()
        return arrow.read_csv(
            place,
            arrow.ReadOptions(
                autogenerate_column_names=True, use_threads=False, skip_rows_after_names=int(self.named)
            ),
            arrow.ParseOptions(delimiter=self.delimiter, quote_char=False, newlines_in_values=False),
            arrow.ConvertOptions(
                column_types=texts,
                include_columns=chosen,
                null_values=[] if texts else sorted(EMPTY),
                true_values=[],
                false_values=[],
            ),
        )

    def _line_of(self, row: int) -> int:
        """The line on which a row begins, for an error."""
        return next(itertools.islice(self._rows(), row, None))[0]

    def _chunk(self, block: list[tuple[int, list[str]]], chosen: list[int], names: Sequence[str]) -> Chunk:
        numbers = [line for line, _ in block]
        columns = list(zip(*(cells for _, cells in block), strict=True))
        texts = tuple(np.array(columns[position], dtype=object) for position in chosen)
        return Chunk(tuple(names), texts, lambda row: f"{self.path}, line {numbers[row]}")

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        lines, width = self._lines(), len(self.names)
        if self.named:
            next(lines)
        for line, cells in lines:
            if len(cells) != width:
                longer = any("\n" in cell for cell in cells)
                hint = ", which a quote continues on the lines below," if longer else ""
                cut = len(cells) < width and next(lines, None) is None and not self._ends_with_line()
                raise DataError(
                    f"{len(cells)} cells, but the first line has {width}"
                    + "; it is the last line and does not end, so the file seems to be cut off" * cut,
                    where=f"{self.path}, line {line}{hint}",
                    fix="copy the file again, or delete the line"
                    if cut
                    else f"correct the line; cells end at {self.delimiter!r}, else pass "
                    + Wording("delimiter=", "--delimiter"),
                )
            yield line, cells

    def _ends_with_line(self) -> bool:
        """The last line has an end, as programs write it."""
        with self._readable(), self.open() as stream:
            last = deque(_lines_of(stream, self.content), maxlen=1)
        return last[0].endswith(("\n", "\r"))

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """The rows that are not blank, each with the number of the line on which it begins."""
        with self._readable(), self.open() as stream:
            text = _lines_of(stream, self.content)
            reader = csv.reader(text, delimiter=self.delimiter, skipinitialspace=True, strict=True)
            while True:
                start = reader.line_num + 1
                try:
                    cells = next(reader, None)
                except csv.Error as error:
                    raise self._wrong_cell(start, reader.line_num, error) from error
                if cells is None:
                    return
                if cells:
                    yield start, cells

    def records(self) -> tuple[str, list[str]]:
        """The text as it is, character by character: what is above the first row of data, and each row.

        Ends of lines and blank lines below a row belong to it.
        """
        with self._readable(), self._bytes() as stream:
            text = stream.read().decode(self.codec)
        lines = list(io.StringIO(text, newline=""))
        starts = [line - 1 for line, _ in self._rows()]
        ends = [*starts[1:], len(lines)]
        rows = ["".join(lines[start:end]) for start, end in zip(starts, ends, strict=True)]
        return "".join(lines[: starts[0]]), rows

    def _wrong_cell(self, first: int, last: int, error: csv.Error) -> DataError:
        """What is wrong in a row that begins and ends on these lines, by the quote that is to blame."""
        with self.open() as stream:
            lines = itertools.islice(_lines_of(stream, self.content), first - 1, last)
            opened, inside = last_quote(lines, self.delimiter)
        if opened is None:
            return DataError(
                f"{self.path}, line {first}: {one_line(error)}. Fix: shorten the cell, or remove its column."
            )
        what = "is never closed" if inside else "is followed by more text where it closes"
        if "limit" in str(error):
            what = f"is not closed within {csv.field_size_limit():,} characters"
        return DataError(
            f"{self.path}, line {first + opened}: a quote opens a cell there and {what}. Fix: close the "
            'quote at the end of the cell, and write quotes inside it twice: "a ""good"" year".'
        )

    def _first_line(self) -> str:
        with self._readable(), self.open() as stream:
            first = next((line for line in _lines_of(stream, self.content) if line.strip()), "")
        if not first:
            raise DataError(f"{self.path}: the file is empty. Fix: pass a file with data.")
        return first

    def _readable(self) -> AbstractContextManager[None]:
        fix = "copy it again, or " * self.content.is_packed + "save it as UTF-8 CSV"
        return readable(self.path, "CSV", fix + ", or pass " + Wording("encoding=", "--encoding"))

    def open(self) -> io.TextIOWrapper:
        """The text from the first line, without a mark of its encoding; ends of lines are as they are."""
        text = io.TextIOWrapper(self._bytes(), encoding=self.codec, newline="")
        if text.read(1) != BOM:
            text.seek(0)
        return text

    def _bytes(self) -> Any:
        raw = self.content.open()
        return gzip.open(raw) if self.content.is_packed else raw


def _is_odd(content: Content) -> bool:
    """Whether a file holds what Arrow reads in another way: quotes, or numbers to the base 16."""
    with content.open() as stream:
        before = b""
        while block := stream.read(BLOCK):
            if b'"' in block or any(x in block and b"0" + x in before + block for x in (b"x", b"X")):
                return True
            before = block[-1:]
    return False


def is_plain(column: Any) -> bool:
    """Arrow read numbers as Python does, or texts: it knows dates, too, and takes nan(abc) for a number."""
    kind = str(column.type)
    if kind == "double":
        compute = need("pyarrow.compute", "reading CSV files")
        return not compute.any(compute.is_nan(column)).as_py()
    return kind in ("int64", "string")


def _cells(column: Any) -> Cells:
    """A column of Arrow: numbers with NaN for missing, or texts that are one object where they are equal."""
    if str(column.type) != "string":
        return column.to_numpy().astype(np.float64, copy=False)  # type: ignore[no-any-return]
    coded = column.combine_chunks().dictionary_encode()
    different = coded.dictionary.to_pylist()
    texts = Texts.of(coded.indices.to_numpy(zero_copy_only=False), different)
    return numbers(np.asarray(texts))[0] if all(_is_number(text) for text in different) else texts


def _is_number(text: str) -> bool:
    return number(text) is not None


def last_quote(lines: Iterable[str], delimiter: str) -> tuple[int | None, bool]:
    """The number of the line (from 0) with the last quote that opens a cell, and whether it is still open.

    Example:
        >>> last_quote(['a,"b', 'c",d', 'e,"f'], ",")
        (2, True)
        >>> last_quote(['a "b" c'], ",")
        (None, False)
    """
    opened, state = None, "start"
    for position, line in enumerate(lines):
        for character in line:
            if character == '"' and state == "start":
                opened, state = position, "inside"
            elif character == '"' and state in ("inside", "closed"):
                state = "closed" if state == "inside" else "inside"  # two quotes are a character of the cell
            elif state != "inside":
                ends = character == delimiter or (character == " " and state == "start")
                state = "start" if ends else "plain"
        state = "inside" if state == "inside" else "start"
    return opened, state == "inside"


def _lines_of(stream: io.TextIOWrapper, content: Content) -> Iterator[str]:
    """The lines of a text; small files of endless lines, or of endless blank ones, are soon refused."""
    path, most = content.path, plausible(content.size) if content.is_packed else math.inf
    blank = 0
    while line := stream.readline(MOST_LINE + 1):
        most -= len(line)
        blank = blank + 1 if line in BLANK else 0
        if len(line) > MOST_LINE:
            raise DataError(
                f"{path}: a line of more than {MOST_LINE:,} characters. Fix: end every row with a new line."
            )
        if blank > MOST_BLANK:
            raise DataError(f"{path}: more than {MOST_BLANK:,} blank lines. Fix: delete them.")
        if most < 0:
            raise DataError(
                f"{path}: it becomes far larger when it is decompressed than tables do. "
                "Fix: if you trust it, decompress it with gunzip and pass the plain file."
            )
        yield line


def _require_delimiter(delimiter: str) -> None:
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n ':
        raise ParameterError(f"delimiter={delimiter!r}. Fix: pass one character, such as ',' or ';'.")


def _warn_of_numbers_as_names(path: Path, cells: Sequence[str]) -> None:
    """The names that pandas makes up, 0, 1, 2, …, are numbers, and so would be a row of data."""
    if len(cells) >= SOME_COLUMNS and tuple(cell.strip() for cell in cells) == numbered(len(cells)):
        warnings.warn(
            SquircuitWarning(
                f"{path}, line 1: 0, 1, 2, … up to {len(cells) - 1} is read as a row of data. If these are "
                "names that pandas made, "
                + Wording("pass header=True or ", "pass --header or ")
                + "write the file with to_csv(…, header=False, index=False)."
            ),
            stacklevel=4,
        )
