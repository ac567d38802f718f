"""The seam through which several processes train one model: all that a training run has to ask the others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from squircuit.data.share import Share
from squircuit.errors import ParameterError, ProcessError
from squircuit.optim.stacks import real_view

T = TypeVar("T")


class Processes:
    """The processes that train one model together, as one of them sees it. This class is one process alone.

    All processes run the same program on the same data, with the same seeds and options, so all know which
    rows are in a batch; each reads its own of these, and computes with them. What they find is summed, so
    that all take the same steps from the same weights, and the same decisions. A subclass for several sets
    ``rank`` and ``size`` and says in :meth:`sum` how numbers are added up; everything else follows from these
    three, and may be overridden where there is a better way.

    Attributes:
        rank: the number of this process, from 0. Process 0 writes the files and shows the progress.
        size: how many there are.
        is_capturable: `sum` can be part of a CUDA graph.

    Example:
        >>> Processes().share.of(5)
        slice(0, 5, None)
        >>> class Second(Processes):  # of two; `sum` is not needed here
        ...     rank, size = 1, 2
        >>> Second().share.of(5)
        slice(2, 5, None)
    """

    rank: int = 0
    size: int = 1
    is_capturable: bool = True

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Replace real tensors, in place, by their sums over all processes, bit for bit the same on each.

        Some are on the device of the model, and a few numbers that decide what to do next are on the CPU.
        """

    def sum_apart(self, parts: Tensor) -> Tensor:
        """Sum the row of this process in (size, n), each process' own, over all processes: (n,)."""
        self.sum([parts])
        return parts[self.rank]

    def gather(self, part: Tensor) -> Tensor:
        """(n,) of each process, to all: (size, n)."""
        found = part.new_zeros((self.size, *part.shape))
        found[self.rank] = part
        self.sum([found])
        return found

    def send(self, tensor: Tensor, sender: int) -> None:
        """Give every process the numbers that one of them has, in place."""
        if self.rank != sender:
            tensor.zero_()
        self.sum([tensor])

    def sum_at(self, tensor: Tensor, receiver: int) -> None:
        """Sum a tensor over all processes, in place; only one needs the sum, the others forget theirs."""
        self.sum([tensor])

    # ------------------------------------------------------------------ steps

    @property
    def share(self) -> Share:
        """Which rows of a batch this process reads, as many as the others or one more or less."""
        return Share(self.rank, self.size)

    def sum_gradients(self, parameters: Iterable[nn.Parameter], found: Tensor) -> None:
        """Sum the gradients after a backward pass, and with them what a process has found of its rows."""
        if self.size == 1:
            return
        gradients = []
        for parameter in parameters:
            # rows of one process may say nothing of a weight; then all must sum nothing of it
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = grad.resolve_conj().contiguous()  # else the real view would be a copy
            gradients.append(real_view(parameter.grad))
        self.sum([*gradients, found])

    def step(self, optimiser: Optimizer) -> None:
        """Change the weights, once gradients are summed; processes that share the work do less each."""
        optimiser.step()

    # ------------------------------------------------------------------ decisions and files

    def any(self, *flags: bool) -> list[bool]:
        """Whether some process has raised each flag; all wait here for one another."""
        if self.size == 1:
            return list(flags)
        counts = torch.tensor(flags, dtype=torch.float64)
        self.sum([counts])
        return (counts > 0).tolist()

    def start_alike(self, tensors: Sequence[Tensor]) -> None:
        """Give every process the numbers of process 0, in place."""
        if self.size > 1:
            for tensor in tensors:
                self.send(real_view(tensor), sender=0)

    def on_first(self, write: Callable[[], object]) -> None:
        """Process 0 does it, and the others wait until it has; where it fails, all end."""
        self.together(lambda: write() if self.rank == 0 else None)

    def together(self, act: Callable[[], T]) -> T:
        """All do it and wait for one another; where it fails in some, all end, and these say why."""
        if self.size == 1:
            return act()
        error: Exception | None = None
        try:
            result = act()
        except Exception as raised:
            error = raised
        failed = self.any(*(error is not None and rank == self.rank for rank in range(self.size)))
        if error is not None:
            raise error
        if any(failed):
            who = f"process {failed.index(True)}"
            raise ProcessError(f"{who} has failed, so all end", fix=f"see what {who} says")
        return result

    def require_alike(self, told: Mapping[str, str]) -> None:
        """Refuse to begin where a process has been given something else than process 0.

        Args:
            told: what all must have been given, by its name in an error.
        """
        digests = [list(hashlib.sha256(text.encode()).digest()) for text in told.values()]
        own = torch.tensor(digests, dtype=torch.float64)
        first = own.clone()
        self.start_alike([first])
        self.together(lambda: self._require_equal(list(told), own, first))

    def _require_equal(self, names: list[str], own: Tensor, first: Tensor) -> None:
        for name, equal in zip(names, (own == first).all(dim=1).tolist(), strict=True):
            if not equal:
                raise ParameterError(
                    f"process {self.rank} has been given another {name} than process 0",
                    value=name,
                    fix="give all processes the same; each takes its rows of every batch by itself",
                )
