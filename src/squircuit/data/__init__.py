"""Data sets by name, files of tables and images, streams of batches.

`load` gives a published data set or points in the plane; `read` a file of your own, with the type of every
column inferred; `Batches` rows of arrays and files that need not fit into memory.
"""

from __future__ import annotations

from squircuit.data.batches import Batches
from squircuit.data.cifar import from_ycocg, to_ycocg
from squircuit.data.columns import Column
from squircuit.data.differences import Prediction
from squircuit.data.download import data_folder
from squircuit.data.idx import read_idx
from squircuit.data.layout import Layout
from squircuit.data.optional import MissingPackageError
from squircuit.data.registry import Dataset, load, names, split, verify
from squircuit.data.rows import Rows
from squircuit.data.schema import Schema
from squircuit.data.spikes import spikes_of
from squircuit.data.synthetic import fresh, ring, spinner, spiral
from squircuit.data.tabular import Table, read, scan, table

Encoded = Rows
"""The name of `Rows` before."""

__all__ = [
    "Batches",
    "Column",
    "Dataset",
    "Encoded",
    "Layout",
    "MissingPackageError",
    "Prediction",
    "Rows",
    "Schema",
    "Table",
    "data_folder",
    "fresh",
    "from_ycocg",
    "load",
    "names",
    "read",
    "read_idx",
    "ring",
    "scan",
    "spikes_of",
    "spinner",
    "spiral",
    "split",
    "table",
    "to_ycocg",
    "verify",
]
