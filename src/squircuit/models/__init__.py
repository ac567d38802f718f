"""Circuits as models: a torch module that is trained, and asked."""

from squircuit.models.squared_circuit import SquaredCircuit

__all__ = ["SquaredCircuit"]
