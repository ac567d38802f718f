"""What users give to a model, by the names of its columns: rows, masks and variables become numbers here.

Tensors, arrays and lists of numbers pass as they are, so all that is said below is for what has names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from squircuit.data.calendar import WEEKS
from squircuit.data.cells import Cells, Mask, as_cells, objects
from squircuit.data.frames import is_frame, named_columns, names_of
from squircuit.data.registry import Dataset
from squircuit.data.rows import Rows
from squircuit.data.schema import Chunk, HostRows, Schema
from squircuit.data.tabular import Table
from squircuit.errors import DataError, ParameterError, suggestion
from squircuit.storage.words import listed

Names = Schema | None
"""The columns of a model, where it has some."""


def rows_of(schema: Names, given: Any, missing: Any = None) -> tuple[Any, Any]:
    """Rows and mask as questions take them, (n, d) each, of whatever a user gives for them.

    Args:
        schema: the columns of the model.
        given: a data frame, a mapping from names to cells (one value: the same in all rows), a list of such
            mappings, a `Table` or `Rows`. Columns that are not there are missing. All else is numbers.
        missing: names of columns, a frame or a mapping of booleans, or a mask; beside what is missing anyway.

    Raises:
        DataError: for unknown columns and values, with their names.

    Example:
        >>> from squircuit.data import table
        >>> people = table({"sex": ["f", "m", "m"], "age": [31, 7, 52], "height": [1.7, 1.2, 1.8]})
        >>> rows_of(people.schema, {"sex": "m", "height": [1.8, None]})
        (array([[1. , 0. , 1.8],
               [1. , 0. , nan]]), array([[False,  True, False],
               [False,  True,  True]]))
        >>> rows_of(people.schema, [[1, 30, 1.8]], missing="age")
        ([[1, 30, 1.8]], array([False,  True, False]))
        >>> rows_of(people.schema, {"hight": 1.8})
        Traceback (most recent call last):
        squircuit.errors.DataError: the model has no column 'hight'. Fix: did you mean 'height'?
    """
    mask = mask_of(schema, missing)
    if isinstance(given, Tensor):
        return given, mask
    if isinstance(given, Rows):
        rows: Rows[Any] = given
    elif isinstance(given, Table):
        rows = _of_table(schema, given)
    elif has_names(given) and not (schema is None and hasattr(given, "columns")):  # a frame of numbers
        rows = encoded(_required(schema, given), given)
    else:
        return given, mask
    return rows.x, _either(rows.gaps, mask)


def mask_of(schema: Names, missing: Any) -> Any:
    """A mask of whatever a user gives for one: names of columns become booleans (d,).

    Example:
        >>> from squircuit.data import table
        >>> mask_of(table({"a": [0, 1, 2], "b": [0.5, 1.5, 3.0]}).schema, ["b"])
        array([False,  True])
    """
    if schema is None or missing is None or isinstance(missing, Tensor):
        return missing
    if has_names(missing):
        columns = columns_given(schema, missing)
        whole = {part: columns.get(one.name, False) for one in schema.calendars for part in one.names}
        flags = [np.asarray(columns.get(name, whole.get(name, False))) for name in schema.names]
        if any(flag.dtype.kind not in "b" and not np.isin(flag, (0, 1)).all() for flag in flags):
            raise ParameterError(
                "missing= holds other than booleans. Fix: pass True where a cell is missing."
            )
        return np.stack(np.broadcast_arrays(*flags), axis=-1).astype(bool)
    names = _texts(missing)
    if names is None:
        return missing
    chosen = set(numbers_of(schema, names, "missing"))
    return np.array([v in chosen for v in range(len(schema.names))])


def numbers_of(schema: Names, variables: Any, what: str) -> Any:
    """Names of columns among variables as their numbers; what is no name passes as it is.

    Args:
        schema: the columns of the model.
        variables: a name, some names or numbers, or a mapping from such (to functions or points).
        what: the argument, for errors.

    Example:
        >>> from squircuit.data import table
        >>> schema = table({"a": [0, 1, 2], "b": [0.5, 1.5, 3.0]}).schema
        >>> numbers_of(schema, ["b", 0], "of"), numbers_of(schema, {"a": 2}, "grid")
        ([1, 0], {0: 2})
    """
    if isinstance(variables, Mapping):
        return {_number(schema, name, what): entry for name, entry in variables.items()}
    names = _texts(variables)
    if names is None:
        return variables
    of_dates = {one.name: list(one.names) for one in schema.calendars} if schema else {}
    return [_number(schema, part, what) for name in names for part in of_dates.get(name, [name])]


def require_columns(schema: Names, given: Any, variables: Any) -> None:
    """Refuse to ask how likely cells are of columns that are not there."""
    if schema is None or not has_names(given) or not isinstance(variables, list):
        return
    there = columns_given(schema, given)
    there |= {part: there[one.name] for one in schema.calendars if one.name in there for part in one.names}
    for name in (schema.names[v] for v in variables if isinstance(v, int) and v < len(schema.names)):
        if name not in there:
            raise DataError(
                f"the data has no column {name!r}, which of= asks for. Fix: add it, or ask for others."
            )


def require_one_week(schema: Schema, variables: Sequence[int], what: str) -> None:
    """Refuse questions about all variables of a day together, of which it has one week alone."""
    chosen = {schema.names[v] for v in variables}
    for one in schema.calendars:
        if chosen >= {f"{one.name}.{week}" for week in WEEKS}:
            raise ParameterError(
                f"a day of column {one.name!r} is one of four or one of five such weekdays of its month, "
                "and has no value as the other, so that they have no entropy together",
                where=what,
                fix=f"ask about others of {listed(one.names)}",
            )


def encoded(schema: Schema, given: Any, unknown: Mask | None = None) -> HostRows:
    """Cells with names as numbers; columns that are not there are missing in all rows.

    Args:
        schema: the columns of the model.
        given: a frame, a mapping or a list of mappings.
        unknown: (n, d), where to note values that a discrete column does not have, which then count as
            missing; None: they are refused.
    """
    columns = columns_given(schema, given)
    return schema.encode_some(
        Chunk(tuple(columns), tuple(columns.values()), lambda row: f"row {row}"), unknown
    )


def columns_given(schema: Schema, given: Any) -> dict[str, Cells]:
    """The columns of the model that are there, each (n,)."""
    if isinstance(given, Mapping):
        given = of_one_length(given)
    elif isinstance(given, list | tuple):
        given = of_records(given)
    there = {str(name): name for name in names_of(given)}
    return named_columns(given, [there[name] for name in known_columns(schema, list(there))])


def known_columns(schema: Schema, there: Sequence[str]) -> list[str]:
    """Those columns of a model, or parts of its dates, that are there.

    Raises:
        DataError: for others, unless no column is lacking: then none of them can be a slip of the pen.
    """
    known = dict.fromkeys([*schema.table_names, *schema.names])
    strange = [name for name in there if name not in known]
    if strange and not set(schema.table_names) <= set(there):
        raise _unknown_column(schema, strange, there)
    return [name for name in known if name in there]


def has_names(given: Any) -> bool:
    """Whether rows have names of columns: frames, mappings, lists of mappings."""
    if isinstance(given, list | tuple):
        return bool(given) and all(isinstance(row, Mapping) for row in given)
    return is_frame(given) and not isinstance(given, Dataset | Table)


def _required(schema: Names, given: Any) -> Schema:
    if schema is None:
        raise DataError(
            f"the model has no names of columns, and a {type(given).__name__} has",
            fix="pass numbers (n, d) and variables by their numbers; or set model.schema = table.schema, as "
            "models have that sq.learn and sq.model_for make of a table",
        )
    return schema


def _of_table(schema: Names, table: Table) -> HostRows:
    """The cells of a table, by name where its numbers mean something else than those of the model."""
    if schema is None or table.schema is schema:
        return table.cells
    columns = {column.name: v for v, column in enumerate(table.columns)}
    own = [columns[name] for name in schema.names if name in columns]
    if (
        len(own) == len(schema.names)
        and table.schema.calendars == schema.calendars
        and all(
            table.columns[v].states == column.states for v, column in zip(own, schema.columns, strict=True)
        )
    ):
        return Rows(table.rows[:, own], table.missing[:, own])
    words = zip(*table.decode(table.rows, table.missing, exact=True), strict=True)
    named = zip(table.schema.table_names, words, strict=True)
    return encoded(schema, {name: as_cells(objects(list(cells))) for name, cells in named})


def of_one_length(given: Mapping[Any, Any]) -> dict[Any, Any]:
    """A mapping whose single values are repeated for each row."""
    counts = [len(cells) for cells in given.values() if is_column(cells)]
    count = counts[0] if counts else 1
    return {name: cells if is_column(cells) else objects([cells] * count) for name, cells in given.items()}


def is_column(cells: Any) -> bool:
    return not isinstance(cells, str) and hasattr(cells, "__len__") and getattr(cells, "ndim", 1) > 0


def of_records(rows: Sequence[Mapping[Any, Any]]) -> dict[Any, Cells]:
    """Rows as columns; a name that a row lacks is missing there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: objects([row.get(name) for row in rows]) for name in names}


