"""From circuit to circuit: conjugate, multiply, square, unitarise, unroll."""

from squircuit.transforms.conjugate import conjugate
from squircuit.transforms.multiply import multiply, square
from squircuit.transforms.unitarise import Unitarised, unitarise
from squircuit.transforms.unroll import unroll

__all__ = ["Unitarised", "conjugate", "multiply", "square", "unitarise", "unroll"]
