"""The circuits in the figures of the paper, written down by hand.

Each function returns a circuit with weights; ``demo.py`` prints what is true of them.
"""

from __future__ import annotations

import torch

import squircuit as sq
from squircuit import Circuit, Hadamard, Input, Kronecker, Sum, scalar

FOUR = sq.Categorical(4)


def matrix_product_state(second_variable: str = "orthogonal") -> Circuit:
    """A matrix-product state of rank 2 over three variables, unit by unit (Figs. 1 and 2 of the paper).

    ψ(x) = Σ_i Σ_j ψ₁ⁱ(x₁) ψ₂ⁱʲ(x₂) ψ₃ʲ(x₃), contracted from left to right, all sum weights 1.

    Args:
        second_variable: the four functions ψ₂ⁱʲ have ``"disjoint"`` supports (the circuit is deterministic),
            are ``"orthogonal"`` on overlapping ones (orthogonal, not deterministic), or ``"generic"``.
    """
    tables = {
        "disjoint": torch.diag(torch.tensor([1.0, 2.0, -1.0, 0.5])),
        "orthogonal": torch.tensor([[1.0, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2,
        "generic": torch.tensor([[1.0, 2, 0, 1], [1, -1, 1, 0], [0, 1, -1, 2], [1, 1, 1, 1]]),
    }
    psi_1 = [scalar.input_unit(0, FOUR, row) for row in ([1.0, 0.5, -1, 2], [0.3, 1, 1, -0.7])]
    psi_2 = [scalar.input_unit(1, FOUR, row) for row in tables[second_variable]]
    psi_3 = [scalar.input_unit(2, FOUR, row) for row in ([1.0, 1, 0, 2], [0, -1, 1, 0.5])]
    left = [
        scalar.sum_unit([scalar.product_unit([psi_1[i], psi_2[2 * i + j]]) for i in range(2)], [1, 1])
        for j in range(2)
    ]
    return Circuit(scalar.sum_unit([scalar.product_unit([left[j], psi_3[j]]) for j in range(2)], [1, 1]))


def custom_factorisation() -> Circuit:
    """A unitary circuit over three variables that is not structured-decomposable (Fig. 4 of the paper).

    Two alternatives split the variables into {x₃}, {x₁, x₂} and into {x₁, x₃}, {x₂}, with Kronecker and
    Hadamard products and two input layers a variable, which nothing shares: (U1) to (U4) hold.
    """
    (x1, z1), (x2, z2), (x3, z3) = (_blocks(variable, 2) for variable in range(3))
    first = Hadamard([x3, Sum(Kronecker([x1, x2]), units=2)])
    second = Kronecker([Sum(Hadamard([z1, z3]), units=2), z2])
    return Circuit(Sum([first, second], units=1)).initialise(seed=0)


def tree_tensor_network() -> Circuit:
    """A tree tensor network of rank 2 over four variables in upper-canonical form (Fig. B.1 of the paper)."""
    x = [Input(variable, FOUR, units=2) for variable in range(4)]
    left, right = Sum(Kronecker(x[:2]), units=2), Sum(Kronecker(x[2:]), units=2)
    return Circuit(Sum(Kronecker([left, right]), units=1)).initialise(seed=0)


def basis_decomposable_gadget() -> Circuit:
    """A sum unit whose inputs depend on different input functions: basis decomposable (Fig. 3a)."""
    functions = torch.eye(4)
    x = [scalar.input_unit(0, FOUR, row) for row in functions]
    y = [scalar.input_unit(1, FOUR, row) for row in functions]
    inputs = [
        scalar.product_unit([scalar.sum_unit([x[2 * i], x[2 * i + 1]], [1, 1j]), y[i]]) for i in range(2)
    ]
    return Circuit(scalar.sum_unit(inputs, [0.6, 0.8]))


def dense_gadget() -> Circuit:
    """A sum layer over two layers with different input functions: (U2), not basis decomposable (Fig. 3b)."""
    (red_x, violet_x), (red_y, violet_y) = (_blocks(variable, 2) for variable in range(2))
    red, violet = Sum(Kronecker([red_x, red_y]), units=2), Sum(Kronecker([violet_x, violet_y]), units=2)
    return Circuit(Sum([red, violet], units=2)).initialise(seed=0)


def _blocks(variable: int, count: int) -> list[Input]:
    """Input layers of two units over one variable, mutually orthogonal: blocks of rows of one matrix."""
    weight = sq.Parameter((2 * count, 4), name=f"x{variable + 1}")
    return [Input(variable, FOUR, 2, weight, first_row=2 * i) for i in range(count)]


FIGURES = {
    "Fig. 1: matrix-product state of rank 2, any input functions": lambda: matrix_product_state("generic"),
    "Fig. 2 (a): the same with disjoint supports over x₂": lambda: matrix_product_state("disjoint"),
    "Fig. 2 (b): the same with orthogonal functions of x₂": lambda: matrix_product_state("orthogonal"),
    "Fig. 3 (a): a basis decomposable sum unit": basis_decomposable_gadget,
    "Fig. 3 (b): a dense sum layer over two layers": dense_gadget,
    "Fig. 4: a factorisation that is not structured-decomposable": custom_factorisation,
    "Fig. B.1: tree tensor network over four variables": tree_tensor_network,
}
