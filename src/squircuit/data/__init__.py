"""Data sets by name, files of tables and images, streams of batches.

`load` gives a published data set or points in the plane; `read` a file of your own, with the type of every
column inferred; `Batches` rows of arrays and files that need not fit into memory.
"""

from __future__ import annotations

from squircuit.data.columns import Column
from squircuit.data.download import data_folder
from squircuit.data.idx import read_idx
from squircuit.data.optional import MissingPackageError
from squircuit.data.registry import Dataset, load, names, split, verify
from squircuit.data.synthetic import fresh, ring, spinner, spiral

__all__ = [
    "Column",
    "Dataset",
    "MissingPackageError",
    "data_folder",
    "fresh",
    "load",
    "names",
    "read_idx",
    "ring",
    "spinner",
    "spiral",
    "split",
    "verify",
]
