"""All properties of a circuit in one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from squircuit.circuits import Circuit
from squircuit.circuits.circuit import require_circuit
from squircuit.circuits.summary import table
from squircuit.properties.basis import is_basis_decomposable, is_regular_orthogonal
from squircuit.properties.determinism import is_deterministic
from squircuit.properties.orthogonality import is_orthogonal
from squircuit.properties.structure import is_decomposable, is_smooth, is_structured_decomposable
from squircuit.properties.unitary import is_unitary, satisfies_u1, satisfies_u2, satisfies_u3, satisfies_u4
from squircuit.properties.verdict import Verdict

CHECKS = (
    is_smooth,
    is_decomposable,
    is_structured_decomposable,
    is_deterministic,
    is_basis_decomposable,
    is_regular_orthogonal,
    is_orthogonal,
    satisfies_u1,
    satisfies_u2,
    satisfies_u3,
    satisfies_u4,
    is_unitary,
)


@final
@dataclass(frozen=True)
class Report:
    """The verdicts of :func:`check`; prints as a table."""

    verdicts: tuple[Verdict, ...]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def __getitem__(self, name: str) -> Verdict:
        return {verdict.name: verdict for verdict in self.verdicts}[name]

    def __str__(self) -> str:
        rows = [(v.mark, v.name, str(v).split(": ", 1)[1]) for v in self.verdicts]
        return table(("", "property", "reason"), rows, right=set())


def check(circuit: Circuit) -> Report:
    """Every property of the paper, with ✓, ✗ or ? (not decided), the reason and the place.

    >>> import torch
    >>> from squircuit.circuits import Circuit, Input, Sum
    >>> from squircuit.families import Categorical
    >>> circuit = Circuit(Sum(Input(0, Categorical(2)), weight=torch.tensor([[0.6, 0.9]])))
    >>> print(check(circuit)["U3"])
    ✗ U3: W Wᴴ differs from I by 0.17 (sum1 over {0})
    """
    require_circuit("check", circuit)
    return Report(tuple(test(circuit) for test in CHECKS))
