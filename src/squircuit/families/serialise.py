"""Families as plain JSON data and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from squircuit.errors import FormatError, ParameterError
from squircuit.families.base import Family
from squircuit.families.bspline import BSpline
from squircuit.families.categorical import Categorical
from squircuit.families.conjugated import Conjugated
from squircuit.families.fourier import Fourier
from squircuit.families.gaussian import Gaussian
from squircuit.families.hermite import Hermite
from squircuit.families.laguerre import Laguerre
from squircuit.families.legendre import Legendre
from squircuit.families.orthonormalised import Orthonormalised
from squircuit.families.product import Product
from squircuit.families.together import Together

FAMILIES: tuple[type[Family], ...] = (
    BSpline,
    Categorical,
    Conjugated,
    Fourier,
    Gaussian,
    Hermite,
    Laguerre,
    Legendre,
    Orthonormalised,
    Product,
    Together,
)


def family_to_dict(family: Family) -> dict[str, Any]:
    """The family as JSON types: its class name under ``"family"``, and its fields.

    Example:
        >>> family_to_dict(Hermite(4, loc=1.0))
        {'family': 'Hermite', 'size': 4, 'loc': 1.0, 'scale': 1.0, 'learnable': False}
    """
    _require_own(family)
    content = {name: _plain(getattr(family, name)) for name in _names(family)}
    return {"family": type(family).__name__} | content


def family_from_dict(data: Mapping[str, Any]) -> Family:
    """The family that :func:`family_to_dict` wrote; FormatError with the reason if there is none.

    Example:
        >>> family_from_dict({"family": "Legendre", "size": 3, "low": 0, "high": 1})
        Legendre(size=3, low=0.0, high=1.0)
    """
    if not isinstance(data, Mapping):
        raise FormatError(f'{data!r} is not a family. Fix: give {{"family": "Categorical", "size": 2}}.')
    kind = _kind(data.get("family"))
    given = {name: value for name, value in data.items() if name != "family"}
    _require_fields(kind, given)
    try:
        return kind(**{name: _parsed(value) for name, value in given.items()})
    except ParameterError as error:
        raise FormatError(f"not a valid family: {error}") from error


def _require_own(family: Family) -> None:
    if type(family) not in FAMILIES:
        raise FormatError(
            f"{type(family).__name__} is not a family of squircuit, so nothing could read it back. Fix: keep "
            "model.state_dict() and build the circuit again in your own program, or use one of "
            f"{', '.join(kind.__name__ for kind in FAMILIES)}."
        )


def _names(kind: Family | type[Family]) -> list[str]:
    return [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every concrete family is a dataclass


def _kind(name: object) -> type[Family]:
    kinds = {kind.__name__: kind for kind in FAMILIES}
    if isinstance(name, str) and name in kinds:
        return kinds[name]
    nearest = get_close_matches(str(name), kinds, n=1, cutoff=0.0)[0]
    raise FormatError(f"unknown family {name!r}. Fix: did you mean {nearest!r}? Known: {', '.join(kinds)}.")


def _require_fields(kind: type[Family], given: Mapping[str, Any]) -> None:
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
    if isinstance(value, Family):
        return family_to_dict(value)
    return list(value) if isinstance(value, tuple) else value


def _parsed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return family_from_dict(value)
    return tuple(value) if isinstance(value, list) else value
