"""The answer of a property check: holds, fails or not decided; why; and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from squircuit.errors import StructureError


@final
@dataclass(frozen=True)
class Verdict:
    """Whether a circuit has a property.

    Truthy when it holds. A verdict that is not decided is falsy and says so: ``holds`` is None.

    Args:
        name: of the property, e.g. ``"structured-decomposable"``.
        holds: True, False, or None where deciding is out of reach (deciding orthogonality or
            determinism is #P-hard in general).
        reason: why.
        where: the layer at fault.

    Example:
        >>> verdict = Verdict("smooth", False, "inputs have different scopes", "sum3 over {0,1}")
        >>> bool(verdict), str(verdict)
        (False, '✗ smooth: inputs have different scopes (sum3 over {0,1})')
    """

    name: str
    holds: bool | None
    reason: str = ""
    where: str = ""

    def __bool__(self) -> bool:
        return self.holds is True

    @property
    def mark(self) -> str:
        """✓, ✗ or ?"""
        return "?" if self.holds is None else "✓" if self.holds else "✗"

    def __str__(self) -> str:
        answer = "not decided: " if self.holds is None else ""
        place = f" ({self.where})" if self.where else ""
        return f"{self.mark} {self.name}: {answer}{self.reason}{place}"


def require(verdict: Verdict, fix: str) -> None:
    """Raise a :class:`~squircuit.errors.StructureError` unless the verdict holds."""
    if not verdict:
        answer = "not decided, " if verdict.holds is None else ""
        raise StructureError(verdict.name, verdict.where or "circuit", answer + verdict.reason, fix)
