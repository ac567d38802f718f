"""Folders of training runs, and files of options."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from broken.judge import Case, require
from broken.models import NUMBERS, packed, signed, unpacked
from broken.mutate import dumps, mutated_bytes, mutated_document

import squircuit as sq
from squircuit.cli.options import options
from squircuit.presets import load as load_preset
from squircuit.presets import names as preset_names
from squircuit.training.checkpoint import RunFolder

EPOCHS = 3
CHECKPOINT = "checkpoint.safetensors"


class Run(NamedTuple):
    """A run that was interrupted after two epochs, and the weights that it ends with when resumed."""

    files: dict[str, bytes]
    weights: dict[str, torch.Tensor]


# ---------------------------------------------------------------------- runs


def _rows() -> torch.Tensor:
    return torch.tensor([[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]] * 4)


def _resumed(folder: Path) -> tuple[sq.SquaredCircuit, sq.History]:
    """The model and the history of a run that is gone on with."""
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2), seed=0)
    history = sq.fit(model, _rows(), run=folder, resume=True, **_options())
    return model, history


def _options() -> dict[str, Any]:
    return {"epochs": EPOCHS, "batch": 8, "valid_fraction": 0.25, "average": 0.5, "progress": False}


@lru_cache(maxsize=1)
def runs() -> tuple[Run, ...]:
    """A run that is over, and one that is not."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        model, _ = _resumed(place)
        over = _timeless({file.name: file.read_bytes() for file in place.iterdir()})
        weights = {name: value.clone() for name, value in model.state_dict().items()}
    begun = dict(over) | {CHECKPOINT: _earlier(over[CHECKPOINT])}
    with TemporaryDirectory() as folder:
        for name, content in begun.items():
            (Path(folder) / name).write_bytes(content)
        resumed, _ = _resumed(Path(folder))
    return Run(over, weights), Run(begun, dict(resumed.state_dict()))


