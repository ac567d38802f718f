"""The best density of a table by one call: many candidates, weighed by rows that they have not seen."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from squircuit.data import Dataset, Rows, Table
from squircuit.data.resolution import spread
from squircuit.data.weights import as_weights, with_mean_1
from squircuit.errors import DataError, ParameterError, SquircuitError
from squircuit.learning.candidates import FOLDS, KINDS, candidates, few_rows
from squircuit.learning.members import Candidate, Member, part_of
from squircuit.learning.report import WIDER, Progress
from squircuit.learning.stacking import stacking_weights
from squircuit.models import SquaredCircuit, mixture
from squircuit.models.training_table import training_table
from squircuit.storage.words import without_fix
from squircuit.training.callbacks import Callback, Event, as_callbacks, tell
from squircuit.training.loaders import gathered

HELD_OUT = 0.1
MOST_HELD_OUT = 10_000
"""Rows: the weights of some dozens of members are known well enough from these."""
Places = NDArray[np.int64]


def learn(
    data: Any,
    valid: Any = None,
    *,
    minutes: float | None = None,
    members: Sequence[str] = KINDS,
    weights: Any = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: bool = True,
    callbacks: Sequence[Callable[[Event], object]] = (),
) -> SquaredCircuit:
    r"""The density of a table, as the best mixture of many that were tried,

    .. math:: p(x) = \sum_m w_m\, p_m(x), \qquad \int p = 1.

    It looks at the rows, the columns and their types, and chooses candidates: mixtures of Gaussians and
    categories on columns as they are and on transformed ones, with several numbers of components; and where
    all columns are discrete, continuous mixtures and circuits on Chow–Liu trees. Each learns from some of the
    rows; the weights w are those that are best on the others (:func:`squircuit.stack`). Members without
    weight are dropped, and the others learn from all rows. The result is one squared circuit, which answers
    every question exactly.

    Ctrl-C ends the search: what has been learnt until then is weighed.

    Args:
        data: a Table, a Dataset (its training rows), what :func:`squircuit.data.table` takes (an array, a
            tensor, a data frame), or a Dataset or DataLoader of torch, whose rows are all read. Missing cells
            (NaN) are marginalised, also in learning.
        valid: rows by which members are weighed, likewise; None: a tenth of the rows. Where there are fewer
            than 4,000 rows in all (1,000 where all columns are discrete), these join the others, and each
            fifth of all rows is held out in turn.
        minutes: of work at most, about, by the clock; None: by the size of the table, from seconds to ten
            minutes on two cores. A busy machine then takes longer, but tries the same.
        members: kinds of candidates: "mixtures", "trees".
        weights: of the rows, (n,) numbers ≥ 0, how much each counts beside the others: their mean is made 1.
        seed: of all that is random.
        device: to learn on, such as "cuda".
        progress: show what is done and, at the end, a table of the members.
        callbacks: functions that are called with an `Event` "member" after every candidate, whose name is its
            note, and end the search by returning True. Its scores are "held_out", the mean log-likelihood of
            held-out rows (NaN where the candidate has failed), and "best".

    Returns:
        The model; its `notes` say what was tried and what it weighs.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> height = rng.normal(1.7, 0.1, 300)
        >>> people = {"height": height, "weight": 70 + 60 * (height - 1.7) + rng.gamma(2.0, 4.0, 300)}
        >>> model = learn(people, progress=False, minutes=0.02)
        >>> model.log_prob([[1.7, 75.0], [1.7, np.nan]]).shape, model.sample(3, seed=0).shape
        (torch.Size([2]), torch.Size([3, 2]))
    """
    told = as_callbacks(callbacks)
    table = _table(data, weights)
    table, held = _joined_if_few(table, _valid_rows(table, data, valid))
    table = replace(table, cells=spread(table.cells, table.schema, seed))
    held = None if held is None else spread(held, table.schema, seed)
    search = _Search(table, held, seed, torch.device(device))
    budget = Budget.of(table, minutes)
    chosen = candidates(table, members, budget.work)
    with Progress(chosen, table, enabled=progress) as shown:
        tried, stopped = search.run(chosen, budget, shown, told)
        shares = _weighed(search, tried)
        model = _model(search, tried, shares, shown)
    model.notes = {"learn": _notes(table, search, tried, shares) | {"stopped": stopped}}
    shown.table(model.notes["learn"])
    return model


@final
@dataclass(frozen=True)
class Budget:
    """How long a search may take.

    Candidates are chosen by what they cost, in multiplications, so that the same call tries the same ones
    wherever it runs. Should they take much longer than that, none is begun any more. Of the user's minutes
    the clock decides this. Otherwise it is the time that processors worked, of which a busy machine does not
    take away anything, and the clock only ends what would never end.

    Args:
        seconds: that candidates are chosen for.
        by_clock: they are the user's: none is begun after twice as many.
    """

    seconds: float
    by_clock: bool = True
    started: float = field(default_factory=time.monotonic)
    worked: float = field(default_factory=time.process_time)

    SPEED = 4e9
    """Multiplications a second, about, of what members cost on two cores."""
    FLOOR = 6
    """Candidates that are tried in any case where no minutes were given."""

    @classmethod
    def of(cls, table: Table, minutes: float | None) -> Budget:
        """The user's budget, or one by the cells: 75 s up to 400,000, eight minutes from 3,000,000 on."""
        if minutes is None:
            return cls(60 * min(8.0, max(1.25, table.rows.size / 4e5)), by_clock=False)
        if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 < minutes < math.inf:
            raise ParameterError(f"minutes={minutes!r}. Fix: pass a number of minutes above 0, such as 2.")
        return cls(60.0 * minutes)

    @property
    def work(self) -> float:
        """Multiplications that it is enough for, about: candidates are chosen by it, so not by chance."""
        return self.seconds * self.SPEED

    def is_spent(self, tried: int) -> bool:
        """No more candidates than those that were tried.

        Two cores that work for twice as long as they should are four times the seconds; eight times by the
        clock are a machine so busy that nobody would wait for the rest.
        """
        if self.by_clock:
            return tried >= 1 and time.monotonic() - self.started > 2 * self.seconds
        worked, waited = time.process_time() - self.worked, time.monotonic() - self.started
        return tried >= self.FLOOR and (worked > 4 * self.seconds or waited > 8 * self.seconds)


