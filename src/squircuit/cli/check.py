"""`squircuit check`: properties, log Z and weights of a saved model, or of a circuit as JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from squircuit.circuits import Circuit, Constraint
from squircuit.circuits.semi_unitary import deviation
from squircuit.circuits.summary import summary, table
from squircuit.cli.reading import open_model, schema_of
from squircuit.cli.report import Report
from squircuit.errors import FormatError
from squircuit.inference import partition
from squircuit.models import SquaredCircuit
from squircuit.properties import check as checked
from squircuit.training.history import log_z_text

SCOPE = re.compile(r"\{(\d+(?:,\d+)*)\}")
"""Variables by their numbers, as messages have them."""
MOST = 8
"""Weights that are listed in the text."""


def check(
    *,
    file: Path,
    as_json: bool,
) -> None:
    """The work of the command `check`, see :mod:`squircuit.cli.commands`."""
    report = Report(as_json)
    if file.suffix.lower() == ".json":
        model, circuit = None, _circuit(file)
    else:
        model = open_model(file, torch.device("cpu"))
        circuit = model.circuit()
    names = () if model is None else schema_of(model).names
    verdicts = [_verdict(verdict, names) for verdict in checked(circuit)]
    document = {
        "file": str(file),
        "variables": len(circuit.scope),
        "parameters": circuit.num_parameters(),
        "properties": verdicts,
        "log_z": _log_z(circuit, model),
        "off_manifold": _deviations(circuit),
        "notes": {} if model is None else model.notes,
    }
    report.say(_in_words(circuit, document))
    report.end(document)


def _circuit(file: Path) -> Circuit:
    try:
        return Circuit.from_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{file}: cannot be read ({error}). Fix: check the path.") from error
    except FormatError as error:
        fix = "" if "Fix: " in str(error) else ". Fix: pass what circuit.to_json() gave."
        raise FormatError(f"{file}: {error}{fix}") from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, lists in lists in lists
        said = f"{type(error).__name__}: {error}"
        raise FormatError(f"{file}: no circuit ({said}). Fix: pass what circuit.to_json() gave.") from error


def _verdict(verdict: Any, names: Sequence[str]) -> dict[str, Any]:
    found = {name: getattr(verdict, name) for name in ("name", "holds", "reason", "where", "mark")}
    return found | {name: named(found[name], names) for name in ("reason", "where") if found[name]}


def named(text: str, names: Sequence[str]) -> str:
    """What is said of variables in the words of a table.

    Example:
        >>> named("input1 over {0,2}", ["day", "sex", "age"]), named("sum over {0,1}", ())
        ('input1 over {day, age}', 'sum over {0,1}')
    """

    def of(scope: re.Match[str]) -> str:
        variables = [int(number) for number in scope[1].split(",")]
        known = all(v < len(names) for v in variables)
        return "{" + ", ".join(names[v] for v in variables) + "}" if known else scope[0]

    return SCOPE.sub(of, text)


def _log_z(circuit: Circuit, model: SquaredCircuit | None) -> float | None:
    """Exact, in double precision; None for a circuit without weights."""
    if model is not None:
        return float(model.log_partition())
    if not circuit.has_weights:
        return None
    z = partition(circuit)
    return math.log(z) if z > 0 else -math.inf


def _deviations(circuit: Circuit) -> dict[str, float]:
    """max |WWᴴ − I| of semi-unitary weights that are not so up to rounding, the largest first."""
    found = {
        name: deviation(circuit.weights[name][None])
        for name, parameter in circuit.parameters.items()
        if circuit.has_weights and parameter.constraint == Constraint.SEMI_UNITARY
    }
    off = {name: value for name, value in found.items() if value > _rounding(circuit, name)}
    return dict(sorted(off.items(), key=lambda item: -item[1]))


def _rounding(circuit: Circuit, name: str) -> float:
    return 1e-9 if circuit.weights[name].dtype in (torch.complex128, torch.float64) else 2e-5


def _in_words(circuit: Circuit, document: dict[str, Any]) -> str:
    rows = [(v["mark"], v["name"], _reason(v)) for v in document["properties"]]
    log_z = "no weights" if document["log_z"] is None else log_z_text(document["log_z"])
    return "\n".join(
        [
            table(("", "property", "reason"), rows, right=set()),
            "",
            f"parameters  {summary(circuit).splitlines()[-1]}",
            f"log Z       {log_z}",
            f"manifold    {_off_in_words(document['off_manifold'])}",
        ]
    )


def _reason(verdict: dict[str, Any]) -> str:
    answer = "not decided: " if verdict["holds"] is None else ""
    return f"{answer}{verdict['reason']}" + (f" ({verdict['where']})" if verdict["where"] else "")


def _off_in_words(off: dict[str, float]) -> str:
    if not off:
        return "every semi-unitary weight is on it"
    listed = ", ".join(f"{name} by {value:.2g}" for name, value in list(off.items())[:MOST])
    more = f" and {len(off) - MOST} more" if len(off) > MOST else ""
    return f"W Wᴴ differs from I at {listed}{more}"
