"""Rows as a printed table and as JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from measure import Row


def machine(device: str) -> str:
    if device.startswith("cuda"):
        where = torch.cuda.get_device_name()
    else:
        where = f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
    return f"{where}, torch {torch.__version__}, Python {platform.python_version()}"


def table(rows: Sequence[Row], reference: str) -> str:
    """One line a row; the ratio is the reference's best time over this row's: below 1, the reference wins."""
    best = min((row.ms for row in rows if row.peer == reference and row.times), default=float("nan"))
    memory = "process" if rows and rows[0].setup.device == "cpu" else "peak"
    times = f"{'median':>11}{'least':>11}  {'quartiles':>19}{'optimiser':>12}"
    head = f"  {'peer':26}{times}{memory:>11}  {reference}/this"
    notes = dict.fromkeys(f"  {row.peer}: {row.note}" for row in rows if row.note)
    return "\n".join([head, *(_line(row, best) for row in rows), *notes])


def write_json(path: Path, rows: Iterable[Row], **about: Any) -> None:
    path.write_text(json.dumps({**about, "rows": [row.as_dict() for row in rows]}, indent=1) + "\n")


def _line(row: Row, best: float) -> str:
    name = row.peer + (" (TF32)" if row.setup.tf32 else "")
    if row.problem:
        return f"  {name:26}{row.problem}"
    low, high = row.quartiles
    alone = f"{row.optimiser_ms:9.2f} ms" if row.optimiser_times else "–"
    span = f"{low:.2f} – {high:.2f}"
    times = f"{row.ms:8.2f} ms{row.least:8.2f} ms  {span:>19}{alone:>12}"
    return f"  {name:26}{times}{row.gib:7.2f} GiB  {best / row.ms:.3f}"