@final
@dataclass(frozen=True)
class Tried:
    """A candidate, and how well it knows the rows that were held out from it.

    Args:
        candidate: what was tried.
        width: the factor of its covariances.
        scores: log-likelihoods of all held-out rows.
        member: what it has learnt; of folds, in the one where it knew the held-out rows best.
        seconds: that it took.
        failed: why it has no scores.
    """

    candidate: Candidate
    width: float
    scores: Tensor | None
    member: Member | None
    seconds: float
    failed: str = ""

    @property
    def name(self) -> str:
        return self.candidate.name + ("" if self.width == 1.0 else f", {self.width:g}{WIDER}")


@final
@dataclass(frozen=True)
class _Search:
    """The rows of a search, and how they are split.

    Args:
        table: all training rows.
        valid: rows to weigh members by, or None.
        seed: of splits and members.
        device: to learn on.
    """

    table: Table
    valid: Rows[Any] | None
    seed: int
    device: torch.device

    def splits(self) -> Iterator[tuple[Places, Places]]:
        """The rows that are learnt from and those held out; of few rows, each is held out once."""
        count = len(self.table)
        order = np.random.default_rng(self.seed).permutation(count)
        if count < few_rows(self.table):
            parts = np.array_split(order, min(FOLDS, count))
            for part in parts:
                yield np.setdiff1d(order, part), np.sort(part)
        else:
            held = min(MOST_HELD_OUT, int(HELD_OUT * count))
            yield np.sort(order[held:]), np.sort(order[:held])

    @property
    def has_folds(self) -> bool:
        """Each row is held out once, since there are few."""
        return self.valid is None and len(self.table) < few_rows(self.table)

    def run(
        self, chosen: Sequence[Candidate], budget: Budget, shown: Progress, told: Sequence[Callback]
    ) -> tuple[list[Tried], str]:
        """Candidate by candidate; what was tried, and why no more: all were, or what ended the search."""
        best, tried = math.nan, list[Tried]()
        for number, candidate in enumerate(chosen):
            if budget.is_spent(number):
                return tried, "the time was over"
            try:
                found = self._try(candidate, self.seed + number)
            except KeyboardInterrupt:
                if not number:
                    raise
                return tried, "interrupted"
            scores = [one.scores.mean().item() for one in found if one.scores is not None]
            shown.tried(candidate, max(scores, default=None))
            tried += found
            score = max(scores, default=math.nan)
            best = max((one for one in (best, score) if not math.isnan(one)), default=math.nan)
            known = {"held_out": score, "best": best}
            seconds = time.monotonic() - budget.started
            if tell(told, Event("member", number + 1, len(chosen), seconds, known, candidate.name)):
                return tried, "a callback"
        return tried, "finished"

    def _try(self, candidate: Candidate, seed: int) -> list[Tried]:
        started, member = time.monotonic(), None
        try:
            if self.valid is not None:
                member = candidate.fit(self.table, self.valid, seed, self.device)
                scores = _scores(member, candidate, self.valid)
            elif self.has_folds:
                member, scores = self._cross_validated(candidate, seed)
            else:
                ((kept, held),) = self.splits()
                rows = self.table.cells.take(held)
                member = candidate.fit(part_of(self.table, kept), rows, seed, self.device)
                scores = _scores(member, candidate, rows)
        except SquircuitError as error:
            return [Tried(candidate, 1.0, None, None, time.monotonic() - started, without_fix(error))]
        seconds = (time.monotonic() - started) / len(scores)
        each = zip(candidate.widths, scores, strict=True)
        return [Tried(candidate, width, score, member, seconds) for width, score in each]

    def _cross_validated(self, candidate: Candidate, seed: int) -> tuple[Member, Tensor]:
        """The member of the fold that knew its held-out rows best, and the scores of all rows, held out."""
        scores = torch.empty(len(candidate.widths), len(self.table), dtype=torch.float64)
        found = list[tuple[float, Member]]()
        for kept, held in self.splits():
            member = candidate.fit(part_of(self.table, kept), None, seed, self.device)
            scores[:, held] = _scores(member, candidate, self.table.cells.take(held))
            found.append((scores[0, held].mean().item(), member))
        return max(found, key=lambda pair: pair[0])[1], scores

    def held_weights(self) -> Any:
        """Weights of the held-out rows, in the order of the scores."""
        if self.valid is not None:
            return self.valid.weights
        if self.has_folds or self.table.cells.weights is None:
            return self.table.cells.weights
        ((_, held),) = self.splits()
        return self.table.cells.weights[held]

    def everything(self) -> Table:
        """All rows, with those that weigh the members."""
        return self.table if self.valid is None else joined(self.table, self.valid)


