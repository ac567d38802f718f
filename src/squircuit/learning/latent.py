"""Continuous mixtures of products of categories: a few latent numbers say what a row is like.

Correia, Gala, Quaeghebeur, de Campos and Peharz, "Continuous mixtures of tractable probabilistic models"
(AAAI 2023), learn a decoder from a Gaussian latent variable to the tables of a product,

.. math:: p(x) = \\int \\mathcal N(z; 0, I) \\prod_v P_v(x_v \\mid z)\\, dz
               \\approx \\frac 1N \\sum_{i=1}^N \\prod_v P_v(x_v \\mid z_i),

with points z_i of low discrepancy, shifted anew in every step so that the decoder does not learn the points.
What is learnt with N fixed points *is* a finite mixture, and so a squared circuit like those of EM. Its N·Σ
states numbers come of few: that is why thousands of components do not overfit. EM then takes them a little
apart from the decoder, which is the prior: α rows of each component, as the decoder says that they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor

from squircuit.data import Rows, Schema, Table
from squircuit.learning.decoder import Decoder, latent_points
from squircuit.learning.gaussians import Full
from squircuit.learning.members import OVERHEAD, Candidate, Encoding, Member, mixture_circuit, part_of
from squircuit.learning.mixture import Layout, MixtureFit
from squircuit.models import SquaredCircuit

BLOCK = 2**22
"""Numbers of rows times components at a time."""
STRENGTHS = (64.0, 16.0, 4.0, 2.0)
"""α, rows of each component that the decoder counts as in EM; tried in this order while it helps."""
ITERATIONS = 8
"""The most iterations of EM for each of them."""
REFITS = 2
"""Iterations of EM on all rows."""
GAIN = 1e-4
"""Nats a row on validation rows, below which EM ends."""
SPREAD = 0.1
"""Rows that each component has besides in its weight."""
HELD_OUT = 0.1
"""The share of rows that say when to stop, where no others are given."""
STARTED = 2.4e7
"""Multiplications in the time of the decoder, in a step of training."""
REFINED = 4
"""Iterations of EM that are counted as work: there are more, but they are large products of matrices."""
STEPS = 4000
"""Steps of a training, of at most `MOST_EPOCHS`."""
MOST_EPOCHS = 60
CHECKS = 20
"""How often the validation rows are looked at; three without gain end the training."""


@final
@dataclass(frozen=True)
class States:
    """Rows of categories, for arithmetic in single precision.

    Args:
        layout: of the columns, all of them categories.
        states: (n, C), −1 where they are missing.
        weight: (n,), of sum 1.
        total: as many rows they are: one of weight 2 is two.
    """

    layout: Layout
    states: Tensor
    weight: Tensor
    total: float

    @classmethod
    def of(cls, layout: Layout, rows: Rows[Any], device: torch.device) -> Self:
        """Make the states from rows as tables have them."""
        _, states = layout.split(rows, device)
        given = np.ones(len(states)) if rows.weights is None else rows.weights
        weight = torch.as_tensor(given).to(device, torch.float32)
        return cls(layout, states[weight > 0], weight[weight > 0] / weight.sum(), float(weight.sum()))

    def __len__(self) -> int:
        return len(self.states)

    def take(self, rows: Tensor) -> States:
        """Some of the rows, with the weights that they have."""
        return replace(self, states=self.states[rows], weight=self.weight[rows])

    def blocks(self, components: int) -> Iterator[States]:
        """All rows, as many at a time as suit so many components."""
        numbers = torch.arange(len(self), device=self.states.device)
        for rows in torch.split(numbers, max(1, BLOCK // components)):
            yield self.take(rows)

    @cached_property
    def firsts(self) -> Tensor:
        """The place of each column's state 0 among all states: (C,)."""
        sizes = torch.tensor([0, *self.layout.categories.values()], device=self.states.device)
        return sizes.cumsum(0)[:-1]

    @cached_property
    def features(self) -> Tensor:
        """Which states are seen, (n, Σ states) of 0 and 1; in place of states 0, which cells are missing.

        A state 0 needs no feature of its own: it is seen where no other state is and nothing is missing.
        """
        places = torch.where(self.states < 0, 0, self.states) + self.firsts
        found = torch.zeros(len(self), self.layout.states, device=self.states.device)
        found.scatter_(1, places, 1.0)
        found[:, self.firsts] = (self.states < 0).float()
        return found

    @cached_property
    def has_gaps(self) -> bool:
        """Some cell is missing."""
        return bool((self.states < 0).any())

    def log_joint(self, log_tables: Tensor, log_weights: Tensor | None = None) -> Tensor:
        """log π_k ∏_v P_v,k(x_v) over what is seen: (n, N), by one matrix product.

        Args:
            log_tables: log P, (N, Σ states).
            log_weights: log π, (N,); None: they are left out.
        """
        zero = log_tables[:, self.firsts]
        others = log_tables - zero.repeat_interleave(self._sizes, dim=1)
        constant = zero.sum(1) if log_weights is None else zero.sum(1) + log_weights
        if not self.has_gaps:
            kept = self._kept
            return torch.addmm(constant, self.features[:, kept], others[:, kept].mT)
        return torch.addmm(constant, self.features, others.index_copy(1, self.firsts, -zero).mT)

    def counts(self, posteriors: Tensor) -> Tensor:
        """How much each component has of each state: (n, N) → (N, Σ states)."""
        kept = self._kept
        found = posteriors.new_zeros(posteriors.shape[1], self.layout.states)
        found[:, kept] = posteriors.mT @ self.features[:, kept]
        seen = posteriors.sum(0)[:, None].expand(-1, len(self.firsts))
        if self.has_gaps:
            seen = seen - posteriors.mT @ self.features[:, self.firsts]
        others = torch.stack([part.sum(1) for part in torch.split(found, self._list, dim=1)], dim=1)
        found[:, self.firsts] = (seen - others).clamp_min(0.0)
        return found

    @cached_property
    def _kept(self) -> Tensor:
        """The places of all states but the states 0."""
        every = torch.ones(self.layout.states, dtype=torch.bool, device=self.states.device)
        every[self.firsts] = False
        return every.nonzero()[:, 0]

    @cached_property
    def _list(self) -> list[int]:
        return list(self.layout.categories.values())

    @cached_property
    def _sizes(self) -> Tensor:
        return torch.tensor(self._list, device=self.states.device)


