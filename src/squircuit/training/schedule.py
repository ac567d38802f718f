"""The learning rate as a function of the step."""

from __future__ import annotations

import math


def factor(step: int, steps: int, kind: str = "cosine", warm_up: float = 0.05, final: float = 0.01) -> float:
    """The share of the largest learning rate in one step.

    It grows linearly through the first ``warm_up·steps`` steps. Of the others, a share t has passed: "cosine"
    is final + (1 − final)·(1 + cos πt)/2; "constant" 1; "step" falls to √final at t = 1/2, to final at 3/4.

    Args:
        step: from 0.
        steps: of the whole training.

    Example:
        >>> [round(factor(step, 100, warm_up=0.1, final=0.0), 2) for step in (0, 9, 10, 55, 99)]
        [0.1, 1.0, 1.0, 0.5, 0.0]
        >>> [round(factor(step, 100, "step", warm_up=0.0, final=0.01), 2) for step in (0, 50, 75)]
        [1.0, 0.1, 0.01]
    """
    warming = math.ceil(warm_up * steps)
    if step < warming:
        return (step + 1) / warming
    passed = (step - warming) / max(1, steps - warming)
    if kind == "cosine":
        return final + (1 - final) * (1 + math.cos(math.pi * passed)) / 2
    if kind == "step":
        return 1.0 if passed < 0.5 else math.sqrt(final) if passed < 0.75 else final
    return 1.0
