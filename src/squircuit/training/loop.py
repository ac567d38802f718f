"""Epochs, validations, checkpoints: what happens between the steps."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from squircuit.data.share import Part
from squircuit.errors import DataError, FormatError
from squircuit.execution.threads import fitting_threads, typical_operation
from squircuit.models import SquaredCircuit
from squircuit.optim import named
from squircuit.optim.manifold import FEW, retracted
from squircuit.storage.words import without_fix
from squircuit.training.callbacks import Callback, Event, tell
from squircuit.training.checkpoint import CHECKPOINT, RunFolder, State, require_fitting, require_models
from squircuit.training.config import TrainingConfig
from squircuit.training.evaluation import (
    Average,
    Scores,
    Weights,
    evaluate,
    in_unit,
    put,
    using,
    warn_if_off_manifold,
    weights_of,
)
from squircuit.training.feed import Data
from squircuit.training.history import Epoch, History
from squircuit.training.interrupts import Interrupts
from squircuit.training.jitter import Jitter
from squircuit.training.processes import Processes
from squircuit.training.steps import (
    DivergedError,
    ImpossibleRowsError,
    Steps,
    require_finite_weights,
    require_good,
)

LOOK = 50
"""Steps of a captured graph between two looks at the loss: each waits for the device."""


class DivergedWarning(RuntimeWarning):
    """Training has ended early, with the best weights from before."""


@final
class Loop:
    """A training run, new or resumed.

    Args:
        model: to be trained.
        data: for it.
        config: with no option left at "auto".
        folder: for its files, or None.
        callbacks: that show it and may stop it, those of the first process.
        processes: that train it together; default this one alone.
    """

    def __init__(
        self,
        model: SquaredCircuit,
        data: Data,
        config: TrainingConfig,
        folder: RunFolder | None,
        callbacks: list[Callback],
        processes: Processes | None = None,
    ) -> None:
        self.model, self.data, self.config, self.folder, self.callbacks = (
            model,
            data,
            config,
            folder,
            callbacks,
        )
        self.processes = processes or Processes()
        self.processes.start_alike([parameter.detach() for parameter in model.parameters()])
        self.state, self.steps = State(), Steps(model, config, self.processes)
        self.best, self.average = (
            weights_of(model),
            Average(model, config.average) if config.average else None,
        )
        self.jitter = Jitter.of(model.structure, config.jitter, config.seed, model.device)
        self.total = torch.zeros(2, dtype=torch.float64, device=model.device)
        # the mean weights of the batches of an epoch, summed: as many as there are batches, more or less
        self.mass = torch.zeros((), dtype=torch.float64, device=model.device)
        self._epoch_steps = data.train.steps(int(config.batch))
        self._epochs = int(config.epochs)
        self._saved, self._written_best = time.monotonic(), -1
        self._wish: str | None = None

    # ------------------------------------------------------------------ running

    def run(self) -> History:
        """Train to the end, or until something stops it; the model then has the best weights."""
        history = None
        self._show("start")
        try:
            operation = typical_operation(self.model.plan, int(self.config.batch))
            with (
                Interrupts(terminates=self.folder is not None) as interrupts,
                torch.enable_grad(),
                fitting_threads(operation),
            ):
                self.model.train()
                self._train(interrupts)
                self._put_best()
                history = self.history()
        except BaseException:
            put(self.model, self.best)
            raise
        finally:
            self.model.eval()
            self._show("stop", note="" if history is None else str(history).splitlines()[-1])
        interrupts.pass_on()
        return history

    def _put_best(self) -> None:
        """The model has its best weights, and has them whole."""
        put(self.model, self.best)
        self.put_together()

    def put_together(self) -> None:
        """The model has its weights whole; all processes call this."""
        if self.steps.spread is not None:
            self.steps.spread.join(self.steps.gathered(weights_of(self.model)))

    @property
    def is_over(self) -> bool:
        """The run ended before it was resumed."""
        return self.state.stopped != "running"

    def history(self) -> History:
        """What happened so far."""
        state = self.state
        return History(tuple(state.rows), self.config.unit, state.best_epoch, state.stopped)

    def _train(self, interrupts: Interrupts) -> None:
        started = time.monotonic() - self.state.seconds
        try:
            while self.state.stopped == "running":
                self._epoch(interrupts, started)
        except DivergedError as error:
            self._fail(error)
        except ImpossibleRowsError as error:
            self._require_possible(error)
            self._fail(DivergedError(f"{error}, which were possible before", steps=1))
        if self.folder is not None:
            self.save()

    def _fail(self, error: DivergedError) -> None:
        """Training has diverged: say where, and with which rate."""
        where = f"epoch {self.state.epoch + 1}, step {self.state.step + 1 - error.steps}"
        self.state.stopped = f"failed: {error} in {where}, with lr={self.config.lr:g}"
        before = f"epoch {self.state.best_epoch}" if self.state.best_epoch else "before the training"
        warnings.warn(
            f"training {self.state.stopped}. The model has the weights of {before}. Fix: a smaller lr.",
            DivergedWarning,
            stacklevel=5,
        )

    @torch.no_grad()
    def _require_possible(self, error: ImpossibleRowsError) -> None:
        """Blame rows that have probability 0 under the last good weights, too; else it was the training."""
        impossible, best = error.batch is None, self._gathered(self.best)
        if error.batch is not None and len(error.batch.x):  # of several processes, only some have such rows
            with self._holding(best):
                log_p = self.model.eval().log_prob(*error.batch)
            self.model.train()
            impossible = not bool((log_p > -torch.inf).all())
        if not self.processes.any(impossible)[0]:
            return
        raise DataError(
            f"{error}, so the likelihood cannot be maximised; the weights are good ones from before. "
            "Fix: leave these rows out, or build a model with more units or wider functions; a smaller lr, "
            "if this is not the first epoch."
        ) from error

    def _epoch(self, interrupts: Interrupts, started: float) -> None:
        """The steps of one epoch that are left, and what comes after them."""
        state, batch, seed = self.state, int(self.config.batch), self.config.seed
        if state.position == 0:
            self.total.zero_()
            self.mass.zero_()
        share = self.processes.share
        for part in self.data.train.parts(batch, seed, state.epoch, state.position, share):
            if self.jitter is not None:
                part = self._jittered(part, self.jitter)
            loss, mass = torch.split(self.steps(part, self._factor(state.step)), [2, 1])
            self.total += loss
            self.mass += mass.squeeze(0)
            if self.average is not None:
                self.average.update(state.step)
            state.step, state.position = state.step + 1, state.position + 1
            state.seconds = time.monotonic() - started
            if self.steps.looks_at_once or state.position % LOOK == 0:
                self._look()
            # signals and clocks differ between processes, and all must do the same
            interrupted, due = self.processes.any(interrupts.received is not None, self._is_save_due)
            if interrupted:
                state.stopped = "interrupted"
                return
            if due:
                self.save()
                self._saved = time.monotonic()
        self._look()
        require_finite_weights(self.model)  # those of the last step have not met a row yet
        self._close_epoch(started)

    def _jittered(self, part: Part[Tensor], jitter: Jitter) -> Part[Tensor]:
        x = jitter(part.rows.x, self.state.step, part.start, part.whole)
        return part._replace(rows=replace(part.rows, x=x))

    def _look(self) -> None:
        """Read the loss of the epoch so far: stop if it is not finite, else show it."""
        require_good(self.total, self.state.position * int(self.config.batch), self.model)
        self._show("step", train=self._in_unit(self._mean()))

    def _mean(self) -> float:
        """The loss of the epoch so far: Σ w (−log p) / Σ w of its rows."""
        mass = self.mass.item() if self.data.train.is_weighted else self.state.position
        return self.total[0].item() / mass

    def _close_epoch(self, started: float) -> None:
        """Validate, note, keep the best weights, and say whether training goes on."""
        state, config = self.state, self.config
        mean = self._mean()
        state.epoch, state.position = state.epoch + 1, 0
        last = state.epoch == self._epochs
        scores = self._validate() if last or state.epoch % config.valid_every == 0 else None
        state.seconds = time.monotonic() - started
        state.rows.append(self._row(mean, scores))
        if state.waited >= int(config.patience) > 0:
            state.stopped = f"early stopping: no better validation in {config.patience}"
        elif last:
            state.stopped = "finished"
        self._call_back()
        if self.folder is not None:
            folder, rows = self.folder, state.rows
            self.processes.on_first(lambda: folder.write_history(rows))

    def _validate(self) -> Scores:
        """Scores of the present weights, or of their average; the weights are kept if they are the best."""
        state = self.state
        evaluated = self._evaluated()
        with nullcontext() if evaluated is None else using(self.model, evaluated):
            scores = evaluate(self.model, self.data.valid, self.processes)
        if self.model.is_unitary and all(row.normalised for row in state.rows):
            warn_if_off_manifold(scores, self.config.optimiser)
        if self._is_better(scores.loss):
            best = math.inf if scores.loss is None else scores.loss
            state.best, state.best_epoch, state.waited = best, state.epoch, 0
            self.best = evaluated or weights_of(self.model)
        else:
            state.waited += 1
        return scores

    def _evaluated(self) -> Weights | None:
        """The weights to validate and to keep: the average, or the present ones, on the manifold.

        What methods find that do not mean to stay there is judged as it is, where that is tractable.
        """
        if self.average is not None:
            return retracted(self.model, self.average.weights)
        if named(self.config.optimiser).stays_on_manifold:
            return retracted(self.model, steps=FEW)
        return retracted(self.model) if self.model.needs_manifold else None

    def _is_better(self, loss: float | None) -> bool:
        """Whether a loss is the best so far; without validation data (None) the last weights are."""
        if loss is None or self.state.best_epoch == 0:
            return loss is None or not math.isnan(loss)
        return loss < self.state.best

    def _row(self, mean: float, scores: Scores | None) -> Epoch:
        state, loss = self.state, None if scores is None else scores.loss
        return Epoch(
            epoch=state.epoch,
            step=state.step,
            train=self._in_unit(mean),
            valid=None if loss is None else self._in_unit(loss),
            log_z=None if scores is None else scores.log_z,
            normalised=self.model.is_unitary if scores is None else scores.normalised,
            lr=float(self.config.lr) * self._factor(state.step - 1),
            seconds=round(state.seconds, 3),
        )

    def _factor(self, step: int) -> float:
        return self.config.rate_factor(step, self._epochs * self._epoch_steps)

    def _in_unit(self, nats: float) -> float:
        return in_unit(nats, self.config.unit, len(self.model.structure.scope))

    def _show(self, what: str, note: str = "", **scores: float) -> None:
        """Tell callbacks of a step, of the begin or of the end."""
        state, steps = self.state, self._epochs * self._epoch_steps
        for callback in self.callbacks:
            getattr(callback, what)(Event(what, state.step, steps, state.seconds, scores, note))

    def _call_back(self) -> None:
        """Call the callbacks after an epoch: process 0 calls, and all stop where a callback wants it."""
        asked = self.processes.any(any(callback.asks_model for callback in self.callbacks))[0]
        weights = self._gathered(self._evaluated() or weights_of(self.model)) if asked else None
        self.processes.on_first(lambda: self._tell(weights))
        wishes = self.processes.any(self._wish is not None)
        if wishes[0] and self.state.stopped == "running":
            self.state.stopped = f"stopped by a callback: {self._wish or 'see process 0'}"

    def _tell(self, weights: Weights | None) -> None:
        event = Event("epoch", self.state.epoch, self._epochs, self.state.seconds, self._scores())
        with nullcontext() if weights is None else self._to_be_asked(weights):
            self._wish = tell(self.callbacks, event)

    @contextmanager
    def _to_be_asked(self, weights: Weights) -> Iterator[None]:
        """The model as it would be after training, in evaluation mode; what is done to it is undone."""
        with torch.no_grad(), self._holding(weights):
            self.model.eval()
            try:
                yield
            finally:
                self.model.train()

    def _gathered(self, weights: Weights) -> Weights:
        """Weights as a whole; processes that hold parts of them call this together."""
        return self.steps.gathered(weights)

    def _holding(self, weights: Weights) -> AbstractContextManager[None]:
        """The model has other weights, whole, while this lasts; this process may call it alone."""
        spread = self.steps.spread
        return using(self.model, weights) if spread is None else spread.joined(weights)

    def _scores(self) -> dict[str, float]:
        """The scores of the last epoch that are known."""
        row = self.state.rows[-1]
        best = None if math.isinf(self.state.best) else self._in_unit(self.state.best)
        known = {"train": row.train, "valid": row.valid, "best": best, "log_z": row.log_z, "lr": row.lr}
        return {name: value for name, value in known.items() if value is not None}

    # ------------------------------------------------------------------ files

    @property
    def _is_save_due(self) -> bool:
        waited = time.monotonic() - self._saved
        return self.folder is not None and waited >= 60 * self.config.checkpoint_minutes

    def save(self) -> None:
        """Process 0 writes the checkpoint, and the best weights if they are others than those written."""
        write = self.to_write()
        self.processes.on_first(write)

    def to_write(self) -> Callable[[], None]:
        """What process 0 does to save, once all have brought their part of the state."""
        held = self._tensors(self.steps.whole())
        return lambda: self._write(held)

    def _write(self, held: dict[str, Tensor]) -> None:
        assert self.folder is not None
        self.folder.save(held, self.state.to_dict())
        if self.state.best_epoch != self._written_best:
            with self._holding({name: held[f"best.{name}"] for name in self.best}):
                self.folder.write_best(self.model)
            self._written_best = self.state.best_epoch

    def _tensors(self, steps: dict[str, Tensor], own: bool = False) -> dict[str, Tensor]:
        """All that a checkpoint holds, of what the steps have: whole, or the own parts."""
        held = steps | {"total": self.total}
        if self.data.train.is_weighted:
            held["mass"] = self.mass
        kinds = {"best": self.best} | ({} if self.average is None else {"average": self.average.weights})
        for kind, weights in kinds.items():
            found = weights if own else self._gathered(weights)
            held |= {f"{kind}.{name}": value for name, value in found.items()}
        return held

    def resume(self) -> None:
        """Go on where the folder's checkpoint is, once everything in it has been looked at."""
        assert self.folder is not None
        stored = self.folder.load()
        held, own = self._tensors(self.steps.whole()), self._tensors(dict(self.steps.tensors()), own=True)
        try:
            state = State.from_dict(stored.document)
            state.require_within(self._epochs, self._epoch_steps)
            require_fitting(stored.tensors, held, self.steps.forms(), state)
            require_models(self.model, stored.tensors, state, self._holding)
        except ValueError as error:
            raise FormatError(
                f"{self.folder.path / CHECKPOINT}: it does not fit the model and its data "
                f"({without_fix(error)}). Fix: start again in another folder."
            ) from error
        self.state = state
        self.steps.load_state(stored.tensors)
        for name, value in own.items():
            value.copy_(self.steps.own(name.partition(".")[2], stored.tensors[name]))
        if self.state.stopped == "interrupted":
            self.state.stopped = "running"
        if self.is_over:
            self._put_best()
