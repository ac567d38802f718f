"""A whole training step captured in a CUDA graph: one launch in place of hundreds."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from squircuit.errors import ParameterError


@final
class CapturedStep:
    """Replays ``step(x)`` as one CUDA graph for batches of one shape.

    Args:
        step: takes a batch and returns the loss; forward, backward and optimiser, without waiting for the
            host. Gradients must be kept (``zero_grad(set_to_none=False)`` or none at all is needed: the
            captured backward pass writes them anew when they are None at capture).
        x: a batch on a CUDA device, whose shape and type all others must have.
        warm_up: ordinary steps before the capture; they change the weights.
    """

    def __init__(self, step: Callable[[Tensor], Tensor], x: Tensor, warm_up: int = 3) -> None:
        if not x.is_cuda:
            raise ParameterError(
                f"CUDA graphs need data on a CUDA device, got {x.device}"
                ". Fix: x.cuda(), with the model on the same device."
            )
        self._x = x.clone()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(warm_up):
                step(self._x)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._loss = step(self._x)

    def __call__(self, x: Tensor) -> Tensor:
        """One step on another batch; the loss stays on the device."""
        if x.shape != self._x.shape or x.dtype != self._x.dtype:
            raise ParameterError(
                f"the step was captured for {self._x.dtype} of shape {tuple(self._x.shape)}, "
                f"got {x.dtype} of shape {tuple(x.shape)}"
                ". Fix: pass batches of that shape, or capture another step."
            )
        self._x.copy_(x)
        self._graph.replay()
        return self._loss
