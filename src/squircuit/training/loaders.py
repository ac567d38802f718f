"""Data of torch: a DataLoader gives batches of its own, a Dataset rows that are put into batches here.

Both draw random numbers from generators of torch, which are set anew for every epoch (of a Dataset for every
batch) and put back after every batch. So the rows are a function of the seed and the epoch where nothing else
is random, and the random numbers of the user go on as if nothing had been read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Sampler
from torch.utils.data import Dataset as TorchDataset

from squircuit.data import Rows
from squircuit.data.frames import plain
from squircuit.data.schema import HostRows
from squircuit.data.share import Part, Share
from squircuit.errors import DataError
from squircuit.training.streams import HostPart, Streamed

PLACES = (0, 0)
"""Seed and epoch of evaluations."""
GATHERED = 4096
"""Rows that are read at once where all are wanted."""


@final
class RandomNumbers:
    """Generators of torch with states of our own while something is read.

    Args:
        seeds: what the states are a function of.
        generators: of the user, beside the global one; what they were seeded with counts, too.
    """

    def __init__(self, seeds: Sequence[int], generators: Sequence[torch.Generator] = ()) -> None:
        self._generators = [torch.default_generator, *generators]
        own = [0, *(generator.initial_seed() for generator in generators)]
        self._states = [_seeded([*seeds, seed]) for seed in own]

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """What is drawn now goes on where the last such time ended."""
        before = [generator.get_state() for generator in self._generators]
        self._put(self._states)
        try:
            yield
        finally:
            self._states = [generator.get_state() for generator in self._generators]
            self._put(before)

    def _put(self, states: Sequence[Tensor]) -> None:
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)


def _seeded(seeds: Sequence[int]) -> Tensor:
    """The state of a generator."""
    return torch.Generator().manual_seed(_one_seed(seeds)).get_state()


def _one_seed(seeds: Sequence[int]) -> int:
    return int(np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0] >> np.uint64(1))


@final
class Loader(Streamed):
    """The batches of a DataLoader, as it gives them.

    How many batches there are in an epoch follows from the number of rows where the loader has a sampler of
    rows; else they are counted once. Of several processes each has a loader that samples the same batches and
    reads its own rows of them; batches that the data makes itself, as iterables do, are read whole by all.

    Args:
        loader: of tensors (B, d), or of tuples of which that is the first entry; NaN is missing.
        width: d.
        name: for errors.
    """

    def __init__(self, loader: DataLoader[Any], width: int, name: str) -> None:
        self._loader, self._width, self._name = loader, width, name
        sizes = self._sizes()
        if not sizes:
            raise self._nothing()
        self.batch = sizes[0]
        self.steps = len(sizes) - (len(sizes) > 1 and sizes[-1] < sizes[0])
        self.key = str((len(sizes), sizes[0], sizes[-1]))

    def epoch(self, seed: int, epoch: int, start: int, share: Share) -> Iterator[HostPart]:
        """Batches before ``start`` are read, too: a loader begins where it begins."""
        given = 0
        for given, part in enumerate(islice(self._read(seed, epoch, share, self.steps), self.steps), start=1):
            if given > start:
                share.require_enough(part.whole, self._name)
                yield part
        if given < self.steps:
            raise DataError(
                f"{self._name}: the DataLoader gives {given} batches in epoch {epoch + 1}, and gave "
                f"{self.steps} before. Fix: pass one that gives as many in each epoch, and can be read again."
            )

    def all(self, share: Share) -> Iterator[HostRows]:
        part = None
        for part in self._read(*PLACES, share):
            if len(part.rows):
                yield part.rows
        if part is None and share.size == 1:  # of some rows, a process may have none
            raise self._nothing()

    def _nothing(self) -> DataError:
        return DataError(
            f"{self._name}: the DataLoader gives no batch. Fix: pass one of some rows that can be read again."
        )

    def _sizes(self) -> list[int]:
        """The sizes of the batches of an epoch."""
        loader, batch = self._loader, self._loader.batch_size
        if batch is None or isinstance(loader.dataset, IterableDataset):
            return [part.whole for part in self._read(*PLACES, Share())]
        full, rest = divmod(len(loader.sampler), batch)  # type: ignore[arg-type]
        return [batch] * full + [rest] * (rest > 0 and not loader.drop_last)

    def _read(self, seed: int, epoch: int, share: Share, most: int | None = None) -> Iterator[HostPart]:
        """What the loader gives in an epoch: so many batches with rows for all, or all that there are."""
        samplers: list[Any] = [self._loader.sampler, self._loader.batch_sampler]
        samplers += [getattr(self._loader.batch_sampler, "sampler", None)]
        for sampler in samplers:
            if hasattr(sampler, "set_epoch"):  # such as DistributedSampler, whose order is one of the epoch
                sampler.set_epoch(epoch)
        found = [getattr(each, "generator", None) for each in (self._loader, *samplers)]
        own = {id(each): each for each in found if isinstance(each, torch.Generator)}
        seeds, generators = (seed, epoch), [*own.values()]
        if share.size > 1 and self._samples_rows:
            yield from self._read_own(seeds, generators, share, most)
            return
        for batch in _drawn(self._loader, RandomNumbers(seeds, generators)):
            yield share.part(rows_of(batch, self._width, self._name))

    @property
    def _samples_rows(self) -> bool:
        """The batches are lists of numbers of rows, given in their order."""
        is_ordered = getattr(self._loader, "in_order", True)
        return is_ordered and self._loader.batch_sampler is not None and not _is_iterable(self._loader)

    def _read_own(
        self, seeds: tuple[int, int], generators: list[torch.Generator], share: Share, most: int | None
    ) -> Iterator[HostPart]:
        """The own rows; random numbers are drawn for the order as by one process, and for the rows anew."""
        loader, kept = self._loader, {name: getattr(self._loader, name) for name in KEPT}
        drawn = RandomNumbers(seeds, generators)
        with drawn():  # as a loader does for its workers before it asks its sampler
            torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        sampler = _OwnRows(loader.batch_sampler, share, self._name, drawn, most)
        own = DataLoader(loader.dataset, batch_sampler=sampler, **kept)
        drawn = RandomNumbers((*seeds, share.rank), generators)
        for rows, whole in zip(_drawn(own, drawn), sampler.wholes(), strict=False):
            yield Part(rows_of(rows, self._width, self._name), share.of(whole).start, whole)


KEPT = (
    "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context",
    "generator", "prefetch_factor",
)  # fmt: skip
"""What a loader of the own rows has as the user's has it."""


