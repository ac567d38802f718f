"""Several processes that train one model, on torch.distributed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor, distributed

from squircuit.errors import ParameterError, ProcessError, Wording
from squircuit.training.processes import Processes

LONGEST = 300
"""Characters of what torch says of an error that are shown."""


@final
class Distributed(Processes):
    """The processes of a group of torch.distributed, on one machine or many, on CPUs or GPUs.

    Tensors are sent in one piece for each device and type, complex ones as real numbers: NCCL is not known to
    add up complex ones. Numbers on the CPU, by which all decide what to do next, go by gloo where the group
    has it ("cpu:gloo,cuda:nccl"), else by way of the device.

    Args:
        group: of torch.distributed; default the one of all processes.

    Attributes:
        rank, size: of this process in the group, and how many there are.
        is_capturable: sums of CUDA tensors can be part of a CUDA graph, as those of NCCL can.

    Example:
        >>> Distributed()
        Traceback (most recent call last):
        squircuit.errors.ParameterError: torch.distributed has no group of processes here. Fix: start the ...
    """

    def __init__(self, group: Any = None) -> None:
        if not is_joined():
            raise ParameterError(
                "torch.distributed has no group of processes here. Fix: start the script with torchrun, and "
                "call torch.distributed.init_process_group() before."
            )
        self._group = group
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)
        backends = distributed.get_backend_config(group).split(",")  # such as "cpu:gloo,cuda:nccl"
        self._backends = {pair.partition(":")[0]: pair.partition(":")[2] for pair in backends}
        self.is_capturable = self._backends.get("cuda") == "nccl"

    def sum(self, tensors: Sequence[Tensor]) -> None:
        alike: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for tensor in tensors:
            real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            alike.setdefault((real.device, real.dtype), []).append(real)
        for some in alike.values():
            sent = self._sendable(torch.cat([tensor.reshape(-1) for tensor in some]))
            with self._answered():
                distributed.all_reduce(sent, group=self._group)
            parts = torch.split(sent.to(some[0].device), [tensor.numel() for tensor in some])
            for tensor, part in zip(some, parts, strict=True):
                tensor.copy_(part.view_as(tensor))

    def sum_apart(self, parts: Tensor) -> Tensor:
        sent = self._sendable(parts)
        if self._backends[sent.device.type] == "gloo":  # whose own way sends all parts to all
            found = torch.empty_like(sent)
            with self._answered():
                distributed.all_to_all_single(found, sent, group=self._group)
            return found.sum(dim=0).to(parts.device)
        own = torch.empty_like(sent[0])
        with self._answered():
            _scatter(own, sent.reshape(-1), group=self._group)
        return own.to(parts.device)

    def gather(self, part: Tensor) -> Tensor:
        sent = self._sendable(part)
        found = sent.new_empty(self.size * len(sent))
        with self._answered():
            _gather(found, sent, group=self._group)
        return found.to(part.device).reshape(self.size, -1)

    def send(self, tensor: Tensor, sender: int) -> None:
        sent = self._sendable(tensor)
        with self._answered():
            distributed.broadcast(sent, self._number(sender), group=self._group)
        tensor.copy_(sent)

    def sum_at(self, tensor: Tensor, receiver: int) -> None:
        sent = self._sendable(tensor)
        with self._answered():
            distributed.reduce(sent, self._number(receiver), group=self._group)
        if self.rank == receiver:
            tensor.copy_(sent)

    def _number(self, rank: int) -> int:
        """The number that a process of the group has among all."""
        return rank if self._group is None else distributed.get_global_rank(self._group, rank)

    def _sendable(self, tensor: Tensor) -> Tensor:
        """What is on the CPU goes by the GPU where only that has a backend; gloo sends from the CPU."""
        backend = self._backends.get(tensor.device.type)
        if backend is None:
            return tensor.to(torch.device("cuda", torch.cuda.current_device()))
        return tensor.cpu() if backend == "gloo" else tensor

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """What torch says of others that do not answer becomes one error."""
        try:
            yield
        except torch.OutOfMemoryError:
            raise  # which is of this process alone
        except RuntimeError as error:  # of each backend another one
            if "Duplicate GPU" in str(error):  # as NCCL says it
                raise ParameterError(
                    "processes share a GPU, which NCCL refuses. Fix: torch.cuda.set_device gives each its "
                    "own, or let them talk by gloo: torch.distributed.init_process_group('gloo')."
                ) from error
            raise ProcessError(
                f"process {self.rank} of {self.size} has lost the others ({_cause(error)})",
                fix="see why one has ended; a run with a folder goes on with "
                + Wording("resume=True", "--run FOLDER --resume"),
            ) from error


def _cause(error: RuntimeError) -> str:
    """What torch says went wrong, without the places in its sources and its advice.

    Example:
        >>> _cause(RuntimeError("[/a/pair.cc:53] Read error [::1]:9: reset by peer. This is typically …"))
        'Read error [::1]:9: reset by peer'
    """
    said = re.sub(r"^(\[[^]]*(\.cc|\.cpp|rank)[^]]*\]:? ?)*", "", str(error).partition(" This is ")[0])
    return " ".join(said.split())[:LONGEST].rstrip(".")


def _named(*names: str) -> Any:
    """What torch calls by the first of these names that it knows; some builds have no torch.distributed."""
    return next((getattr(distributed, name) for name in names if hasattr(distributed, name)), None)


_scatter = _named("reduce_scatter_single", "reduce_scatter_tensor")
_gather = _named("all_gather_single", "all_gather_into_tensor")


def is_joined() -> bool:
    """This process is in a group of torch.distributed."""
    return distributed.is_available() and distributed.is_initialized()


def present() -> Processes:
    """The processes of torch.distributed where this one has joined a group of several, else this one alone.

    Example:
        >>> present().size
        1
    """
    return Distributed() if is_joined() and distributed.get_world_size() > 1 else Processes()
