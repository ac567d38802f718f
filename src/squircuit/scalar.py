"""Scalar circuits: build them by hand, integrate their squares in linear time.

>>> from squircuit import Categorical, Circuit, scalar
>>> a, b = (scalar.input_unit(0, Categorical(2), c) for c in ([1, 1], [1, -1]))
>>> c = Circuit(scalar.sum_unit([a, b], [1.0, 2.0j]))
>>> scalar.partition(c)
10.0
"""

from squircuit.circuits.scalar import input_unit, product_unit, sum_unit
from squircuit.inference.orthogonal import marginal, partition

__all__ = ["input_unit", "marginal", "partition", "product_unit", "sum_unit"]
