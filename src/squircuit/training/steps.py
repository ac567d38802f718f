"""One step of training: loss, gradient, update; on a GPU replayed as one CUDA graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import cached_property
from typing import final

import torch
from torch import Tensor, nn

from squircuit.circuits.root_layers import independent
from squircuit.data import Rows
from squircuit.data.share import Part
from squircuit.errors import ParameterError
from squircuit.execution.cuda_graph import CapturedStep
from squircuit.execution.log_scales import log_sum
from squircuit.execution.precision import flushed_denormals
from squircuit.models import SquaredCircuit
from squircuit.optim import StiefelOptimizer, named
from squircuit.optim.manifold import is_constrained
from squircuit.optim.stacks import real_view
from squircuit.training.config import TrainingConfig
from squircuit.training.processes import Processes
from squircuit.training.shards import Shards, first_entry
from squircuit.training.spread import Spread, require_complete


class DivergedError(Exception):
    """The loss, a gradient or a weight is no longer a number; the message says which.

    Args:
        message: what it is.
        steps: how many steps before this one did it: a weight that is NaN became so in the last one.
    """

    def __init__(self, message: str, steps: int = 0) -> None:
        super().__init__(message)
        self.steps = steps


class ImpossibleRowsError(Exception):
    """Rows have probability 0 under finite weights: they are impossible, or training has made them so.

    Args:
        count, rows: how many rows, of how many.
        batch: those rows where they are known.
    """

    def __init__(self, count: int, rows: int, batch: Rows[Tensor] | None) -> None:
        super().__init__(f"{count} of {rows} training rows have probability 0 under the model")
        self.batch = batch


@final
class Objective:
    """The log-likelihood of a model, or that of each of the parts that it mixes, as if they were alone.

    p(x) = Σ_g p(g) p(x | g) over parts g that have no weight in common. The gradient of log p reaches a part
    multiplied by p(g | x): it learns the rows that it is better at than the others. Apart, each learns all
    rows: Σ_g log p(x | g) is maximised, and the shares p(g) stay as they are. Circuits without constraint are
    trained together: their shares change with their Z.

    Args:
        model: to be trained.
        apart: parts learn as if they were alone.
    """

    def __init__(self, model: SquaredCircuit, apart: bool) -> None:
        self.model = model
        parts = independent(model.structure)
        self.is_apart = apart and model.is_unitary and len(parts) > 1
        # made here, since a step that is captured in a graph copies nothing from the host
        sizes = [root.units for root in model.structure.roots]
        numbers = torch.split(torch.arange(sum(sizes)), sizes)
        self._roots = [torch.tensor(part, device=model.device) for part in parts]
        self._units = [torch.cat([numbers[root] for root in part]).to(model.device) for part in parts]
        self._shares = [model.root_shares().detach()[units].sum().log() for units in self._units]

    def __call__(self, x: Tensor, missing: Tensor | None) -> tuple[Tensor, Tensor]:
        """log p(x), (n,), and that whose mean is maximised, (n,)."""
        if not self.is_apart:
            log_p = self.model.log_prob(x, missing)
            return log_p, log_p
        terms = self.model.component_log_prob(x, missing)
        shares = self.model.component_log_weights()
        learnt = [
            log_sum(terms.index_select(1, roots) - shares.index_select(0, roots).logsumexp(dim=0), dim=1)
            for roots in self._roots
        ]
        return terms.detach().logsumexp(dim=1), torch.stack(learnt).sum(dim=0)

    @torch.no_grad()
    def keep_shares(self) -> None:
        """Let the root weights of each part sum to its share again, after a step that has moved them."""
        logits: Tensor | None = getattr(self.model, "root_logits", None)
        if not self.is_apart or logits is None:
            return
        for units, share in zip(self._units, self._shares, strict=True):
            moved = logits.index_select(0, units)
            logits.index_copy_(0, units, moved - moved.logsumexp(dim=0) + share)


@final
class Steps:
    """Steps of −mean log p(x) with one optimiser, or of what :class:`Objective` has in its place.

    The loss of B rows with weights is −Σ_b w_b log p(x_b) / B. Weights are 1 in the mean of all rows, so its
    mean over batches is that of all rows, Σ w (−log p) / Σ w, however the weights fall into batches.

    Args:
        model: to be trained; in training mode.
        config: with no option left at "auto".
        processes: that take the steps together.
    """

    def __init__(
        self, model: SquaredCircuit, config: TrainingConfig, processes: Processes | None = None
    ) -> None:
        self.model, self._processes = model, processes or Processes()
        self._rates = {
            name: torch.tensor(0.0, dtype=torch.float64, device=model.device) for name in ("lr", "lr_free")
        }
        self._largest = {"lr": float(config.lr), "lr_free": config.lr_free}
        self._objective = Objective(model, config.apart)
        method, own = named(config.optimiser), dict(model.named_parameters())
        self._shards: Shards | Spread | None = None
        if config.shard != "none" and self._processes.size > 1:
            is_spread = config.shard == "weights"
            self._shards = Spread(model, self._processes) if is_spread else Shards(own, self._processes)
            own = self._shards.own
        self._own, self.optimiser = own, _optimiser(model, method, self._rates, own)
        # these see to the manifold themselves; with others, steps look at the weights and compute Z
        self._is_trusted = method.takes_semi_unitary
        self._captures = (
            config.graph
            and model.device.type == "cuda"
            and method.is_capturable
            and self._processes.is_capturable
            and not model.is_spread
            and _is_capturable(model, self._is_trusted)
        )
        self._captured: CapturedStep | None = None
        self._shape: tuple[int, ...] = ()

    @property
    def spread(self) -> Spread | None:
        """The weights in parts, where each process holds only some of them."""
        return self._shards if isinstance(self._shards, Spread) else None

    @property
    def looks_at_once(self) -> bool:
        """The host sees every loss before weights change; else call `require_good` now and then."""
        return not self._captures

    def __call__(self, part: Part[Tensor], factor: float) -> Tensor:
        """One step at a share of the learning rates, each process with its part of a batch.

        Returns, of the whole batch, the loss, how many rows have probability 0, and the mean weight: (3,).
        """
        for name, rate in self._rates.items():
            rate.fill_(factor * self._largest[name])
        rows, whole = part.rows, part.whole
        # what one process is given decides what all do: they have to wait for one another
        has_gaps, teaches = self._processes.any(rows.gaps is not None, teaches_something(rows))
        require_complete(has_gaps and self.spread is not None)
        if not self._captures or has_gaps:
            # where every cell is missing log p is 0 whatever the weights, and teaches nothing
            return self._step(rows, whole, teaches, looks=True)
        if self._captured is None or self._shape != (whole, *rows.x.shape):
            self._captured, self._shape = self._capture(rows, whole), (whole, *rows.x.shape)
        return self._captured(*_tensors(rows))

    def _step(self, part: Rows[Tensor], rows: int, teaches: bool = True, looks: bool = False) -> Tensor:
        """Forward, backward, optimiser, with these of all rows of a batch.

        Losses are divided by the number of all rows, so that the sum over processes is the mean of the batch.
        """
        step = self.model.training_step(on_manifold=self._is_trusted)
        with step, nullcontext() if part.x.is_cuda else flushed_denormals():
            self.optimiser.zero_grad(set_to_none=True)
            log_p, learnt = self._objective(part.x, part.gaps)
            if teaches_something(part):
                (-(weighted(learnt, part.weights).sum() / rows)).backward()  # type: ignore[no-untyped-call]
            log_p = log_p.detach()
            loss = -(weighted(log_p, part.weights).sum() / rows).double()
            lost = (log_p == -torch.inf).sum().double()
            mass = torch.full_like(lost, len(part)) if part.weights is None else part.weights.sum().double()
            found = torch.stack([loss, lost, mass / rows])
            if self._shards is None:
                self._processes.sum_gradients(self.model.parameters(), found)
            else:
                self._shards.sum_gradients(found)
            if looks:
                require_good(found[:2], rows, self.model, part, log_p)
            if teaches:
                self._update()
            return found

    def _update(self) -> None:
        """The optimiser's part of a step."""
        try:
            (self._shards or self._processes).step(self.optimiser)
        except FloatingPointError as error:
            raise DivergedError(str(error).partition(". Fix: ")[0]) from error
        self._objective.keep_shares()

    def _capture(self, part: Rows[Tensor], rows: int) -> CapturedStep:
        """The step as a graph; capturing takes steps, so weights and states are put back."""
        kept = {name: value.to("cpu", copy=True) for name, value in self.tensors()}
        captured = CapturedStep(
            lambda x, weights=None: self._step(Rows(x, None, weights), rows), *_tensors(part)
        )
        for name, value in self.tensors():
            value.copy_(kept[name]) if name in kept else value.zero_()
        return captured

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Weights and the state of the optimiser, by name, to be saved or changed in place.

        Where processes share the optimiser's state, it is that of the own part of the weights.
        """
        for name, parameter in self.model.named_parameters():
            yield f"model.{name}", parameter.detach()
            for key, value in self.optimiser.state.get(self._own[name], {}).items():
                yield f"optimiser.{key}.{name}", value

    def whole(self) -> dict[str, Tensor]:
        """What `tensors` gives, of one process or gathered from all, which must call this together."""
        if self._shards is None:
            return dict(self.tensors())
        states = {name: self.optimiser.state.get(part, {}) for name, part in self._own.items()}
        found = self._shards.states({n: kept for n, kept in states.items() if kept}, self._entries)
        weights = {name: parameter.detach() for name, parameter in self.model.named_parameters()}
        held = {f"model.{name}": value for name, value in self.gathered(weights).items()}
        return held | {f"optimiser.{k}.{n}": value for n, kept in found.items() for k, value in kept.items()}

    def gathered(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights by name as a whole, of parts of which each process has its own; all call this together."""
        return dict(weights) if self._shards is None else self._shards.gathered(weights)

    def own(self, name: str, whole: Tensor) -> Tensor:
        """The own part of a weight by name."""
        return whole if self.spread is None else self.spread.part(name, whole)

    @torch.no_grad()
    def forms(self) -> dict[str, Tensor]:
        """The state that the optimiser has after a step, by name, as tensors without values.

        Only the optimiser knows: it takes a step with gradients of 0, and weights and state are put back.
        """
        if self._shards is not None:
            return {
                f"optimiser.{key}.{name}": _of_entries(form, self._shards.count(name))
                for name in self._own
                for key, form in self._entries[name].items()
            }
        kept = [parameter.detach().clone() for parameter in self.model.parameters()]
        for parameter in self.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        self.optimiser.step()
        found = {n: v.to("meta") for n, v in self.tensors() if n.startswith("optimiser.")}
        self.optimiser.zero_grad(set_to_none=True)
        self.optimiser.state.clear()
        for parameter, value in zip(self.model.parameters(), kept, strict=True):
            parameter.copy_(value)
        return found

    @cached_property
    def _entries(self) -> dict[str, dict[str, Tensor]]:
        """The state that the optimiser has of the first entry of each parameter, without values."""
        firsts = {name: first_entry(parameter) for name, parameter in self.model.named_parameters()}
        optimiser = _optimiser(self.model, type(self.optimiser), self._rates, firsts)
        optimiser.step()
        return {n: {k: v.to("meta") for k, v in optimiser.state[p].items()} for n, p in firsts.items()}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Put back the state of the optimiser that `whole` gave, by however many processes."""
        for full, value in tensors.items():
            kind, _, rest = full.partition(".")
            if kind == "optimiser":
                key, _, name = rest.partition(".")
                own = self._own[name]
                part = value if self._shards is None else self._shards.part(name, value)
                if len(own):
                    self.optimiser.state[own][key] = part.to(own.device, copy=True)


def teaches_something(rows: Rows[Tensor]) -> bool:
    """Some cell is known."""
    return rows.gaps is None or not bool(rows.gaps.all())


def weighted(log_p: Tensor, weights: Tensor | None) -> Tensor:
    """w log p of every row, (n,); without weights log p as it is."""
    return log_p if weights is None else weights * log_p


def _tensors(rows: Rows[Tensor]) -> list[Tensor]:
    """What a captured step is given: x, and weights where there are some."""
    return [rows.x] if rows.weights is None else [rows.x, rows.weights]


def require_good(
    found: Tensor,
    rows: int,
    model: SquaredCircuit,
    batch: Rows[Tensor] | None = None,
    log_p: Tensor | None = None,
) -> None:
    """Raise if a loss is not finite, or rows have probability 0; weights are to blame before rows are.

    Args:
        found: sum of losses, and of the numbers of rows of probability 0: (2,).
        rows: how many rows were looked at.
        model: whose weights may be NaN, which makes any row look impossible.
        batch, log_p: the rows where they are at hand, and their log p: (n,).
    """
    loss, impossible = found.tolist()
    if not impossible and math.isfinite(loss):
        return
    require_finite_weights(model)
    if not impossible:
        raise DivergedError(f"the loss is {loss}")
    if batch is not None and log_p is not None:
        lost = log_p == -torch.inf
        batch = batch.take(lost)
    raise ImpossibleRowsError(int(impossible), rows, batch)


def require_finite_weights(model: SquaredCircuit) -> None:
    """Raise if the last step has left a weight that is no number, in some process that holds it."""
    error = None
    for name, parameter in model.named_parameters():
        values = real_view(parameter.detach())
        if error is None and not bool(values.isfinite().all()):
            kind = "NaN" if bool(values.isnan().any()) else "infinite"
            error = DivergedError(f"weights became {kind} ({name})", steps=1)
    if model.agreed(error is not None)[0]:
        raise error or DivergedError("weights of another process are no numbers", steps=1)


def _optimiser(
    model: SquaredCircuit,
    method: type[StiefelOptimizer],
    rates: dict[str, Tensor],
    parameters: dict[str, nn.Parameter],
) -> StiefelOptimizer:
    """Weights at rate ``lr``, semi-unitary ones on their manifold; all else at ``lr_free``."""
    weights = {stack.name for stack in model.plan.stacks}
    groups: dict[tuple[bool, str], list[nn.Parameter]] = {}
    for name, parameter in parameters.items():
        constrained = is_constrained(parameter) and method.takes_semi_unitary
        groups.setdefault((constrained, "lr" if name in weights else "lr_free"), []).append(parameter)
    if not groups:
        raise ParameterError("the model has no parameters to train. Fix: build it with mixing=True.")
    other = "free_lr" if method.takes_semi_unitary else "lr"
    made = [
        {"params": params, "constrained": constrained, "lr" if constrained else other: rates[rate]}
        for (constrained, rate), params in groups.items()
    ]
    return method(made)


def _of_entries(form: Tensor, count: int) -> Tensor:
    """The state of so many entries, of that of one; a number is the same for all."""
    return form if form.ndim == 0 else form.new_empty((count * len(form), *form.shape[1:]))


def _is_capturable(model: SquaredCircuit, is_trusted: bool) -> bool:
    """The step waits for nothing on the host: Z is 1, or comes from one pass on the device."""
    return (model.is_unitary and is_trusted) or not model.plan.has_cross_terms