def _scores(member: Member, candidate: Candidate, rows: Rows[Any]) -> Tensor:
    """log p of rows in each width: (W, n)."""
    return torch.stack([member.widened(width).log_prob(rows) for width in candidate.widths])


def _weighed(search: _Search, tried: Sequence[Tried]) -> Tensor:
    """The share of each that was tried; 0 of those that failed."""
    good = [number for number, one in enumerate(tried) if one.scores is not None]
    if not good:
        reasons = "; ".join(dict.fromkeys(one.failed for one in tried))
        count = len(search.everything())
        raise DataError(f"no candidate could learn from {count} rows: {reasons}. Fix: pass more rows.")
    shares = torch.zeros(len(tried), dtype=torch.float64)
    scores = torch.stack([s for one in tried if (s := one.scores) is not None])
    shares[good] = stacking_weights(scores, search.held_weights())
    return shares


def _model(search: _Search, tried: Sequence[Tried], shares: Tensor, shown: Progress) -> SquaredCircuit:
    """The members that have a share, learnt from all rows, as one."""
    table = search.everything()
    kept = [number for number, share in enumerate(shares.tolist()) if share > 0]
    models, learnt = [], dict[Candidate, Member]()  # one member may take part in several widths
    for place, number in enumerate(kept):
        one, seed = tried[number], search.seed + number
        if one.candidate not in learnt:
            assert one.member is not None  # it has a share, so it has scores
            learnt[one.candidate] = (
                one.candidate.refit(one.member, table, seed, search.device)
                if search.has_folds
                else one.member.refitted(table, seed)
            )
        models.append(learnt[one.candidate].widened(one.width).model().to(search.device))
        shown.refitted(place + 1, len(kept))
    made = models[0] if len(models) == 1 else mixture(models, shares[kept].tolist())
    made.schema = table.schema
    return made.eval()


