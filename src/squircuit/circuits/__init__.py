"""The symbolic objects: layers, circuits and how to build, store and show them."""

from squircuit.circuits.build import build
from squircuit.circuits.circuit import Circuit
from squircuit.circuits.layers import Hadamard, Input, Kronecker, Layer, Sum
from squircuit.circuits.parameter import Constraint, Parameter

__all__ = ["Circuit", "Constraint", "Hadamard", "Input", "Kronecker", "Layer", "Parameter", "Sum", "build"]
