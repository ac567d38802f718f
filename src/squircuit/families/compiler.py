"""Functions that `torch.compile` calls and does not look into."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def opaque_to_compiler(function: Callable[P, T]) -> Callable[P, T]:
    """As ``torch.compiler.disable``, for functions with a cache, which tracing would lose.

    That decorator imports the compiler at once, which takes seconds; this one leaves it to those who compile.

    Example:
        >>> opaque_to_compiler(abs)(-2)
        2
    """

    @wraps(function)
    def called(*arguments: P.args, **options: P.kwargs) -> T:
        if torch.compiler.is_compiling():
            result: T = torch.compiler.disable(function)(*arguments, **options)  # type: ignore[no-untyped-call]
            return result
        return function(*arguments, **options)

    return called
