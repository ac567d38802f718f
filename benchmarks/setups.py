"""What is measured: one of the paper's models, a batch, and where and how the step runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

import squircuit as sq

KINDS = ("unitary-kronecker", "unitary-hadamard", "squared-kronecker", "squared-hadamard")


@dataclass(frozen=True)
class Setup:
    """One model and one way to run its training step.

    ``inputs`` are ``"learnt"`` in the paper's experiments on 28×28 images (an input layer is a K×256 complex
    matrix) and ``"fixed"`` in its table of times for 32×32 ones, whose figures count no input weights but a
    K×K sum on every input layer: there an input layer is K fixed orthonormal functions. ``parts`` are those
    that a block of the quad-tree is merged of: 4 as in the paper, or 2. With ``columns`` the data is a table
    of so many, every other one continuous, and the model that of ``sq.table_model``.
    """

    kind: str = "unitary-kronecker"
    units: int = 8
    batch: int = 256
    side: int = 28
    inputs: str = "learnt"
    parts: Literal[2, 4] = 4
    columns: int = 0
    device: str = "cpu"
    tf32: bool = False
    graph: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r}: choose one of {', '.join(KINDS)}")
        if self.inputs not in ("learnt", "fixed"):
            raise ValueError(f"unknown inputs {self.inputs!r}: choose learnt or fixed")

    @property
    def is_unitary(self) -> bool:
        """Semi-unitary weights, so that Z = 1 is not computed; otherwise log Z is part of every step."""
        return self.kind.startswith("unitary")

    @property
    def product(self) -> str:
        return self.kind.split("-")[1]

    @property
    def levels(self) -> int:
        """How many values a variable has."""
        return 256 if self.inputs == "learnt" else self.units

    def circuit(self) -> sq.Circuit:
        """The model as pure structure, without weights: every peer builds its own from it."""
        if self.columns:
            table = sq.data.table(self.table())
            return sq.table_model(table, self.units, product=self.product).structure  # type: ignore[arg-type]
        learnt = self.inputs == "learnt"
        return sq.build(
            sq.regions.quad_tree((self.side, self.side), self.parts),
            sq.Categorical(self.levels),
            self.units,
            self.product,  # type: ignore[arg-type]
            unitary=self.is_unitary,
            mixing=learnt,
            input_sums=not learnt,
        )

    def data(self) -> Tensor:
        """A batch of seeded noise, or of the table: (B, d)."""
        if self.columns:
            return torch.from_numpy(sq.data.table(self.table()).rows[: self.batch]).to(self.device)
        generator = torch.Generator().manual_seed(0)
        return torch.randint(self.levels, (self.batch, self.side**2), generator=generator).to(self.device)

    def table(self) -> dict[str, Any]:
        """Columns that three normal numbers explain, plus noise; every other one is cut into six classes."""
        draw = np.random.default_rng(0)
        x = draw.normal(size=(5000, 3)) @ draw.normal(size=(3, self.columns))
        x += draw.normal(size=x.shape) / 2
        classes = np.digitize(x, [-2, -1, 0, 1, 2]).astype(str)
        return {f"x{i}": x[:, i] if i % 2 else classes[:, i] for i in range(self.columns)}

    def describe(self) -> str:
        if self.columns:
            return f"{self.kind} K={self.units}, a table of {self.columns} columns, batch {self.batch}"
        image = f"{self.side}×{self.side}" + (" fixed inputs" if self.inputs == "fixed" else "")
        image += " in halves" if self.parts == 2 else ""
        return f"{self.kind} K={self.units}, {image}, batch {self.batch}"

    def with_(self, **changes: Any) -> Setup:
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def suite(name: str) -> list[Setup]:
    """The models of one table; an unknown name lists the known ones."""
    kronecker = [Setup(units=units) for units in (4, 8, 12, 16)]
    hadamard = [Setup("unitary-hadamard", units) for units in (64, 256)]  # no more than grey levels
    squared = [Setup("squared-hadamard", units) for units in (64, 256, 512)]
    squared_kronecker = [Setup("squared-kronecker", units) for units in (4, 8, 16)]
    small = [Setup(units=4, batch=64), Setup(units=8, batch=64), Setup("squared-hadamard", 16, batch=64)]
    table = [Setup(kind, units) for kind, units in _TABLE]
    suites = {
        "gpu": kronecker + hadamard + squared + squared_kronecker,
        "cpu": small,
        "table": [Setup(columns=columns) for columns in (10, 20, 30)],
        "kronecker": kronecker,
        "halves": [Setup(units=units, parts=2) for units in (32, 64)],
        "hadamard": hadamard,
        "squared": squared,
        "squared-kronecker": squared_kronecker,
        "32": [setup.with_(side=32, inputs="fixed") for setup in table],
    }
    if name not in suites:
        raise ValueError(f"unknown suite {name!r}: choose one of {', '.join(suites)}")
    return suites[name]


_TABLE = [
    *(("squared-hadamard", units) for units in (8, 64, 256, 512)),
    *(("unitary-hadamard", units) for units in (8, 64, 256, 512)),
    *((f"{form}-kronecker", units) for form in ("squared", "unitary") for units in (8, 16)),
]
