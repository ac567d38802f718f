"""`squircuit fit`: from data to a trained model in a file."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from squircuit.cli.arguments import pairs
from squircuit.cli.machine import chosen_device
from squircuit.cli.options import Options, options
from squircuit.cli.reading import (
    STANDARD,
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


def fit(
    *,
    context: typer.Context,
    data: str,
    out: Path | None,
    valid: str | None,
    run: Path | None,
    resume: bool,
    config: Path | None,
    preset: str | None,
    set_: list[str] | None,
    units: int | None,
    epochs: int | None,
    lr: float | None,
    batch: int | None,
    seed: int | None,
    device: str,
    columns: list[str] | None,
    weights: str | None,
    stream: bool,
    minutes: float | None,
    header: bool | None,
    delimiter: str | None,
    encoding: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """The work of the command `fit`, see :mod:`squircuit.cli.commands`."""
    report = Report(as_json)
    flags = {"units": units, "epochs": epochs, "lr": lr, "batch": batch, "seed": seed}
    texts = pairs(set_ or [], "--set") | {k: str(v) for k, v in flags.items() if v is not None}
    form = form_of(header, delimiter, encoding)
    chosen, launched = options(data, preset, config, texts), context.obj["launched"]
    training = replace(chosen.training, progress=chosen.training.progress and not quiet)
    place = chosen_device(device) if launched is None else launched.join(device)
    is_first = launched is None or launched.rank == 0  # who alone writes
    if is_first:
        require_place(out, (".safetensors",) if out and out.suffix else ())
    if resume and run is None:
        raise ParameterError("--resume needs the folder of the run. Fix: --run FOLDER.")
    if valid is not None:
        require_path(valid)
    if run is not None and is_first:
        RunFolder(run).require_usable()
    wishes, streamed = _wishes(pairs(columns or [], "--columns"), weights, data), is_streamed(data, stream)
    content = place_of(data)  # standard input is read once
    counts, valid_counts = (
        None if weights is None or file is None else weight_column(file, weights, **form._asdict())
        for file in (content, valid)
    )
    source = sample_of(data, wishes) if streamed else open_data(data, wishes, form, content)
    file = out or _new_file("model" if data == STANDARD else data, resume or not is_first)
    if is_first:
        require_place(file)
    held = None if valid is None else read(valid, None, _schema(source), *form)
    report.say(f"{_name(source)}{' looked at, all streamed' * streamed}\n{described(_schema(source))}")
    wants_circuit = bool(set(texts) - {"seed"} or config or preset or run)
    if isinstance(source, Table) and len(source.shape) == 1 and not (streamed or wants_circuit):
        if launched is not None:
            raise ParameterError(
                f"the search for a table's density runs in one process, and torchrun has started "
                f"{launched.size}. Fix: an option of a circuit, such as --units 8; or leave torchrun out."
            )
        searched = _weighted(source, counts), None if held is None else _weighted(held, valid_counts)
        model = learn(
            *searched, minutes=minutes, seed=training.seed, device=place, progress=training.progress
        )
        found = _learnt(model, data, source)
        model.save(file, {"command": context.obj["command"], "data": data, **model.notes})
        report.say(f"held out  {loss_text(found['valid'])} nats a row, log Z {log_z_text(found['log_z'])}")
        report.say(f"saved  {file}")
        report.end(found | {"saved": str(file)})
        if found["stopped"] == "interrupted":
            typer.echo("interrupted: the model is of what was tried until then", err=True)
            raise typer.Exit(INTERRUPTED)
        return
    if minutes is not None:
        raise ParameterError(
            f"--minutes {minutes:g} is for the search that tables get without options of a circuit. Fix: "
            "leave it out, or leave out the others."
        )
    model = model_for(source, **chosen.model, seed=chosen.training.seed).to(place)
    report.say(f"model  {model}")
    rows = _batches(data, source, chosen.training, counts) if streamed else source
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)  # an error says it at the end
        history = train(
            model,
            rows,
            held,
            training,
            weights=None if streamed else counts,
            valid_weights=valid_counts,
            run=run,
            resume=resume,
        )
    if not is_first:
        raise typer.Exit(_code(history))
    result = _result(model, data, source, history)
    if history.best_epoch:
        model.save(file, _notes(context, data, chosen, history, result))
        result["saved"] = str(file)
    report.say(_in_words(result))
    report.end(result)
    _advise(history, run)
    raise typer.Exit(_code(history))


def _weighted(table: Table, weights: NDArray[np.float64] | None) -> Table:
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


def _batches(
    path: str, sample: Dataset | Table, training: TrainingConfig, weights: Weights | None
) -> Batches:
    """All rows of a file as a stream."""
    batch = stream_batch(training)
    return Batches(path, batch, seed=training.seed, like=_schema(sample), weights=weights)


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
        result["test"] = scored(model, part_rows(model, source, "test")).to_dict()
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


def _notes(
    context: typer.Context, data: str, chosen: Options, history: History, result: dict[str, Any]
) -> dict[str, Any]:
    """What the file says of how the model came about."""
    scores = {name: result[name] for name in ("unit", "train", "valid", "log_z", "test") if name in result}
    return {
        "command": context.obj["command"],
        "data": data,
        "config": {"model": chosen.model, "training": chosen.training.to_dict()},
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
