"""Inner products of circuits by recursion over pairs of layers: the square, without building it.

R(ℓ, m) = ∫ ℓ(y, z) m(y, z)ᴴ dz is a K×J matrix for two layers of K and J units. It is W·(∫φψᴴ)·Vᴴ at
inputs, linear at sums, and a Hadamard or Kronecker product of the inputs' matrices at products that
split their scope in the same way. The paper does the same by materialising ℓ ⊗ m* (Alg. Multiply).
Where two products split their scope differently the recursion stops, unless the input functions of
some integrated variable are orthogonal between them: then R = 0 (Lem. "orthogonality of input functions").
Orthogonal means that an inner product is zero up to rounding of its terms, or that both are blocks of rows of
one semi-unitary matrix: whatever the weights above, leaving such products out is an error of rounding.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, TypeAlias

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Constraint, Hadamard, Input, Kronecker, Layer, Sum
from squircuit.circuits.circuit import require_circuit
from squircuit.circuits.layers import are_apart, is_product, summands
from squircuit.circuits.postorder import postorder
from squircuit.circuits.root_layers import separated
from squircuit.circuits.semi_unitary import deviation
from squircuit.errors import StructureError
from squircuit.families import BlockFamily
from squircuit.reference.data import as_variables, observed_data, require_valid
from squircuit.reference.evaluate import evaluate_layers, input_weight, weight_blocks, weight_of
from squircuit.reference.tolerance import ROUNDING, input_sizes, tolerance_for
from squircuit.regions.scope import Scope, describe

Pair: TypeAlias = tuple[Layer, Layer]


def inner_product(a: Circuit, b: Circuit, x: Any = None, over: Iterable[int] | None = None) -> Tensor:
    """∫ a(y, z) b(y, z)ᴴ dz over the variables ``over`` (default: all) of two compatible circuits.

    Cost O(L_a L_b S_a S_b) as for Alg. Multiply, with L layers of size at most S. Z of the squared
    circuit is the case a = b.

    Args:
        a, b: circuits over the same variables, with weights.
        x: data (n, d) for the variables that stay.
        over: the variables to integrate out.

    Returns:
        (n, R_a, R_b) complex128.

    Example:
        >>> from squircuit.families import Categorical
        >>> circuit = Circuit(Sum(Input(0, Categorical(2)), weight=torch.tensor([[3.0, 4.0]])))
        >>> inner_product(circuit, circuit).item()
        (25+0j)
    """
    require_circuit("inner_product", a, b)
    if a.scope != b.scope:
        raise StructureError(
            "compatible",
            "roots",
            f"scopes {describe(a.scope)} and {describe(b.scope)} differ",
            "use equal scopes",
        )
    grams = PairGrams(a, b, x, over)
    rows = [torch.cat([grams(root, other) for other in b.roots], dim=2) for root in a.roots]
    return torch.cat(rows, dim=1)


def gram(circuit: Circuit, x: Any = None, over: Iterable[int] | None = None) -> Tensor:
    """∫ c(y, z) c(y, z)ᴴ dz of the root units: (n, R, R), for structured-decomposable circuits.

    Also for others in which products that split a scope differently have orthogonal inputs (U1, U2). It is
    what Alg. Multiply of c and c*, then integrated, computes; cost O(L² S²) with L layers of size at most S.
    """
    return inner_product(circuit, circuit, x, over)


def root_norms(circuit: Circuit, x: Any = None, over: Iterable[int] | None = None) -> Tensor:
    """∫ |c_r(y, z)|² dz of the root units: (n, R). Root layers may split scopes differently."""
    parts = [gram(part, x, over).diagonal(dim1=1, dim2=2).real for part in separated(circuit)]
    return torch.cat(parts, dim=1)


class PairGrams:
    """R(ℓ, m) of any layer ℓ of one circuit and m of another, remembered once computed.

    Args:
        a, b: the circuits.
        x: data (n, d) for the variables that are not integrated.
        over: the variables Z to integrate out (default: all).
    """

    def __init__(self, a: Circuit, b: Circuit, x: Any = None, over: Iterable[int] | None = None) -> None:
        self.a, self.b = a, b
        for circuit in (a, b):
            require_valid(circuit)
        self.over: Scope = as_variables(a, over)
        self.data = observed_data(a, x, self.over)
        self._values_a: dict[Layer, Tensor] = {}
        self._values_b: dict[Layer, Tensor] = self._values_a if a is b else {}
        self._known: dict[Pair, Tensor] = {}
        self._tolerance = max(tolerance_for(circuit) for circuit in (a, b))

    def __call__(self, layer: Layer, other: Layer) -> Tensor:
        """R(ℓ, m): (n, K, J); StructureError where products split a scope in different ways."""
        for pair in postorder([(layer, other)], self._needs):
            if pair not in self._known:
                self._known[pair] = self._compute(*pair)
        return self._known[layer, other]

    def _needs(self, pair: Pair) -> list[Pair]:
        layer, other = pair
        if pair in self._known or not layer.scope & self.over:
            return []
        if isinstance(layer, Sum):
            return [need for i in layer.inputs for j in summands(other) for need in self._below(i, j)]
        if isinstance(other, Sum):
            return [(layer, item) for item in other.inputs]
        below = self._below(layer, other)
        return [] if below == [pair] else below

    def _below(self, layer: Layer, other: Layer) -> list[Pair]:
        """The pairs from which R(ℓ, m) is made: those of their inputs at products, else the pair itself."""
        if _is_unary(layer) or _is_unary(other):
            return [(_only(layer), _only(other))]
        are_split = is_product(layer), is_product(other)
        is_met = bool(layer.scope & self.over) and not isinstance(other, Sum) and not isinstance(layer, Sum)
        if not (any(are_split) and is_met):
            return [(layer, other)]
        if all(are_split) and _split(layer) == _split(other):
            return _matched(layer, other)
        self._require_orthogonal(layer, other)
        return []

    def _require_orthogonal(self, layer: Layer, other: Layer) -> None:
        if not self._inputs_are_orthogonal(layer, other):
            raise StructureError(
                "compatible",
                f"{self.a.where(layer)} and {self.b.name(other)}",
                f"they split it into {_show(layer)} and {_show(other)}",
                "use circuits whose products split each scope in one way",
            )

    def _inputs_are_orthogonal(self, layer: Layer, other: Layer) -> bool:
        """Lem. "orthogonality of input functions": for some integrated variable, all of ⟨f, g⟩ vanish."""
        below, others = _inputs_below(layer), _inputs_below(other)
        return any(
            all(self._are_orthogonal(f, g) for f in below[variable] for g in others[variable])
            for variable in sorted(layer.scope & self.over)
        )

    def _are_orthogonal(self, f: Input, g: Input) -> bool:
        if f.scope != g.scope or not f.scope <= self.over:  # what is left of a block is not integrated
            return False
        if self.a is self.b and are_apart(f, g) and self._is_semi_unitary(f):
            return True
        sizes = input_sizes(self.a, f).mT * input_sizes(self.b, g)
        return bool((self(f, g)[0].abs() <= ROUNDING * sizes).all())

    def _is_semi_unitary(self, layer: Input) -> bool:
        """Declared to be so, and so it is."""
        assert layer.weight is not None
        if layer.weight.constraint is not Constraint.SEMI_UNITARY:
            return False
        return deviation(self.a.value(layer.weight).detach()) <= self._tolerance

    def _compute(self, layer: Layer, other: Layer) -> Tensor:
        if not layer.scope & self.over:
            value = _evaluated(self.a, layer, self.data, self._values_a)
            other_value = _evaluated(self.b, other, self.data, self._values_b)
            return value.unsqueeze(2) * other_value.unsqueeze(1).conj()
        if isinstance(layer, Sum):
            return self._sum(layer, other)
        if isinstance(other, Sum):
            stacked = torch.cat([self._known[layer, item] for item in other.inputs], dim=2)
            return stacked @ weight_of(self.b, other).mH
        if isinstance(layer, Input) and isinstance(other, Input):
            return self._inputs(layer, other)
        return self._times(None, layer, other)

    def _inputs(self, layer: Input, other: Input) -> Tensor:
        """W ⟨φ, ψ⟩ Vᴴ, where the rest of a block that is integrated in part is observed: (n, K, J)."""
        if layer.scope <= self.over:
            return inner_inputs(self.a, layer, self.b, other).expand(len(self.data), -1, -1)
        _require_one_order(layer, other)
        assert isinstance(layer.family, BlockFamily)  # others are over one variable
        assert isinstance(other.family, BlockFamily)
        observed = [variable not in self.over for variable in layer.variables]
        values = self.a.family_values(layer), self.b.family_values(other)
        columns = layer.columns(self.data)
        pairs, scale = layer.family.cross_integrals(other.family, columns, observed, *values)
        functions = (pairs * scale.exp()[:, None, None]).to(torch.complex128)
        return input_weight(self.a, layer) @ functions @ input_weight(self.b, other).mH

    def _sum(self, layer: Sum, other: Layer) -> Tensor:
        """Σ_ij W_i R(ℓ_i, m_j) V_jᴴ, without forming R of two products."""
        blocks = list(zip(weight_blocks(self.a, layer), layer.inputs, strict=True))
        columns = [
            torch.stack([self._times(w, item, summand) for w, item in blocks]).sum(dim=0)
            for summand in summands(other)
        ]
        stacked = torch.cat(columns, dim=2)
        return stacked @ weight_of(self.b, other).mH if isinstance(other, Sum) else stacked

    def _times(self, weight: Tensor | None, layer: Layer, other: Layer) -> Tensor:
        """W R(ℓ, m), or R itself where there is no weight: (n, K1, J)."""
        below = self._below(layer, other)
        if not below:  # orthogonal inputs: see _below
            rows = layer.units if weight is None else len(weight)
            return torch.zeros(len(self.data), rows, other.units, dtype=torch.complex128)
        if len(below) == 1:
            gram = self._known[below[0]]
            return gram if weight is None else weight @ gram
        grams = [self._known[pair] for pair in below]
        return multiply_grams(layer, other, grams, weight)


def inner_inputs(a: Circuit, layer: Input, b: Circuit, other: Input) -> Tensor:
    """∫ ℓ mᴴ dx of two input layers over the same variables, W ⟨φ, ψ⟩ Vᴴ: (K, J)."""
    _require_one_order(layer, other)
    functions = layer.family.inner(other.family, a.family_values(layer), b.family_values(other))
    return input_weight(a, layer) @ functions.to(torch.complex128) @ input_weight(b, other).mH


def _require_one_order(layer: Input, other: Input) -> None:
    if layer.variables != other.variables:
        raise StructureError(
            "compatible",
            layer.label,
            f"its variables are {layer.variables}, those of another input layer are {other.variables}",
            "use one order of the same variables in both",
        )


def multiply_grams(layer: Layer, other: Layer, grams: list[Tensor], weight: Tensor | None = None) -> Tensor:
    """R of two product layers from the matrices (n, K_i, J_i) of their inputs, in the order of ``layer``.

    A Hadamard layer runs one index through all its inputs, a Kronecker layer one index an input; the
    layers may be of different kinds, and ``other`` may hold its inputs in another order. With ``weight``
    (K1, K) the result is W R, (n, K1, J), contracted one input at a time: R, which has K²·J² entries
    for Kronecker products of two, is never formed.
    """
    # inputs of one unit are plain factors; so there are enough letters for products of any number of inputs
    scalar = {i.scope: g for i, g in zip(layer.inputs, grams, strict=True) if g.shape[1:] == (1, 1)}
    inputs = [item for item in layer.inputs if item.scope not in scalar]
    others = [item for item in other.inputs if item.scope not in scalar]
    letters = iter(string.ascii_letters[2:])
    left = _indices(layer, len(inputs), letters)
    right = dict(zip((item.scope for item in others), _indices(other, len(others), letters), strict=True))
    operands = [f"a{k}{right[item.scope]}" for k, item in zip(left, inputs, strict=True)]
    factors = [g for i, g in zip(layer.inputs, grams, strict=True) if i.scope not in scalar]
    scale = reduce(torch.mul, scalar.values(), torch.ones(1, 1, 1, dtype=torch.complex128))
    rows, columns = "".join(dict.fromkeys(left)), "".join(dict.fromkeys(right.values()))
    if weight is None:
        equation = f"{','.join(['a', *operands])}->a{rows}{columns}"
        product = torch.einsum(equation, torch.ones_like(grams[0][:, 0, 0]), *factors)
        return product.reshape(len(product), layer.units, other.units) * scale
    sizes = [item.units for item in inputs] if isinstance(layer, Kronecker) else [layer.units] * bool(inputs)
    equation = f"{','.join([f'b{rows}', 'a', *operands])}->ab{columns}"
    ones = torch.ones_like(grams[0][:, 0, 0])
    product = torch.einsum(equation, weight.reshape(-1, *sizes), ones, *factors)
    return product.reshape(len(product), len(weight), other.units) * scale


def _indices(layer: Layer, count: int, letters: Iterator[str]) -> list[str]:
    if isinstance(layer, Hadamard):
        return [next(letters)] * count
    return [next(letters) for _ in range(count)]


def _is_unary(layer: Layer) -> bool:
    return is_product(layer) and len(layer.inputs) == 1


def _only(layer: Layer) -> Layer:
    """A product of one input is that input."""
    return layer.inputs[0] if _is_unary(layer) else layer


def _matched(layer: Layer, other: Layer) -> list[Pair]:
    """The inputs of two products, paired by scope."""
    by_scope = {item.scope: item for item in other.inputs}
    return [(item, by_scope[item.scope]) for item in layer.inputs]


def _evaluated(circuit: Circuit, layer: Layer, data: Tensor, values: dict[Layer, Tensor]) -> Tensor:
    """The layer's value, computed where it is not in ``values`` yet."""
    if layer not in values:
        values.update(evaluate_layers(circuit, data, postorder([layer], lambda item: item.inputs)))
    return values[layer]


def _inputs_below(layer: Layer) -> dict[int, list[Input]]:
    below: dict[int, list[Input]] = {}
    for item in postorder([layer], lambda item: item.inputs):
        if isinstance(item, Input):
            for variable in item.variables:
                below.setdefault(variable, []).append(item)
    return below


def _split(layer: Layer) -> frozenset[Scope]:
    return frozenset(item.scope for item in layer.inputs)


def _show(layer: Layer) -> str:
    return " ".join(describe(item.scope) for item in layer.inputs) or describe(layer.scope)
