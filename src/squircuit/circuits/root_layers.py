"""Several circuits as one with the roots of all, and a circuit of several roots taken apart."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from squircuit.circuits.circuit import Circuit
from squircuit.circuits.layers import Layer, copied
from squircuit.circuits.parameter import Constraint, Parameter
from squircuit.circuits.postorder import postorder


def mixed(circuits: Sequence[Circuit], root_weights: Tensor) -> Circuit:
    """One circuit with the roots of all: p = Σ_r π_r |c_r|², and no products of different circuits.

    Parameters keep their values and constraints; those of circuit m are called ``m.name``.

    Args:
        circuits: with weights, over the same variables.
        root_weights: π, one for each root unit, in the order of the circuits.

    Example:
        >>> import torch, squircuit as sq
        >>> trees = sq.regions.balanced_tree(4), sq.regions.linear(4)
        >>> parts = [sq.build(tree, sq.Categorical(2), units=2).initialise(seed=0) for tree in trees]
        >>> both = mixed(parts, torch.tensor([0.25, 0.75]))
        >>> both.num_roots, round(sq.partition(both), 12)
        (2, 1.0)
    """
    roots = [root for number, circuit in enumerate(circuits) for root in _renamed(circuit, f"{number}.")]
    shape = tuple(root_weights.shape)
    return Circuit(roots, root_weights=Parameter(shape, Constraint.SIMPLEX, False, "roots", root_weights))


def separated(circuit: Circuit) -> list[Circuit]:
    """A circuit for each root layer, with the values that are there."""
    if len(circuit.roots) == 1:
        return [circuit]
    return [part_of(circuit, [number]) for number in range(len(circuit.roots))]


def part_of(circuit: Circuit, numbers: Sequence[int], root_weights: Tensor | None = None) -> Circuit:
    """The circuit of some root layers, with the values that are there.

    Args:
        circuit: whose root layers are taken.
        numbers: which of them.
        root_weights: π of their units; None: all alike.

    Example:
        >>> import squircuit as sq
        >>> circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2, components=3)
        >>> len(part_of(circuit, [0, 2]).roots)
        2
    """
    roots = [circuit.roots[number] for number in numbers]
    part = Circuit(roots, initial=False, validate=circuit.validated)
    values = {name: circuit.known_value(parameter) for name, parameter in part.parameters.items()}
    known = {name: value for name, value in values.items() if value is not None}
    shares = None
    if root_weights is not None:
        shares = Parameter(tuple(root_weights.shape), Constraint.SIMPLEX, False, "roots", root_weights)
    takes = shares is not None  # which are a value, too
    return Circuit(roots, root_weights=shares, weights=known, initial=takes, validate=circuit.validated)


def independent(circuit: Circuit) -> list[list[int]]:
    """The root layers by number, in groups that have no parameter below them in common.

    Example:
        >>> import torch, squircuit as sq
        >>> tree = sq.regions.balanced_tree(4)
        >>> pair = sq.build(tree, sq.Categorical(2), units=2, components=2).initialise(seed=0)  # same inputs
        >>> independent(pair), independent(mixed([pair, pair], torch.full((4,), 0.25)))
        ([[0, 1]], [[0, 1], [2, 3]])
    """
    groups: list[tuple[set[Parameter], list[int]]] = []
    for number, root in enumerate(circuit.roots):
        below = postorder([root], lambda layer: layer.inputs)
        held = {parameter for layer in below for parameter in layer.named_parameters().values()}
        related = [group for group in groups if group[0] & held]
        groups = [group for group in groups if not group[0] & held]
        numbers = [*sorted(n for _, members in related for n in members), number]
        groups.append((held.union(*(parameters for parameters, _ in related)), numbers))
    return sorted(numbers for _, numbers in groups)


def _renamed(circuit: Circuit, prefix: str) -> list[Layer]:
    """The root layers of a copy whose parameters have other names, and the circuit's values."""
    parameters = {
        p: Parameter(p.shape, p.constraint, p.is_complex, prefix + name, circuit.weights[name])
        for name, p in circuit.parameters.items()
    }
    return circuit.rebuilt(lambda layer, inputs: copied(layer, inputs, parameters))
