"""Whether Z = 1 and cross terms vanish: what constraints promise of all weights, and what weights keep now.

Everything that takes Z = 1 for granted, or leaves out the products of different inputs of a sum, asks here.
Two things have to come together:

* a *promise*: (U1)–(U3), or (U1) with (U2) or (U4), hold for every value that the constraints of parameters
  allow. It is read off the structure, never from the values that parameters happen to have;
* the weights *keep* the constraints now. They are looked at anew each time, so that no way of writing to a
  tensor goes unnoticed. A look costs about as much as the density of one row, on a GPU of four.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Constraint, Parameter
from squircuit.circuits.root_layers import separated
from squircuit.circuits.semi_unitary import deviation
from squircuit.errors import ParameterError, StructureError
from squircuit.execution.gathering import dtypes
from squircuit.execution.kernels import cpu
from squircuit.execution.plan import Plan, Stack
from squircuit.execution.precision import double, tf32
from squircuit.properties import (
    Verdict,
    is_structured_decomposable,
    is_unitary,
    satisfies_u1,
    satisfies_u2,
    satisfies_u4,
)

LIMIT = {torch.float32: 2e-6, torch.float64: 1e-10}
"""max |WWᴴ − I| of weights that are semi-unitary up to rounding. Polar leaves 3·10⁻⁷ in single, and log Z
adds it up over the layers."""
PROBES = 2


NONE: frozenset[str] = frozenset()


class Kept(NamedTuple):
    """Which weights keep their constraints now; of what is free there is nothing to keep."""

    lost: frozenset[str]  #: parameters of input layers whose rows are not even orthogonal any more
    all: bool
    moved: frozenset[str] = NONE  #: and, where gradients are wanted, all that are not on the manifold


KEPT = Kept(frozenset(), True)
"""All of them."""


@final
class Normalisation:
    """What is known of Z and of cross terms.

    Args:
        structure: of the circuit; values of what is learnt are not looked at.
        plan: of the circuit.

    Attributes:
        is_promised: Z = 1 for all weights that the constraints allow (Thm. 2).

    Example:
        >>> import squircuit as sq
        >>> from squircuit.execution import make_plan
        >>> circuit = sq.build(sq.regions.linear(3), sq.Categorical(2), units=2)
        >>> found = Normalisation(circuit, make_plan(circuit))
        >>> weights = [torch.eye(*s.shape).expand(len(s.parameters), -1, -1) for s in found.stacks]
        >>> found.is_promised, found.look(weights).all, found.look([2 * w for w in weights]).all
        (True, True, False)
    """

    def __init__(self, structure: Circuit, plan: Plan) -> None:
        declared = structure.declared()
        self.structure, self.stacks, self._plan = structure, plan.stacks, plan
        self.is_promised = bool(is_unitary(declared))
        held = {layer.weight for layer in structure.inputs if layer.weight is not None}
        self._of_inputs = frozenset(structure.parameter_name(weight) for weight in held)
        self._fixed = {i: _declared(structure, s) for i, s in enumerate(plan.stacks) if _is_fixed(s)}
        names = {parameter: name for name, parameter in structure.parameters.items()}
        self._parts = [_Part(part, names) for part in separated(declared)]
        self._probes: dict[tuple[int, torch.dtype, torch.device], Tensor] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Parameters are known by identity, and a circuit that is unpickled has others: all is found anew."""
        return Normalisation, (self.structure, self._plan)

    # ------------------------------------------------------------------ promises

    @property
    def may_have_cross_terms(self) -> bool:
        """Some sum has several inputs, which count by themselves only if they are orthogonal."""
        return any(part.has_cross_terms for part in self._parts)

    @property
    def needs_manifold(self) -> bool:
        """Off the manifold cross terms count and are not tractable, so that neither Z nor a marginal is."""
        try:
            self.joined_roots(Kept(self._of_inputs, False))
        except StructureError:
            return self.is_promised
        return False

    def partition_has_cross_terms(self, kept: Kept) -> bool:
        """Some inputs of a sum are not known to be orthogonal functions of all variables (U1, U2)."""
        crossed = [part for part in self._parts if part.has_cross_terms]
        return not all(part.keeps(kept) and part.u1 and part.u2 for part in crossed)

    def joined_roots(self, kept: Kept, always: bool = False) -> list[bool]:
        """Whether queries join the layers below each root layer.

        False: no sum has several inputs, or cross terms vanish while a variable is marginalised (U1, U4).
        True: they count, and the circuit is structured-decomposable. Otherwise marginals are not tractable.

        Args:
            kept: what weights keep now.
            always: cross terms count even if (U1) and (U4) hold.
        """
        return [part.has_cross_terms and part.joins(kept, always) for part in self._parts]

    def slopes_miss(self, kept: Kept, of_marginals: bool) -> StructureError | None:
        """The error of a gradient that lacks cross terms which are zero now; None where it lacks none.

        Args:
            kept: what weights keep now.
            of_marginals: where some variables are observed; else of log Z.
        """
        return next(filter(None, (part.slopes_miss(kept, of_marginals) for part in self._parts)), None)

    # ------------------------------------------------------------------ weights

    @torch.no_grad()
    def look(self, weights: Sequence[Tensor], limit: float | None = None, slopes: bool = False) -> Kept:
        """Which of the stacked weights, in the order of the plan, keep their constraints now.

        Args:
            weights: the stacks.
            limit: how far they may be from the manifold; default the size of rounding.
            slopes: gradients are wanted.
        """
        found = dict(zip(self._looked_at(), self._kept(weights, limit), strict=True))
        gone = [i for i, is_kept in found.items() if not is_kept]
        lost = frozenset(name for i in gone for name in self._slanted(i, weights[i]))
        moved = frozenset(name for i in gone for name in self.stacks[i].parameters) if slopes else NONE
        return Kept(lost & self._of_inputs, not gone, moved & self._of_inputs)

    def _looked_at(self) -> list[int]:
        return [
            i for i, s in enumerate(self.stacks) if s.constraint == Constraint.SEMI_UNITARY or _is_fixed(s)
        ]

    def _kept(self, weights: Sequence[Tensor], limit: float | None) -> list[bool]:
        numbers = self._looked_at()
        if not numbers:
            return []
        looks = []
        for number in numbers:  # one after the other: they may be gathered to be looked at
            weight = weights[number].detach()
            if torch._C._functorch.is_batchedtensor(weight):
                return [False] * len(numbers)  # nobody can look into a batch of models: then Z is computed
            with tf32(False):
                looks.append(self._quick(number, weight))
        quick = torch.stack(looks).tolist()
        return [self._is_kept(i, weights, q, limit) for i, q in zip(numbers, quick, strict=True)]

    def _quick(self, number: int, weight: Tensor) -> Tensor:
        """About max |WWᴴ − I|, from |W (Wᴴ z) − z| for two vectors z: no Gram, and on a CPU one pass."""
        if number in self._fixed:
            return (weight - self._fixed[number].to(weight)).abs().amax().double()
        z = self._probe(weight)
        if cpu.serves(weight) and not torch._C._are_functorch_transforms_active():
            return cpu.look(weight, z).amax()
        z = z.to(weight.dtype)
        return ((z @ weight) @ weight.mH - z).abs().amax().double()

    def _is_kept(self, number: int, weights: Sequence[Tensor], quick: float, limit: float | None) -> bool:
        """A quick look decides, unless it is near the limit, or rounding may have made it."""
        limit = LIMIT[dtypes(weights)[number].to_real()] if limit is None else limit
        if number in self._fixed or quick <= limit or quick > 100 * limit:
            return quick <= limit
        return deviation(weights[number].detach()) <= limit

    def _slanted(self, number: int, weight: Tensor) -> list[str]:
        """The parameters of a stack whose rows are not orthogonal, whatever their lengths."""
        names = self.stacks[number].parameters
        if number in self._fixed or torch._C._functorch.is_batchedtensor(weight):
            return list(names)
        exact = double(weight.detach())
        lengths = torch.linalg.vector_norm(exact, dim=2, keepdim=True)
        rows = exact / torch.where(lengths > 0, lengths, 1.0)
        gram = rows @ rows.mH
        gram.diagonal(dim1=1, dim2=2).zero_()
        straight = (gram.abs().amax(dim=(1, 2)) <= LIMIT[weight.dtype.to_real()]).tolist()
        return [name for name, is_straight in zip(names, straight, strict=True) if not is_straight]

    def _probe(self, weight: Tensor) -> Tensor:
        """Real vectors of numbers ±(½ to 1½): (2, K1)."""
        key = weight.shape[1], weight.dtype.to_real(), weight.device
        if key not in self._probes:
            with torch.inference_mode(mode=False):  # they outlive the caller's mode
                drawn = torch.rand(2, PROBES, key[0], generator=torch.Generator().manual_seed(0))
                self._probes[key] = ((drawn[0] + 0.5) * (drawn[1] - 0.5).sign()).to(key[2], key[1])
        return self._probes[key]


