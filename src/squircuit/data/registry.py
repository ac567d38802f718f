"""Data sets by name."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from squircuit.data.cifar import ARCHIVE, SHAPE, YCOCG, parse_cifar10, to_ycocg
from squircuit.data.columns import Column, wrap
from squircuit.data.download import Progress, RemoteFile, data_folder, fetch, is_there, verified
from squircuit.data.idx import parse_idx
from squircuit.data.optional import need
from squircuit.data.synthetic import GENERATORS
from squircuit.errors import DataError, ParameterError, Wording, suggestion
from squircuit.families import Family

Array = NDArray[Any]

SEED = 0
"""The seed of every random split and of the generators."""
VALIDATION = 0.05
POINTS = (20_000, 1_000, 5_000)
"""Train, validation and test points of the 2-D sets."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Three splits of one data set, rows are samples.

    Args:
        train, valid, test: (n, d) each: uint8 for images and binary sets, float64 for points.
        columns: the type of each of the d columns.
        name: of the data set.
        shape: of one sample, such as (28, 28); (d,) where it is no image.
        labels: of the samples of "train", "valid" and "test", (n,) each; None where they were not asked for.
    """

    train: Array
    valid: Array
    test: Array
    columns: tuple[Column, ...]
    name: str
    shape: tuple[int, ...]
    labels: Mapping[str, Array] | None = None

    def families(self, size: int = 24) -> list[Family]:
        """Input functions for each column; ``size`` of them where the column is not discrete."""
        return [column.family(size) for column in self.columns]

    def __repr__(self) -> str:
        rows = f"train={len(self.train)}, valid={len(self.valid)}, test={len(self.test)}"
        return f"Dataset({self.name!r}, {rows}, shape={self.shape})"


def load(
    name: str, folder: str | Path | None = None, progress: Progress | None = None, labels: bool = False
) -> Dataset:
    """A data set by its name; `names` lists them.

    Args:
        name: "mnist", "fashion-mnist", "cifar10", "cifar10-ycocg", "nltcs", "plants", "baudio", "dna",
            "digits", "ring", "spinner" or "spiral".
        folder: where its files lie or shall lie; default ``$SQUIRCUIT_DATA``, else ``~/.cache/squircuit``.
            Missing files are downloaded from a public mirror; every file is checked by its SHA-256.
        progress: called with the file, the bytes done and the bytes in all; default a line on the terminal.
        labels: the class of each image as well, 0 to 9, of data sets that have such.

    Raises:
        ParameterError: if there is no data set of that name, or it has no labels.
        DataError: if a file is damaged, or missing and cannot be downloaded.

    Example:
        >>> load("spinner")
        Dataset('spinner', train=20000, valid=1000, test=5000, shape=(2,))
        >>> load("minst")
        Traceback (most recent call last):
        squircuit.errors.ParameterError: there is no data set 'minst'. Fix: did you mean 'mnist'? ...
    """
    _known(name)
    if labels and name not in LABELLED:
        raise ParameterError(f"the data set {name!r} has no labels. Fix: pass one of {', '.join(LABELLED)}.")
    if name in GENERATORS:
        return _points(name)
    if name == "digits":
        return _digits(labels)
    contents = fetch(FILES[name], data_folder(folder), progress)
    if name in COLOURS:
        return _colours(name, contents[0], labels)
    if name not in IMAGES:
        return _binary(name, contents)
    classes = fetch(LABELS[name], data_folder(folder), progress) if labels else None
    return _images(name, contents, classes)


def names() -> list[str]:
    """The names that `load` knows.

    Example:
        >>> names()[:3]
        ['mnist', 'fashion-mnist', 'cifar10']
    """
    return [*FILES, "digits", *GENERATORS]


def verify(name: str, folder: str | Path | None = None) -> dict[str, str]:
    """Say of each file of a data set "ok", "missing", or what is wrong with it. Nothing is downloaded.

    Example:
        >>> verify("nltcs", "/no/such/folder")["debd/nltcs.train.data.gz"]
        'missing'
    """
    _known(name)
    return {file.path: _verdict(file, data_folder(folder)) for file in FILES.get(name, ())}


def _known(name: str) -> None:
    if name not in names():
        raise ParameterError(
            f"there is no data set {name!r}",
            value=name,
            fix=suggestion(name, names()) + Wording(" For a file use read().", ""),
        )


def _verdict(file: RemoteFile, folder: Path) -> str:
    try:
        if not is_there(folder / file.path):
            return "missing"
        verified(file, folder)
    except DataError as error:
        return str(error)
    return "ok"


def _images(name: str, contents: list[bytes], classes: list[bytes] | None) -> Dataset:
    whole, test = (parse_idx(content, file.path) for content, file in zip(contents, FILES[name], strict=True))
    train, valid = split(whole.reshape(len(whole), -1), VALIDATION)
    parsed = None
    if classes is not None:
        of_all, of_test = (parse_idx(c, file.path) for c, file in zip(classes, LABELS[name], strict=True))
        parsed = _labels(of_all, of_test)
    columns, shape = pixels(test[0].size), test.shape[1:]
    return Dataset(train, valid, test.reshape(len(test), -1), columns, name, shape, parsed)


def _colours(name: str, archive: bytes, labels: bool) -> Dataset:
    whole, of_all, test, of_test = parse_cifar10(archive)
    if name != "cifar10":
        whole, test = to_ycocg(whole), to_ycocg(test)
    train, valid = split(whole, VALIDATION)
    d = math.prod(SHAPE)
    columns = pixels(d, 256 if name == "cifar10" else YCOCG * (d // 3))
    return Dataset(train, valid, test, columns, name, SHAPE, _labels(of_all, of_test) if labels else None)


def _labels(of_all: Array, of_test: Array) -> dict[str, Array]:
    """Labels in the same parts as the images."""
    train, valid = split(of_all, VALIDATION)
    return {"train": train, "valid": valid, "test": of_test}


def _binary(name: str, contents: list[bytes]) -> Dataset:
    train, valid, test = (np.loadtxt(io.BytesIO(text), np.uint8, delimiter=",", ndmin=2) for text in contents)
    d = train.shape[1]
    columns = tuple(Column(str(i), "binary", categories=(0, 1)) for i in range(d))
    return Dataset(train, valid, test, columns, name, (d,))


def _digits(labels: bool) -> Dataset:
    source: Callable[[], Any] = need("sklearn.datasets", "the data set 'digits'").load_digits
    found = source()
    rest, test = split(np.asarray(found.data).astype(np.uint8), 0.2)
    train, valid = split(rest, VALIDATION)
    classes = _labels(*split(np.asarray(found.target).astype(np.uint8), 0.2)) if labels else None
    return Dataset(train, valid, test, pixels(64, levels=17), "digits", (8, 8), classes)


def _points(name: str) -> Dataset:
    draw, period = GENERATORS[name]
    low, high = -period / 2, period / 2
    parts = [wrap(draw(n, SEED + part, 0.0), low, high) for part, n in enumerate(POINTS)]
    columns = tuple(Column(axis, "periodic", low=low, high=high) for axis in ("x", "y"))
    return Dataset(parts[0], parts[1], parts[2], columns, name, (2,))


def split(rows: Array, share: float, seed: int = SEED) -> tuple[Array, Array]:
    """Rows in two parts at random, the second with this share of them; both keep the order of the rows.

    Example:
        >>> most, few = split(np.arange(20)[:, None], 0.1)
        >>> len(most), len(few)
        (18, 2)
    """
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[np.random.default_rng(seed).permutation(len(rows))[: round(share * len(rows))]] = True
    return rows[~chosen], rows[chosen]


def pixels(d: int, levels: int | Sequence[int] = 256) -> tuple[Column, ...]:
    """The columns of an image: levels 0, …, levels − 1, of all pixels or of each."""
    sizes = [levels] * d if isinstance(levels, int) else levels
    return tuple(Column(f"pixel{i}", "count", high=size - 1) for i, size in enumerate(sizes))


IMAGES = {
    "mnist": (
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            "https://storage.googleapis.com/cvdf-datasets/mnist",
        ),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    "fashion-mnist": (
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
        ),
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
}
"""Name → mirrors, and the checksums of the train and test images."""
OF_LABELS = {
    "mnist": (
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion-mnist": (
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}
"""Name → the checksums of the train and test labels."""
COLOURS = ("cifar10", "cifar10-ycocg")

DEBD = "https://raw.githubusercontent.com/arranger1044/DEBD/master/datasets"
BINARY = {
    "nltcs": (
        "e547a7aedad1dd2f7177030881ab1b92c7e24ae5464c71a0f1f89daecaf52b30",
        "93bbbf5c6febdc9bc6e5b5bfab636f4dc0685ab2896d24b23dd267794c3bfcf6",
        "f9ffa6b74b27dc03bee3203d157ee31079e80b13be40d0c0093d635c25aed523",
    ),
    "plants": (
        "1fb1219ff94068d12a563f9e81f8889a1885f41e867884cff608669300c6848f",
        "47834ed318b2d74f48e4b083226ef47fd446d41986012ceae19d230574821b34",
        "95f53c033cd1d86467aec2610dc5bfe014534206c2da4919f73bcab246ab8755",
    ),
    "baudio": (
        "b1ec73f4aa9d4ce48b465ded865cc3d22b3f68cf6258f9e15fbef8902138add1",
        "7164d8a4943f74953f0e982002d84693fdf483e17f69e7407dc939c5ce5622fe",
        "1474f3206f1f35e099803a0f40b0cd209bdc8d787825095ef6cb23fd87ed0d05",
    ),
    "dna": (
        "bb8de0ca4b6ad9b610036b7a302962ebecd4b504354b14c02c7d0bee48d207d9",
        "4b0fc89cda5eaf5c75926e281afb6af99de194a546070d5b81b524ba251f4f3f",
        "fec3ae7b26804020a9c43c99828441c5e08bb76b23719368a74ad2b09af99100",
    ),
}
"""Name → the checksums of train, valid and test."""


def _image_files(name: str, what: str, checksums: Sequence[str]) -> tuple[RemoteFile, ...]:
    mirrors, files = IMAGES[name][0], (f"train-{what}-ubyte.gz", f"t10k-{what}-ubyte.gz")
    return tuple(
        RemoteFile(f"{name}/{file}", checksum, tuple(f"{mirror}/{file}" for mirror in mirrors))
        for file, checksum in zip(files, checksums, strict=True)
    )


def _binary_files(name: str) -> tuple[RemoteFile, ...]:
    return tuple(
        RemoteFile(f"debd/{name}.{part}.data.gz", checksum, (f"{DEBD}/{name}/{name}.{part}.data",))
        for part, checksum in zip(("train", "valid", "test"), BINARY[name], strict=True)
    )


FILES = (
    {name: _image_files(name, "images-idx3", checksums) for name, (_, *checksums) in IMAGES.items()}
    | dict.fromkeys(COLOURS, (ARCHIVE,))
    | {name: _binary_files(name) for name in BINARY}
)
"""Name → its files."""
LABELS = {name: _image_files(name, "labels-idx1", checksums) for name, checksums in OF_LABELS.items()}
"""Name → the files of its labels, which are fetched where they are asked for."""
LABELLED = (*LABELS, *COLOURS, "digits")
