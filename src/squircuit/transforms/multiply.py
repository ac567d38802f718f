"""Products and squares of circuits as circuits: what the unitary form avoids (Alg. Multiply)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Constraint, Hadamard, Input, Kronecker, Layer, Parameter, Sum
from squircuit.circuits.circuit import require_circuit
from squircuit.circuits.layers import factor_units, factors, summands
from squircuit.circuits.postorder import postorder
from squircuit.errors import StructureError
from squircuit.families import Categorical, Family, Product
from squircuit.properties import are_compatible, is_structured_decomposable, require
from squircuit.reference.evaluate import input_weight, kronecker, weight_blocks, weight_of
from squircuit.regions.scope import describe
from squircuit.transforms.conjugate import conjugate

Pair: TypeAlias = tuple[Layer, Layer]

ONLY = torch.zeros(1, 1, dtype=torch.long)  # the one unit of an absent factor


def multiply(a: Circuit, b: Circuit) -> Circuit:
    """The circuit of a(x) ⊗ b(x), which is a(x)·b(x) for circuits of one root unit each.

    Alg. Multiply (App. "Tensorized Circuit Multiplication"), for sums with several inputs (their weights
    multiply by the Tracy–Singh product, block by block), Hadamard, Kronecker and mixed products of any
    arity. Where the paper inserts a permutation matrix above a Kronecker product, its columns are folded
    into the sum above; only where no sum follows is there one of its own. Cost and size O(L_a L_b S_a S_b).

    Args:
        a, b: compatible circuits with weights; their variables may differ.

    Returns:
        a circuit with R_a·R_b root units, the root of ``a`` slowest.

    Example:
        >>> import torch
        >>> from squircuit.reference import evaluate
        >>> a = Circuit(Sum(Input(0, Categorical(2)), weight=torch.tensor([[2.0, 3.0]])))
        >>> evaluate(multiply(a, a), [[0], [1]]).real.flatten()
        tensor([4., 9.], dtype=torch.float64)
    """
    require_circuit("multiply", a, b)
    require(are_compatible(a, b), "multiply circuits whose products split each scope in the same way")
    a, b = _one_root_layer(a), _one_root_layer(b)
    return Circuit(_Multiplication(a, b).whole(a.roots[0], b.roots[0]))


def square(circuit: Circuit) -> Circuit:
    """The circuit of Σ_r π_r |c_r(x)|² = π·(c ⊗ c*), whose integral is Z (§2, App. A.5). Cost O(L² S²).

    For checking, and to see what it costs: Z and marginals of |c|² come far cheaper from
    :func:`squircuit.inference.partition` and :func:`squircuit.inference.marginal`.
    """
    require_circuit("square", circuit)
    require(is_structured_decomposable(circuit), "only structured-decomposable circuits can be squared")
    product = multiply(circuit, conjugate(circuit))
    if circuit.num_roots == 1:
        return product
    pick = torch.diag(circuit.root_shares).reshape(1, -1)
    return Circuit(Sum(product.roots, weight=_fixed(pick)))


@final
@dataclass(frozen=True)
class _Gathered:
    """ℓ_a ⊗ ℓ_b as units ``index`` of a layer (all of them, in order, where None)."""

    layer: Layer
    index: Tensor | None = None

    def units(self) -> Tensor:
        return torch.arange(self.layer.units) if self.index is None else self.index

    def as_layer(self) -> Layer:
        if self.index is None:
            return self.layer
        return Sum(self.layer, weight=_fixed(torch.eye(self.layer.units, dtype=torch.float64)[self.index]))


@final
class _Multiplication:
    """One run of the algorithm: pairs of layers → their Kronecker product."""

    def __init__(self, a: Circuit, b: Circuit) -> None:
        self.a, self.b = a, b
        self.done: dict[Pair, _Gathered] = {}
        self.copies: dict[Circuit, dict[Layer, Layer]] = {a: {}, b: {}}

    def whole(self, a: Layer, b: Layer) -> Layer:
        for pair in postorder([(a, b)], self._needs):
            self.done[pair] = self._compute(*pair)
        return self.done[a, b].as_layer()

    def _needs(self, pair: Pair) -> list[Pair]:
        a, b = pair
        if not a.scope & b.scope or (isinstance(a, Input) and isinstance(b, Input)):
            return []
        if isinstance(a, Sum) or isinstance(b, Sum):
            return [(i, j) for i in summands(a) for j in summands(b)]
        return [(i, j) for i, j in self._matched(a, b) if i is not None and j is not None]

    def _compute(self, a: Layer, b: Layer) -> _Gathered:
        if not a.scope & b.scope:
            return _Gathered(Kronecker([self._copy(self.a, a), self._copy(self.b, b)]))
        if isinstance(a, Sum) or isinstance(b, Sum):
            return _Gathered(self._sum(a, b))
        if isinstance(a, Input) and isinstance(b, Input):
            return _Gathered(self._input(a, b))
        return self._product(a, b)

    def _matched(self, a: Layer, b: Layer) -> list[tuple[Layer | None, Layer | None]]:
        """The inputs of two products, paired where their scopes meet; with None where they meet none."""
        pairs: list[tuple[Layer | None, Layer | None]] = []
        left, right = _aligned_factors(a, b)
        for i in left:
            meeting = [j for j in right if i.scope & j.scope]
            if len(meeting) > 1:
                raise self._incompatible(a, b)
            pairs.append((i, meeting[0] if meeting else None))
        taken = [j for _, j in pairs if j is not None]
        if len(set(taken)) < len(taken):
            raise self._incompatible(a, b)
        return pairs + [(None, j) for j in right if j not in taken]

    def _incompatible(self, a: Layer, b: Layer) -> StructureError:
        split = [" ".join(describe(i.scope) for i in factors(layer)) for layer in (a, b)]
        return StructureError(
            "compatible",
            f"{self.a.where(a)} and {self.b.where(b)}",
            f"they split their scopes into {split[0]} and {split[1]}",
            "multiply circuits whose products split each scope in the same way",
        )

    def _copy(self, circuit: Circuit, layer: Layer) -> Layer:
        """A sub-circuit as it is, its parameters holding their values."""
        copies = self.copies[circuit]
        for item in postorder([layer], lambda item: item.inputs):
            if item not in copies:
                copies[item] = _copied(circuit, item, [copies[i] for i in item.inputs])
        return copies[layer]

    def _sum(self, a: Layer, b: Layer) -> Layer:
        """Case (iii): blocks W_i ⊗ V_j of the Tracy–Singh product, one for each pair of inputs."""
        blocks, inputs = [], []
        for i, w in zip(summands(a), self._blocks(self.a, a), strict=True):
            for j, v in zip(summands(b), self._blocks(self.b, b), strict=True):
                part = self.done[i, j]
                block = torch.zeros(len(w) * len(v), part.layer.units, dtype=torch.complex128)
                blocks.append(block.index_add_(1, part.units(), kronecker(w, v)))
                inputs.append(part.layer)
        return Sum(inputs, weight=torch.cat(blocks, dim=1))

    def _blocks(self, circuit: Circuit, layer: Layer) -> list[Tensor]:
        if not isinstance(layer, Sum):  # a layer that is not a sum is one of itself
            return [torch.eye(layer.units, dtype=torch.complex128)]
        return weight_blocks(circuit, layer)

    def _input(self, a: Input, b: Input) -> Layer:
        """All products of a function of ``a`` and a function of ``b``."""
        w, v = input_weight(self.a, a), input_weight(self.b, b)
        if isinstance(a.family, Categorical) and a.family == b.family:  # the product of two tables is a table
            return Input(a.variables, a.family, weight=(w.unsqueeze(1) * v.unsqueeze(0)).flatten(0, 1))
        if not (isinstance(a.family, Family) and isinstance(b.family, Family)):
            raise StructureError(
                "a product of families of one variable",
                a.label,
                "products of functions of several variables are no family",
                "use sq.inner_product, sq.partition or sq.marginal, which build no product",
            )
        shared = {f"left.{name}": p for name, p in _shared(self.a, a).items()}
        shared |= {f"right.{name}": p for name, p in _shared(self.b, b).items()}
        return Input(
            a.variables,
            Product(a.family, b.family),
            weight=kronecker(w, v),
            parameters=shared,
        )

    def _product(self, a: Layer, b: Layer) -> _Gathered:
        """Cases (i) and (ii): Hadamard layers stay Hadamard; others become a reordered Kronecker layer."""
        pairs = self._matched(a, b)
        if isinstance(a, Hadamard) and isinstance(b, Hadamard) and all(None not in pair for pair in pairs):
            return _Gathered(Hadamard([self._part(*pair).as_layer() for pair in pairs]))
        own, others = _aligned_factors(a, b)
        left, right = _unit_indices(a, own), _unit_indices(b, others)
        index = torch.zeros(a.units, b.units, dtype=torch.long)
        for i, j in pairs:
            row = left[i].unsqueeze(1) if i is not None else ONLY
            column = right[j].unsqueeze(0) if j is not None else ONLY
            part = self._part(i, j)
            units = part.units()[row * (j.units if j is not None else 1) + column]
            index = index * part.layer.units + units
        return _Gathered(Kronecker([self._part(*pair).layer for pair in pairs]), index.flatten())

    def _part(self, i: Layer | None, j: Layer | None) -> _Gathered:
        """ℓ_i ⊗ ℓ_j, or the one of them that is there."""
        if i is not None and j is not None:
            return self.done[i, j]
        return _Gathered(self._copy(self.a, i) if i is not None else self._copy(self.b, j))  # type: ignore[arg-type]


def _copied(circuit: Circuit, layer: Layer, inputs: list[Layer]) -> Layer:
    if isinstance(layer, Input):
        weight = input_weight(circuit, layer)
        return Input(layer.variables, layer.family, weight=weight, parameters=_shared(circuit, layer))
    if isinstance(layer, Sum):
        return Sum(inputs, weight=weight_of(circuit, layer))
    return Hadamard(inputs) if isinstance(layer, Hadamard) else Kronecker(inputs)


def _unit_indices(layer: Layer, parts: tuple[Layer, ...]) -> dict[Layer, Tensor]:
    """The unit of each factor that every unit of a layer takes: (K,) for each."""
    units = [torch.arange(layer.units)] if parts == (layer,) else factor_units(layer)
    return dict(zip(parts, units, strict=True))


def _aligned_factors(a: Layer, b: Layer) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """The factors of two layers; one that lies within a single factor of the other is left whole."""
    if any(a.scope <= factor.scope for factor in factors(b) if factor is not b):
        return (a,), factors(b)
    if any(b.scope <= factor.scope for factor in factors(a) if factor is not a):
        return factors(a), (b,)
    return factors(a), factors(b)


def _shared(circuit: Circuit, layer: Input) -> dict[str, Parameter]:
    """The parameters of an input layer's family with their values, without names that could clash."""
    values = circuit.family_values(layer)
    return {
        n: Parameter(p.shape, p.constraint, p.is_complex, value=values[n])
        for n, p in layer.parameters.items()
    }


def _one_root_layer(circuit: Circuit) -> Circuit:
    """Several root layers stacked by an identity into one."""
    if len(circuit.roots) == 1:
        return circuit
    stacked = Sum(circuit.roots, weight=_fixed(torch.eye(circuit.num_roots, dtype=torch.float64)))
    return Circuit(stacked, root_weights=circuit.root_weights, weights=circuit.weights)


def _fixed(value: Tensor) -> Parameter:
    return Parameter(tuple(value.shape), Constraint.FIXED, is_complex=False, value=value)
