"""Single or double precision: which a model may have, and which its weights need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from squircuit.errors import ParameterError

LARGE, LARGEST = 1e6, 1e145
"""Rows of weights, or one over them, whose squares single or double precision does not hold beside others."""


def require_precision(dtype: Any) -> None:
    """Refuse what is neither single nor double precision."""
    allowed = (torch.complex64, torch.complex128, torch.float32, torch.float64)
    if dtype not in allowed:
        raise ParameterError(
            f"a model is in single or double precision; got {dtype!r}. Fix: one of {allowed}"
        )


def require_numbers(name: str, values: Tensor) -> None:
    """Refuse NaN and infinity."""
    if torch._C._functorch.is_batchedtensor(values) or bool(values.isfinite().all()):
        return
    raise ParameterError(
        f"the weights {name!r} hold NaN or infinity, so there is no density. Fix: go back to earlier "
        "weights, or train with a smaller lr."
    )


def mover(
    device: torch.device | None, dtype: torch.dtype | None, non_blocking: bool
) -> Callable[[Tensor], Tensor]:
    """What takes a tensor to a device and a precision; complex stays complex."""

    def move(value: Tensor) -> Tensor:
        if dtype is None or not (value.is_floating_point() or value.is_complex()):
            return value.to(device, non_blocking=non_blocking)
        real = dtype.to_real()
        return value.to(device, real.to_complex() if value.is_complex() else real, non_blocking)

    return move


@torch.no_grad()
def needed_precision(
    stacks: Iterable[tuple[str, Tensor]], log_pi: Tensor, own: torch.dtype, spread: Callable[[], float]
) -> torch.dtype:
    """Double where rows of weights are so large or small that single does not hold their squares.

    Args:
        stacks: the names of the weights, and these, (S, K1, K2) each.
        log_pi: log π of the root units in double precision, (R,).
        own: the precision of the model, which is the least.
        spread: how far the logarithms of the units of a layer are apart, asked where weights are extreme.

    Raises:
        ParameterError: if weights are no numbers, or double precision does not hold their squares either.
    """
    sizes = {name: _sizes(stack) for name, stack in stacks}
    for name, found in sizes.items():
        require_numbers(name, found)
    least, most = _extremes([*sizes.values()])
    rarest, _ = _extremes([log_pi.exp()])
    if least < 1 / LARGE or most > LARGE:
        _require_squares(least, most)
        _require_close(spread())
        return torch.float64
    return torch.float64 if rarest < 1 / LARGE else own


def _require_squares(least: float, most: float) -> None:
    """Refuse weights whose squares are no numbers in double precision."""
    if least < 1 / LARGEST or most > LARGEST:
        value = least if least < 1 / LARGEST else most
        raise ParameterError(
            f"a row of a weight has the largest entry {value:.3g}, whose square is no number in double "
            "precision. Fix: multiply the weights by a number; no density depends on their size."
        )


def _require_close(spread: float) -> None:
    """Refuse units of which double precision does not hold the squares beside one another."""
    if spread > math.log(LARGEST):
        raise ParameterError(
            f"the units of layers over the same variables differ in size by a factor of "
            f"1e{spread / math.log(10):.0f}, and double precision does not hold their squares beside one "
            "another. Fix: bring the rows of the weights to similar sizes."
        )


def _sizes(stack: Tensor) -> Tensor:
    """The largest entry of every row, up to a factor of √2: (S, K1, K2) → (S·K1,)."""
    parts = torch.view_as_real(stack) if stack.is_complex() else stack
    rows = parts.detach().flatten(2)
    return torch.maximum(rows.amax(dim=2), -rows.amin(dim=2)).flatten()


def _extremes(sizes: list[Tensor]) -> tuple[float, float]:
    """The least and the largest of some numbers ≥ 0, leaving out zeros."""
    every = torch.cat(sizes) if sizes else torch.ones(1)
    present = every[every > 0]
    return (float(present.min()), float(present.max())) if len(present) else (1.0, 1.0)
