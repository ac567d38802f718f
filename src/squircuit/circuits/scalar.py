"""Scalar circuits (Def. 1 of the paper): circuits in which every layer has one unit.

They are built by hand with the three functions below, or from a layered circuit by ``unroll``.

>>> from squircuit.circuits import Circuit
>>> from squircuit.families import Categorical
>>> a, b = (input_unit(0, Categorical(2), c) for c in ([1, 0], [0, 1]))
>>> circuit = Circuit(sum_unit([a, b], [0.6, 0.8j]))
>>> circuit.is_scalar
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from squircuit.circuits.layers import Hadamard, Input, Layer, Sum
from squircuit.errors import ParameterError
from squircuit.families import Family


def input_unit(variable: int, family: Family, coefficients: Any) -> Input:
    """f(x) = Σ_k a_k φ_k(x) with φ the functions of a family and a the ``coefficients``, (n,)."""
    return Input(
        variable, family, weight=_row(coefficients, family.size, f"input unit over variable {variable}")
    )


def product_unit(inputs: Sequence[Layer]) -> Hadamard:
    """∏_i c_i."""
    return Hadamard([_one_unit(item) for item in inputs])


def sum_unit(inputs: Sequence[Layer], weights: Any) -> Sum:
    """Σ_i w_i c_i with complex or real ``weights``, one for each input."""
    return Sum([_one_unit(item) for item in inputs], weight=_row(weights, len(inputs), "sum unit"))


def _row(numbers: Any, length: int, where: str) -> Tensor:
    row = numbers if isinstance(numbers, Tensor) else torch.from_numpy(np.asarray(numbers))  # lists in double
    row = row.to(torch.complex128) if row.is_complex() else row.double()
    if row.shape != (length,):
        raise ParameterError(
            f"{where}: expected {length} numbers, got shape {tuple(row.shape)}"
            ". Fix: pass one number an input."
        )
    return row.unsqueeze(0)


def _one_unit(layer: Layer) -> Layer:
    if layer.units != 1:
        raise ParameterError(
            f"{layer.label} has {layer.units} units; units of a scalar circuit have one"
            ". Fix: use the layers of squircuit.circuits, or units of one."
        )
    return layer
