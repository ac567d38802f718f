"""Candidates that `learn` tries, and the members that come of them: each is a squared circuit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.circuits import Circuit, Constraint, Hadamard, Input, Kronecker, Layer, Parameter, Sum
from squircuit.data import Rows, Schema, Table
from squircuit.data.resolution import cell_ends
from squircuit.families import Bins, Categorical, Monotone, MultivariateGaussian
from squircuit.learning.em import fit_mixture
from squircuit.learning.joint_states import Groups, groups_of, joined, split_rows
from squircuit.learning.mixture import MixtureFit
from squircuit.learning.patterns import gaps_of
from squircuit.learning.stacking import log_probs
from squircuit.models import SquaredCircuit, table_model
from squircuit.models.training_table import chow_liu_trees
from squircuit.training import Processes, fit

REFITS = 10
"""Iterations of EM on all rows, from what was found on some of them."""
STOPPING = {"iterations": 200, "tolerance": 2e-4, "patience": 5}
"""Options of EM that stop later than its defaults."""
FLOOR = 1e-9
"""The least variance in any direction, of standardised columns: one may nearly determine another."""
ITERATIONS = 100
"""Iterations of EM that a mixture takes, about, where rows are many."""
ENDED = 100
"""Rows of a component with which it takes half as many: held-out rows end it."""
EXPONENTIAL = 36.0
"""Multiplications for each row and component in whose time a posterior is computed."""
LOOKED_UP = 16.0
"""Multiplications for each row and component in whose time a state is looked up and counted."""
DECOMPOSED = 5.0
"""Multiplications for each entry of D covariances, (D, D), in whose time one is decomposed and raised."""
GROUPED = 4e5
"""Multiplications in the time that each group of rows with the same gaps takes besides."""
COMPLETED = 15.0
"""Likewise for each column beside a missing cell, where a row is completed by itself."""
OVERHEAD = 6e8
"""Multiplications in the time that learning takes besides, however few rows there are."""
STARTED = 9e5
"""Likewise, to start the layers over a column of a tree in a step of training."""
COMMON = 0.005
"""The share of rows from which a value is a spike."""
MOST = 0.5
"""The share of rows from which a value is that of most."""
SPIKED = 0.3
"""The share of rows on spikes from which a column is better cut into bins."""


class Member(ABC):
    """A density that has learnt from some rows."""

    @abstractmethod
    def log_prob(self, rows: Rows[Any]) -> Tensor:
        """log p of what is known of each row: (n,) float64."""

    @abstractmethod
    def refitted(self, table: Table, seed: int) -> Member:
        """The same learnt from these rows, which are more."""

    @abstractmethod
    def widened(self, width: float) -> Member:
        """The same with covariances so many times as large, where it has some: heavier tails."""

    @abstractmethod
    def model(self) -> SquaredCircuit:
        """The member as a squared circuit."""


class Candidate(ABC):
    """A kind of density and its settings.

    Attributes:
        name: in one or two words, for the table that says what was tried.
        widths: factors of covariances with which it takes part, each at no further cost of learning.
    """

    name: str
    widths: tuple[float, ...] = (1.0,)

    @abstractmethod
    def fit(self, table: Table, valid: Rows[Any] | None, seed: int, device: torch.device) -> Member:
        """Learn from the rows of a table, by their weights; `valid` says when to stop."""

    def refit(self, member: Any, table: Table, seed: int, device: torch.device) -> Member:
        """Learn anew from all rows; `member` is what has been found on those of one fold."""
        return self.fit(table, None, seed, device)

    @abstractmethod
    def work(self, table: Table) -> float:
        """Multiplications that learning takes, about, or in whose time it is done; `minutes` limit them."""


@final
@dataclass(frozen=True)
class Encoding:
    """How the continuous columns of a table are seen by a mixture.

    Args:
        maps: column → the monotone map after which it looks normal.
        bins: column → the bins whose numbers are its states.
        joint: groups of discrete columns that are seen as one column each.
        sizes: column → its number of states, of those in groups.
        spiked: columns of which most rows hold one value: what is wider loses some of these rows.
    """

    maps: dict[int, Monotone] = field(default_factory=dict)
    bins: dict[int, Bins] = field(default_factory=dict)
    joint: Groups = ()
    sizes: dict[int, int] = field(default_factory=dict)
    spiked: frozenset[int] = frozenset()

    @classmethod
    def fit(cls, table: Table, knots: int, bins: int, joint: int = 0) -> Self:
        """Maps of columns that are not discrete, bins of those with many spikes, and groups of the others.

        Args:
            table: whose rows they suit.
            knots: of a map at most; 0: no maps.
            bins: of a column with spikes at most; 0: no bins.
            joint: states of a group of discrete columns at most; 0: no groups.
        """
        given = table.cells.weights
        x = np.where(table.missing, np.nan, table.rows)
        numbers = [v for v, column in enumerate(table.columns) if not column.is_discrete]
        spiked = [v for v in numbers if bins and has_spikes(x[:, v])]
        rest = [v for v in numbers if knots and v not in spiked]
        groups = groups_of(table, joint)
        cells = {v: cell_ends(x[:, v], table.columns[v].step) for v in rest}
        ends = {v: np.append(found, table.columns[v].spike_ends) for v, found in cells.items()}
        return cls(
            {v: Monotone.fit(x[:, v], knots, given, ends[v]) for v in rest},
            {v: Bins.fit(x[:, v], bins, given) for v in spiked},
            groups,
            {v: table.columns[v].size for group in groups for v in group},
            frozenset(v for v in rest if has_spikes(table.columns[v].rounded(x[:, v]), MOST)),
        )

    def __call__(self, rows: Rows[Any]) -> tuple[Rows[Tensor], Tensor]:
        """The rows as a mixture takes them, and log p(x) − log p(seen) of each: (n,)."""
        cells = rows.to(torch.device("cpu"), torch.float64)
        x, logs = cells.x.clone(), torch.zeros(len(cells), dtype=torch.float64)
        for v in (*self.maps, *self.bins):
            known = ~cells.missing[:, v]
            x[known, v], log = self._seen(v, cells.x[known, v])
            logs[known] += log
        return joined(Rows(x, cells.gaps), self.joint, self.sizes) if self.joint else Rows(
            x, cells.gaps
        ), logs

    def _seen(self, v: int, x: Tensor) -> tuple[Tensor, Tensor]:
        if v in self.maps:
            return self.maps[v].forward(x)
        values, scale = self.bins[v].evaluate_scaled(x)  # one of them is not 0
        largest, number = values.max(dim=-1)
        return number.double(), 2 * (scale + largest.log())

    def categories(self, schema: Schema) -> dict[int, int]:
        """Columns that are states to a mixture, and how many."""
        discrete = {v: column.size for v, column in enumerate(schema.columns) if column.is_discrete}
        for group in self.joint:
            states = math.prod(self.sizes[v] for v in group)
            discrete |= {group[0]: states} | dict.fromkeys(group[1:], 1)
        return discrete | {v: family.size for v, family in self.bins.items()}

    def layer(self, v: int, weight: Parameter) -> Layer | None:
        """K functions of a column of states, or of the group that begins with it; None inside of a group."""
        for group in self.joint:
            if v == group[0]:
                return Sum(Kronecker([Input(u, Categorical(self.sizes[u])) for u in group]), weight=weight)
            if v in group:
                return None
        return Input(v, self.bins.get(v) or Categorical(weight.shape[1]), weight=weight)


def has_spikes(values: NDArray[np.float64], common: float = COMMON) -> bool:
    """Whether many rows of a column hold one of few values, each in some share of the rows at least.

    Example:
        >>> has_spikes(np.array([0.0] * 90 + list(range(10)))), has_spikes(np.arange(1000.0))
        (True, False)
    """
    known = values[~np.isnan(values)]
    _, counts = np.unique(known, return_counts=True)
    spikes = counts[(counts >= common * len(known)) & (counts > 1)]
    return bool(spikes.sum() > SPIKED * len(known))


@final
@dataclass(frozen=True)
class GaussianMixture(Candidate):
    """A mixture of Gaussians and categories by EM, on raw or on transformed columns.

    Args:
        components: K.
        covariance: as for `fit_mixture`.
        knots: of the maps that transform the columns at most; 0: columns are left as they are.
        bins: of columns with spikes at most, which are states then; 0: they are numbers as others.
        prior: as for `fit_mixture`.
        rank: of "low-rank".
        repeat: another one of the same, from another start.
        joint: states of a group of discrete columns at most, which are seen as one; 0: none are.
        independent: as for `fit_mixture`.
        widths: factors of its covariances with which it takes part; few rows make Gaussians too narrow.
    """

    components: int
    covariance: str = "full"
    knots: int = 0
    bins: int = 0
    prior: float = 1.0
    rank: int | None = None
    repeat: int = 0
    widths: tuple[float, ...] = (1.0,)
    joint: int = 0
    independent: float = 0.0

    @property
    def name(self) -> str:  # type: ignore[override]
        parts = [f"{self.components}{'' if self.covariance == 'full' else ' ' + self.covariance} Gaussians"]
        parts += [f"{self.knots} knots"] * bool(self.knots) + [f"{self.bins} bins"] * bool(self.bins)
        parts += [f"{self.joint} joint states"] * bool(self.joint)
        parts += [f"prior {self.prior:g}"] * (self.prior != 1.0)
        parts += [f"{self.independent:.0%} independent"] * bool(self.independent)
        parts += [f"no. {self.repeat + 1}"] * bool(self.repeat)
        return ", ".join(parts)

    def fit(self, table: Table, valid: Rows[Any] | None, seed: int, device: torch.device) -> GaussianMember:
        encoding = Encoding.fit(table, self.knots, self.bins, self.joint)
        seen = None if valid is None else encoding(valid)[0]
        found = self._mixture(table, encoding, seed, device, valid=seen)
        return GaussianMember(self, encoding, found, table.schema)

    def refit(self, member: GaussianMember, table: Table, seed: int, device: torch.device) -> GaussianMember:
        """Learn from all rows, beginning with the member: another start might end at a worse maximum."""
        maps = Encoding.fit(table, self.knots, self.bins).maps
        encoding = replace(member.encoding, maps=maps)
        found = self._mixture(table, encoding, seed, device, start=member.found)
        return GaussianMember(self, encoding, found, table.schema)

    def more(self, table: Table, encoding: Encoding, found: MixtureFit, seed: int) -> MixtureFit:
        """Some iterations on more rows."""
        device = found.log_weights.device
        return self._mixture(table, encoding, seed, device, start=found, iterations=REFITS)

    def _mixture(
        self, table: Table, encoding: Encoding, seed: int, device: torch.device, **more: Any
    ) -> MixtureFit:
        weights = table.cells.weights
        return fit_mixture(
            encoding(table.cells)[0],
            self.components,
            covariance=self.covariance,
            rank=self.rank,
            categories=encoding.categories(table.schema),
            weights=None if weights is None else torch.from_numpy(weights),
            prior=self.prior,
            independent=self.independent,
            floor=FLOOR,
            seed=seed,
            device=device,
            **(STOPPING | more),
        )

    def work(self, table: Table) -> float:
        numbers = [v for v, column in enumerate(table.columns) if not column.is_discrete]
        discrete = [column.size for column in table.columns if column.is_discrete]
        width, states = len(numbers), min(2.0 * sum(discrete), LOOKED_UP * len(discrete))
        iterations = ITERATIONS * len(table) / (len(table) + ENDED * self.components)
        patterns, alone = gaps_of(table.missing[:, numbers])
        each = len(table) * (0.6 * width**2 + 1.2 * width + EXPONENTIAL + states)
        if self.covariance != "diagonal":
            each += DECOMPOSED * width**3 * (1 + patterns) + COMPLETED * width * alone
        return OVERHEAD + iterations * (self.components * each + GROUPED * patterns)


@final
@dataclass(frozen=True)
class GaussianMember(Member):
    """What a `GaussianMixture` has learnt."""

    candidate: GaussianMixture
    encoding: Encoding
    found: MixtureFit
    schema: Schema

    def log_prob(self, rows: Rows[Any]) -> Tensor:
        seen, logs = self.encoding(rows)
        found = self.found.log_prob(seen).cpu() + logs
        split = split_rows(rows.to(torch.device("cpu"), torch.float64), self.encoding.joint)
        if bool(split.any()):  # of whose groups the mixture, unlike the circuit, knows only whole ones
            some = rows.to(torch.device("cpu")).take(split)
            found[split] = log_probs(self.model(), some.x, some.missing)
        return found

    def refitted(self, table: Table, seed: int) -> GaussianMember:
        found = self.candidate.more(table, self.encoding, self.found, seed)
        return GaussianMember(self.candidate, self.encoding, found, self.schema)

    def widened(self, width: float) -> GaussianMember:
        if width == 1.0:
            return self
        return replace(self, found=self.found.widened(width, self.encoding.spiked))

    def model(self) -> SquaredCircuit:
        circuit = mixture_circuit(self.found, self.encoding, self.candidate.covariance)
        made = SquaredCircuit(circuit, dtype=torch.float64).eval()
        made.schema = self.schema
        return made


def mixture_circuit(found: MixtureFit, encoding: Encoding, covariance: str) -> Circuit:
    """A mixture that EM has found as a circuit over the columns of its table.

    p = Σ_k π_k |f_k(x_B) ∏_v g_v,k(x_v)|²: square roots of densities in a Hadamard product, π at the root.
    """
    layers: list[Layer] = []
    if found.layout.numbers:
        layers.append(_gaussian_input(found, encoding.maps, covariance))
    for v, table in found.tables.items():
        weight = Parameter(tuple(table.shape), Constraint.FREE, False, value=table.cpu().sqrt())
        layer = encoding.layer(v, weight)
        layers += [] if layer is None else [layer]
    root = layers[0] if len(layers) == 1 else Hadamard(layers)
    shares = found.log_weights.cpu().softmax(dim=0)
    return Circuit(root, root_weights=Parameter(tuple(shares.shape), Constraint.SIMPLEX, False, value=shares))


def _gaussian_input(found: MixtureFit, maps: dict[int, Monotone], covariance: str) -> Input:
    numbers, loadings = found.layout.numbers, found.loadings
    columns = tuple(maps.get(v) for v in numbers) if maps else None
    rank = None if loadings is None else loadings.shape[2]
    family = MultivariateGaussian(len(found.means), len(numbers), covariance, rank, columns)
    spread = found.covariances.cpu()
    values = family.values_of(found.means.cpu(), spread if loadings is None else (spread, loadings.cpu()))
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
        draw: 0: the tree is that of the rows; else of as many, drawn with replacement by this seed.
        options: of training, besides, as for `sq.fit`.
    """

    units: int
    continuous: str = "transformed"
    size: int = 24
    epochs: int = 10
    components: int = 1
    draw: int = 0
    options: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:  # type: ignore[override]
        several = f"{self.components} circuits of {self.units} units on a tree"
        drawn = f" of drawn rows, no. {self.draw}" if self.draw else ""
        if self.components > 1:
            return several + drawn
        return f"tree of {self.units} units, {self.size} {self.continuous}"

    def fit(self, table: Table, valid: Rows[Any] | None, seed: int, device: torch.device) -> TreeMember:
        model = table_model(
            table,
            units=self.units,
            size=self.size,
            continuous=self.continuous,
            components=self.components,
            regions=chow_liu_trees(table, self.draw + 1)[-1],
            seed=seed,
        ).to(device)
        options: dict[str, Any] = {"epochs": self.epochs, **dict(self.options)}
        alone = Processes()  # the search goes by the clock, which differs between processes
        fit(model, table, valid, seed=seed, progress=False, processes=alone, **options)
        return TreeMember(self, model.eval())

    def work(self, table: Table) -> float:
        rows, columns = len(table), len(table.columns)
        inner = 3.0 * self.units**3 * columns
        inputs = 8.0 * self.units * sum(column.size or self.size for column in table.columns)
        steps = self.epochs * rows / min(256, max(32, rows // 25))
        layers = STARTED * columns * steps
        return OVERHEAD + layers + 3 * rows * self.epochs * self.components * (inner + inputs)


@final
@dataclass(frozen=True)
class TreeMember(Member):
    """What a `Tree` has learnt."""

    candidate: Tree
    trained: SquaredCircuit

    def log_prob(self, rows: Rows[Any]) -> Tensor:
        return log_probs(self.trained, *rows.to(self.trained.device))

    def refitted(self, table: Table, seed: int) -> TreeMember:
        """Return it as it is: an epoch on a tenth more rows would cost as much as all before."""
        return self

    def widened(self, width: float) -> TreeMember:
        return self

    def model(self) -> SquaredCircuit:
        return self.trained


def part_of(table: Table, chosen: Sequence[int] | np.ndarray[Any, Any]) -> Table:
    """Some rows of a table, with the types of all."""
    return Table(table.cells.take(chosen), table.schema, table.source, table.shape)
