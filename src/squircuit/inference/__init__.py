"""Questions to a circuit: partition functions and marginals of its square."""

from squircuit.inference import orthogonal, unitary
from squircuit.inference.squared import marginal, partition

__all__ = ["marginal", "orthogonal", "partition", "unitary"]
