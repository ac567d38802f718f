"""The model that a page shows, and what is true of it whatever is asked."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor

from squircuit.circuits.layers import Input, Layer
from squircuit.circuits.structure import Structure
from squircuit.data import Column, Schema
from squircuit.data.calendar import Calendar
from squircuit.explore.fields import Question
from squircuit.inference import Marginals
from squircuit.models import SquaredCircuit
from squircuit.properties import check
from squircuit.training import History

MOST_DRAWN = 150
"""Layers of a circuit that is drawn layer by layer; of larger ones equal layers are drawn as one."""
MOST_COLUMNS = 500
"""Of a table that is shown column by column."""
ENDS = (0.001, 0.999)
"""The quantiles between which a continuous column is drawn."""
POINTS, SPIKES = 121, 40
"""At which the density of a continuous column is drawn: evenly, and where it is highest."""
BEYOND = 0.05
"""How much further, as a share of the way between them."""


@final
@dataclass(frozen=True, eq=False)
class Exhibit:
    """A model and what a page needs beside it.

    Args:
        model: in evaluation mode.
        schema: its columns; of a model without any, columns 0, 1, ….
        name: of its file.
        history: of its training, where it is known.
    """

    model: SquaredCircuit
    schema: Schema
    name: str
    history: History | None = None

    @property
    def is_image(self) -> bool:
        """The page for images can show it: pixels in grey, or red, green and blue, all of one kind."""
        shape, columns = self.model.shape, self.schema.columns
        drawable = shape is not None and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)))
        return drawable and len({(column.is_discrete, column.size) for column in columns}) == 1

    @property
    def kind(self) -> str:
        """Which pages show it: "image", "table", or of more columns than anybody looks at "other"."""
        if self.is_image:
            return "image"
        return "table" if len(self.schema.columns) <= MOST_COLUMNS else "other"

    @cached_property
    def parts(self) -> dict[int, SquaredCircuit]:
        """Those circuits of a mixture, by number, that were asked by themselves."""
        return {}

    def part(self, number: int) -> SquaredCircuit:
        """One of the circuits that are mixed, as a model of its own: p(x | m)."""
        if number not in self.parts:
            self.parts[number] = self.model.component(number)
        return self.parts[number]

    @cached_property
    def _alike(self) -> Marginals | None:
        """The distribution of every column by itself, where some column is no list of states."""
        return None if all(c.is_discrete for c in self.schema.columns) else self.model.marginals()

    @cached_property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """Between which numbers each column is drawn: the states, or where nearly all of its mass lies."""
        found = self._alike
        return tuple(
            (0.0, column.size - 1.0)
            if column.is_discrete or found is None
            else _range(column, found.quantiles(v, ENDS)[0])
            for v, column in enumerate(self.schema.columns)
        )

    @cached_property
    def grids(self) -> dict[int, Tensor]:
        """Where the density of each continuous column is drawn: evenly, and on its spikes."""
        found = self._alike
        if found is None:
            return {}
        return {
            v: _grid(found, v, *self.ranges[v])
            for v, c in enumerate(self.schema.columns)
            if not c.is_discrete
        }


def _grid(found: Marginals, v: int, low: float, high: float) -> Tensor:
    """Even points, and the nodes at which the density is highest."""
    nodes = found.points[v][found.values[v][0].topk(min(SPIKES, len(found.points[v]))).indices].double().cpu()
    inside = nodes[(nodes > low) & (nodes < high)]
    return torch.cat([torch.linspace(low, high, POINTS, dtype=torch.float64), inside]).sort().values


def _range(column: Column, ends: Tensor) -> tuple[float, float]:
    if column.kind == "periodic":
        return column.low, column.high
    low, high = ends.tolist()
    margin = BEYOND * (high - low) or 1.0
    return low - margin, high + margin


def described(exhibit: Exhibit, question: Question) -> dict[str, Any]:
    """What the model is: its columns or the shape of its images, its size, its members, its training."""
    model, structure = exhibit.model, exhibit.model.structure
    first = exhibit.schema.columns[0]
    return {
        "name": exhibit.name,
        "kind": exhibit.kind,
        "words": model.extra_repr(),
        "shape": model.shape if exhibit.is_image else None,
        "levels": first.size if exhibit.is_image and first.is_discrete else None,
        "range": exhibit.ranges[0] if exhibit.is_image else None,
        "columns": _columns(exhibit) if exhibit.kind == "table" else [],
        "dates": [_date(one) for one in exhibit.schema.calendars],
        "variables": structure.num_variables,
        "layers": len(structure.layers),
        "parameters": structure.num_parameters(),
        "members": _members(model),
        "classes": model.classes,
        "history": None if exhibit.history is None else exhibit.history.to_dict(),
        "notes": {name: model.notes[name] for name in ("command", "data", "scores") if name in model.notes},
    }


def _columns(exhibit: Exhibit) -> list[dict[str, Any]]:
    return [
        {
            "name": column.name,
            "kind": column.kind,
            "states": column.states,
            "low": low,
            "high": high,
            "step": column.step,
            "missing": column.missing,
        }
        for column, (low, high) in zip(exhibit.schema.columns, exhibit.ranges, strict=True)
    ]


def _date(one: Calendar) -> dict[str, Any]:
    """A column of dates or times: its parts, and the field of a form that sets all of them."""
    fixed = dict(one.fixed)
    by_day = one.kind == "date" or all(fixed.get(part) == 0 for part in ("hour", "minute", "second"))
    return {
        "name": one.name,
        "parts": one.names,
        "field": "time" if one.kind == "time" else "date" if by_day else "datetime-local",
        "step": None if by_day or fixed.get("second") == 0 else 1,
        "missing": one.missing,
    }


def _members(model: SquaredCircuit) -> list[dict[str, Any]]:
    """The circuits that are mixed and their shares; none of a single one."""
    shares = model.component_log_weights().exp().tolist()
    if len(shares) == 1:
        return []
    kinds = _learnt(model, shares) or [_words(root) for root in model.structure.roots]
    return [{"share": share, "words": words} for share, words in zip(shares, kinds, strict=True)]


def _learnt(model: SquaredCircuit, shares: list[float]) -> list[str]:
    """What `learn` calls the members, where the notes of the model know all of them by their shares."""
    noted = model.notes.get("learn")
    listed = noted.get("members") if isinstance(noted, dict) else None
    names = {_key(m.get("share")): str(m.get("candidate")) for m in listed or [] if isinstance(m, dict)}
    return [names[_key(s)] for s in shares] if {_key(s) for s in shares} <= names.keys() else []


def _key(share: object) -> str:
    return f"{share:.6f}" if isinstance(share, float) else ""


def _words(root: Layer) -> str:
    units = f"{root.units} unit" + ("s" if root.units > 1 else "")
    kind = type(root.family).__name__ if isinstance(root, Input) else root.kind
    return f"{kind}, {units}"


def properties(exhibit: Exhibit, question: Question) -> dict[str, Any]:
    """Every property with its reason, and the exact log Z."""
    verdicts = check(exhibit.model.circuit())
    shown = ("name", "holds", "reason", "where", "mark")
    return {
        "log_z": float(exhibit.model.log_partition()),
        "properties": [{name: getattr(verdict, name) for name in shown} for verdict in verdicts],
    }


def drawing(exhibit: Exhibit, question: Question) -> dict[str, Any]:
    """The circuit: as SVG text where it is small, and its layers, equal ones together, from the root down."""
    structure = exhibit.model.structure
    small = len(structure.layers) <= MOST_DRAWN
    return {"svg": exhibit.model.draw() if small else None, "groups": _groups(structure)}


def _groups(structure: Structure) -> list[dict[str, Any]]:
    depths = structure.depths()
    groups = Counter((depths[layer], _kind(layer), layer.units) for layer in structure.layers)
    return [
        {"depth": depth, "kind": kind, "units": units, "layers": count}
        for (depth, kind, units), count in sorted(groups.items(), reverse=True)
    ]


def _kind(layer: Layer) -> str:
    return f"input {type(layer.family).__name__}" if isinstance(layer, Input) else layer.kind


def shares_of_members(exhibit: Exhibit, x: Tensor, missing: Tensor) -> list[float]:
    """p(m | what is seen) of the circuits m that are mixed, by one row; none of a single one."""
    if len(exhibit.model.structure.roots) == 1:
        return []
    terms = exhibit.model.component_log_prob(x, missing)[0].double()
    shares: list[float] = terms.softmax(dim=0).tolist()
    return shares if math.isfinite(sum(shares)) else []


def row_of(values: list[float], missing: list[bool], discrete: bool) -> tuple[Tensor, Tensor]:
    """One row and its gaps, (1, d) each."""
    x = torch.tensor([values], dtype=torch.int64 if discrete else torch.float64)
    return x, torch.tensor([missing])
