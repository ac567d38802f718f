"""Data from which a model is made, as a table; and the trees that suit its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from squircuit.data import Dataset, Rows, Schema, Table, table
from squircuit.errors import DataError
from squircuit.regions import RegionGraph, chow_liu

MOST_ROWS = 20_000  # for the tree: mutual informations are known well enough from these
WORK = 2e11  # of counting pairs, about a minute; the cost is n · d² · bins²


def training_table(data: Any) -> Table:
    """A Table, the training rows of a Dataset, or rows in memory, as a table of two rows at least.

    Example:
        >>> training_table([[0, 0.5], [1, np.nan], [2, 0.7]]).missing.sum()
        np.int64(1)
    """
    if isinstance(data, str):
        raise DataError(f"{data!r} is a name. Fix: pass sq.data.load(name) or sq.data.read(path).")
    if isinstance(data, Dataset):
        found = Table(Rows.of(data.train), Schema(data.columns), data.name, data.shape)
    else:
        found = data if isinstance(data, Table) else table(data)
    if len(found) < 2:
        raise DataError(f"{len(found)} rows teach nothing. Fix: pass two at least.")
    return found


def chow_liu_trees(data: Table, count: int) -> list[RegionGraph]:
    """The Chow–Liu tree of the rows, and those of rows drawn from them with replacement (seeds 1, 2 …).

    Of many rows some are taken; continuous columns are cut into bins.
    """
    n, d = data.rows.shape
    bins = 16 if d <= 64 else 8
    most = int(min(MOST_ROWS, max(1000, WORK / (d * bins) ** 2)))
    some = data.cells.take(np.sort(np.random.default_rng(0).permutation(n)[:most]))
    rows = np.where(some.missing, np.nan, some.x)
    return [chow_liu(rows, bins=bins, resample=number or None) for number in range(count)]