def _timeless(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files of a run that took no time, so that they are always the same."""
    tensors, header = unpacked(files[CHECKPOINT])
    state = json.loads(header["document"]) | {"seconds": 1.0}
    state["rows"] = [row | {"seconds": 1.0} for row in state["rows"]]
    lines = "".join(json.dumps(row) + "\n" for row in state["rows"])
    checkpoint = signed(tensors, header["complex"], json.dumps(state), "checkpoint")
    best = packed(*unpacked(files["best.safetensors"]))
    return files | {"history.jsonl": lines.encode(), CHECKPOINT: checkpoint, "best.safetensors": best}


def _earlier(content: bytes) -> bytes:
    """The checkpoint of a run that has one epoch to go."""
    tensors, header = unpacked(content)
    state = json.loads(header["document"])
    rows = state["rows"][: EPOCHS - 1]
    best = min(state["best_epoch"], EPOCHS - 1)
    state |= {"epoch": EPOCHS - 1, "step": rows[-1]["step"], "best_epoch": best, "rows": rows}
    state["stopped"] = "interrupted"
    counts = {name for name in tensors if name.startswith("optimiser.step.")}
    tensors |= {name: torch.full_like(tensors[name], state["step"]) for name in counts}
    return signed(tensors, header["complex"], json.dumps(state), "checkpoint")


def _damaged_run(rng: Random) -> Case:
    """One file of a run damaged: the same end, or an error."""
    run = rng.choice(runs())
    name = rng.choice(("config.json", CHECKPOINT, CHECKPOINT, "history.jsonl"))
    changed = run.files | {name: mutated_bytes(run.files[name], rng)}

    def read(folder: Path) -> None:
        if name == "history.jsonl":
            _read_history(folder)
            return
        model, history = _resumed(folder)
        str(history)
        same = all(torch.equal(model.state_dict()[key], value) for key, value in run.weights.items())
        require(same, "a resumed run ends with other weights")

    return Case(f"run: bytes of {name}", changed, read)


def _read_history(folder: Path) -> None:
    history = RunFolder(folder).history()
    str(history)
    require(sq.History.from_dict(history.to_dict()) is not None, "a history is not kept")


def _crafted_history(rng: Random) -> Case:
    """Files without a checksum, changed entry by entry."""
    run = rng.choice(runs())
    lines = [json.loads(line) for line in run.files["history.jsonl"].splitlines()]
    config = json.loads(run.files["config.json"])
    if rng.random() < 0.7:
        lines = mutated_document(lines, rng)
    else:
        config = mutated_document(config, rng)
    rows = lines if isinstance(lines, list) else [lines]
    text = "".join(dumps(line) + "\n" for line in rows)
    changed = run.files | {"history.jsonl": text.encode(), "config.json": dumps(config).encode()}

    def read(folder: Path) -> None:
        _read_history(folder)
        _resumed(folder)

    return Case("run: history and options", changed, read)


def _crafted_checkpoint(rng: Random) -> Case:
    """A checkpoint whose checksum is right, of another state."""
    run = rng.choice(runs())
    tensors, header = unpacked(run.files[CHECKPOINT])
    state = json.loads(header["document"])
    if rng.random() < 0.6:
        state = mutated_document(state, rng)
    else:
        tensors = _other(tensors, rng)
    changed = run.files | {CHECKPOINT: signed(tensors, header["complex"], dumps(state), "checkpoint")}

    def read(folder: Path) -> None:
        model, history = _resumed(folder)
        str(history)
        log_p = model.log_prob(_rows())
        require(not log_p.isnan().any(), "log p of the resumed model is NaN")

    return Case("run: checkpoint", changed, read)


def _other(tensors: dict[str, torch.Tensor], rng: Random) -> dict[str, torch.Tensor]:
    name = rng.choice(sorted(tensors))
    value = tensors[name].clone()
    match rng.randrange(5):
        case 0:
            return {key: entry for key, entry in tensors.items() if key != name}
        case 1:
            return tensors | {name: value[..., :1].contiguous() if value.ndim else value[None]}
        case 2:
            return tensors | {
                name: value.to(rng.choice((torch.float64, torch.int64, torch.bool, torch.float16)))
            }
        case 3 if value.numel():
            value.view(-1)[rng.randrange(value.numel())] = (
                rng.choice(NUMBERS) if value.is_floating_point() else 0
            )
            return tensors | {name: value}
    return tensors | {name: torch.zeros_like(value)}


# ---------------------------------------------------------------------- options

TABLES: dict[str, Any] = {
    "model": {"units": 4, "roots": 2, "tie": "inputs", "order": "hv"},
    "training": {
        "epochs": 50,
        "lr": 0.1,
        "average": 0.999,
        "optimiser": "adam",
        "progress": False,
        "seed": 1,
    },
}


def _toml(document: Any) -> str:
    """A document of two levels as TOML; what TOML cannot hold is written as it is in JSON."""
    if not isinstance(document, dict):
        return dumps(document)
    plain = "".join(f"{dumps(k)} = {dumps(v)}\n" for k, v in document.items() if not isinstance(v, dict))
    tables = ((name, table) for name, table in document.items() if isinstance(table, dict))
    return plain + "".join(f"[{dumps(name)}]\n{_toml(table)}" for name, table in tables)


def _laughs() -> str:
    """A billion of texts, as lists of lists of lists."""
    levels = [f"&a{i + 1} [{', '.join([f'*a{i}'] * 9)}]" for i in range(9)]
    return f"epochs: [&a0 [ha, ha, ha], {', '.join(levels)}]"


YAML = (
    "epochs: 2020-99-99", "lr: !!python/object/apply:os.system ['true']", "? [a, b]\n: 1", "&a [*a]",
    "lr: &a [*a]", "lr: .nan", "lr: .inf", "seed: 0x" + "f" * 5000, "seed: " + "9" * 5000, "lr: 1:30:00",
    "epochs: !!binary x", "epochs: !!set {a, b}", "- 1\n- 2", "", "---\na: 1\n---\nb: 2",
    "epochs: 2020-01-01T00:00:00+99:00", "\t", "a: b: c", "[" * 5000, "{" * 3000,
    "epochs: |\n  many\n  lines", "null: 1", "1: 2", "true: false", "epochs: \0", "epochs: \x07",
    "epochs: !!int x", "epochs: !!float x", "lr: !!timestamp x", "<<: 1", "<<: [1]", "&a a: *b",
    "epochs: !!python/name:os.x", _laughs(),
)  # fmt: skip
TOML = (
    "epochs = " + "9" * 5000, "lr = inf", "lr = nan", "seed = 0x" + "f" * 5000, "epochs = 1979-05-27",
    "epochs = 10:00:00", "a = " + "[" * 5000, "a." * 3000 + "b = 1", "epochs = 1\nepochs = 2",
    "[model]\n[model]", "model = 3", "[[model]]", "[training]\nepochs = '''a\nb'''", "epochs = 1979-99-27",
    "\0", "lr = 1e999", "lr = -0.0", "'' = 1", "[model]\nunits = []", "[a." + "b." * 2000 + "c]",
    "x = {" + "a = {" * 2000, "\"a\\nb\" = 1", "[\"a\\nb\"]\nx = 1", "[model]\n\"a\\nb\" = 1",
    "epochs = \"" + "x" * 5000 + "\"", "[training]\n" + "x" * 5000 + " = 1",
)  # fmt: skip
JSON = (
    "9" * 5000, "[" * 100_000, '{"epochs": ' + "9" * 5000 + "}", "NaN", '{"lr": NaN}', '{"lr": 1e999}',
    '"\\ud800"', '{"\\ud800": 1}', "", "null", '{"a": ' * 5000, '{"epochs": "a\\nb"}', '{"a\\nb": 1}',
    "\ufeff{}", '{"training": null}',
)  # fmt: skip
HOSTILE = {"yaml": YAML, "toml": TOML, "json": JSON}


def _options_case(rng: Random) -> Case:
    """A file of options, damaged, changed entry by entry, or hostile."""
    ending = rng.choice(("toml", "toml", "yaml", "json"))
    content = _options_content(ending, rng)

    def read(folder: Path) -> None:
        chosen = options("people.csv", config=folder / f"options.{ending}")
        require(isinstance(chosen.training, sq.TrainingConfig), "no options")
        require(sq.TrainingConfig.of(chosen.training.to_dict()) == chosen.training, "options are not kept")

    return Case(f"options: .{ending}", {f"options.{ending}": content}, read)


def _training_case(rng: Random) -> Case:
    """A file of options of the training alone, as `fit(config=…)` takes it."""
    ending = rng.choice(("toml", "yaml", "json"))
    content = _options_content(ending, rng, TABLES["training"])

    def read(folder: Path) -> None:
        found = sq.TrainingConfig.of(folder / f"options.{ending}")
        require(sq.TrainingConfig.of(found.to_dict()) == found, "options are not kept")

    return Case(f"training options: .{ending}", {f"options.{ending}": content}, read)


def _options_content(ending: str, rng: Random, document: Any = None) -> bytes:
    if rng.random() < 0.3:
        return rng.choice(HOSTILE[ending]).encode("utf-8", "surrogatepass")
    chosen = document or rng.choice((TABLES, load_preset(rng.choice(preset_names()))))
    write: Callable[[Any], str] = _toml if ending == "toml" else dumps  # YAML reads JSON
    if rng.random() < 0.4:
        return mutated_bytes(write(chosen).encode(), rng)
    return write(mutated_document(chosen, rng)).encode()


def some_options(rng: Random) -> bytes:
    """A TOML file of options, damaged or changed, for the command line."""
    small = {"model": {"roots": 2}, "training": {"lr": 0.1, "batch": 8, "progress": False}}
    return (
        _toml(mutated_document(small, rng)).encode()
        if rng.random() < 0.7
        else mutated_bytes(_toml(small).encode(), rng)
    )


CASES: tuple[tuple[float, Callable[[Random], Case]], ...] = (
    (5, _damaged_run),
    (2, _crafted_history),
    (5, _crafted_checkpoint),
    (5, _options_case),
    (3, _training_case),
)
"""How often, and what."""
