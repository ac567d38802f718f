"""`squircuit compress` and `squircuit decompress`: rows as few bytes and back, without loss."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from squircuit.cli.machine import chosen_device
from squircuit.cli.pictures import folder_of_pictures, require_new_folder, usual_names
from squircuit.cli.reading import form_of, is_image, open_model, read_source, schema_of
from squircuit.cli.report import Report
from squircuit.cli.score import require_mass, scored
from squircuit.cli.tables import TABLES, is_standard, write_decoded
from squircuit.cli.writing import require_place
from squircuit.compression.codec import packed, require_discrete, require_no_others, unpacked
from squircuit.data import Rows
from squircuit.data.images import ImageSource
from squircuit.data.reading import Source, readable
from squircuit.errors import FormatError, ParameterError
from squircuit.inference.evidence import as_evidence
from squircuit.models import SquaredCircuit
from squircuit.progress import shown
from squircuit.storage.atomic import replace
from squircuit.storage.checks import require_file
from squircuit.storage.words import path_text

ENDING = ".sqz"


def compress(
    *,
    data: str,
    model: Path,
    out: Path,
    verify: bool,
    header: bool | None,
    delimiter: str | None,
    encoding: str | None,
    part: str,
    device: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """The work of the command `compress`, see :mod:`squircuit.cli.commands`."""
    report = Report(as_json)
    require_place(out, (ENDING,), read=(model, data))
    opened = open_model(model, chosen_device(device))
    require_discrete(opened)
    require_mass(opened)
    read, source = read_source(opened, data, part, form_of(header, delimiter, encoding))
    if source is not None and source.named:
        require_no_others(schema_of(opened), source.names)
    rows = as_evidence(opened.structure, read.x, read.missing, opened.device)
    with shown("compressing", not quiet):
        content = packed(opened, rows, True, _notes(source), verify)
    replace(out, content)
    found = _sizes(opened, rows, len(content))
    report.say(f"{_in_words(found)}\nsaved  {out}")
    report.end({**found, "saved": str(out)})


def decompress(
    *,
    file: Path,
    model: Path,
    out: Path | None,
    safe: bool,
    header: bool | None,
    delimiter: str | None,
    encoding: str | None,
    device: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """The work of the command `decompress`, see :mod:`squircuit.cli.commands`."""
    report = Report(as_json, aside=is_standard(out))
    form = form_of(header, delimiter, encoding)
    opened = open_model(model, chosen_device(device))
    as_pictures = is_image(opened) and out is not None and out.suffix.lower() not in TABLES
    _require_out(opened, out, as_pictures, file)
    with readable(require_file(file), "compressed rows", "copy it again"):
        content = file.read_bytes()
    try:
        with shown("decompressing", not quiet):
            found = unpacked(opened, content)
    except FormatError as error:
        raise error.at(path_text(file)) from error
    if as_pictures and out is not None:
        folder_of_pictures(out, opened, found.rows.x, found.notes.get("files"))
    elif not (as_json and is_standard(out)):
        cells = schema_of(opened).decode(found.rows.x, found.rows.missing)
        write_decoded(out, opened, cells, form, safe)
    n, d = found.rows.x.shape
    report.say(f"{n} rows of {d} columns" + ("" if is_standard(out) else f"\nsaved  {out}"))
    report.end({"rows": n, "columns": d, "saved": None if is_standard(out) else str(out)})


def _require_out(model: SquaredCircuit, out: Path | None, as_pictures: bool, file: Path) -> None:
    """Refuse, before any work is done, what cannot be written."""
    if as_pictures and out is not None:
        require_new_folder(out)
    elif out is None and is_image(model):
        raise ParameterError("images need a place. Fix: --out FOLDER, which is made, or --out FILE.npy.")
    else:
        require_place(out, TABLES, read=(file,))


def _notes(source: Source | None) -> dict[str, Any]:
    """Names of images, so that they have them again; none where they are the usual ones."""
    if not isinstance(source, ImageSource):
        return {}
    names = [file.relative_to(source.path).as_posix() for file in source.files]
    return {} if names == usual_names(len(names)) else {"files": names}


def _sizes(model: SquaredCircuit, rows: Rows[torch.Tensor], size: int) -> dict[str, Any]:
    """What the rows take, and what the model says that they must."""
    ideal = -float(scored(model, rows).log_prob.sum()) / math.log(2)
    unit, count = ("dimension", rows.x.numel()) if is_image(model) else ("row", len(rows))
    return {
        "rows": len(rows),
        "columns": rows.x.shape[1],
        "bytes": size,
        f"bits_per_{unit}": 8 * size / max(1, count),
        f"model_bits_per_{unit}": ideal / max(1, count),
    }


def _in_words(found: dict[str, Any]) -> str:
    unit, words = ("row", "a row") if "bits_per_row" in found else ("dimension", "per dimension")
    return (
        f"{found['rows']} rows of {found['columns']} columns in {found['bytes']:,} bytes, "
        f"{found[f'bits_per_{unit}']:.4f} bits {words}; −log₂ p has {found[f'model_bits_per_{unit}']:.4f}"
    )
