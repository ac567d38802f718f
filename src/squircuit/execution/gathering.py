"""Weights of which several processes hold a part each, whole only while they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, final, overload

import torch
from torch import Tensor


class Gathering(Protocol):
    """How parts become whole; all processes have to ask for the same in the same order."""

    def is_spread(self, name: str) -> bool:
        """Whether each process holds only a part of a stack."""

    def whole(self, name: str, part: Tensor) -> Tensor:
        """A stack (S, K1, K2), of the parts of all."""

    def own_sum(self, name: str, gradient: Tensor) -> Tensor:
        """The own part of the sum over all processes of what each has for the whole stack."""

    def pieces(self, name: str) -> Sequence[slice]:
        """The matrices that each process holds, in the order of the stack."""

    def piece(self, name: str, owner: int, part: Tensor) -> Tensor:
        """The matrices of one process, to all."""

    def piece_sum(self, owner: int, gradient: Tensor) -> Tensor | None:
        """The sum over all processes of what each has for the matrices of one, to this one alone."""

    def any(self, *flags: bool) -> list[bool]:
        """Whether some process has raised each flag."""


def whole(name: str, part: Tensor, gathering: Gathering) -> Tensor:
    """The whole stack; its gradient goes, summed over all processes, to the parts."""
    if not gathering.is_spread(name):
        return part
    return _Whole.apply(part, name, gathering)  # type: ignore[no-untyped-call,no-any-return]


class _Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, name: str, gathering: Gathering) -> Tensor:
        ctx.name, ctx.gathering = name, gathering
        return gathering.whole(name, part)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.gathering.own_sum(ctx.name, gradient), None, None


@final
class GatheredStacks(Sequence[Tensor]):
    """The stacks of a plan, each gathered when it is asked for, and forgotten by whoever needs it no more.

    Args:
        names: of the stacks.
        parts: that this process holds, (S/N, K1, K2) each; of what is not spread, all.
        gathering: of the processes.
        change: what is done with each whole stack, such as a change of its precision.
    """

    def __init__(
        self,
        names: Sequence[str],
        parts: Sequence[Tensor],
        gathering: Gathering,
        change: Callable[[Tensor], Tensor] = lambda value: value,
    ) -> None:
        self._names, self.parts, self._gathering, self._change = names, parts, gathering, change

    def __len__(self) -> int:
        return len(self.parts)

    @overload
    def __getitem__(self, number: int) -> Tensor: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, number: int | slice) -> Tensor | Sequence[Tensor]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        return self._change(whole(self._names[number], self.parts[number], self._gathering))

    def changed(self, change: Callable[[Tensor], Tensor]) -> GatheredStacks:
        """The same, after one change more."""
        before = self._change
        return GatheredStacks(self._names, self.parts, self._gathering, lambda value: change(before(value)))

    def dtype(self, number: int) -> torch.dtype:
        """The type of a whole stack, which is not gathered for this."""
        return self._change(self.parts[number][:0]).dtype

    def own_gradient(self, number: int, gradient: Tensor) -> Tensor:
        """The gradient of a part, of those that all processes have for the whole stack."""
        name, gradient = self._names[number], self._as_part(number, gradient)
        return self._gathering.own_sum(name, gradient) if self._gathering.is_spread(name) else gradient

    def _as_part(self, number: int, gradient: Tensor) -> Tensor:
        dtype = self.parts[number].dtype
        return (gradient if dtype.is_complex or not gradient.is_complex() else gradient.real).to(dtype)

    # ------------------------------------------------------------------ the matrices of one process at a time

    def in_pieces(self, number: int) -> bool:
        """Whether a stack can be had some matrices at a time."""
        return self._gathering.is_spread(self._names[number])

    def pieces(self, number: int) -> Iterator[tuple[slice, Tensor]]:
        """Which matrices of a stack, and these; one process' after the other's."""
        name, part = self._names[number], self.parts[number]
        for owner, place in enumerate(self._gathering.pieces(name)):
            yield place, self._change(self._gathering.piece(name, owner, part))

    def gradient_of_pieces(self, number: int, gradients: Iterable[Tensor]) -> Tensor:
        """The gradient of a part, of those that all processes have for each of the pieces."""
        sums = (
            self._gathering.piece_sum(owner, self._as_part(number, gradient))
            for owner, gradient in enumerate(gradients)
        )
        (own,) = [found for found in sums if found is not None]
        return own


def changed(stacks: Sequence[Tensor], change: Callable[[Tensor], Tensor]) -> Sequence[Tensor]:
    """All stacks after a change of each."""
    return stacks.changed(change) if isinstance(stacks, GatheredStacks) else [change(each) for each in stacks]


def dtypes(stacks: Sequence[Tensor]) -> list[torch.dtype]:
    """The types of all stacks."""
    if isinstance(stacks, GatheredStacks):
        return [stacks.dtype(number) for number in range(len(stacks))]
    return [stack.dtype for stack in stacks]