def refusing(error: StructureError) -> Callable[[Tensor], Tensor]:
    """What gives weights as they are, and raises an error where their gradient is wanted."""

    def guarded(weight: Tensor) -> Tensor:
        return _Refusing.apply(weight, error)  # type: ignore[no-untyped-call,no-any-return]

    return guarded


class _Refusing(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(weight: Tensor, error: StructureError) -> Tensor:
        return weight.view_as(weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.error = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise ctx.error


def require_density(log_z: Tensor) -> None:
    """Refuse a circuit that has no density, with log Z of one or several parts."""
    if not bool((log_z > -torch.inf).any()) or not bool((log_z < torch.inf).all()):
        raise ParameterError(
            f"log Z is {log_z.flatten()[0].item()}, so there is no density: the circuit is 0 "
            "everywhere, or weights are too large or no numbers. Fix: go back to earlier weights, or train "
            "with a smaller lr."
        )


@torch.no_grad()
def polished(stack: Tensor) -> Tensor:
    """Weights that are semi-unitary up to the rounding of single precision, so in double: (S, K1, K2).

    Two steps of Newton–Schulz, W ← ½(3I − WWᴴ)W: each squares the distance from the manifold.
    """
    exact = double(stack.detach())
    identity = torch.eye(exact.shape[-2], dtype=exact.dtype, device=exact.device)
    for _ in range(2):
        exact = (1.5 * identity - 0.5 * exact @ exact.mH) @ exact
    return exact


@dataclass(eq=False)
class _Part:
    """The circuit of a root layer, without values of what is learnt, and what its constraints promise."""

    circuit: Circuit
    names: Mapping[Parameter, str]

    @cached_property
    def has_cross_terms(self) -> bool:
        return any(len(layer.inputs) > 1 for layer in self.circuit.sums)

    @cached_property
    def u1(self) -> Verdict:
        return satisfies_u1(self.circuit)

    @cached_property
    def u2(self) -> Verdict:
        return satisfies_u2(self.circuit)

    @cached_property
    def u4(self) -> Verdict:
        return satisfies_u4(self.circuit)

    @cached_property
    def held(self) -> frozenset[str]:
        """The parameters that mix the functions of its input layers, by their names in the whole circuit."""
        return frozenset(
            self.names[layer.weight] for layer in self.circuit.inputs if layer.weight is not None
        )

    @cached_property
    def structured(self) -> Verdict:
        return is_structured_decomposable(self.circuit)

    def keeps(self, kept: Kept) -> bool:
        """The products of different input functions vanish.

        Off the manifold rows may still be orthogonal: their products are zero, and the derivatives of these
        are not. Where gradients are wanted they count, if they are tractable.
        """
        if not self.held.isdisjoint(kept.lost):
            return False
        return self.held.isdisjoint(kept.moved) or not self.structured

    def slopes_miss(self, kept: Kept, of_marginals: bool) -> StructureError | None:
        """The error of a gradient off the manifold without cross terms.

        A product of integrals over two variables or more that are all zero has no derivative: so log Z has
        the right one where the inputs of sums share no input layer over any variable, of which there are two.
        """
        if not self.has_cross_terms or self.held.isdisjoint(kept.moved) or not self.keeps(kept):
            return None
        if not of_marginals and self.u1 and self.u4 and self._has_two_below_sums:
            return None
        reason = (
            f"{self.structured.reason}, and weights that have left the manifold have orthogonal rows: cross "
            "terms are zero, but their gradients are not"
        )
        fix = f"ask within `with torch.no_grad():`, or {_fix(self.u1, self.u4, False)}"
        return StructureError("structured-decomposable", self.structured.where, reason, fix)

    @cached_property
    def _has_two_below_sums(self) -> bool:
        """Below every sum of several inputs are two input layers over different variables."""
        blocks = {frozenset(layer.variables) for layer in self.circuit.inputs}
        scopes = [layer.scope for layer in self.circuit.sums if len(layer.inputs) > 1]
        return all(sum(not block.isdisjoint(scope) for block in blocks) > 1 for scope in scopes)

    def joins(self, kept: Kept, always: bool) -> bool:
        """Cross terms count in marginals; StructureError where they are not tractable."""
        if self.u1 and self.u4 and self.keeps(kept) and not always:
            return False
        if self.structured:
            return True
        reason = f"{self.structured.reason}, and {_cause(self.u1, self.u4, self.keeps(kept))}"
        fix = _fix(self.u1, self.u4, self.keeps(kept))
        raise StructureError("structured-decomposable", self.structured.where, reason, fix)


def _is_fixed(stack: Stack) -> bool:
    return stack.constraint == Constraint.FIXED


def _declared(structure: Circuit, stack: Stack) -> Tensor:
    values = [structure.parameters[name].value for name in stack.parameters]
    return torch.stack([value for value in values if value is not None])


def _cause(u1: Verdict, u4: Verdict, keeps: bool) -> str:
    """Why the inputs of sums have cross terms."""
    if not (u1 and u4):
        failed = " and ".join(verdict.name for verdict in (u1, u4) if not verdict)
        return f"without {failed} for all weights sums have cross terms"
    if not keeps:
        return "the weights of its inputs have left the manifold, so that sums have cross terms"
    return "functions of several variables bring back cross terms"


def _fix(u1: Verdict, u4: Verdict, keeps: bool) -> str:
    if u1 and u4 and not keeps:
        return (
            "train with sq.optim.Polar or POGO, which keep weights on the manifold, or bring them back with "
            "sq.optim.retract(model)"
        )
    return "split each scope in one way, or give all inputs of a sum orthogonal inputs of their own (U1, U4)"
