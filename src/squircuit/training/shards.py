"""The optimiser's work and memory divided among processes, a range of the matrices of each stack each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from squircuit.optim.stacks import real_view
from squircuit.training.processes import Processes

States = Mapping[str, Mapping[str, Tensor]]
"""States of an optimiser: key → tensor, by the names of the parameters."""


@final
class Shards:
    """Which part of the weights each process steps; all hold all weights, and the state of their own part.

    After a backward pass gradients are summed, each process gets the sums of its own part (reduce-scatter),
    steps it, and gets the weights that the others have stepped (all-gather): as many bytes as one sum over
    all, while the state of the optimiser and its work fall to 1/size. Weights are stacks (S, K1, K2), whose
    matrices every method here steps one by one, so that a part is a range of entries of the first dimension.

    All entries of all parameters are one row of numbers, cut into equal pieces at the nearest borders of
    entries: no process has more than 1/size of them and half an entry at each end.

    Args:
        parameters: to be trained, by name.
        processes: that share them.

    Attributes:
        own: the part of this process, by name: views of the parameters, which may be empty.

    Example:
        >>> class Second(Processes):
        ...     rank, size = 1, 2
        >>> stacks = {"wide": nn.Parameter(torch.zeros(5, 2, 4)), "last": nn.Parameter(torch.zeros(1, 1, 2))}
        >>> {name: tuple(part.shape) for name, part in Shards(stacks, Second()).own.items()}
        {'wide': (2, 2, 4), 'last': (1, 1, 2)}
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], processes: Processes) -> None:
        self._all, self._processes = dict(parameters), processes
        for parameter in self._all.values():
            if parameter.is_conj() or not parameter.is_contiguous():  # else parts are no views
                parameter.data = parameter.data.resolve_conj().contiguous()
        self._cuts = _cuts(self._all, processes.size)
        self.own = {name: _part(parameter, *self._range(name)) for name, parameter in self._all.items()}
        self._longest = max(map(self._numbers, range(processes.size)))

    def _numbers(self, rank: int) -> int:
        """Real numbers of a process' part."""
        return sum(
            real_view(parameter.detach()[slice(*self._range(name, rank))]).numel()
            for name, parameter in self._all.items()
        )

    def _range(self, name: str, rank: int | None = None) -> tuple[int, int]:
        """The entries of a parameter that a process owns, default this one."""
        rank = self._processes.rank if rank is None else rank
        return self._cuts[name][rank], self._cuts[name][rank + 1]

    def _pack(self, tensors: Mapping[str, Tensor], rank: int, row: Tensor) -> None:
        """The numbers of a process' part, of weights or gradients by name, into the begin of a row."""
        for own, place in self._places(tensors, rank, row):
            place.copy_(own)

    def _unpack(self, row: Tensor, tensors: Mapping[str, Tensor], rank: int) -> None:
        """The inverse of `_pack`."""
        for own, place in self._places(tensors, rank, row):
            own.copy_(place)

    def _places(
        self, tensors: Mapping[str, Tensor], rank: int, row: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Each real part of a process, and its place in a row."""
        start = 0
        for name, whole in tensors.items():
            first, last = self._range(name, rank)
            own = real_view(whole[first:last])
            yield own, row[start : start + own.numel()].view_as(own)
            start += own.numel()

    def _row(self, *rows: int) -> Tensor:
        """Zeros for the part of a process, or of several."""
        widest = max(self._all.values(), key=lambda parameter: parameter.dtype.to_real().itemsize)
        return torch.zeros(*rows, self._longest, dtype=widest.dtype.to_real(), device=widest.device)

    @torch.no_grad()
    def sum_gradients(self, found: Tensor) -> None:
        """Sum the gradients of the own part after a backward pass, and what all have found."""
        sent, gradients = self._row(self._processes.size), {}
        for name, parameter in self._all.items():
            # rows of one process may say nothing of a weight; then all must sum nothing of it
            grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            gradients[name], parameter.grad = grad.resolve_conj().contiguous(), None
        for rank, row in enumerate(sent):
            self._pack(gradients, rank, row)
        gradients.clear()  # before there are others
        summed, start = self._processes.sum_apart(sent), 0
        for part in self.own.values():
            if len(part):
                part.grad = torch.empty_like(part)
                view = real_view(part.grad)
                view.copy_(summed[start : start + view.numel()].view_as(view))
                start += view.numel()
        self._processes.sum([found])

    @torch.no_grad()
    def step(self, optimiser: Optimizer) -> None:
        """Each process steps its own part, and gets those of the others; where one fails, all do."""
        step_or_fail(optimiser, self._processes)
        self._exchange()

    def _exchange(self) -> None:
        """The weights of the own part to all others, and theirs here."""
        weights = {name: parameter.detach() for name, parameter in self._all.items()}
        own = self._row()
        self._pack(weights, self._processes.rank, own)
        for rank, row in enumerate(self._processes.gather(own)):
            if rank != self._processes.rank:
                self._unpack(row, weights, rank)

    # ------------------------------------------------------------------ the optimiser's state as a whole

    @torch.no_grad()
    def states(self, states: States, forms: States) -> States:
        """The state of all parameters on the CPU, of what each process has of its part; all call this.

        Gathered one tensor at a time, so that a GPU needs room for one.

        Args:
            states: of the own part, key → tensor by name; those of empty parts are missing.
            forms: the state of a single entry of each parameter.
        """
        if not self._processes.any(bool(states))[0]:
            return {}  # no step has been taken
        return {
            name: {key: self._joined(name, states.get(name, {}).get(key), form) for key, form in some.items()}
            for name, some in forms.items()
        }

    def _joined(self, name: str, own: Tensor | None, form: Tensor) -> Tensor:
        """One state of a parameter: numbers, such as counts of steps, are the same for all of its entries."""
        parameter, size = self._all[name], self._processes.size
        counts = [last - first for first, last in (self._range(name, rank) for rank in range(size))]
        real = real_view(torch.empty(form.shape, dtype=form.dtype, device=parameter.device))
        sent = real.new_zeros(max(counts) * real.numel())
        if own is not None:
            flat = real_view(own).reshape(-1)
            sent[: len(flat)] = flat
        found = self._processes.gather(sent).cpu()
        if form.ndim == 0:
            return found[counts.index(max(counts))][0]
        rows = [row[: count * real.numel()] for row, count in zip(found, counts, strict=True)]
        numbers = torch.cat(rows).reshape(len(parameter) * len(real), *real.shape[1:])
        return as_complex(numbers) if form.is_complex() else numbers

    def gathered(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights as a whole: as all processes have them."""
        return dict(weights)

    def count(self, name: str) -> int:
        """How many matrices a stack has."""
        return len(self._all[name])

    def part(self, name: str, whole: Tensor) -> Tensor:
        """The own part of a state of a parameter."""
        if whole.ndim == 0:
            return whole
        first, last = self._range(name)
        times = len(whole) // len(self._all[name])
        return whole[first * times : last * times]


def step_or_fail(optimiser: Optimizer, processes: Processes) -> None:
    """A step of the own part; where one fails, all do."""
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        optimiser.step()  # which asks the host nothing then, and so cannot fail
        return
    error: FloatingPointError | None = None
    try:
        optimiser.step()
    except FloatingPointError as raised:
        error = raised
    if processes.any(error is not None)[0]:
        raise error or FloatingPointError(
            "a gradient of another process holds NaN or infinity. Fix: a smaller lr."
        )


def as_complex(real: Tensor) -> Tensor:
    """(…, 2·K) real as (…, K) complex, no copy: the inverse of `real_view`.

    Example:
        >>> as_complex(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([1.+2.j, 3.+4.j])
    """
    return torch.view_as_complex(real.reshape(*real.shape[:-1], -1, 2))


def _part(parameter: nn.Parameter, first: int, last: int) -> nn.Parameter:
    """Some entries of a parameter, as one that optimisers take; both change together."""
    part = nn.Parameter(parameter.detach()[first:last])
    part.constraint = getattr(parameter, "constraint", "")  # type: ignore[attr-defined]
    return part


def first_entry(parameter: nn.Parameter) -> nn.Parameter:
    """A copy of the first entry of a parameter, with a gradient of 0, to see what optimisers keep of it."""
    first = _part(parameter, 0, 1)
    first.data, first.grad = first.data.clone(), torch.zeros_like(first)
    return first


def _cuts(parameters: Mapping[str, nn.Parameter], size: int) -> dict[str, list[int]]:
    """The places where ranges of processes begin in each parameter, and the last ends: size + 1 each."""
    total, before = sum(p.numel() for p in parameters.values()), 0
    cuts: dict[str, list[int]] = {}
    for name, parameter in parameters.items():
        count, weight = len(parameter), parameter[:1].numel()
        places = (round((total * rank / size - before) / weight) for rank in range(size + 1))
        cuts[name] = [min(count, max(0, place)) for place in places]
        before += parameter.numel()
    return cuts
