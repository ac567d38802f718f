"""A whole training step captured in a CUDA graph: one launch in place of hundreds."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from squircuit.errors import ParameterError


@final
class CapturedStep:
    """Replays ``step(x, …)`` as one CUDA graph for batches of one shape.

    Args:
        step: takes a batch, and what belongs to it, and returns the loss; forward, backward and optimiser,
            without waiting for the host. Gradients must be kept (``zero_grad(set_to_none=False)`` or none at
            all is needed: the captured backward pass writes them anew when they are None at capture).
        batch: x, and what else the step takes, on a CUDA device; all others must have its shapes and types.
        warm_up: ordinary steps before the capture; they change the weights.
    """

    def __init__(self, step: Callable[..., Tensor], *batch: Tensor, warm_up: int = 3) -> None:
        for x in batch:
            if not x.is_cuda:
                raise ParameterError(
                    f"CUDA graphs need data on a CUDA device, got {x.device}"
                    ". Fix: x.cuda(), with the model on the same device."
                )
        self._batch = [x.clone() for x in batch]
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(warm_up):
                step(*self._batch)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._loss = step(*self._batch)

    def __call__(self, *batch: Tensor) -> Tensor:
        """One step on another batch; the loss stays on the device."""
        for own, x in zip(self._batch, batch, strict=True):
            if x.shape != own.shape or x.dtype != own.dtype:
                raise ParameterError(
                    f"the step was captured for {own.dtype} of shape {tuple(own.shape)}, "
                    f"got {x.dtype} of shape {tuple(x.shape)}"
                    ". Fix: pass batches of that shape, or capture another step."
                )
        for own, x in zip(self._batch, batch, strict=True):
            own.copy_(x)
        self._graph.replay()
        return self._loss