def _is_iterable(loader: DataLoader[Any]) -> bool:
    return isinstance(loader.dataset, IterableDataset)


def _drawn(loader: DataLoader[Any], drawn: RandomNumbers) -> Iterator[Any]:
    """The batches of a loader, with random numbers of our own."""
    with drawn():
        batches = iter(loader)
    while True:
        with drawn():
            found = next(batches, END)
        if found is END:
            return
        yield found


@final
class _OwnRows(Sampler[list[Any]]):
    """Of every batch the numbers of the own rows.

    Args:
        sampler: of whole batches.
        share: the own part.
        name: for errors.
        drawn: random numbers of the sampler.
        most: so many batches are wanted, with rows for all processes; None: all, and those that are too small
            for some are left out there.
    """

    def __init__(self, sampler: Any, share: Share, name: str, drawn: RandomNumbers, most: int | None) -> None:
        self._sampler, self._share, self._name = sampler, share, name
        self._drawn, self._most = drawn, most
        self._wholes: deque[int] = deque()

    def __iter__(self) -> Iterator[list[Any]]:
        with self._drawn():
            batches = islice(self._sampler, self._most)
        while True:
            with self._drawn():
                found = next(batches, END)
            if found is END:
                return
            chosen = list(found)
            if self._most is not None:
                self._share.require_enough(len(chosen), self._name)
            self._wholes.append(len(chosen))
            own = chosen[self._share.of(len(chosen))]
            if own:  # of others workers could make no batch
                yield own

    def wholes(self) -> Iterator[int]:
        """How many rows each batch has of which own rows have been given; call it after each."""
        while True:
            whole = self._wholes.popleft()
            own = self._share.of(whole)
            if own.start < own.stop:
                yield whole


END: Any = object()
"""What comes after the last batch."""


