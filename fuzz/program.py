"""Programs that are run while they are written: what failed can be shown as plain Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

import squircuit as sq

HEAD = ("import copy, tempfile", "import squircuit as sq", "import torch")
ALIAS = re.compile(r"(a\d+) = (a\d+)$")


class Program:
    """Lines of Python, run one by one.

    Args:
        lines: to begin with, which are run at once.
    """

    def __init__(self, lines: Sequence[str] = ()) -> None:
        import copy
        import tempfile

        self.names: dict[str, Any] = {"sq": sq, "torch": torch, "copy": copy, "tempfile": tempfile}
        self.lines: list[str] = []
        self._count = 0
        for line in lines:
            self.do(line)

    def do(self, line: str) -> None:
        """Run a statement and keep it."""
        self.lines.append(line)
        exec(compile(line, "<program>", "exec"), self.names)

    def let(self, prefix: str, expression: str) -> str:
        """Give a value a new name."""
        name = f"{prefix}{self._count}"
        self._count += 1
        self.do(f"{name} = {expression}")
        return name

    def ask(self, expression: str) -> Any:
        """The value of an expression; nothing is kept."""
        return eval(compile(expression, "<program>", "eval"), self.names)


def listing(lines: Sequence[str]) -> str:
    """A program as text, with its imports; names that only stand for others are replaced by them."""
    aliases: dict[str, str] = {}
    kept = []
    for line in lines:
        for old, new in aliases.items():
            line = re.sub(rf"\b{old}\b", new, line)
        found = ALIAS.match(line)
        if found:
            aliases[found.group(1)] = found.group(2)
        else:
            kept.append(line)
    return "\n".join([*HEAD, *kept])


def tensor(values: Any, dtype: str | None = None) -> str:
    """An array as Python text, exactly."""
    array = np.asarray(values)
    if dtype is None:
        kinds = {"c": "complex128", "f": "float64", "i": "int64", "b": "bool"}
        dtype = kinds[array.dtype.kind]
    shape = "" if array.size else f".reshape{array.shape}"
    text = repr(array.tolist()).replace("nan", "float('nan')").replace("inf", "float('inf')")
    return f"torch.tensor({text}, dtype=torch.{dtype}){shape}"