def _notes(table: Table, search: _Search, tried: Sequence[Tried], shares: Tensor) -> dict[str, Any]:
    """What was tried, best first, as JSON data."""
    how = "given rows" if search.valid is not None else f"{FOLDS} folds" if search.has_folds else "a tenth"
    rows = [
        {
            "candidate": one.name,
            "share": share,
            "score": None if one.scores is None else one.scores.mean().item(),
            "seconds": round(one.seconds, 2),
            **({"failed": one.failed} if one.failed else {}),
        }
        for one, share in zip(tried, shares.tolist(), strict=True)
    ]
    order = sorted(rows, key=lambda row: (-row["share"], -(row["score"] or -math.inf)))
    counted = {"rows": len(table), "columns": len(table.columns), "held out": how}
    return counted | {"score": _stacked_score(search, tried, shares), "members": order}


def _stacked_score(search: _Search, tried: Sequence[Tried], shares: Tensor) -> float:
    """The mean log-likelihood of the held-out rows under the mixture, before members learn from all rows."""
    pairs = zip(tried, shares, strict=True)
    terms = [s + share.log() for one, share in pairs if (s := one.scores) is not None and share > 0]
    mixed = torch.stack(terms).logsumexp(dim=0)
    return float(np.average(mixed.numpy(), weights=search.held_weights()))


def _table(data: Any, weights: Any) -> Table:
    table = training_table(_in_memory(data))
    if weights is not None:
        table = replace(table, cells=replace(table.cells, weights=as_weights(weights, len(table))))
    if len(table.shape) > 1:
        raise ParameterError(
            f"learn is for tables, and a row of this data is an image of shape {table.shape}. "
            "Fix: model = sq.model_for(data), then sq.fit(model, data)."
        )
    return _weighted_alike(table)


def _weighted_alike(table: Table) -> Table:
    """The weights of rows that count, if there are some, with mean 1: their scale says nothing."""
    weights = table.cells.weights
    if weights is None:
        return table
    return replace(table, cells=replace(table.cells, weights=with_mean_1(weights, weights[weights > 0])))


def _in_memory(data: Any) -> Any:
    """The rows of torch's Datasets and DataLoaders; other data as it is."""
    return gathered(data).x if isinstance(data, TorchDataset | DataLoader) else data


def joined(table: Table, more: Rows[Any]) -> Table:
    """A table with more rows; those without weights count as one each beside others that have some."""
    cells = table.cells
    if (cells.weights is None) != (more.weights is None):
        cells, more = (
            replace(rows, weights=np.ones(len(rows))) if rows.weights is None else rows
            for rows in (cells, more)
        )
    return replace(table, cells=Rows.joined([cells, more]))


def _joined_if_few(table: Table, valid: Rows[Any] | None) -> tuple[Table, Rows[Any] | None]:
    """Few rows say more where each is held out once than where some are always."""
    if valid is None or len(table) + len(valid) >= few_rows(table):
        return table, valid
    return joined(table, valid), None


def _valid_rows(table: Table, data: Any, valid: Any) -> Rows[Any] | None:
    """Held-out rows as the table encodes them."""
    if valid is None and isinstance(data, Dataset):
        valid = data.valid
    if valid is None:
        return None
    if isinstance(valid, Table):
        difference = valid.schema.difference(table.schema)
        if difference:
            raise DataError(
                f"valid: {difference}, so its numbers mean something else. Fix: read it like the training "
                "rows, sq.data.read(path, like=table)."
            )
        return valid.cells
    return table.schema.encode(_in_memory(valid))
