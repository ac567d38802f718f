"""The errors of squircuit: each says what is wrong, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import numpy as np


class SquircuitError(Exception):
    """Base class of every error that squircuit raises on purpose."""


class StructureError(SquircuitError, ValueError):
    """A region graph or circuit lacks a property that the requested operation needs.

    Args:
        property: name of the property that is missing, e.g. ``"decomposable"``.
        where: the region, layer or parameter at fault.
        reason: what is wrong there, with the values seen.
        fix: what the user can do.

    Example:
        >>> raise StructureError("decomposable", "kronecker3", "inputs share {2}", "split them")
        Traceback (most recent call last):
        squircuit.errors.StructureError: not decomposable at kronecker3: inputs share {2}. Fix: split them.
    """

    def __init__(self, property: str, where: str, reason: str, fix: str) -> None:
        self.property, self.where, self.reason, self.fix = property, where, reason, fix
        super().__init__(f"not {property} at {where}: {reason}. Fix: {fix}.")


class ParameterError(SquircuitError, ValueError):
    """A weight or an argument has the wrong shape, type or value."""


class DataError(SquircuitError, ValueError):
    """Data of the wrong shape or type, or a value outside its variable's domain."""


class FormatError(SquircuitError, ValueError):
    """A file or a JSON document does not hold a valid object of squircuit, or cannot hold one."""


def require_unmasked(values: object) -> None:
    """Refuse NumPy's masked arrays: what reads their numbers does not see what is masked.

    Example:
        >>> require_unmasked(np.ma.masked_array([[0.5, 1.0]], mask=[[True, False]]))
        Traceback (most recent call last):
        squircuit.errors.DataError: a masked array with masked entries. Fix: ...
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        raise DataError(
            "a masked array with masked entries. Fix: pass x.astype(float).filled(numpy.nan), NaN being "
            "missing; or, to a question, x.data and missing=numpy.ma.getmaskarray(x)."
        )


def suggestion(name: object, known: Iterable[str], *, all_known: bool = True) -> str:
    """What follows "Fix:" where a name is not known: the one that was meant, if any is near, and all others.

    Example:
        >>> suggestion("MINST", ["mnist", "digits"])
        "did you mean 'mnist'? Known are mnist, digits."
        >>> suggestion("people.csv", ["mnist", "digits"])
        'pass one of mnist, digits.'
        >>> suggestion("hight", ["height", "age"], all_known=False)
        "did you mean 'height'?"
    """
    names = list(known)
    plain = {entry.lower(): entry for entry in reversed(names)}
    near = get_close_matches(str(name).lower(), plain, n=1)
    if not near:
        return f"pass one of {', '.join(names)}."
    meant = f"did you mean {plain[near[0]]!r}?"
    return f"{meant} Known are {', '.join(names)}." if all_known else meant
