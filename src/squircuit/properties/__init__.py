"""Is it smooth, decomposable, orthogonal, unitary …? Each check returns a Verdict with reason and place."""

from squircuit.properties.basis import is_basis_decomposable, is_regular_orthogonal
from squircuit.properties.check import Report, check
from squircuit.properties.determinism import is_deterministic
from squircuit.properties.orthogonality import is_orthogonal
from squircuit.properties.structure import (
    are_compatible,
    is_decomposable,
    is_smooth,
    is_structured_decomposable,
)
from squircuit.properties.unitary import is_unitary, satisfies_u1, satisfies_u2, satisfies_u3, satisfies_u4
from squircuit.properties.verdict import Verdict, require

__all__ = [
    "Report",
    "Verdict",
    "are_compatible",
    "check",
    "is_basis_decomposable",
    "is_decomposable",
    "is_deterministic",
    "is_orthogonal",
    "is_regular_orthogonal",
    "is_smooth",
    "is_structured_decomposable",
    "is_unitary",
    "require",
    "satisfies_u1",
    "satisfies_u2",
    "satisfies_u3",
    "satisfies_u4",
]
