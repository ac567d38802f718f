"""How good a model is now: mean loss of validation data, exact log Z."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import torch

from squircuit.models import SquaredCircuit
from squircuit.optim import Polar
from squircuit.training.feed import Feed
from squircuit.training.processes import Processes


class Scores(NamedTuple):
    """What a validation finds.

    Args:
        loss: mean −log p in nats of the rows; None without data.
        log_z: exact, in double precision.
        normalised: Z is 1 by construction and the weights are on the manifold; else scores were divided by Z.
    """

    loss: float | None
    log_z: float
    normalised: bool


@torch.no_grad()
def evaluate(model: SquaredCircuit, data: Feed | None, processes: Processes | None = None) -> Scores:
    """Scores with the present weights; the model is in evaluation mode for it: never in TF32."""
    mode = model.training
    model.eval()
    try:
        loss = None if data is None else mean_loss(model, data, processes or Processes())
        return Scores(loss, float(model.log_partition()), model.is_normalised())
    finally:
        model.train(mode)


def mean_loss(model: SquaredCircuit, data: Feed, processes: Processes) -> float:
    """−mean log p in nats, normalised by the exact Z where the weights are off the manifold."""
    total, count, impossible = 0.0, 0, 0
    for block in data.blocks():
        count += len(block.x)
        x, missing = processes.part(block)
        if len(x):
            log_p = model.log_prob(x, missing).double()
            total -= log_p.sum().item()
            impossible += int((log_p == -torch.inf).sum())
    sums = torch.tensor([total, impossible], dtype=torch.float64)
    processes.sum([sums])
    total, impossible = sums[0].item(), int(sums[1])
    if impossible:
        warnings.warn(
            f"{impossible} of {count} validation rows have probability 0: their loss is infinite. "
            "Fix: look at these rows, or build a model with wider functions.",
            stacklevel=2,
        )
    return total / count


def warn_if_off_manifold(scores: Scores, optimiser: str) -> None:
    """Of a unitary model."""
    if not scores.normalised:
        fix = (
            "a smaller lr"
            if optimiser == Polar.name
            else f"optimiser={Polar.name!r} in place of {optimiser!r}"
        )
        warnings.warn(
            f"the weights are off the manifold (log Z = {scores.log_z:.2g}): validation divides by the exact "
            f"Z, but the training loss flatters the model. Fix: {fix}.",
            stacklevel=2,
        )


def in_unit(nats: float, unit: str, variables: int) -> float:
    """A loss in the unit of the user.

    Example:
        >>> in_unit(math.log(2) * 6, "bits", 3)
        2.0
    """
    return nats if unit == "nats" else nats / (variables * math.log(2))
