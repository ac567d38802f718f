"""Random small circuits in every shape: hypothesis draws the shape, a seed the values.

A circuit is first drawn as a nested description, then instantiated, because the number of input layers
over a variable (and so the size of the basis that they share) is known only at the end.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import torch
from hypothesis import strategies as st

from squircuit.circuits import Circuit, Constraint, Hadamard, Input, Kronecker, Parameter, Sum
from squircuit.families import (
    Categorical,
    Fourier,
    Hermite,
    Legendre,
    MultivariateGaussian,
    OrthonormalisedBlock,
)


@dataclass
class Shape:
    """What may occur in a random circuit."""

    unitary: bool = True
    free_sums: bool = False  # sums of any width with free weights, over the input layers of a unitary circuit
    structured: bool = True
    share_inputs: bool = False  # alternatives of a sum may use the same input layers (breaks U2 and U4)
    alternatives: tuple[int, ...] = (1, 1, 2)
    widths: tuple[int, ...] = (1, 2, 3)
    kinds: tuple[str, ...] = ("hadamard", "kronecker")
    roots: tuple[int, ...] = (1, 1, 2)
    is_complex: tuple[bool, ...] = (True, False)
    continuous: bool = False
    nested_products: bool = True
    tied: tuple[bool, ...] = (False, False, True)  # equal shapes share one parameter
    root_weights: tuple[bool, ...] = (False, True)  # several roots have weights that are not uniform


@dataclass
class Growth:
    """The state of drawing one description."""

    shape: Shape
    draw: object
    splits: dict = field(default_factory=dict)
    leaves: dict = field(default_factory=dict)  # variable -> widths of its input layers

    def choose(self, options):
        return self.draw(st.sampled_from(options))

    def split(self, scope):
        """Two or three parts; always the same ones for a scope if the circuit is to be structured."""
        if not self.shape.structured or scope not in self.splits:
            order = self.draw(st.permutations(scope))
            cuts = 2 if len(scope) == 2 else self.choose((2, 2, 3))
            inner = sorted(
                self.draw(
                    st.lists(
                        st.integers(1, len(scope) - 1), min_size=cuts - 1, max_size=cuts - 1, unique=True
                    )
                )
            )
            bounds = [0, *inner, len(scope)]
            self.splits[scope] = [tuple(sorted(order[a:b])) for a, b in itertools.pairwise(bounds)]
        return self.draw(st.permutations(self.splits[scope]))

    def leaf(self, variable):
        widths = self.leaves.setdefault(variable, [])
        if widths and self.shape.share_inputs and self.choose((True, False)):
            index = self.choose(tuple(range(len(widths))))
            return ("input", variable, index, widths[index])
        width = self.choose(self.shape.widths)
        widths.append(width)
        return ("input", variable, len(widths) - 1, width)

    def region(self, scope, units):
        """A sum over products that split the scope; ``units`` None draws a width."""
        inputs = [self.product(scope) for _ in range(self.choose(self.shape.alternatives))]
        if len(scope) == 1:
            inputs = [self.leaf(scope[0])]
        return self.sum(inputs, units)

    def sum(self, inputs, units):
        available = sum(width_of(i) for i in inputs)
        units = self.choose(self.shape.widths) if units is None else units
        limited = self.shape.unitary and not self.shape.free_sums
        return ("sum", inputs, min(units, available) if limited else units)

    def part(self, scope, units):
        """What feeds a product: an input layer, a sum, or (rarely) a product."""
        if len(scope) == 1:
            leaf = self.leaf(scope[0])
            return leaf if units in (None, leaf[3]) else self.sum([leaf], units)
        if units is None and self.shape.nested_products and self.choose((False, False, True)):
            return self.product(scope)
        return self.region(scope, units)

    def product(self, scope):
        if len(scope) == 1:
            return self.leaf(scope[0])
        kind = self.choose(self.shape.kinds)
        parts = [self.part(s, None) for s in self.split(scope)]
        if kind == "hadamard":
            width = min(width_of(p) for p in parts)
            parts = [p if width_of(p) == width else self.sum([p], width) for p in parts]
        return (kind, parts)


def width_of(node):
    match node[0]:
        case "input":
            return node[3]
        case "sum":
            return node[2]
        case "hadamard":
            return width_of(node[1][0])
    total = 1
    for part in node[1]:
        total *= width_of(part)
    return total


def instantiate(growth: Growth, root, is_complex: bool, families, tied: bool = False, pi=None) -> Circuit:
    """Layers of a description; input layers over a variable are blocks of rows of one matrix."""
    constraint = Constraint.SEMI_UNITARY if growth.shape.unitary else Constraint.FREE
    of_sums = Constraint.FREE if growth.shape.free_sums else constraint
    made: dict = {}
    shared: dict = {}

    def parameter(kind, shape):
        """A new parameter, or where weights are tied the one of that shape."""
        made = Parameter(shape, constraint if kind == "input" else of_sums, is_complex)
        return shared.setdefault((kind, shape), made) if tied else made

    blocks = {v: parameter("input", (sum(w), families[v].size)) for v, w in growth.leaves.items()}

    def layer(node):
        key = node[:3] if node[0] == "input" else id(node)
        if key not in made:
            made[key] = new(node)
        return made[key]

    def new(node):
        if node[0] == "input":
            _, variable, index, width = node
            first = sum(growth.leaves[variable][:index])
            return Input(variable, families[variable], width, blocks[variable], first)
        inputs = [layer(item) for item in node[1]]
        if node[0] == "sum":
            shape = (node[2], sum(i.units for i in inputs))
            return Sum(inputs, weight=parameter("sum", shape))
        return {"hadamard": Hadamard, "kronecker": Kronecker}[node[0]](inputs)

    return Circuit(layer(root), root_weights=pi)


def _family(draw, needed: int, continuous: bool):
    """A family with room for ``needed`` orthonormal functions."""
    if continuous:
        kind = draw(st.sampled_from(("categorical", "fourier", "legendre", "hermite")))
        if kind == "fourier":
            return Fourier(needed + (needed + 1) % 2, period=2.0)
        if kind == "legendre":
            return Legendre(needed, 0.0, 2.0)
        if kind == "hermite":
            return Hermite(needed, loc=0.3, scale=0.7)
    return Categorical(max(needed, draw(st.integers(1, 3))))


@st.composite
def circuits(draw, shape: Shape | None = None, max_variables: int = 6, **options) -> Circuit:
    """A random circuit with random weights."""
    shape = shape or Shape(**options)
    d = draw(st.integers(1, max_variables))
    growth = Growth(shape, draw)
    root = growth.region(tuple(range(d)), draw(st.sampled_from(shape.roots)))
    families = {
        v: _family(draw, sum(w) if shape.unitary else 1, shape.continuous) for v, w in growth.leaves.items()
    }
    flags = draw(st.sampled_from(shape.is_complex)), families, draw(st.sampled_from(shape.tied))
    circuit = instantiate(growth, root, *flags, pi=_root_weights(draw, shape, width_of(root)))
    return circuit.initialise(seed=draw(st.integers(0, 2**31)))


KINDS_OF_BLOCKS = ("mixture", "product", "tree", "signed")
"""Gaussians alone; times categories; orthonormal ones below semi-unitary sums; sums of Gaussians."""


@st.composite
def block_circuits(draw, kinds: tuple[str, ...] = KINDS_OF_BLOCKS) -> Circuit:
    """A random circuit with an input layer over several variables: two, or one, of them continuous.

    Variables are numbered in any order; besides the block there may be a categorical one, or two blocks of
    one variable each, which may share their parameters.
    """
    kind = draw(st.sampled_from(kinds))
    rng = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    covariance = draw(st.sampled_from(("full", "diagonal", "tied", "low-rank")))
    split = draw(st.booleans())  # two blocks of one variable instead of one of two
    places = draw(st.permutations((0, 1, 2)))
    size = draw(st.integers(1, 3))
    blocks = [places[:1], places[1:2]] if split else [places[:2]]
    shared = draw(st.booleans())
    family = MultivariateGaussian(
        size, len(blocks[0]), covariance, 1 if covariance == "low-rank" else None, learnable=kind != "tree"
    )
    layers = _gaussian_layers(family, blocks, shared, kind, rng)
    category = Categorical(draw(st.integers(size, 3)))
    if kind == "mixture":
        return _with_roots(draw, Hadamard(layers) if split else layers[0], rng)
    if kind == "product":
        table = torch.randn(size, category.size, generator=rng, dtype=torch.float64)
        return _with_roots(draw, Hadamard([*layers, Input(places[2], category, weight=table)]), rng)
    constraint = Constraint.SEMI_UNITARY if kind == "tree" else Constraint.FREE
    is_complex = draw(st.booleans())
    weight = Parameter((size, category.size), constraint, is_complex)
    factors = [*layers, Input(places[2], category, size, weight)]
    product = (Kronecker if draw(st.booleans()) else Hadamard)(factors)
    units = draw(st.integers(1, min(2, product.units)))
    root = Sum(product, weight=Parameter((units, product.units), constraint, is_complex))
    return _with_roots(draw, root, rng)


def _gaussian_layers(family, blocks, shared, kind, rng):
    """An input layer over each block, with locations within ±2 and standard deviations near 1."""

    def values():
        whole = MultivariateGaussian(family.size, family.dimension, family.covariance, family.rank)
        return {
            name: (2.0 if name == "loc" else 0.3) * (2 * torch.rand(first.shape, generator=rng).double() - 1)
            for name, first in whole.parameters().items()
        }

    if kind != "tree":
        first = Input(tuple(blocks[0]), family, parameters=values())
        given = first.parameters if shared else values()
        return [first, *(Input(tuple(block), family, parameters=given) for block in blocks[1:])]
    spread = values()
    spread["loc"] = torch.linspace(-2, 2, family.size).double()[:, None].expand(spread["loc"].shape)
    start = tuple(tuple(value.flatten().tolist()) for value in spread.values())
    base = MultivariateGaussian(
        family.size, family.dimension, family.covariance, family.rank, None, False, start
    )
    orthonormal = OrthonormalisedBlock(base)
    one = Parameter((family.size, family.size), Constraint.SEMI_UNITARY, False)
    made = [one if shared else Parameter(one.shape, Constraint.SEMI_UNITARY, True) for _ in blocks]
    return [Input(tuple(b), orthonormal, family.size, weight) for b, weight in zip(blocks, made, strict=True)]


def _with_roots(draw, root, rng) -> Circuit:
    pi = torch.softmax(torch.randn(root.units, generator=rng, dtype=torch.float64), 0)
    weights = Parameter((root.units,), Constraint.SIMPLEX, False, value=pi) if draw(st.booleans()) else None
    return Circuit(root, root_weights=weights).initialise(seed=draw(st.integers(0, 2**31)))


def _root_weights(draw, shape: Shape, count: int) -> Parameter | None:
    """Weights of several roots that are not uniform, so that to ignore them is a mistake."""
    if count == 1 or not draw(st.sampled_from(shape.root_weights)):
        return None
    value = torch.arange(1.0, count + 1, dtype=torch.float64)
    return Parameter((count,), Constraint.SIMPLEX, False, value=value / value.sum())


def max_error(a, b) -> float:
    """Largest absolute difference of two arrays or tensors."""
    return float((torch.as_tensor(a).detach() - torch.as_tensor(b)).abs().max())
