"""Numbers that are computed once and kept, whatever the mode of the first who asks for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
T = TypeVar("T")


def kept(most: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Cache like ``lru_cache``, for functions that make tensors.

    What is kept outlives the caller's mode: made in ``torch.inference_mode``, it could not be trained through
    later. ``torch.compile`` sees the result alone, since tracing would lose the cache; its decorator for that
    imports the compiler at once, which takes seconds, and is called only by those who compile.

    Args:
        most: how many results are kept.

    Example:
        >>> @kept(16)
        ... def zeros(count: int) -> torch.Tensor:
        ...     return torch.zeros(count)
        >>> with torch.inference_mode():
        ...     first = zeros(2)
        >>> zeros(2) is first, first.is_inference()
        (True, False)
    """

    def keeper(function: Callable[P, T]) -> Callable[P, T]:
        @lru_cache(maxsize=most)
        def made(*arguments: P.args, **options: P.kwargs) -> T:
            with torch.inference_mode(mode=False), torch.no_grad():
                return function(*arguments, **options)

        @wraps(function)
        def called(*arguments: P.args, **options: P.kwargs) -> T:
            if torch.compiler.is_compiling():
                result: T = torch.compiler.disable(made)(*arguments, **options)  # type: ignore[no-untyped-call]
                return result
            return made(*arguments, **options)  # type: ignore[arg-type]

        return called

    return keeper


def constant(numbers: float | tuple[float, ...], like: Tensor) -> Tensor:
    """Numbers as a tensor, () or (n,), in the dtype and on the device of ``like``.

    Made once for each device: a CUDA graph cannot copy from the host.

    Example:
        >>> constant((0.5, 2.0), torch.zeros(()))
        tensor([0.5000, 2.0000])
    """
    return _constant(numbers, like.dtype, like.device)


@kept(4096)
def _constant(numbers: float | tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=dtype, device=device)
