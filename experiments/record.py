"""Rows of results: one JSON object a line, with all that is needed to get the number again."""

from __future__ import annotations

import argparse
import io
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from squircuit.errors import SquircuitError
from squircuit.storage.atomic import replace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" if HERE.name == "experiments" else Path("results")
"""Of a checkout, or in the present folder where squircuit is installed."""


@dataclass(frozen=True)
class Row:
    """One trained model and what it scored on the test data.

    Args:
        experiment: name of the table or figure.
        data: name of the data set.
        model: in words.
        params: real numbers that were learnt.
        seed: of weights and batches.
        scores: such as test_bpd or test_ll, and log_z, exact, in double precision.
        minutes: of training.
        paper: what the paper prints for it, where it does.
        options: everything else that defines the run.
    """

    experiment: str
    data: str
    model: str
    params: int
    seed: int
    scores: Mapping[str, float]
    minutes: float
    paper: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def write(rows: Iterable[Row], out: Path) -> Path:
    """Write rows to ``out``/experiment.jsonl, in place of earlier ones of the same data, model and seed."""
    rows = list(rows)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{rows[0].experiment}.jsonl"
    where = {"command": command(), "commit": commit(), "machine": machine()}
    new = [flat(row) | where for row in rows]
    made = {_key(row) for row in new}
    old = [row for row in (read(path.stem, out) if path.exists() else []) if _key(row) not in made]
    lines = [json.dumps(row) for row in (*old, *new)]
    replace(path, ("\n".join(lines) + "\n").encode())
    return path


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["data"], row["model"], row["seed"]


def flat(row: Row) -> dict[str, Any]:
    """A row with its scores at the top."""
    found = asdict(row)
    return {**{k: v for k, v in found.items() if k != "scores"}, **found["scores"]}


def read(name: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The rows of an experiment that was run."""
    path = folder / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def arguments_of(words: str | None) -> argparse.ArgumentParser:
    """The options that all experiments have."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of rows and figures")
    parser.add_argument(
        "--json", action="store_true", help="the rows on standard output, all else on standard error"
    )
    return parser


def run(main: Callable[[], list[Row]]) -> None:
    """An experiment as a program; with --json its rows are one document on standard output."""
    aside = redirect_stdout(sys.stderr) if "--json" in sys.argv else nullcontext()
    try:
        with aside:
            rows = main()
    except SquircuitError as error:
        sys.exit(f"error: {error}")
    if "--json" in sys.argv:
        print(json.dumps({"rows": [flat(row) for row in rows]}))


def save_figure(figure: Figure, path: Path, dpi: int = 80) -> None:
    """As a PNG of few colours, which is small."""
    from PIL import Image  # comes with the plots; rows can be made without

    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=dpi)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(content).convert("RGB").quantize(colors=128).save(path, optimize=True)


def parameters(model: torch.nn.Module) -> int:
    """Real numbers that are learnt; a complex one counts twice."""
    return sum(p.numel() * (2 if p.is_complex() else 1) for p in model.parameters())


def command() -> str:
    """What to type to get the rows again; where files lie on this machine does not matter."""
    words, name = sys.argv[1:], Path(sys.argv[0]).stem
    words = [word for word in words if word != "--json"]
    for option in ("--folder", "--out", "--cirkit", "--model"):
        if option in words:
            place = words.index(option)
            del words[place : place + 2]
    return " ".join(["squircuit reproduce", name, *words])


def commit() -> str:
    """Of this checkout, marked where files differ from it."""
    try:
        run = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine() -> str:
    """The processor that computes, and torch."""
    threads = f"{torch.get_num_threads()} CPU threads"
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else threads
    return f"{name}, torch {torch.__version__}, Python {platform.python_version()}"
