"""The weights themselves divided among processes, which send them to one another while they are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from squircuit.errors import DataError, Wording
from squircuit.models import SquaredCircuit
from squircuit.optim.stacks import real_view
from squircuit.training.processes import Processes
from squircuit.training.shards import States, as_complex, step_or_fail


@final
class Spread:
    """Each process holds some whole matrices of every stack: these alone have gradients and states here.

    When a sweep comes to the layers of a stack (S, K1, K2), forward and again backward, one process after the
    other sends its matrices to all, which forget them after use; the sum of what each has for their gradient
    goes to their owner before the sweep goes on. So weights, gradients, states, averages and best weights
    fall to 1/size each, and of the others' there is one part at a time. Stacks of input layers, and those
    that several groups of layers use, are gathered whole for as long as they are used. Stacks of fewer
    matrices than processes are whole everywhere, and stepped alike; so are the parameters of input functions
    and the weights of roots.

    All processes have to call the model together while this lasts, and rows may lack nothing.

    Args:
        model: whose parameters become parts.
        processes: that share them.

    Attributes:
        own: the parameters, those that are spread as parts, by name.
    """

    def __init__(self, model: SquaredCircuit, processes: Processes) -> None:
        self._model, self._processes = model, processes
        self.own = dict(model.named_parameters())
        counts = {stack.name: len(stack.parameters) for stack in model.plan.stacks}
        size, rank = processes.size, processes.rank
        self._cuts = {
            name: [count * number // size for number in range(size + 1)]
            for name, count in counts.items()
            if name in self.own and count >= size
        }
        for name, cuts in self._cuts.items():
            whole = self.own[name].data.resolve_conj().contiguous()
            self.own[name].data = whole[cuts[rank] : cuts[rank + 1]].clone()
        model.gather_by(self)

    # ------------------------------------------------------------------ while the model is called

    def is_spread(self, name: str) -> bool:
        return name in self._cuts

    @torch.no_grad()
    def whole(self, name: str, part: Tensor) -> Tensor:
        """(S, K1, K2) of the parts of all, or whatever has as many entries for each matrix."""
        real, counts = real_view(part.detach().resolve_conj().contiguous()), self._lengths(name)
        each = real.numel() // counts[self._processes.rank]  # numbers of a matrix, or of its state
        row = real.new_zeros(max(counts) * each)
        row[: real.numel()] = real.reshape(-1)
        found = self._processes.gather(row)
        if min(counts) < max(counts):
            found = torch.cat([own[: count * each] for own, count in zip(found, counts, strict=True)])
        whole = found.reshape(-1, *real.shape[1:])
        return as_complex(whole) if part.is_complex() else whole

    @torch.no_grad()
    def own_sum(self, name: str, gradient: Tensor) -> Tensor:
        real, counts, cuts = (
            real_view(gradient.resolve_conj().contiguous()),
            self._lengths(name),
            self._cuts[name],
        )
        each = real[:1].numel()
        sent = real.new_zeros(self._processes.size, max(counts) * each)
        for row, (first, last) in zip(sent, pairwise(cuts), strict=True):
            row[: (last - first) * each] = real[first:last].reshape(-1)
        summed = self._processes.sum_apart(sent)[: counts[self._processes.rank] * each]
        own = summed.reshape(-1, *real.shape[1:])
        return as_complex(own) if gradient.is_complex() else own

    def pieces(self, name: str) -> list[slice]:
        return [slice(first, last) for first, last in pairwise(self._cuts[name])]

    @torch.no_grad()
    def piece(self, name: str, owner: int, part: Tensor) -> Tensor:
        first, last = self._cuts[name][owner : owner + 2]
        piece = part.detach().resolve_conj().contiguous()
        if owner != self._processes.rank:
            piece = part.new_empty(last - first, *part.shape[1:])
        self._processes.send(real_view(piece), owner)
        return piece

    @torch.no_grad()
    def piece_sum(self, owner: int, gradient: Tensor) -> Tensor | None:
        gradient = gradient.resolve_conj().contiguous()
        self._processes.sum_at(real_view(gradient), owner)
        return gradient if owner == self._processes.rank else None

    def any(self, *flags: bool) -> list[bool]:
        return self._processes.any(*flags)

    def _lengths(self, name: str) -> list[int]:
        cuts = self._cuts[name]
        return [last - first for first, last in pairwise(cuts)]

    # ------------------------------------------------------------------ steps

    def sum_gradients(self, found: Tensor) -> None:
        """Sum what all have found, and the gradients of what is not spread; those of parts are sums."""
        self._processes.sum_gradients(self._everywhere, found)

    @property
    def _everywhere(self) -> list[nn.Parameter]:
        return [parameter for name, parameter in self.own.items() if name not in self._cuts]

    def step(self, optimiser: Optimizer) -> None:
        """Each process steps its own part; where one fails, all do."""
        step_or_fail(optimiser, self._processes)

    # ------------------------------------------------------------------ as a whole

    def gathered(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights as a whole on the CPU, one stack at a time; all processes call this."""
        return {n: self.whole(n, v).cpu() if n in self._cuts else v.detach() for n, v in parts.items()}

    def states(self, states: States, forms: States) -> States:
        """The state of the optimiser likewise; numbers, such as counts of steps, are the same for all."""
        return {
            name: {
                key: self.whole(name, value).cpu() if name in self._cuts and value.ndim else value
                for key, value in kept.items()
            }
            for name, kept in states.items()
        }

    def count(self, name: str) -> int:
        """How many matrices a whole stack has."""
        return self._cuts[name][-1] if name in self._cuts else len(self.own[name])

    def part(self, name: str, whole: Tensor) -> Tensor:
        """The own part of a weight, or of a state of it."""
        if name not in self._cuts or whole.ndim == 0:
            return whole
        cuts, rank = self._cuts[name], self._processes.rank
        times = len(whole) // cuts[-1]
        return whole[cuts[rank] * times : cuts[rank + 1] * times]

    @contextmanager
    def joined(self, wholes: Mapping[str, Tensor]) -> Iterator[None]:
        """The model has whole weights in this process, which may call it alone while this lasts."""
        parts = {name: self.own[name].data for name in wholes}
        self.join(wholes)
        try:
            yield
        finally:
            for name, part in parts.items():
                self.own[name].data = part
            self._model.gather_by(self)

    def join(self, wholes: Mapping[str, Tensor]) -> None:
        """The model has whole weights again, for good."""
        for name, value in wholes.items():
            self.own[name].grad = None
            self.own[name].data = value.to(self.own[name].device, copy=True)
        self._model.gather_by(None)


def require_complete(has_gaps: bool) -> None:
    """Refuse, in all processes, rows that lack something: what is asked of weights depends on them."""
    if has_gaps:
        raise DataError(
            "weights in parts are trained with rows that lack nothing, and some cells are missing",
            fix=Wording("shard='optimiser'", "--set shard=optimiser") + ", or fill the cells before",
        )
