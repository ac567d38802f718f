"""Circuits as models: a torch module that is trained, and asked."""

from squircuit.models.loading import load
from squircuit.models.squared_circuit import SquaredCircuit

__all__ = ["SquaredCircuit", "load"]
