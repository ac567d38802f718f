"""Data as the recipes see it: rows, what is missing, the types of the columns, the shape of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from squircuit.data import Dataset, Schema, Table, table
from squircuit.data.cells import Mask
from squircuit.data.schema import Rows
from squircuit.errors import DataError
from squircuit.regions import RegionGraph, chow_liu

MOST_ROWS = 20_000  # for the tree: mutual informations are known well enough from these
WORK = 2e11  # of counting pairs, about a minute; the cost is n · d² · bins²


@final
@dataclass(frozen=True, eq=False)
class Observed:
    """Rows (n, d), which cells of them are missing, the columns, and the shape of one row."""

    rows: Rows
    missing: Mask
    schema: Schema
    shape: tuple[int, ...]

    @property
    def cells(self) -> int:
        """The number of cells that are known."""
        return int(self.rows.size - self.missing.sum())

    def chow_liu_trees(self, count: int) -> list[RegionGraph]:
        """The Chow–Liu tree of the rows, and those of rows drawn from them with replacement (seeds 1, 2 …).

        Of many rows some are taken; continuous columns are cut into bins.
        """
        n, d = self.rows.shape
        bins = 16 if d <= 64 else 8
        most = int(min(MOST_ROWS, max(1000, WORK / (d * bins) ** 2)))
        chosen = np.sort(np.random.default_rng(0).permutation(n)[:most])
        rows = np.where(self.missing[chosen], np.nan, self.rows[chosen])
        return [chow_liu(rows, bins=bins, resample=number or None) for number in range(count)]


def observe(data: Any) -> Observed:
    """A Table, the training rows of a Dataset, or rows in memory.

    Example:
        >>> observe([[0, 0.5], [1, np.nan], [2, 0.7]]).cells
        5
    """
    if isinstance(data, Observed):
        return data
    if isinstance(data, Dataset):
        missing = np.isnan(data.train) if data.train.dtype.kind == "f" else np.zeros(data.train.shape, bool)
        observed = Observed(data.train, missing, Schema(data.columns), data.shape)
    elif isinstance(data, Table):
        observed = Observed(data.rows, data.missing, data.schema, data.shape)
    else:
        if isinstance(data, str):
            raise DataError(f"{data!r} is a name. Fix: pass sq.data.load(name) or sq.data.read(path).")
        return observe(table(data))
    if len(observed.rows) < 2:
        raise DataError(f"{len(observed.rows)} rows teach nothing. Fix: pass two at least.")
    return observed
