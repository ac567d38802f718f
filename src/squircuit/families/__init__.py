"""Families of input functions of one variable, and of several.

Orthonormal: :class:`Categorical` for discrete variables; :class:`Fourier` and :class:`Legendre` on an
interval; :class:`Hermite` on the line; :class:`Laguerre` on a half-line; :class:`Orthonormalised` for any
other, such as :class:`BSpline`; :class:`Bins` for spikes; :class:`Transformed` for any of them after a
:class:`Monotone` map that is fitted to data. Not orthonormal, the baseline: :class:`Gaussian`.
:class:`Conjugated` and :class:`Product` arise in the algebra of circuits, :class:`Concatenated` where queries
join layers.

Of several variables at once, a *block*: :class:`MultivariateGaussian`, and :class:`OrthonormalisedBlock`.
"""

from __future__ import annotations

from squircuit.errors import warn_former
from squircuit.families.base import Family, InputFunctions, Values
from squircuit.families.bins import Bins
from squircuit.families.block import BlockFamily
from squircuit.families.bspline import BSpline
from squircuit.families.categorical import Categorical
from squircuit.families.derived import Concatenated, Conjugated, Product
from squircuit.families.domain import Domain, Finite, HalfLine, Interval, Line
from squircuit.families.fourier import Fourier
from squircuit.families.gaussian import Gaussian
from squircuit.families.hermite import Hermite
from squircuit.families.laguerre import Laguerre
from squircuit.families.legendre import Legendre
from squircuit.families.monotone import Monotone
from squircuit.families.multivariate_gaussian import MultivariateGaussian
from squircuit.families.orthonormalised import Orthonormalised, OrthonormalisedBlock
from squircuit.families.serialise import FAMILIES, family_from_dict, family_to_dict
from squircuit.families.transformed import Transformed

__all__ = [
    "BSpline",
    "Bins",
    "BlockFamily",
    "Categorical",
    "Conjugated",
    "Domain",
    "FAMILIES",
    "Family",
    "Finite",
    "Fourier",
    "Gaussian",
    "HalfLine",
    "Hermite",
    "InputFunctions",
    "Interval",
    "Laguerre",
    "Legendre",
    "Line",
    "Monotone",
    "MultivariateGaussian",
    "Orthonormalised",
    "OrthonormalisedBlock",
    "Product",
    "Concatenated",
    "Transformed",
    "Values",
    "family_from_dict",
    "family_to_dict",
]


def __getattr__(name: str) -> type[Family]:
    """The class under the name that it had before."""
    if name != "Together":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_former("families.Together", "families.Concatenated")
    return Concatenated
