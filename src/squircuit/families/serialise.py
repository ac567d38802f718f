"""Families as plain JSON data and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar

from squircuit.errors import FormatError, ParameterError
from squircuit.families.base import InputFunctions
from squircuit.families.bins import Bins
from squircuit.families.bspline import BSpline
from squircuit.families.categorical import Categorical
from squircuit.families.derived import Concatenated, Conjugated, Product
from squircuit.families.fourier import Fourier
from squircuit.families.gaussian import Gaussian
from squircuit.families.hermite import Hermite
from squircuit.families.laguerre import Laguerre
from squircuit.families.legendre import Legendre
from squircuit.families.monotone import Monotone
from squircuit.families.multivariate_gaussian import MultivariateGaussian
from squircuit.families.orthonormalised import Orthonormalised, OrthonormalisedBlock
from squircuit.families.transformed import Transformed
from squircuit.storage.words import one_line, quoted

T = TypeVar("T")
MOST_NESTED = 32
"""Families within families, such as products of products."""
MOST_FUNCTIONS = 2**24
MOST_MIXED = 2**12
"""Functions that are made orthonormal, which takes a matrix of their inner products."""

FAMILIES: tuple[type[InputFunctions], ...] = (
    BSpline,
    Bins,
    Categorical,
    Conjugated,
    Fourier,
    Gaussian,
    Hermite,
    Laguerre,
    Legendre,
    MultivariateGaussian,
    Orthonormalised,
    OrthonormalisedBlock,
    Product,
    Concatenated,
    Transformed,
)

NAMES_OF_BEFORE: dict[str, type[InputFunctions]] = {"Together": Concatenated}
"""Names in files that were written when a class was called otherwise."""
MIXED = (Orthonormalised.__name__, OrthonormalisedBlock.__name__)


def family_to_dict(family: InputFunctions) -> dict[str, Any]:
    """The family as JSON types: its class name under ``"family"``, and its fields.

    Example:
        >>> family_to_dict(Hermite(4, loc=1.0))
        {'family': 'Hermite', 'size': 4, 'loc': 1.0, 'scale': 1.0, 'learnable': False}
    """
    _require_own(family)
    _require_size(type(family).__name__, family.size)
    content = {name: _plain(getattr(family, name)) for name in _names(family)}
    return {"family": type(family).__name__} | content


def family_from_dict(data: Mapping[str, Any]) -> InputFunctions:
    """The family that :func:`family_to_dict` wrote; FormatError with the reason if there is none.

    Example:
        >>> family_from_dict({"family": "Legendre", "size": 3, "low": 0, "high": 1})
        Legendre(size=3, low=0.0, high=1.0)
    """
    return _from_dict(data, 0)


def _from_dict(data: Any, depth: int) -> InputFunctions:
    if not isinstance(data, Mapping):
        raise FormatError(
            f'{quoted(data)} is not a family. Fix: give {{"family": "Categorical", "size": 2}}.'
        )
    if depth > MOST_NESTED:
        raise FormatError(f"a family nested {depth} times. Fix: give one nested at most {MOST_NESTED} times.")
    kind = _kind(data.get("family"))
    given = {name: value for name, value in data.items() if name != "family"}
    _require_fields(kind, given)
    fields = {name: _parsed(value, depth) for name, value in given.items()}
    _require_size(kind.__name__, _size(fields))  # before it is made: some compute a matrix of that size
    family = _made(kind, fields)
    _require_size(kind.__name__, family.size)
    return family


def _monotone(data: Mapping[str, Any], depth: int) -> Monotone:
    given = {name: value for name, value in data.items() if name != "map"}
    if data["map"] != Monotone.__name__:
        raise FormatError(f"unknown map {quoted(data['map'])}. Fix: give 'Monotone'.")
    _require_fields(Monotone, given)
    return _made(Monotone, {name: _parsed(value, depth) for name, value in given.items()})


def _made(kind: type[T], fields: Mapping[str, Any]) -> T:
    """The family or map with these fields; a FormatError if there is none."""
    try:
        return kind(**fields)
    except ParameterError as error:
        fix = "" if "Fix: " in str(error) else ". Fix: give the fields of family_to_dict"
        raise FormatError(f"not a valid family: {error}{fix}") from error
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:  # fields of another type
        raise FormatError(
            f"not a valid family: {kind.__name__}: {one_line(error)}. Fix: give the fields of family_to_dict."
        ) from error


def _size(fields: Mapping[str, Any]) -> Any:
    """The number of functions that a family is asked for, its own or its base's."""
    base = fields.get("base")
    return base.size if isinstance(base, InputFunctions) else fields.get("size", 0)


def _require_size(name: str, size: Any) -> None:
    most = MOST_MIXED if name in MIXED else MOST_FUNCTIONS
    if isinstance(size, int | float) and size > most:  # what is no number is refused by the family itself
        raise FormatError(f"{name}: size={quoted(size)} is too large for a file. Fix: give at most {most:,}.")


def _require_own(family: InputFunctions) -> None:
    if type(family) not in FAMILIES:
        raise FormatError(
            f"{type(family).__name__} is not a family of squircuit, so nothing could read it back. Fix: keep "
            "model.state_dict() and build the circuit again in your own program, or use one of "
            f"{', '.join(kind.__name__ for kind in FAMILIES)}."
        )


def _names(kind: object) -> list[str]:
    return [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every concrete family is a dataclass


def _kind(name: object) -> type[InputFunctions]:
    kinds = {kind.__name__: kind for kind in FAMILIES}
    if isinstance(name, str) and name in kinds | NAMES_OF_BEFORE:
        return (kinds | NAMES_OF_BEFORE)[name]
    nearest = get_close_matches(quoted(name), kinds, n=1, cutoff=0.0)[0]
    raise FormatError(
        f"unknown family {quoted(name)}. Fix: did you mean {nearest!r}? Known: {', '.join(kinds)}."
    )


def _require_fields(kind: type, given: Mapping[str, Any]) -> None:
    expected = _names(kind)
    later = {"ordered"}  # than the first files
    missing = [name for name in expected if name not in given and name not in later]
    unknown = [name for name in given if name not in expected]
    if missing or unknown:
        raise FormatError(
            f"{kind.__name__}: missing fields {missing}, unknown fields {unknown}. "
            f"Fix: give exactly {expected}."
        )


def _plain(value: Any) -> Any:
    if isinstance(value, InputFunctions):
        return family_to_dict(value)
    if isinstance(value, Monotone):
        return {"map": "Monotone"} | {name: _plain(getattr(value, name)) for name in _names(value)}
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


def _parsed(value: Any, depth: int) -> Any:
    if depth > MOST_NESTED:
        raise FormatError(f"fields nested {depth} times. Fix: give those of family_to_dict.")
    if isinstance(value, Mapping):
        return _monotone(value, depth + 1) if "map" in value else _from_dict(value, depth + 1)
    return tuple(_parsed(entry, depth + 1) for entry in value) if isinstance(value, list) else value
