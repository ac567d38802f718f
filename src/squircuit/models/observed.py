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

    def chow_liu(self, sample: int = 0) -> RegionGraph:
        """The Chow–Liu tree of some of the rows; continuous columns are cut into bins for it.

        Args:
            sample: above 0 rows are drawn with replacement, and each number has a tree of its own, more or
                less: pairs of columns that depend on each other about equally change places.
        """
        n, d = self.rows.shape
        bins = 16 if d <= 64 else 8
        most = int(min(MOST_ROWS, max(1000, WORK / (d * bins) ** 2)))
        rng = np.random.default_rng(sample)
        chosen = rng.integers(n, size=min(n, most)) if sample else rng.permutation(n)[:most]
        return chow_liu(np.where(self.missing[chosen], np.nan, self.rows[chosen]), bins=bins)


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
