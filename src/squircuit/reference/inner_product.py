"""Inner products of circuits by recursion over pairs of layers: the square, without building it.

R(ℓ, m) = ∫ ℓ(y, z) m(y, z)ᴴ dz is a K×J matrix for two layers of K and J units. It is W·(∫φψᴴ)·Vᴴ at
inputs, linear at sums, and a Hadamard or Kronecker product of the inputs' matrices at products that
split their scope in the same way. The paper does the same by materialising ℓ ⊗ m* (Alg. Multiply).
Where two products split their scope differently the recursion stops, unless the input functions of
some integrated variable are orthogonal between them: then R = 0 (Lem. "orthogonality of input functions").
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Hadamard, Input, Kronecker, Layer, Sum
from squircuit.circuits.order import postorder
from squircuit.errors import StructureError
from squircuit.reference.data import as_data, as_variables, no_data
from squircuit.reference.evaluate import evaluate_layers, input_weight, weight_of
from squircuit.regions.scope import Scope, describe

Pair: TypeAlias = tuple[Layer, Layer]

ZERO = 1e-10  # inner products of input functions below this count as zero


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

    Also for others in which products that split a scope differently have orthogonal inputs (U1, U2).
    """
    return inner_product(circuit, circuit, x, over)


class PairGrams:
    """R(ℓ, m) of any layer ℓ of one circuit and m of another, remembered once computed.

    Args:
        a, b: the circuits.
        x: data (n, d) for the variables that are not integrated.
        over: the variables Z to integrate out (default: all).
    """

    def __init__(self, a: Circuit, b: Circuit, x: Any = None, over: Iterable[int] | None = None) -> None:
        self.a, self.b = a, b
        self.over: Scope = as_variables(a, over)
        observed = a.scope - self.over
        self.data = no_data(a) if x is None and not observed else as_data(a, x, observed)
        self._values_a: dict[Layer, Tensor] = {}
        self._values_b: dict[Layer, Tensor] = self._values_a if a is b else {}
        self._known: dict[Pair, Tensor] = {}

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
        if isinstance(layer, Sum) or _is_unary(layer):
            return [(item, other) for item in layer.inputs]
        if isinstance(other, Sum) or _is_unary(other):
            return [(layer, item) for item in other.inputs]
        if isinstance(layer, Input) and isinstance(other, Input):
            return []
        if _split(layer) != _split(other):
            self._require_orthogonal(layer, other)
            return []
        return _matched(layer, other)

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
            all(self(f, g).abs().max() <= ZERO for f in below[variable] for g in others[variable])
            for variable in sorted(layer.scope & self.over)
        )

    def _compute(self, layer: Layer, other: Layer) -> Tensor:
        if not layer.scope & self.over:
            value = _evaluated(self.a, layer, self.data, self._values_a)
            other_value = _evaluated(self.b, other, self.data, self._values_b)
            return value.unsqueeze(2) * other_value.unsqueeze(1).conj()
        if isinstance(layer, Sum):
            stacked = torch.cat([self._known[item, other] for item in layer.inputs], dim=1)
            return weight_of(self.a, layer) @ stacked
        if _is_unary(layer):
            return self._known[layer.inputs[0], other]
        if isinstance(other, Sum):
            stacked = torch.cat([self._known[layer, item] for item in other.inputs], dim=2)
            return stacked @ weight_of(self.b, other).mH
        if _is_unary(other):
            return self._known[layer, other.inputs[0]]
        if isinstance(layer, Input) and isinstance(other, Input):
            return self._inputs(layer, other)
        if _split(layer) != _split(other):  # then their inputs are orthogonal: see _needs
            return torch.zeros(len(self.data), layer.units, other.units, dtype=torch.complex128)
        return multiply_grams(layer, other, [self._known[pair] for pair in _matched(layer, other)])

    def _inputs(self, layer: Input, other: Input) -> Tensor:
        values, other_values = self.a.family_values(layer), self.b.family_values(other)
        functions = layer.family.inner(other.family, values, other_values).to(torch.complex128)
        matrix = input_weight(self.a, layer) @ functions @ input_weight(self.b, other).mH
        return matrix.expand(len(self.data), -1, -1)


def multiply_grams(layer: Layer, other: Layer, grams: list[Tensor]) -> Tensor:
    """R of two product layers from the matrices (n, K_i, J_i) of their inputs, in the order of ``layer``.

    A Hadamard layer runs one index through all its inputs, a Kronecker layer one index an input; the
    layers may be of different kinds, and ``other`` may hold its inputs in another order.
    """
    letters = iter(string.ascii_letters[1:])
    left = _indices(layer, letters)
    right = dict(zip((item.scope for item in other.inputs), _indices(other, letters), strict=True))
    operands = [f"a{k}{right[item.scope]}" for k, item in zip(left, layer.inputs, strict=True)]
    out = "a" + "".join(dict.fromkeys(left)) + "".join(dict.fromkeys(right.values()))
    product = torch.einsum(f"{','.join(operands)}->{out}", *grams)
    return product.reshape(len(product), layer.units, other.units)


def _indices(layer: Layer, letters: Iterable[str]) -> list[str]:
    letters = iter(letters)
    if isinstance(layer, Hadamard):
        return [next(letters)] * len(layer.inputs)
    return [next(letters) for _ in layer.inputs]


def _is_unary(layer: Layer) -> bool:
    """A product of one input is that input."""
    return isinstance(layer, Hadamard | Kronecker) and len(layer.inputs) == 1


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
            below.setdefault(item.variable, []).append(item)
    return below


def _split(layer: Layer) -> frozenset[Scope]:
    return frozenset(item.scope for item in layer.inputs)


def _show(layer: Layer) -> str:
    return " ".join(describe(item.scope) for item in layer.inputs) or describe(layer.scope)
