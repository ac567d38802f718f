"""Arguments of layers: each is checked, and made into what the layer holds; errors name the layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from torch import Tensor

from squircuit.circuits.parameter import Constraint, Parameter, as_tensor
from squircuit.errors import ParameterError, StructureError, is_whole
from squircuit.families import InputFunctions

Weight: TypeAlias = Parameter | Tensor | None


def as_variables(value: Any) -> tuple[int, ...]:
    """One variable, or those of a block, which are distinct."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return (_as_variable(value),)
    variables = tuple(_as_variable(item) for item in value)
    if not variables or len(set(variables)) < len(variables):
        raise ParameterError(
            f"input layer: the variables of a block are distinct, got {value!r}. Fix: name each once."
        )
    return variables


def _as_variable(value: Any) -> int:
    """A whole number ≥ 0, also one of numpy's."""
    if not is_whole(value, 0):
        raise ParameterError(
            f"input layer: variable must be an integer from 0, got {value!r}"
            ". Fix: pass the number of a column."
        )
    return int(value)


def over(variables: tuple[int, ...]) -> str:
    """How messages speak of an input layer that is being made."""
    if len(variables) == 1:
        return f"input layer over variable {variables[0]}"
    return f"input layer over variables {', '.join(map(str, variables))}"


def as_count(value: Any, what: str) -> int:
    """A whole number ≥ 1, also one of numpy's."""
    if not is_whole(value, 1):
        raise ParameterError(
            f"{what} must be ≥ 1 and a whole number, got {value!r}. Fix: pass a whole number from 1."
        )
    return int(value)


def check_family(where: str, variables: tuple[int, ...], family: Any) -> None:
    """Refuse what is no family of functions of so many variables."""
    if not isinstance(family, InputFunctions):
        raise ParameterError(
            f"{where}: {family!r} is not a family of functions. Fix: pass one, such as sq.Categorical(4)."
        )
    if len(variables) != family.dimension:
        name = type(family).__name__
        raise ParameterError(
            f"{where}: {name} has functions of {family.dimension} variable{'s' * (family.dimension > 1)}"
            f". Fix: pass {family.dimension} of them, or a family of {len(variables)}."
        )


def family_parameters(
    family: InputFunctions, given: Mapping[str, Parameter | Tensor]
) -> Mapping[str, Parameter]:
    """The learnable parameters of a family, given or new, by their names there."""
    initial = family.parameters()
    unknown = set(given) - set(initial)
    if unknown:
        raise ParameterError(
            f"{type(family).__name__} has parameters {sorted(initial)}, not {sorted(unknown)}"
            ". Fix: use the names that it has."
        )
    made = {
        name: _as_parameter(given[name])
        if name in given
        else Parameter(tuple(value.shape), Constraint.FREE, is_complex=False, value=value)
        for name, value in initial.items()
    }
    return MappingProxyType(made)


def input_weight(where: str, family: InputFunctions, units: int | None, weight: Weight) -> Parameter | None:
    """The weight of an input layer, given or new; None of a layer of bare functions."""
    if weight is not None:
        return _as_matrix(weight, where, "(units, functions)")
    if units is None:
        return None
    if not family.is_orthonormal:
        return Parameter((units, family.size), Constraint.FREE)
    if units > family.size:
        raise StructureError(
            "orthonormal (U1)",
            where,
            f"{units} orthonormal functions do not fit in a basis of {family.size}",
            f"use units ≤ {family.size}, or a larger family",
        )
    return Parameter((units, family.size))


def sum_weight(where: str, input_units: int, units: int | None, weight: Weight) -> Parameter:
    """The weight of a sum layer, given or new."""
    if weight is not None:
        parameter = _as_matrix(weight, where, "(units, inputs)")
        if units is not None and units != parameter.shape[0]:
            raise ParameterError(
                f"{where}: units={units}, but its weight has {parameter.shape[0]} rows"
                ". Fix: leave units out, or pass as many as there are rows."
            )
        return parameter
    units = 1 if units is None else units
    if units > input_units:
        raise StructureError(
            "semi-unitary (U3)",
            where,
            f"{units} units cannot have orthonormal rows over {input_units} inputs",
            f"use units ≤ {input_units}, or weight=Parameter(…, constraint='free')",
        )
    return Parameter((units, input_units))


def _as_matrix(weight: Any, where: str, wanted: str) -> Parameter:
    parameter = _as_parameter(weight)
    if len(parameter.shape) != 2:
        raise ParameterError(
            f"{where}: weight must be a matrix, got shape {parameter.shape}. Fix: pass one of shape {wanted}."
        )
    return parameter


def _as_parameter(weight: Any) -> Parameter:
    """A plain tensor or array becomes a free parameter with that value."""
    if isinstance(weight, Parameter):
        return weight
    weight = as_tensor(weight, "a weight")
    return Parameter(tuple(weight.shape), Constraint.FREE, is_complex=weight.is_complex(), value=weight)