@final
@dataclass(frozen=True)
class LatentMixture(Candidate):
    """A continuous mixture of products of categories, for tables whose columns are all discrete.

    Args:
        dimension: of the latent variable.
        points: z_i in a step of training.
        components: N of the mixture that is kept.
        repeat: another one of the same, from another start.
    """

    dimension: int
    points: int = 1024
    components: int = 4096
    repeat: int = 0

    @property
    def name(self) -> str:  # type: ignore[override]
        again = f", no. {self.repeat + 1}" if self.repeat else ""
        return f"{self.components} products of {self.dimension} latent numbers{again}"

    def fit(self, table: Table, valid: Rows[Any] | None, seed: int, device: torch.device) -> LatentMember:
        learning, deciding = (table, valid) if valid is not None else _split(table, seed)
        layout = Layout.of(len(table.columns), {v: c.size for v, c in enumerate(table.schema.columns)})
        rows, held = (States.of(layout, each, device) for each in (learning.cells, deciding))
        decoder = Decoder.of(layout, self.dimension, _frequencies(rows), seed)
        tables = self._trained(decoder, rows, held, seed)
        found, strength = _refined(tables, rows, held)
        member = LatentMember(self, found, tables, strength, table.schema)
        return member if valid is not None else member.refitted(table, seed)

    @torch.enable_grad()
    def _trained(self, decoder: Decoder, rows: States, held: States, seed: int) -> Tensor:
        """The tables at the points that are kept, (N, Σ states): those that are best on validation rows."""
        generator = torch.Generator().manual_seed(seed)
        fixed = latent_points(self.components, self.dimension, seed).to(rows.weight.device)
        batch, epochs = schedule(len(rows))
        optimiser = torch.optim.Adam(decoder.parameters(), lr=decoder.RATE)
        total = epochs * -(-len(rows) // batch)
        rates = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, decoder.RATE, total_steps=total, pct_start=0.02, final_div_factor=2
        )
        every, best, best_score, waited = max(1, epochs // CHECKS), fixed, -torch.inf, 0
        for epoch in range(epochs):
            for part in torch.split(torch.randperm(len(rows), generator=generator), batch):
                z = latent_points(self.points, self.dimension, seed, generator).to(rows.weight.device)
                some = rows.take(part.to(rows.weight.device))
                log_p = some.log_joint(decoder(z)).logsumexp(1)
                optimiser.zero_grad()
                torch.autograd.backward(-(log_p @ some.weight) / some.weight.sum())
                optimiser.step()
                rates.step()
            if (epoch + 1) % every and epoch + 1 < epochs:
                continue
            with torch.no_grad():
                tables = decoder(fixed)
                score = mean_log_prob(tables, None, held)
            waited = 0 if score > best_score else waited + 1
            if score > best_score:
                best, best_score = tables, score
            if waited == 3:
                break
        return best

    def work(self, table: Table) -> float:
        rows, states = len(table), sum(column.size - 1 for column in table.columns)
        batch, epochs = schedule(rows)
        trained = epochs * rows * (self.points * (states + 30.0) + STARTED / batch)
        refined = REFINED * rows * self.components * (2.0 * states + 30)
        return OVERHEAD + trained + refined


@final
@dataclass(frozen=True)
class LatentMember(Member):
    """What a `LatentMixture` has learnt.

    Args:
        candidate: its settings.
        found: the mixture.
        decoded: log-tables that the decoder says, (N, Σ states): the prior of EM.
        strength: α of the prior; infinite: tables are the decoder's.
        schema: of the table.
    """

    candidate: LatentMixture
    found: MixtureFit
    decoded: Tensor
    strength: float
    schema: Schema

    def log_prob(self, rows: Rows[Any]) -> Tensor:
        return self.found.log_prob(Rows(rows.x, rows.gaps)).cpu()

    def refitted(self, table: Table, seed: int) -> LatentMember:
        rows = States.of(self.found.layout, table.cells, self.decoded.device)
        log_tables, log_weights = self.found.log_tables.float(), self.found.log_weights.float()
        for _ in range(REFITS):
            log_tables, log_weights = em_step(log_tables, log_weights, self.decoded, self.strength, rows)
        return replace(self, found=as_fit(self.found.layout, log_tables, log_weights))

    def widened(self, width: float) -> LatentMember:
        return self

    def model(self) -> SquaredCircuit:
        made = SquaredCircuit(mixture_circuit(self.found, Encoding(), "full"), dtype=torch.float64).eval()
        made.schema = self.schema
        return made


def schedule(rows: int) -> tuple[int, int]:
    """The rows of a batch, and the epochs.

    Example:
        >>> schedule(1600), schedule(16_000), schedule(200_000)
        ((32, 60), (250, 60), (256, 5))
    """
    batch = min(256, max(32, rows // 64))
    return batch, min(MOST_EPOCHS, max(2, STEPS * batch // rows))


@torch.no_grad()
def em_step(
    log_tables: Tensor, log_weights: Tensor, decoded: Tensor, strength: float, rows: States
) -> tuple[Tensor, Tensor]:
    """An iteration of EM with the decoder's tables as the prior,

    .. math:: P_{vk}(s) \\propto \\sum_i r_{ik} [x_{iv} = s] + \\alpha P^0_{vk}(s),

    where r are posteriors. Together with that prior, the likelihood never falls.

    Args:
        log_tables: log P, (N, Σ states).
        log_weights: log π, (N,).
        decoded: log P⁰, likewise.
        strength: α, in rows; infinite: P stays.
        rows: to learn from.
    """
    mass = torch.zeros_like(log_weights)
    counts = torch.zeros_like(log_tables)
    for part in rows.blocks(len(log_weights)):
        posteriors = part.log_joint(log_tables, log_weights).softmax(1)
        posteriors *= (part.weight * rows.total)[:, None]
        mass += posteriors.sum(0)
        counts += part.counts(posteriors)
    weights = (mass + SPREAD) / (mass + SPREAD).sum()
    if strength == torch.inf:
        return log_tables, weights.log()
    sizes = list(rows.layout.categories.values())
    sums = torch.split(counts + strength * decoded.exp(), sizes, dim=1)
    tables = torch.cat([part / part.sum(1, keepdim=True) for part in sums], dim=1)
    return tables.clamp_min(1e-30).log(), weights.log()


@torch.no_grad()
def mean_log_prob(log_tables: Tensor, log_weights: Tensor | None, rows: States) -> float:
    """The mean of log p by the weights of the rows; None: components of equal weights."""
    if log_weights is None:
        log_weights = log_tables.new_full((len(log_tables),), -float(np.log(len(log_tables))))
    parts = rows.blocks(len(log_tables))
    return sum(float(part.log_joint(log_tables, log_weights).logsumexp(1) @ part.weight) for part in parts)


def as_fit(layout: Layout, log_tables: Tensor, log_weights: Tensor) -> MixtureFit:
    """A mixture like those of EM, normalised in double precision."""
    parts = torch.split(log_tables.double(), list(layout.categories.values()), dim=1)
    nothing = log_tables.new_zeros(len(log_tables), 0, dtype=torch.double)
    return MixtureFit(
        layout,
        log_weights.double().log_softmax(0),
        Full(nothing, nothing[:, :, None]),
        torch.cat([part.log_softmax(1) for part in parts], dim=1),
    )


def _refined(decoded: Tensor, rows: States, held: States) -> tuple[MixtureFit, float]:
    """The mixture after EM, with the strength of the prior that is best on validation rows."""
    equal = decoded.new_full((len(decoded),), -float(np.log(len(decoded))))
    best, best_score, best_strength = (decoded, equal), mean_log_prob(decoded, equal, held), torch.inf
    for strength in (torch.inf, *STRENGTHS):
        now, reached, before = (decoded, equal), -torch.inf, -torch.inf
        for _ in range(ITERATIONS):
            now = em_step(*now, decoded, strength, rows)
            score = mean_log_prob(*now, held)
            reached = max(reached, score)
            if score > best_score:
                best, best_score, best_strength = now, score, strength
            if score < before + GAIN:
                break
            before = score
        if strength != torch.inf and reached < best_score:  # the one before was better, and others are weaker
            break
    return as_fit(rows.layout, *best), best_strength


def _frequencies(rows: States) -> Tensor:
    """Frequencies of all states, (Σ states,), with one row of uniform states added."""
    sizes = list(rows.layout.categories.values())
    counts = rows.counts(rows.weight[:, None] * rows.total)[0]
    return torch.cat([(part + 1 / len(part)) / (part.sum() + 1) for part in torch.split(counts, sizes)])


def _split(table: Table, seed: int) -> tuple[Table, Rows[Any]]:
    """Rows to learn from, and a tenth that says when to stop; of one row, it twice."""
    order = np.random.default_rng(seed).permutation(len(table))
    held = max(1, int(HELD_OUT * len(table)))
    kept = order[held:] if len(order) > held else order
    return part_of(table, kept), table.cells.take(order[:held])
