"""What a circuit means, plainly: complex128, one layer at a time, obviously right.

Everything faster that comes later is checked against this folder, and this folder against
enumeration.
"""

from squircuit.reference.evaluate import evaluate, integrate
from squircuit.reference.inner_product import gram, inner_product

__all__ = ["evaluate", "gram", "inner_product", "integrate"]
