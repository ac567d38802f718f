"""Models and data that commands are given."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from squircuit import data
from squircuit.cli import colours
from squircuit.data import Batches, Column, Dataset, Rows, Schema, Table
from squircuit.data.content import Content, codec
from squircuit.data.given import known_columns
from squircuit.data.reading import Source, enough_memory
from squircuit.data.tabular import open_source, table_like
from squircuit.errors import DataError, FormatError, ParameterError, suggestion
from squircuit.families.domain import Domain, Finite
from squircuit.models import SquaredCircuit, load
from squircuit.storage.words import path_text
from squircuit.training import History
from squircuit.training.checkpoint import RunFolder
from squircuit.training.intake import STREAMED

CPU = torch.device("cpu")
BEST = "best.safetensors"
"""The file of a run's folder that holds its model."""
TABLES = (".csv", ".tsv", ".parquet", ".feather", ".arrow", ".npy", ".npz")
"""Ends of the names of files that hold rows, and no model."""
PARTS = ("train", "valid", "test")
LARGE = 2**31
"""Bytes of a file that is streamed unasked."""
SAMPLE = 20_000
"""Rows of a stream from which the structure of its model is made."""
MOST_LINES = 24
"""Columns that are listed one by one."""
STANDARD = "-"
"""The name of standard input and output."""


class Form(NamedTuple):
    """How CSV is read and written; None: as it is found, and as is usual.

    Args:
        header: whether there is a line of names.
        delimiter: between cells.
        encoding: of the text.
    """

    header: bool | None = None
    delimiter: str | None = None
    encoding: str | None = None


USUAL = Form()


def form_of(header: bool | None, delimiter: str | None, encoding: str | None) -> Form:
    """How CSV is read and written, from what the command line says.

    Example:
        >>> form_of(None, "tab", None).delimiter
        '\\t'
    """
    if delimiter is not None:
        delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
        if len(delimiter) != 1 or delimiter in '"\r\n ':
            raise ParameterError(f"--delimiter {delimiter!r}: not one character. Fix: such as ';' or tab.")
    if encoding is not None:
        codec(b"", encoding)
    return Form(header, delimiter, encoding)


def open_model(path: Path, device: torch.device) -> SquaredCircuit:
    """The model of a file, or the best one of a run, for questions."""
    file = path / BEST if os.path.isdir(path) else path
    if not os.path.exists(file):  # which is false of over-long names, where that of Path raises
        raise FormatError(f"{path_text(file)}: there is no such file. Fix: check the path.")
    if file.suffix.lower() in TABLES:
        raise ParameterError(
            f"{path_text(file)}: this is a table, and a model is expected here. "
            "Fix: the model comes first, as in squircuit score MODEL DATA."
        )
    model = load(file, device)
    model.eval().requires_grad_(False)
    return model


def history_of(path: Path, model: SquaredCircuit | None) -> History | None:
    """The history of a run's folder, or the one that the notes of a model tell; None: there is none."""
    if os.path.isdir(path):
        return RunFolder(path).history()
    notes = {} if model is None else model.notes
    return History.from_dict(notes["history"]) if "history" in notes else None


def place_of(name: str) -> str | Content:
    """What is read: standard input for "-", all of it at once."""
    return Content.of_stream(sys.stdin.buffer, "standard input") if name == STANDARD else name


def open_data(
    name: str, columns: dict[str, str] | None = None, form: Form = USUAL, place: str | Content | None = None
) -> Dataset | Table:
    """A data set by its name, or a table from a file, a folder or standard input.

    Args:
        name: of the data set, or a path.
        columns: types of columns of a file that replace the inferred ones.
        form: of CSV.
        place: what `place_of` gave, where it was asked already.
    """
    if name in data.names():
        if columns:
            raise ParameterError(
                f"--columns: the data set {name!r} has its types. Fix: leave the option out."
            )
        return data.load(name)
    require_path(name)
    return data.read(place_of(name) if place is None else place, columns, None, *form)


def is_streamed(name: str, wished: bool) -> bool:
    """The file is read batch by batch: it is wished, or the file is large."""
    path = Path(name)
    can = os.path.isfile(path) and path.suffix in STREAMED
    if wished and not can:
        raise ParameterError(
            f"--stream: {name} is no file ending in {', '.join(STREAMED)}. Fix: convert it, or leave it out."
        )
    return can and (wished or path.stat().st_size > LARGE)


