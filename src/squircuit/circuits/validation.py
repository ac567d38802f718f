"""What every circuit must satisfy before anything is computed with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from squircuit.circuits.layers import Hadamard, Input, Kronecker, Layer, Sum
from squircuit.circuits.parameter import Constraint, Parameter
from squircuit.errors import ParameterError, StructureError
from squircuit.families.domain import Domain
from squircuit.regions.scope import Scope, describe


def check_structure(
    layers: Sequence[Layer], roots: Sequence[Layer], root_weights: Parameter | None, *, strict: bool
) -> None:
    """Raise one clear error where layers do not form a circuit; ``strict`` adds smooth and decomposable."""
    _check_kinds(layers)
    _check_domains(layers)
    _check_roots(roots, root_weights)
    if strict:
        for _, failure in (*overlapping_products(layers), *uneven_sums(layers)):
            raise failure


def _check_kinds(layers: Sequence[Layer]) -> None:
    """Another kind would be passed over by some algorithms, and their answers be wrong."""
    for layer in layers:
        if not isinstance(layer, Input | Hadamard | Kronecker | Sum):
            raise ParameterError(
                f"{layer.label}: {type(layer).__name__} is not a kind of layer that circuits are made of. "
                "Fix: use Input, Hadamard, Kronecker and Sum; other functions of one variable are families."
            )


def overlapping_products(layers: Sequence[Layer]) -> Iterator[tuple[Layer, StructureError]]:
    """The products whose inputs share variables (Def. 2, decomposability)."""
    for layer in layers:
        if isinstance(layer, Hadamard | Kronecker):
            shared = _shared_variables(layer)
            if shared:
                yield (
                    layer,
                    StructureError(
                        "decomposable",
                        layer.label,
                        f"two of its inputs depend on {describe(shared)}",
                        "multiply only layers over disjoint sets of variables",
                    ),
                )


def uneven_sums(layers: Sequence[Layer]) -> Iterator[tuple[Layer, StructureError]]:
    """The sums whose inputs have different scopes (Def. 2, smoothness)."""
    for layer in layers:
        if isinstance(layer, Sum):
            scopes = list(dict.fromkeys(item.scope for item in layer.inputs))
            if len(scopes) > 1:
                yield (
                    layer,
                    StructureError(
                        "smooth",
                        layer.label,
                        f"its inputs have the scopes {describe(scopes[0])} and {describe(scopes[1])}",
                        "sum only layers over the same variables",
                    ),
                )


def _shared_variables(layer: Layer) -> Scope:
    seen: Scope = frozenset()
    for item in layer.inputs:
        if seen & item.scope:
            return seen & item.scope
        seen |= item.scope
    return frozenset()


def _check_domains(layers: Sequence[Layer]) -> None:
    domains: dict[int, Domain] = {}
    for layer in layers:
        if isinstance(layer, Input):
            for variable, domain in zip(layer.variables, layer.family.domains, strict=True):
                known = domains.setdefault(variable, domain)
                if known != domain:
                    raise StructureError(
                        "well-defined",
                        layer.label,
                        f"variable {variable} has the domains {known.describe()} and {domain.describe()}",
                        "use one domain for all input layers over a variable",
                    )


def _check_roots(roots: Sequence[Layer], root_weights: Parameter | None) -> None:
    scopes = {root.scope for root in roots}
    if len(scopes) > 1:
        raise StructureError(
            "smooth",
            "roots",
            f"root layers have the scopes {', '.join(describe(s) for s in scopes)}",
            "let every root depend on all variables",
        )
    units = sum(root.units for root in roots)
    if root_weights is not None and not isinstance(root_weights, Parameter):
        raise ParameterError(
            f"root_weights must be a Parameter, got {type(root_weights).__name__}"
            ". Fix: pass sq.Parameter((R,), 'simplex')."
        )
    if root_weights is not None and (
        root_weights.constraint is not Constraint.SIMPLEX or root_weights.shape != (units,)
    ):
        raise ParameterError(
            f"root_weights must be a simplex parameter of shape ({units},), "
            f"got {root_weights.constraint} of shape {root_weights.shape}"
            ". Fix: pass such a parameter."
        )
