"""The seam through which several processes train one model: all that a training run has to ask the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from squircuit.errors import FormatError
from squircuit.optim.stacks import real_view
from squircuit.training.feed import Batch


class Processes:
    """The processes that train one model together, as one of them sees it. This class is one process alone.

    All processes run the same program on the same data, with the same seeds and options, so all know every
    batch; each computes with its own rows of it. What they find is summed, so that all take the same steps
    from the same weights, and the same decisions. A subclass for several sets ``rank`` and ``size`` and says
    in :meth:`sum` how numbers are added up; everything else follows from these three, and may be overridden
    where there is a better way.

    Attributes:
        rank: the number of this process, from 0. Process 0 writes the files and shows the progress.
        size: how many there are.
        is_capturable: `sum` can be part of a CUDA graph.

    Example:
        >>> from squircuit.data import Rows
        >>> alone = Processes()
        >>> alone.part(Rows(torch.arange(4)[:, None])).x.flatten().tolist()
        [0, 1, 2, 3]
        >>> class Second(Processes):  # of two; `sum` is not needed here
        ...     rank, size = 1, 2
        >>> Second().part(Rows(torch.arange(5)[:, None])).x.flatten().tolist()
        [2, 3, 4]
    """

    rank: int = 0
    size: int = 1
    is_capturable: bool = True

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Replace real tensors, in place, by their sums over all processes, bit for bit the same on each.

        Some are on the device of the model, and a few numbers that decide what to do next are on the CPU.
        """

    # ------------------------------------------------------------------ steps

    def part(self, batch: Batch) -> Batch:
        """The rows of a batch that this process computes with, as many as the others' or one more or less."""
        if self.size == 1:
            return batch
        return batch.take(slice(*(len(batch) * rank // self.size for rank in (self.rank, self.rank + 1))))

    def sum_gradients(self, parameters: Iterable[nn.Parameter], found: Tensor) -> None:
        """After a backward pass: sum the gradients, and with them what a process has found of its rows."""
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
        """Of each flag, whether some process has raised it; all wait here for one another."""
        if self.size == 1:
            return list(flags)
        counts = torch.tensor(flags, dtype=torch.float64)
        self.sum([counts])
        return (counts > 0).tolist()

    def start_alike(self, tensors: Sequence[Tensor]) -> None:
        """Give every process the numbers of process 0, in place."""
        if self.size > 1:
            for tensor in tensors if self.rank else ():
                tensor.zero_()
            self.sum([real_view(tensor) for tensor in tensors])

    def on_first(self, write: Callable[[], object]) -> None:
        """Process 0 does it, and the others wait until it has; where it fails, all end."""
        if self.size == 1:
            write()
            return
        error: Exception | None = None
        try:
            if self.rank == 0:
                write()
        except Exception as raised:
            error = raised
        if self.any(error is not None)[0]:
            raise error or FormatError("process 0 has failed, so all end. Fix: see what process 0 says.")
