"""Train a model: the one call that most users need."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from squircuit.errors import ParameterError, SquircuitError, Wording
from squircuit.models import SquaredCircuit
from squircuit.training.callbacks import Callback, Event, as_callbacks
from squircuit.training.checkpoint import RunFolder, identity, told
from squircuit.training.config import TrainingConfig
from squircuit.training.defaults import resolve
from squircuit.training.distributed import present
from squircuit.training.feed import Data
from squircuit.training.history import History
from squircuit.training.intake import open_data
from squircuit.training.loop import Loop
from squircuit.training.processes import Processes
from squircuit.training.progress import TensorBoard, terminal


def fit(
    model: SquaredCircuit,
    train: Any,
    valid: Any = None,
    config: TrainingConfig | dict[str, Any] | str | Path | None = None,
    *,
    weights: Any = None,
    valid_weights: Any = None,
    callbacks: Sequence[Callable[[Event], object]] = (),
    run: str | Path | None = None,
    resume: bool = False,
    processes: Processes | None = None,
    **overrides: Any,
) -> History:
    """Train a model by maximum likelihood; it then has the best weights of all validations.

    It is left in evaluation mode, in which scores are exact also where weights are off the manifold.

    Rows with missing entries count with their marginal likelihood. The same seed gives the same result on the
    same machine, also for a run that was interrupted and resumed. Ctrl-C ends training after the present
    step; a second one at once.

    Args:
        model: trained from its present weights, on its device.
        train: a tensor, an array or a numeric data frame (n, d) in which NaN is missing, a `Table`, a
            `Dataset` (with its validation data), `Batches`, a path, or a Dataset or DataLoader of torch;
            .npy and Parquet files, mapped arrays and loaders stream.
        valid: the same; None: ``valid_fraction`` of the rows are held out, and streams have none.
        config: a `TrainingConfig`, a mapping, or the path of a TOML, YAML or JSON file.
        weights: (n,), how much each row of ``train`` counts, from 0 upwards: the loss is the weighted mean
            Σ w_i (−log p(x_i)) / Σ w_i, so a row of weight 2 counts as two and one of weight 0 as none; rows
            that are held out keep theirs. None: all count alike, or as `Rows` and `Batches` say.
        valid_weights: those of ``valid``.
        callbacks: functions that are called with an `Event` after every epoch, and end training by
            returning True; or a `Callback` each.
        run: a folder for config.json, history.jsonl, checkpoint.safetensors and best.safetensors; None:
            nothing is written.
        resume: go on with the run in that folder, or begin it.
        processes: that train the model together, each by this call with the same model, data and options
            (docs/scale.md); None: those of torch.distributed where this process has joined a group, else
            this one alone.
        overrides: options of the config.

    Raises:
        ParameterError, DataError, FormatError: before anything is changed; DataError also where rows have
            probability 0 under the model, which then has its last good weights.
        ProcessError: another process has failed or ended; the model has its best weights so far (with
            ``shard="weights"`` its part of them, and the folder of the run has the whole model).

    Example:
        >>> import squircuit as sq, torch
        >>> x = torch.randint(2, (200, 1), generator=torch.Generator().manual_seed(0)).expand(-1, 4)
        >>> model = sq.SquaredCircuit(sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2))
        >>> history = sq.fit(model, x, epochs=20, progress=False)
        >>> round(history.best.valid, 1)  # log 2 nats: all columns are one fair coin
        0.7
        >>> sq.fit(model, x, epoch=20)
        Traceback (most recent call last):
        squircuit.errors.ParameterError: there is no option 'epoch'. Fix: did you mean 'epochs'? ...
    """
    if not isinstance(model, SquaredCircuit):
        raise ParameterError(f"fit trains a SquaredCircuit, got {model!r}. Fix: sq.SquaredCircuit(circuit).")
    processes = processes or present()
    own, settings = processes.together(
        lambda: (as_callbacks(callbacks), TrainingConfig.of(config, **overrides))
    )
    folder = processes.together(lambda: _folder(run, resume, settings))
    if folder is not None:
        processes.on_first(folder.require_usable)
    data = processes.together(lambda: open_data(model, train, valid, settings, weights, valid_weights))
    settings = processes.together(lambda: _resolved(settings, model, data, processes))
    if processes.size > 1:
        processes.require_alike(told(model, settings, data))
    with ExitStack() as held:
        if processes.rank:  # process 0 warns and shows
            held.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        called = [] if processes.rank else [*_displays(settings, folder), *own]
        loop = Loop(model, data, settings, folder, called, processes)
        if folder is not None:
            lock = folder.locked()
            try:
                processes.on_first(lambda: held.enter_context(lock))
                _prepare(loop, folder, processes)
            except SquircuitError:  # which all processes raise here
                loop.put_together()
                raise
        if not loop.is_over:
            return loop.run()
    model.eval()
    return loop.history()


def _resolved(
    settings: TrainingConfig, model: SquaredCircuit, data: Data, processes: Processes
) -> TrainingConfig:
    """The options with every "auto" decided, once there are rows for all."""
    settings = resolve(settings, model, data.train)
    if int(settings.batch) < processes.size:
        raise ParameterError(
            f"batch={settings.batch} has no row for each of {processes.size} processes. Fix: a larger batch."
        )
    return settings


def _folder(run: str | Path | None, resume: bool, config: TrainingConfig) -> RunFolder | None:
    """The folder of the run, with everything refused that can be refused without data."""
    if run is None:
        if resume or config.tensorboard:
            wish = "resume=True" if resume else "tensorboard=True"
            fix = Wording("pass run='some/folder'", "--run FOLDER")
            raise ParameterError(f"{wish} needs the folder of the run", value=wish, fix=fix)
        return None
    folder = RunFolder(os.fspath(run))
    if folder.is_begun and not resume:
        raise ParameterError(
            f"{folder.path} holds a run",
            fix=Wording("resume=True", "--resume") + " to go on with it, or pass another folder",
        )
    return folder


def _prepare(loop: Loop, folder: RunFolder, processes: Processes) -> None:
    """Begin the run in its folder, or go on with the one that is there."""
    this = identity(loop.model, loop.config, loop.data)
    if processes.any(folder.is_begun)[0]:  # all have looked before process 0 begins it
        folder.require_same(this)
        loop.resume()
    else:
        write = loop.to_write()
        processes.on_first(lambda: folder.begin(this, write))


def _displays(config: TrainingConfig, folder: RunFolder | None) -> list[Callback]:
    displays: list[Callback] = []
    if config.progress:
        displays.append(terminal(config.unit, int(config.epochs)))
    if config.tensorboard and folder is not None:
        displays.append(TensorBoard(folder.path / "tensorboard"))
    return displays