@final
class Items:
    """The rows of a Dataset of torch by their numbers, through a DataLoader of ours.

    Args:
        dataset: of tensors (d,), or of tuples of which that is the first entry; NaN is missing.
        width: d.
        name: for errors.
    """

    def __init__(self, dataset: TorchDataset[Any], width: int, name: str) -> None:
        self._dataset, self._width, self._name = dataset, width, name

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def read(
        self, parts: Sequence[NDArray[np.int64]], seeds: Sequence[Sequence[int]], start: int = 0
    ) -> Iterator[HostRows]:
        """Some rows at a time.

        Random numbers that the Dataset draws for a row are a function of the seeds of the batch and of the
        row's place in it, so that they do not depend on how many processes share it.

        Args:
            parts: numbers of the rows that are read at a time.
            seeds: for each part.
            start: the place in the batch of the first row of a part.
        """
        places = [
            [(int(number), _one_seed(seed) + place) for place, number in enumerate(part, start)]
            for part, seed in zip(parts, seeds, strict=True)
        ]
        loader = DataLoader(_Seeded(self._dataset), batch_sampler=places)
        for found in _drawn(loader, RandomNumbers(PLACES)):
            yield rows_of(found, self._width, self._name)


@final
class _Seeded(TorchDataset[Any]):
    """A Dataset whose rows are asked for by number and seed."""

    def __init__(self, dataset: TorchDataset[Any]) -> None:
        self._dataset = dataset
        self._several: Any = getattr(dataset, "__getitems__", None)

    def __getitem__(self, key: tuple[int, int]) -> Any:
        number, seed = key
        torch.default_generator.manual_seed(seed)
        return self._dataset[number]

    def __getitems__(self, keys: list[tuple[int, int]]) -> list[Any]:
        if self._several is None:
            return [self[key] for key in keys]
        torch.default_generator.manual_seed(keys[0][1])
        return self._several([number for number, _ in keys])  # type: ignore[no-any-return]


def gathered(data: TorchDataset[Any] | DataLoader[Any], name: str = "data") -> HostRows:
    """All rows of a Dataset or a DataLoader of torch, in memory: (n, d), d being that of the first batch.

    Example:
        >>> gathered(torch.utils.data.TensorDataset(torch.zeros(5, 3))).x.shape
        (5, 3)
    """
    loader = data if isinstance(data, DataLoader) else DataLoader(data, batch_size=GATHERED)
    with RandomNumbers(PLACES)():
        batches = list(loader)
    if not batches:
        raise DataError(f"{name}: there is no row. Fix: pass some rows.")
    first = batches[0][0] if isinstance(batches[0], tuple | list) and batches[0] else batches[0]
    shape = getattr(first, "shape", ())
    width = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    return Rows.joined([rows_of(batch, width, name) for batch in batches])


def rows_of(found: Any, width: int, name: str) -> HostRows:
    """A batch of a DataLoader as rows."""
    x = found[0] if isinstance(found, tuple | list) and found else found
    if not isinstance(x, Tensor | np.ndarray) or plain(x).dtype.kind not in "fiub":
        raise DataError(
            f"{name}: a batch of {type(x).__name__}, not of numbers. Fix: give tensors (B, {width}), or "
            "tuples that begin with one; encode texts before."
        )
    values = plain(x)
    require_shape(values.shape, width, name)
    return Rows.of(in_full(values))


def require_shape(shape: tuple[int, ...], width: int, name: str) -> None:
    """Refuse what are not some rows of a model with so many variables."""
    if len(shape) == 2 and shape[1] == width and shape[0] > 0:
        return
    flattens = len(shape) > 2 and shape[0] > 0 and int(np.prod(shape[1:])) == width
    fix = (
        f"flatten each sample: x.reshape({shape[0]}, {width})" if flattens else "one column for each variable"
    )
    fix = "pass some rows" if 0 in shape else fix
    raise DataError(
        f"{name}: the model takes rows of shape (n, {width}), n ≥ 1, rows being samples; got {tuple(shape)}. "
        f"Fix: {fix}."
    )


def in_full(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows in a type that torch computes with."""
    if rows.dtype.kind == "f":
        return rows.astype(np.float64 if rows.dtype.itemsize > 4 else np.float32)
    return rows.astype(np.int64)
