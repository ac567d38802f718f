"""The models that a page offers, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from squircuit.errors import ParameterError, suggestion
from squircuit.explore.exhibit import Exhibit
from squircuit.explore.fields import Question, text
from squircuit.storage.words import quoted


@final
class Shelf:
    """Models by name, each made when it is first asked for, and kept.

    Args:
        makers: name → what makes it; a long one tells how far it is, see :mod:`squircuit.progress`.
    """

    def __init__(self, makers: Mapping[str, Callable[[], Exhibit]]) -> None:
        self._makers, self._made = makers, dict[str, Exhibit]()

    @classmethod
    def of(cls, exhibit: Exhibit) -> Shelf:
        """With one model."""
        return cls({exhibit.name: lambda: exhibit})

    @property
    def names(self) -> list[str]:
        return list(self._makers)

    def chosen(self, question: Question) -> Exhibit:
        """The model that a question names, or the first one. It is called by one thread at a time."""
        name = text(question, "model") if "model" in question else self.names[0]
        if name not in self._makers:
            fix = suggestion(name, self.names).removesuffix(".")
            raise ParameterError(f"there is no model {quoted(name)} here", where="model", fix=fix)
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def listed(self) -> dict[str, Any]:
        """The names, as the page wants them."""
        return {"names": self.names}
