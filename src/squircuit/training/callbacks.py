"""Functions that are called while something is learnt: they see how far it is, and may stop it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from torch import Tensor

from squircuit.errors import ParameterError
from squircuit.storage.words import printable


@final
@dataclass(frozen=True)
class Event:
    """Something is done.

    Args:
        what: of `sq.fit`: "start", "step", "epoch" or "stop"; other work has other words, such as "member".
        done: how many of these, this one included; of "start" and "stop": steps.
        total: how many there will be at most; None: not known.
        seconds: since the work began, those before it was resumed included.
        scores: what is known by now, by name; of an epoch: "train", "valid", "best", "log_z", "lr", in the
            unit of the history.
        note: in words, where there is something to say; of "stop": how it ended, empty after an error.

    Example:
        >>> event = Event("epoch", 3, 20, 1.5, {"train": 2.25, "valid": 2.5})
        >>> print(event)
        epoch 3/20: train 2.2500, valid 2.5000 (2 s)
    """

    what: str
    done: int
    total: int | None
    seconds: float
    scores: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    def __str__(self) -> str:
        place = f"{self.what} {self.done}" + ("" if self.total is None else f"/{self.total}")
        words = [f"{name} {value:.4f}" for name, value in self.scores.items()]
        said = ", ".join(words + [self.note] * bool(self.note))
        return f"{place}{': ' * bool(said)}{said} ({self.seconds:.0f} s)"


class StopTraining(Exception):  # noqa: N818  (no error, as StopIteration is none)
    """Raised by a callback to end training; the message says why, and is part of `history.stopped`."""


class Callback:
    """What is called while something is learnt; a plain function is one that is called after every epoch.

    A subclass defines what it needs. Returning True from `__call__`, or raising `StopTraining` there, ends
    the work with the best weights. Any other exception ends it, too, and is passed on.

    Attributes:
        asks_model: `__call__` may ask the model, which then has the weights that are validated, in evaluation
            mode; False spares the copies of the weights that this takes.

    Example:
        >>> class Slowest(Callback):
        ...     last = longest = 0.0
        ...     def __call__(self, event):
        ...         self.longest = max(self.longest, event.seconds - self.last)
        ...         self.last = event.seconds
        >>> slowest = Slowest()
        >>> slowest(Event("epoch", 1, 2, 0.5)), slowest(Event("epoch", 2, 2, 2.0)), slowest.longest
        (None, None, 1.5)
    """

    asks_model: bool = True

    def start(self, event: Event) -> None:
        """The work begins, or goes on."""

    def step(self, event: Event) -> None:
        """A step is done, or some; ``scores["train"]`` is the mean of its epoch so far."""

    def __call__(self, event: Event) -> object:
        """An epoch, or another part of the work that `event.what` names, is done."""

    def stop(self, event: Event) -> None:
        """The work has ended."""


@final
class _Function(Callback):
    """A function that is called after every epoch."""

    def __init__(self, function: Callable[[Event], object]) -> None:
        self._function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, event: Event) -> object:
        return self._function(event)


def as_callbacks(given: Any) -> list[Callback]:
    """Functions and callbacks, checked.

    Example:
        >>> as_callbacks(print)
        Traceback (most recent call last):
        squircuit.errors.ParameterError: callbacks=<built-in function print>. Fix: pass a list, callbacks=[…].
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ParameterError(f"callbacks={given!r}. Fix: pass a list, callbacks=[…].")
    made = []
    for each in given:
        if isinstance(each, type) or not callable(each):
            raise ParameterError(f"callbacks: {each!r} cannot be called. Fix: pass functions of an event.")
        made.append(each if isinstance(each, Callback) else _Function(each))
    return made


def tell(callbacks: Iterable[Callback], event: Event) -> str | None:
    """Call all after a part of the work; the first that wants to stop, in words, or None."""
    wishes = [_wish(callback, event) for callback in callbacks]  # all are called, also after one that stops
    return next((wish for wish in wishes if wish is not None), None)


def _wish(callback: Callback, event: Event) -> str | None:
    try:
        answer = callback(event)
    except StopTraining as error:
        return printable(str(error), 200) or _name(callback)
    return _name(callback) if _is_true(answer) else None


def _is_true(answer: object) -> bool:
    """True of Python, NumPy or torch; other values mean nothing."""
    if isinstance(answer, Tensor | np.ndarray):
        return answer.ndim == 0 and str(answer.dtype).endswith("bool") and bool(answer)
    return isinstance(answer, bool | np.bool_) and bool(answer)


def _name(callback: Callback) -> str:
    return printable(getattr(callback, "__name__", type(callback).__name__), 200)
