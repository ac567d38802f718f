"""Candidates that `learn` tries, and the members that come of them: each is a squared circuit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor

from squircuit.circuits import Circuit, Constraint, Hadamard, Input, Layer, Parameter
from squircuit.data import Rows, Schema, Table
from squircuit.families import Categorical, Monotone, MultivariateGaussian
from squircuit.learning.em import fit_mixture
from squircuit.learning.mixture import MixtureFit
from squircuit.learning.stacking import log_probs
from squircuit.models import SquaredCircuit, table_model
from squircuit.training import fit

REFITS = 10
"""Iterations of EM on all rows, from what was found on some of them."""


class Member(ABC):
    """A density that has learnt from some rows."""

    @abstractmethod
    def log_prob(self, rows: Rows[Any]) -> Tensor:
        """log p of what is known of each row: (n,) float64."""

    @abstractmethod
    def refitted(self, table: Table, weights: Tensor | None, seed: int) -> Member:
        """The same learnt from these rows, which are more."""

    @abstractmethod
    def model(self) -> SquaredCircuit:
        """As a squared circuit."""


class Candidate(ABC):
    """A kind of density and its settings.

    Attributes:
        name: in one or two words, for the table that says what was tried.
    """

    name: str

    @abstractmethod
    def fit(
        self, table: Table, valid: Rows[Any] | None, weights: Tensor | None, seed: int, device: torch.device
    ) -> Member:
        """Learn from the rows of a table; `valid` says when to stop."""

    @abstractmethod
    def work(self, rows: int, schema: Schema) -> float:
        """Multiplications that learning takes, about: what `minutes` is compared with."""


@final
@dataclass(frozen=True)
class Normaliser:
    """Monotone maps of some columns, after which each looks normal: t(x), and Σ log t′(x).

    Args:
        maps: column → its map.
    """

    maps: dict[int, Monotone] = field(default_factory=dict)

    @classmethod
    def fit(cls, table: Table, knots: int, weights: Tensor | None) -> Self:
        """Of the continuous columns of a table."""
        given = None if weights is None else weights.cpu().numpy()
        columns = [v for v, column in enumerate(table.columns) if not column.is_discrete]
        x = np.where(table.missing, np.nan, table.rows)
        return cls({v: Monotone.fit(x[:, v], knots, given) for v in columns})

    def __call__(self, rows: Rows[Any]) -> tuple[Rows[Tensor], Tensor]:
        """Rows with other numbers, and the logarithm of the derivative of each known part: (n,)."""
        cells = rows.to(torch.device("cpu"), torch.float64)
        x, log_slopes = cells.x.clone(), torch.zeros(len(cells), dtype=torch.float64)
        for v, monotone in self.maps.items():
            known = ~cells.missing[:, v]
            x[known, v], slopes = monotone.forward(cells.x[known, v])
            log_slopes[known] += slopes
        return Rows(x, cells.gaps), log_slopes


@final
@dataclass(frozen=True)
class GaussianMixture(Candidate):
    """A mixture of Gaussians and categories by EM, on raw or on transformed columns.

    Args:
        components: K.
        covariance: as for `fit_mixture`.
        knots: of the maps that transform the columns at most; 0: columns are left as they are.
        prior: as for `fit_mixture`.
        rank: of "low-rank".
    """

    components: int
    covariance: str = "full"
    knots: int = 0
    prior: float = 1.0
    rank: int | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        kind = "" if self.covariance == "full" else f" {self.covariance}"
        prior = "" if self.prior == 1.0 else f", prior {self.prior:g}"
        return f"{self.components}{kind} Gaussians" + f", {self.knots} knots" * bool(self.knots) + prior

    def fit(
        self, table: Table, valid: Rows[Any] | None, weights: Tensor | None, seed: int, device: torch.device
    ) -> GaussianMember:
        maps = Normaliser.fit(table, self.knots, weights) if self.knots else Normaliser()
        rows, _ = maps(table.cells)
        found = fit_mixture(
            rows,
            self.components,
            covariance=self.covariance,
            rank=self.rank,
            categories={v: column.size for v, column in enumerate(table.columns) if column.is_discrete},
            weights=weights,
            valid=None if valid is None else maps(valid)[0],
            prior=self.prior,
            seed=seed,
            device=device,
        )
        return GaussianMember(self, maps, found, table.schema)

    def work(self, rows: int, schema: Schema) -> float:
        numbers = sum(not column.is_discrete for column in schema.columns)
        states = sum(column.size for column in schema.columns if column.is_discrete)
        return 4.0 * rows * self.components * (numbers**2 / 2 + numbers + states) * 60


@final
@dataclass(frozen=True)
class GaussianMember(Member):
    """What a `GaussianMixture` has learnt."""

    candidate: GaussianMixture
    maps: Normaliser
    found: MixtureFit
    schema: Schema

    def log_prob(self, rows: Rows[Any]) -> Tensor:
        moved, log_slopes = self.maps(rows)
        return self.found.log_prob(moved).cpu() + log_slopes

    def refitted(self, table: Table, weights: Tensor | None, seed: int) -> GaussianMember:
        rows, _ = self.maps(table.cells)
        candidate = self.candidate
        found = fit_mixture(
            rows,
            candidate.components,
            covariance=candidate.covariance,
            rank=candidate.rank,
            categories=self.found.layout.categories,
            weights=weights,
            prior=candidate.prior,
            start=self.found,
            iterations=REFITS,
            seed=seed,
            device=self.found.log_weights.device,
        )
        return GaussianMember(candidate, self.maps, found, self.schema)

    def model(self) -> SquaredCircuit:
        """p = Σ_k π_k |f_k(x_B) ∏_v g_v,k(x_v)|²: roots of densities in a Hadamard product, π at its root."""
        made = SquaredCircuit(mixture_circuit(self.found, self.maps.maps), dtype=torch.float64).eval()
        made.schema = self.schema
        return made


def mixture_circuit(found: MixtureFit, maps: dict[int, Monotone]) -> Circuit:
    """A mixture that EM has found as a circuit over the columns of its table."""
    layers: list[Layer] = []
    if found.layout.numbers:
        layers.append(_gaussian_input(found, maps))
    for v, table in found.tables.items():
        weight = Parameter(tuple(table.shape), Constraint.FREE, False, value=table.cpu().sqrt())
        layers.append(Input(v, Categorical(table.shape[1]), len(table), weight))
    root = layers[0] if len(layers) == 1 else Hadamard(layers)
    shares = found.log_weights.cpu().softmax(dim=0)
    return Circuit(root, root_weights=Parameter(tuple(shares.shape), Constraint.SIMPLEX, False, value=shares))


def _gaussian_input(found: MixtureFit, maps: dict[int, Monotone]) -> Input:
    numbers = found.layout.numbers
    columns = tuple(maps.get(v) for v in numbers) if maps else None
    family = MultivariateGaussian(
        len(found.means), len(numbers), found.covariance, columns=columns, rank=found.rank
    )
    moments = (
        found.covariances if found.loadings is None else (found.covariances.cpu(), found.loadings.cpu())
    )
    values = family.values_of(found.means.cpu(), moments if isinstance(moments, tuple) else moments.cpu())
    parameters = {
        name: Parameter(tuple(value.shape), Constraint.FREE, False, value=value)
        for name, value in values.items()
    }
    return Input(numbers, family, parameters=parameters)


@final
@dataclass(frozen=True)
class Tree(Candidate):
    """A squared circuit on the Chow–Liu tree of the rows, trained by gradients.

    Args:
        units: K.
        continuous: functions of the columns that are not discrete, as for `table_model`.
        size: how many of them.
        epochs: of training.
        components: circuits that are mixed.
    """

    units: int
    continuous: str = "transformed"
    size: int = 24
    epochs: int = 10
    components: int = 1

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"tree of {self.units} units, {self.size} {self.continuous}"

    def fit(
        self, table: Table, valid: Rows[Any] | None, weights: Tensor | None, seed: int, device: torch.device
    ) -> TreeMember:
        return TreeMember(self, _trained(self, table, valid, weights, seed, device))

    def work(self, rows: int, schema: Schema) -> float:
        columns = len(schema.columns)
        inner = 8.0 * self.units**3 * columns
        inputs = 8.0 * self.units * sum(column.size or self.size for column in schema.columns)
        return 3 * rows * self.epochs * self.components * (inner + inputs)


def _trained(
    tree: Tree,
    table: Table,
    valid: Rows[Any] | None,
    weights: Tensor | None,
    seed: int,
    device: torch.device,
) -> SquaredCircuit:
    model = table_model(
        table,
        units=tree.units,
        size=tree.size,
        continuous=tree.continuous,
        components=tree.components,
        seed=seed,
        dtype=torch.complex64,
    ).to(device)
    more: dict[str, Any] = {} if weights is None else {"weights": weights}
    fit(model, table, valid, epochs=tree.epochs, seed=seed, progress=False, **more)
    return model.eval()


@final
@dataclass(frozen=True)
class TreeMember(Member):
    """What a `Tree` has learnt."""

    candidate: Tree
    trained: SquaredCircuit

    def log_prob(self, rows: Rows[Any]) -> Tensor:
        return log_probs(self.trained, *rows.to(self.trained.device))

    def refitted(self, table: Table, weights: Tensor | None, seed: int) -> TreeMember:
        """As it is: another epoch on a tenth more rows would cost as much as all that came before."""
        return self

    def model(self) -> SquaredCircuit:
        return self.trained


def part_of(table: Table, chosen: Sequence[int] | np.ndarray[Any, Any]) -> Table:
    """Some rows of a table, with the types of all."""
    return Table(table.cells.take(chosen), table.schema, table.source, table.shape)