def sample_of(name: str, columns: dict[str, str] | None = None) -> Table:
    """Some rows of a file, drawn from all of it, with the types of all of its rows."""
    schema = data.scan(name, columns)
    rows = next(iter(Batches(name, batch=SAMPLE, like=schema)))
    return Table(rows, schema, name, (len(schema.columns),))


def read_rows(model: SquaredCircuit, name: str, part: str = "test", form: Form = USUAL) -> Rows[Tensor]:
    """Rows of a data set or a file, encoded as the model's training data was."""
    return read_source(model, name, part, form)[0]


def given_rows(model: SquaredCircuit, name: str, form: Form = USUAL) -> Rows[Tensor]:
    """Rows of which some columns are known: those that a file has; all others are missing."""
    if name in data.names():
        return read_rows(model, name, form=form)
    require_path(name)
    source, schema = open_source(place_of(name), *form), schema_of(model)
    if not source.named:  # columns by their places are all of them
        return colours.read_by(model, source, table_like(source, schema).cells.to(CPU))
    there = known_columns(schema, source.names)
    with enough_memory(source.path):
        return Rows.joined([schema.encode_some(chunk) for chunk in source.chunks(there)]).to(CPU)


def read_source(
    model: SquaredCircuit, name: str, part: str = "test", form: Form = USUAL
) -> tuple[Rows[Tensor], Source | None]:
    """The same, and the file in which they are as they were written; None of a data set."""
    if part not in PARTS:
        raise ParameterError(f"--part {part}: not known. Fix: one of {', '.join(PARTS)}.")
    if name in data.names():
        return part_rows(model, data.load(name), part), None
    require_path(name)
    source = open_source(place_of(name), *form)
    return colours.read_by(model, source, table_like(source, schema_of(model)).cells.to(CPU)), source


def schema_of(model: SquaredCircuit) -> Schema:
    """The model's columns; of a model without any, columns 0, 1, … with the domains of its variables."""
    if model.schema is not None:
        return model.schema
    domains = model.structure.domains
    return Schema(tuple(_column(v, domains.get(v)) for v in range(model.structure.num_variables)))


def is_image(model: SquaredCircuit) -> bool:
    """The model is of images, by its shape."""
    return model.shape is not None and len(model.shape) > 1


def described(schema: Schema) -> str:
    """The columns as a table, or where there are many, how many there are of each type.

    Example:
        >>> print(described(Schema(tuple(Column(str(i), "count", high=16.0) for i in range(64)))))
        64 columns: 64 count 0 … 16
    """
    if len(schema.columns) <= MOST_LINES:
        return str(schema)
    kinds = Counter(_in_words(column) for column in schema.columns)
    return f"{len(schema.columns)} columns: " + ", ".join(f"{n} {words}" for words, n in kinds.items())


def _in_words(column: Column) -> str:
    return f"count {column.low:g} … {column.high:g}" if column.kind == "count" else column.kind


def require_path(name: str) -> None:
    """Refuse what is neither a data set nor a path that exists; a name with a dot or a slash is a path."""
    if name == STANDARD or os.path.exists(name):
        return
    if Path(name).name != name or Path(name).suffix:
        raise DataError(f"{path_text(Path(name))}: there is no such file or folder. Fix: check the path.")
    raise DataError(
        f"{path_text(Path(name))}: there is no such file, and no data set of that name. "
        f"Fix: {suggestion(name, data.names())}"
    )


def part_rows(model: SquaredCircuit, known: Dataset, part: str) -> Rows[Tensor]:
    """Rows of one part of a data set, which has as many columns as the model."""
    values = np.asarray(getattr(known, part))
    if values.shape[1] != model.structure.num_variables:
        raise DataError(
            f"{known.name}: {values.shape[1]} columns, but the model has {model.structure.num_variables} "
            "variables. Fix: pass data like that of its training."
        )
    return Rows.of(values.astype(np.float64 if values.dtype.kind == "f" else np.int64)).to(CPU)


def _column(variable: int, domain: Domain | None) -> Column:
    if isinstance(domain, Finite):
        return Column(str(variable), "count", high=domain.size - 1)
    return Column(str(variable), "continuous")
