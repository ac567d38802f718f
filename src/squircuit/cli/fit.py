"""`squircuit fit`: from data to a trained model in a file."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
import typer

from squircuit.cli.arguments import pairs
from squircuit.cli.classes import accuracy_of, by_class, labelled
from squircuit.cli.machine import chosen_device
from squircuit.cli.options import Options, options
from squircuit.cli.reading import (
    STANDARD,
    Form,
    described,
    form_of,
    is_streamed,
    open_data,
    part_rows,
    place_of,
    require_path,
    sample_of,
)
from squircuit.cli.report import FAILED, INTERRUPTED, Report, plain
from squircuit.cli.score import score_text, scored
from squircuit.cli.together import Launched
from squircuit.cli.writing import require_place
from squircuit.data import Batches, Dataset, Schema, Table, names, read
from squircuit.data.weights import Weights, weight_column
from squircuit.errors import ParameterError
from squircuit.learning import learn
from squircuit.models import SquaredCircuit, model_for
from squircuit.training import History, TrainingConfig
from squircuit.training import fit as train
from squircuit.training.checkpoint import RunFolder
from squircuit.training.history import in_words, log_z_text, loss_text
from squircuit.training.intake import stream_batch
from squircuit.training.loop import DivergedWarning


@final
@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of the command: its words, named as :mod:`squircuit.cli.commands.fit` declares them."""

    context: typer.Context
    data: str
    out: Path | None
    valid: str | None
    run: Path | None
    resume: bool
    config: Path | None
    preset: str | None
    set_: list[str] | None
    units: int | None
    epochs: int | None
    lr: float | None
    batch: int | None
    seed: int | None
    device: str
    columns: list[str] | None
    weights: str | None
    stream: bool
    classes: bool
    minutes: float | None
    header: bool | None
    delimiter: str | None
    encoding: str | None
    quiet: bool
    as_json: bool

    @cached_property
    def texts(self) -> dict[str, str]:
        """Options of the model and of its training, by name."""
        flags = {name: getattr(self, name) for name in ("units", "epochs", "lr", "batch", "seed")}
        given = {name: str(value) for name, value in flags.items() if value is not None}
        return pairs(self.set_ or [], "--set") | given

    @cached_property
    def form(self) -> Form:
        return form_of(self.header, self.delimiter, self.encoding)

    @cached_property
    def chosen(self) -> Options:
        return options(self.data, self.preset, self.config, self.texts)

    @cached_property
    def training(self) -> TrainingConfig:
        return replace(self.chosen.training, progress=False) if self.quiet else self.chosen.training

    @property
    def launched(self) -> Launched | None:
        found: Launched | None = self.context.obj["launched"]
        return found

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that writes."""
        return self.launched is None or self.launched.rank == 0

    @cached_property
    def place(self) -> torch.device:
        return chosen_device(self.device) if self.launched is None else self.launched.join(self.device)

    @property
    def wants_circuit(self) -> bool:
        """One circuit was asked for, by some option of it or of its training."""
        return bool(set(self.texts) - {"seed"} or self.config or self.preset or self.run)

    @property
    def words(self) -> str:
        """The whole command, as the file of the model tells it."""
        text: str = self.context.obj["command"]
        return text


class Opened(NamedTuple):
    """The rows that a call is about."""

    source: Dataset | Table  #: all of them, or of a stream a sample
    streamed: bool
    counts: Weights | None  #: how much each row counts
    held: Table | None  #: rows of validation, of a file of their own
    held_counts: Weights | None


def fit(**words: Any) -> None:
    """The work of the command `fit`, see :mod:`squircuit.cli.commands`."""
    call = Call(**words)
    report = Report(call.as_json)
    _require_usable(call)
    opened, file = _open(call)
    source = opened.source
    _require_fitting(call, opened)
    report.say(f"{_name(source)}{' looked at, all streamed' * opened.streamed}\n{described(_schema(source))}")
    if _is_search(call, opened):
        _search(call, opened, file, report)
    else:
        _train(call, opened, file, report)


def _is_search(call: Call, opened: Opened) -> bool:
    """Whether many densities are tried: of tables, where no option of one circuit was given."""
    is_table = isinstance(opened.source, Table) and len(opened.source.shape) == 1
    return is_table and not (opened.streamed or call.wants_circuit)


def _require_fitting(call: Call, opened: Opened) -> None:
    """Refuse options that are of the other kind of training, before anything is done."""
    if not _is_search(call, opened) and call.minutes is not None:
        raise ParameterError(
            f"--minutes {call.minutes:g} is for the search that tables get without options of a circuit. "
            "Fix: leave it out, or leave out the others."
        )
    if _is_search(call, opened) and call.launched is not None:
        raise ParameterError(
            f"the search for a table's density runs in one process, and torchrun has started "
            f"{call.launched.size}. Fix: an option of a circuit, such as --units 8; or leave torchrun out."
        )


def _require_usable(call: Call) -> None:
    """Refuse words that cannot be, before any data is read."""
    _ = call.texts, call.form, call.chosen, call.place
    if call.is_first:
        require_place(call.out, (".safetensors",) if call.out and call.out.suffix else ())
    if call.resume and call.run is None:
        raise ParameterError("--resume needs the folder of the run. Fix: --run FOLDER.")
    if call.valid is not None:
        require_path(call.valid)
    if call.run is not None and call.is_first:
        RunFolder(call.run).require_usable()


def _open(call: Call) -> tuple[Opened, Path]:
    """The data, and the file for the model, which can be written."""
    wishes = _wishes(pairs(call.columns or [], "--columns"), call.weights, call.data)
    known = labelled(call.data, wishes) if call.classes else None
    streamed, content = is_streamed(call.data, call.stream), place_of(call.data)  # which is read once
    counts, held_counts = (
        None
        if call.weights is None or file is None
        else weight_column(file, call.weights, **call.form._asdict())
        for file in (content, call.valid)
    )
    source: Dataset | Table | None = known or (sample_of(call.data, wishes) if streamed else None)
    source = source or open_data(call.data, wishes, call.form, content)
    stem = "model" if call.data == STANDARD else call.data
    file = call.out or _new_file(stem, call.resume or not call.is_first)
    if call.is_first:
        require_place(file)
    held = None if call.valid is None else read(call.valid, None, _schema(source), *call.form)
    return Opened(source, streamed, counts, held, held_counts), file


def _search(call: Call, opened: Opened, file: Path, report: Report) -> None:
    """Try many densities of a table, and save what is best."""
    assert isinstance(opened.source, Table)
    held = None if opened.held is None else _weighted(opened.held, opened.held_counts)
    model = learn(
        _weighted(opened.source, opened.counts),
        held,
        minutes=call.minutes,
        seed=call.training.seed,
        device=call.place,
        progress=call.training.progress,
    )
    found = _learnt(model, call.data, opened.source)
    model.save(file, {"command": call.words, "data": call.data, **model.notes})
    report.say(
        f"held out  log-likelihood {-found['valid']:.4f} nats a row, log Z {log_z_text(found['log_z'])}"
    )
    report.say(f"saved  {file}")
    report.end(found | {"saved": str(file)})
    if found["stopped"] == "interrupted":
        typer.echo("interrupted: the model is of what was tried until then", err=True)
        raise typer.Exit(INTERRUPTED)


def _train(call: Call, opened: Opened, file: Path, report: Report) -> None:
    """Train one circuit, and save it as it was in its best epoch."""
    training = call.chosen.training
    model = model_for(opened.source, **call.chosen.model, seed=training.seed).to(call.place)
    report.say(f"model  {model}")
    history = _history(call, opened, model)
    if not call.is_first:
        raise typer.Exit(_code(history))
    if call.classes and history.best_epoch and isinstance(opened.source, Dataset):
        report.say(f"all classes together have valid {loss_text(history.best and history.best.valid)}")
        model = by_class(model, opened.source, call.training)
    result = _result(model, call.data, opened.source, history)
    if history.best_epoch:
        model.save(file, _notes(call, history, result) | model.notes)
        result["saved"] = str(file)
    report.say(_in_words(result))
    report.end(result)
    _advise(history, call.run)
    raise typer.Exit(_code(history))


def _history(call: Call, opened: Opened, model: SquaredCircuit) -> History:
    """The training itself; of one that diverges an error speaks at the end, and not a warning."""
    rows = _batches(call, opened) if opened.streamed else opened.source
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)
        return train(
            model,
            rows,
            opened.held,
            call.training,
            weights=None if opened.streamed else opened.counts,
            valid_weights=opened.held_counts,
            run=call.run,
            resume=call.resume,
        )


def _weighted(table: Table, weights: Weights | None) -> Table:
    return table if weights is None else replace(table, cells=replace(table.cells, weights=weights))


def _learnt(model: SquaredCircuit, data: str, source: Table) -> dict[str, Any]:
    """What a search has found, as plain data."""
    notes = model.notes["learn"]
    return {
        "data": data,
        "columns": source.schema.to_dict()["columns"],
        "model": model.extra_repr(),
        "unit": "nats",
        "valid": -notes["score"],
        "log_z": model.log_partition().item(),
        "seconds": sum(row["seconds"] for row in notes["members"]),
        "stopped": notes["stopped"],
        "members": [row for row in notes["members"] if row["share"] > 0],
    }


def _new_file(data: str, resume: bool) -> Path:
    """A file in this folder that has the name of the data and replaces none, but that of a resumed run."""
    file = Path(f"{Path(data).stem or 'model'}.safetensors")
    if os.path.exists(file) and not resume:
        raise ParameterError(f"{file} is there already. Fix: --out {file} to replace it, or another name.")
    return file


def _wishes(wishes: dict[str, str], weights: str | None, data: str) -> dict[str, str]:
    """Types of columns; the one of weights is not modelled."""
    if weights is None:
        return wishes
    if data in names():
        raise ParameterError(f"--weights: the data set {data!r} has none. Fix: leave the option out.")
    require_path(data)
    return wishes | {weights: "drop"}


def _batches(call: Call, opened: Opened) -> Batches:
    """All rows of a file as a stream."""
    training, schema = call.chosen.training, _schema(opened.source)
    batch = stream_batch(training)
    return Batches(call.data, batch, seed=training.seed, like=schema, weights=opened.counts)


def _schema(source: Dataset | Table) -> Schema:
    return source.schema if isinstance(source, Table) else Schema(source.columns)


def _name(source: Dataset | Table) -> str:
    return f"{source.source}: {len(source)} rows" if isinstance(source, Table) else repr(source)


def _result(model: SquaredCircuit, data: str, source: Dataset | Table, history: History) -> dict[str, Any]:
    """What came out, as plain data; the test part of a data set is scored with the exact log Z."""
    best, last = history.best, history.rows[-1] if history.rows else None
    result: dict[str, Any] = {
        "data": data,
        "columns": _schema(source).to_dict()["columns"],
        "model": model.extra_repr(),
        "unit": history.unit,
        "train": None if best is None else best.train,
        "valid": None if best is None else best.valid,
        "log_z": None if best is None else best.log_z,
        "best_epoch": history.best_epoch,
        "epochs": len(history.rows),
        "stopped": history.stopped,
        "seconds": 0.0 if last is None else last.seconds,
    }
    if best is not None and isinstance(source, Dataset):
        model.eval()
        rows = part_rows(model, source, "test")
        result["test"] = scored(model, rows).to_dict()
        if model.classes:
            result["valid"] = scored(model, part_rows(model, source, "valid")).bits
            result["test"]["accuracy"] = accuracy_of(model, data, "test", rows)
    return result


def _in_words(result: dict[str, Any]) -> str:
    if not result["best_epoch"]:
        return f"{result['stopped']} before the first epoch was done: nothing is saved"
    kind = "train" if result["valid"] is None else "valid"
    lines = [
        f"{kind}  {loss_text(result[kind])} {in_words(result['unit'])} in epoch {result['best_epoch']} of "
        f"{result['epochs']} ({result['stopped']}), log Z {log_z_text(result['log_z'])}"
    ]
    if "test" in result:
        lines.append(f"test   {score_text(result['test'])}")
    return "\n".join([*lines, f"saved  {result['saved']}"])


def _notes(call: Call, history: History, result: dict[str, Any]) -> dict[str, Any]:
    """What the file says of how the model came about."""
    scores = {name: result[name] for name in ("unit", "train", "valid", "log_z", "test") if name in result}
    return {
        "command": call.words,
        "data": call.data,
        "config": {"model": call.chosen.model, "training": call.chosen.training.to_dict()},
        "history": history.to_dict(),
        "scores": plain(scores),
    }


def _code(history: History) -> int:
    """How the command ends."""
    if history.stopped == "interrupted":
        return INTERRUPTED
    return FAILED if history.stopped.startswith("failed") else 0


def _advise(history: History, run: Path | None) -> None:
    """What to do next, on standard error, where training has not come to its end."""
    if history.stopped == "interrupted":
        ways = f"go on with --run {run} --resume" if run else "with --run FOLDER it could be resumed"
        typer.echo(f"interrupted: {ways}", err=True)
    elif history.stopped.startswith("failed"):
        typer.echo(f"error: training {history.stopped}. Fix: a smaller --lr.", err=True)