def _texts(names: Any) -> list[Any] | None:
    """Names as a list, where one at least is a text; None of all else."""
    if isinstance(names, str):
        return [names]
    if not isinstance(names, list | tuple | set | frozenset):
        return None
    entries = list(names)
    return entries if any(isinstance(name, str) for name in entries) else None


def _number(schema: Names, name: Any, what: str) -> Any:
    if not isinstance(name, str):
        return name
    names = _required(schema, name).names
    parts = next((one.names for one in _required(schema, name).calendars if one.name == name), ())
    if parts:
        raise ParameterError(
            f"column {name!r} is several variables",
            where=what,
            value=name,
            fix=f"ask about {listed(parts)}",
        )
    if name not in names:
        near = suggestion(name, [*names, *_required(schema, name).table_names], all_known=False)
        raise ParameterError(
            f"the model has no column {name!r}", where=what, value=name, fix=near.rstrip(".")
        )
    return names.index(name)


def _unknown_column(schema: Schema, strange: Sequence[str], there: Iterable[str]) -> DataError:
    name = strange[0]
    near = suggestion(name, schema.table_names, all_known=False).removesuffix(".")
    if set(schema.names) & set(there) or len(strange) == 1 or near.startswith("did"):
        return DataError(f"the model has no column {name!r}", value=name, fix=near)
    return DataError(
        f"the model has none of the columns {listed(there)}",
        value=name,
        fix=f"name them as the model does, {listed(schema.table_names)}, or pass an array of numbers",
    )


def _either(gaps: Any, mask: Any) -> Any:
    """What is missing by one or by the other; None: nothing."""
    if gaps is not None and not gaps.any():
        gaps = None
    if gaps is None or mask is None:
        return mask if gaps is None else gaps
    if isinstance(gaps, Tensor) or isinstance(mask, Tensor):
        gaps, mask = (
            part.cpu().numpy() if isinstance(part, Tensor) else np.asarray(part) for part in (gaps, mask)
        )
    return gaps | np.asarray(mask)
