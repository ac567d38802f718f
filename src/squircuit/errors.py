"""The errors of squircuit: each says what is wrong, where, and what to do about it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral
from typing import Any, Self, TypeGuard, final

import numpy as np


@final
@dataclass(frozen=True)
class Wording:
    """A text that Python and the shell spell differently, because their arguments look different.

    Args:
        python: as it is said to those who call functions.
        shell: as it is said to those who type commands.

    Example:
        >>> fix = "leave it out, " + Wording("columns={'id': 'drop'}", "--columns id=drop")
        >>> str(fix), fix.shell
        ("leave it out, columns={'id': 'drop'}", 'leave it out, --columns id=drop')
    """

    python: str
    shell: str

    def __add__(self, other: str | Wording) -> Wording:
        return Wording(self.python + str(other), self.shell + in_shell(other))

    def __radd__(self, other: str) -> Wording:
        return Wording(other + self.python, other + self.shell)

    def __str__(self) -> str:
        return self.python


def in_shell(said: object) -> str:
    """An error, a warning or a text in the words of the shell, where it has some, else as Python says it."""
    found = getattr(said, "shell", said)
    return str(found)


class SquircuitError(Exception):
    """Base class of every error that squircuit raises on purpose: what is wrong, where, and the fix, as data.

    Args:
        what: what is wrong; or the whole message, "… Fix: ….", which is then taken apart.
        where: the place: a file and its line, an argument.
        value: that is at fault.
        fix: what the user can do.

    Example:
        >>> error = SquircuitError("no such column", where="people.csv", value="aeg", fix="check its name")
        >>> print(error)
        people.csv: no such column. Fix: check its name.
        >>> SquircuitError("units=0 is too small. Fix: pass 1.").fix
        'pass 1'
        >>> print(error.at("valid"))
        valid: people.csv: no such column. Fix: check its name.
    """

    what: str
    where: str | Wording
    value: object
    fix: str | Wording

    def __init__(
        self, what: str, *, where: str | Wording = "", value: object = None, fix: str | Wording = ""
    ) -> None:
        self.where, self.value, self.what, self.fix = where, value, what, fix
        if not fix:  # all in one text
            self.what, _, self.fix = (part.removesuffix(".") for part in what.partition(" Fix: "))
        super().__init__(self._said(str) if fix else f"{where}: {what}" if where else what)

    def __str__(self) -> str:  # that of ImportError looks elsewhere
        return str(self.args[0])

    @property
    def shell(self) -> str:
        """The message in the words of the shell."""
        has_words = isinstance(self.fix, Wording) or isinstance(self.where, Wording)
        return self._said(in_shell) if has_words else str(self)

    def at(self, where: str) -> Self:
        """The same error with the place around its place."""
        made = copy(self)
        made.where = f"{where}: " + self.where if self.where else where
        made.args = (f"{where}: {self}",)
        return made

    def _said(self, spelled: Callable[[object], str]) -> str:
        place = f"{spelled(self.where)}: " if self.where else ""
        return f"{place}{_ended(self.what)} Fix: {_ended(spelled(self.fix))}"


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


class SquircuitWarning(UserWarning):
    """What a user should look at, though work goes on.

    Args:
        said: for Python and, where it differs, for the shell.
    """

    def __init__(self, said: str | Wording) -> None:
        super().__init__(str(said))
        self.shell = in_shell(said)


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
        super().__init__(f"not {property} at {where}: {reason}. Fix: {fix}.")
        self.property, self.where, self.reason, self.fix = property, where, reason, fix

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.property, self.where, self.reason, self.fix)


class ParameterError(SquircuitError, ValueError):
    """A weight or an argument has the wrong shape, type or value."""


class DataError(SquircuitError, ValueError):
    """Data of the wrong shape or type, or a value outside its variable's domain."""


class FormatError(SquircuitError, ValueError):
    """A file or a JSON document does not hold a valid object of squircuit, or cannot hold one."""


class ProcessError(SquircuitError, RuntimeError):
    """Another of the processes that train one model together has ended, or failed."""


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


def warn_former(former: str, present: str, above: int = 0) -> None:
    """Warn those who use a name of before; called by what still answers to it.

    Args:
        former, present: the names.
        above: calls between that and the user's own.
    """
    warnings.warn(f"{former} is now {present}. Fix: use that.", DeprecationWarning, stacklevel=3 + above)


def is_whole(value: object, least: float = -math.inf, most: float = math.inf) -> TypeGuard[int]:
    """Whether a value is an integer, NumPy's too, in a range; True and False are none.

    Example:
        >>> is_whole(3, least=1), is_whole(0, least=1), is_whole(2.0), is_whole(True)
        (True, False, False, False)
    """
    return type(value) is not bool and isinstance(value, Integral) and least <= int(value) <= most
