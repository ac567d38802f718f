"""Messages as scaled numbers: a value of ordinary size times e^s, s a real log-scale.

A vector or a matrix has a largest entry of 1 and one scale a fold and row. Squares have a scale for each
unit: they are not added to each other before the root, so that none is lost beside a larger one.

The scale is held constant in the backward pass, which is exact because it cancels in log p. What is exactly
zero keeps the scale of its factors: it does not count, but its gradient does, where something is added to it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from squircuit.families.base import largest_scale


class Message(NamedTuple):
    """What layers send, one of

    * a vector r = e^s r̂, (F, K, B) and (F, B),
    * squares ∫ |ℓ_k|² = e^{s_k} q̂_k, (F, K, B or 1) twice, the scale in double precision,
    * a matrix R = e^s R̂, (F, B or 1, K, K) and (F, B or 1).
    """

    value: Tensor
    scale: Tensor

    def counted(self) -> Tensor:
        """The scale, −inf where the value is zero."""
        zero = self.value == 0
        if self.value.ndim == 4:
            zero = zero.flatten(2).all(dim=2)
        elif self.scale.ndim == 2:
            zero = zero.all(dim=1)
        return torch.where(zero, -torch.inf, self.scale)


def rescaled(value: Tensor, *, matrix: bool, scale: Tensor | None = None) -> Message:
    """The value divided by its largest entry, the logarithm of that added to the scale.

    Not by its norm, whose squares may overflow or vanish.
    """
    norm = value.detach().abs().amax(dim=(2, 3) if matrix else 1)
    divisor = torch.where(norm > 0, norm, 1.0)  # one over the smallest floats is no number
    value = value / (divisor[:, :, None, None] if matrix else divisor.unsqueeze(1))
    return Message(value, divisor.log() if scale is None else divisor.log() + scale)


def rescaled_units(value: Tensor, scale: Tensor | float = 0.0) -> Message:
    """Squares of size 1 or 0, with a scale of their own: (F, K, B or 1); the scale given broadcasts."""
    size = value.detach().abs()
    divisor = torch.where(size > 0, size, 1.0)
    return Message(value / divisor, divisor.double().log() + scale)


def squared(vector: Message) -> Message:
    """|r_k|² of a vector as squares; small entries are brought to size 1 before their squares vanish."""
    value, scale = rescaled_units(vector.value, vector.scale.unsqueeze(1))
    return Message((value * value.conj()).real, 2 * scale)


def added(parts: list[Message], *, matrix: bool, through_zeros: bool) -> Message:
    """Σ_i e^{s_i − s} of messages with different scales.

    Args:
        parts: the terms.
        matrix: whether they are matrices.
        through_zeros: whether terms that are zero have a gradient, as they have where weights learn. Of sums
            over nodes with positive weights they have none: such a term is zero at every node.
    """
    rows = max(part.scale.shape[1] for part in parts)
    largest = largest_scale(torch.stack([part.counted().expand(-1, rows) for part in parts]), dim=0)
    total: Tensor | None = None
    for part in parts:
        scale = part.scale if through_zeros else part.counted()
        factor = ratio(scale.expand(-1, rows), largest, part.value.real.dtype)
        term = part.value * (factor[:, :, None, None] if matrix else factor.unsqueeze(1))
        total = term if total is None else total + term
    assert total is not None
    return Message(total, largest)


def ratio(scale: Tensor, largest: Tensor, real: torch.dtype) -> Tensor:
    """exp(s − s_max) in a precision; of zeros, whose scale may be any, that of their gradient, bounded."""
    most = math.log(torch.finfo(real).max) / 2
    return (scale - largest).clamp(max=most).exp().to(real)


def joined(parts: list[Message]) -> Message:
    """Messages of several steps one after the other; those shared by all rows are repeated if need be."""
    if parts[0].value.ndim == 3:
        rows = max(part.value.shape[2] for part in parts)
        values = [part.value.expand(-1, -1, rows) for part in parts]
        scales = [part.scale.expand(*part.scale.shape[:-1], rows) for part in parts]
        return Message(torch.cat(values), torch.cat(scales))
    rows = max(part.value.shape[1] for part in parts)
    values = [part.value.expand(-1, rows, -1, -1) for part in parts]
    return Message(torch.cat(values), torch.cat([part.scale.expand(-1, rows) for part in parts]))
