"""One file that shows a small model without Python: the page, the circuit, its arithmetic in JavaScript."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Hadamard, Input, Kronecker, Layer, Sum
from squircuit.data.calendar import Calendar
from squircuit.errors import StructureError
from squircuit.explore.exhibit import Exhibit, described, drawing, properties
from squircuit.explore.fields import plain
from squircuit.families import Family, MultivariateGaussian
from squircuit.families.quadrature import gauss_legendre
from squircuit.reference.evaluate import evaluate_input, weight_of
from squircuit.storage.atomic import replace

MOST_BYTES = 16 * 2**20
"""Of numbers in a page; beyond, browsers take seconds to open it."""
POINTS = 120
"""Values that a continuous column may be set to, about: multiples of a round number over its range."""
WIDEST = 64
"""Units of a Kronecker product that no sum is above."""
MODULES = (
    "state", "dom", "draw", "evidence", "gaussian", "exact", "calendar", "local", "ask", "members",
    "picture", "surface", "image", "rows", "date", "table", "pair", "model", "main",
)  # fmt: skip
"""The modules of an exported page, each after those that it imports."""
IMPORT, EXPORT = (
    re.compile(r"^import .*?;$\n", re.MULTILINE | re.DOTALL),
    re.compile(r"^export ", re.MULTILINE),
)


def export(exhibit: Exhibit, path: str | Path) -> None:
    """Write the page; StructureError where its circuit is not of the kind that a page can evaluate."""
    replace(path, page(exhibit).encode())


def page(exhibit: Exhibit) -> str:
    """The text of the file."""
    held = json.dumps(plain(document(exhibit)), ensure_ascii=False).replace("<", "\\u003c")
    script, style = script_of(MODULES), _static("style.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>'
    text = _static("index.html")
    text = text.replace('<link rel="stylesheet" href="style.css">', head)
    text = text.replace('<script type="module" src="main.js"></script>', "")
    scripts = (
        f'<script type="application/json" id="model">{held}</script>\n<script type="module">{script}</script>'
    )
    return text.replace("</body>", f"{scripts}\n</body>")


def script_of(modules: tuple[str, ...]) -> str:
    """Modules as one, whose names are all different."""
    texts = (EXPORT.sub("", IMPORT.sub("", _static(f"{name}.js"))) for name in modules)
    return "\n".join(texts)


def document(exhibit: Exhibit) -> dict[str, Any]:
    """What a page holds: what is said of the model, its columns, its circuit, and all numbers of it."""
    circuit = exhibit.model.circuit()
    points = [_points(exhibit, v) for v in range(len(exhibit.schema.columns))]
    numbers = Numbers()
    layers = [_layer(circuit, layer, points, numbers) for layer in circuit.layers]
    return {
        "described": _described(exhibit, points),
        "properties": properties(exhibit, {}),
        "drawing": drawing(exhibit, {}),
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "discrete": column.is_discrete,
                "states": column.states,
                "points": _numbers_of(exhibit, v, points[v]),
                "levels": column.levels,
                "step": column.step,
                "spikes": column.spikes,
                "least": column.least,
                "most": column.most,
            }
            for v, column in enumerate(exhibit.schema.columns)
        ],
        "circuit": {
            "layers": layers,
            "roots": [circuit.layers.index(root) for root in circuit.roots],
            "shares": circuit.root_shares.tolist(),
        },
        "numbers": numbers.text(),
    }


def _described(exhibit: Exhibit, points: list[Tensor]) -> dict[str, Any]:
    """What the page is told of the model: sliders have the points as their only values."""
    told = described(exhibit, {}) | {"notes": {}}
    for date, one in zip(told["dates"], exhibit.schema.calendars, strict=True):
        date |= {"fixed": dict(one.fixed), "form": _form(one, date["field"])}
    for column, own, at in zip(told["columns"], exhibit.schema.columns, points, strict=False):
        if not own.is_discrete:
            ends = {"low": float(at[0]), "high": float(at[-1])}
            column |= ends | {"step": float(at[1] - at[0]), "fixed": True}
    return told


def _form(one: Calendar, field: str) -> str:
    """How the page writes dates: as the table does where it has texts."""
    usual = {"date": "%Y-%m-%d", "time": "%H:%M:%S"}.get(field, "%Y-%m-%d %H:%M:%S")
    return (one.form or usual) + (one.zone or "" if one.form else "")


@final
class Numbers:
    """Arrays one after the other, each once."""

    def __init__(self) -> None:
        self._places: dict[bytes, dict[str, Any]] = {}
        self._bytes = bytearray()

    def place(self, value: Tensor) -> dict[str, Any]:
        """Where an array is; it is added where it is new."""
        value = value.detach().cpu().to(torch.complex128 if value.is_complex() else torch.float64)
        parts = torch.view_as_real(value.resolve_conj().contiguous()) if value.is_complex() else value
        is_single = bool((parts.float().double() == parts).all())
        content = (parts.float() if is_single else parts).contiguous().numpy().tobytes()
        key = repr((tuple(value.shape), is_single, value.is_complex())).encode() + content
        if key not in self._places:
            self._bytes += b"\0" * (-len(self._bytes) % 8)
            bits = 32 if is_single else 64
            shape = {"at": len(self._bytes), "shape": list(value.shape)}
            self._places[key] = {**shape, "bits": bits, "complex": value.is_complex()}
            self._bytes += content
            if len(self._bytes) > MOST_BYTES:
                raise _refusal("small", "the model", f"its numbers take more than {MOST_BYTES:,} bytes")
        return self._places[key]

    def text(self) -> str:
        """All of them in base 64."""
        return base64.b64encode(bytes(self._bytes)).decode()


def _points(exhibit: Exhibit, v: int) -> Tensor:
    """The states of a column, or points of its range."""
    column, (low, high) = exhibit.schema.columns[v], exhibit.ranges[v]
    if column.is_discrete:
        return torch.arange(column.size)
    step = step_of(low, high)
    places = torch.arange(math.ceil(low / step), math.floor(high / step) + 1, dtype=torch.float64)
    return places * step


def step_of(low: float, high: float) -> float:
    """1, 2 or 5 times a power of ten, of which there are about `POINTS` between two numbers.

    Example:
        >>> step_of(0.0, 1.0), step_of(-20.0, 280.0)
        (0.01, 2.0)
    """
    wished = (high - low) / POINTS
    power = 10.0 ** math.floor(math.log10(wished))
    return next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor * 1.3 >= wished)


def _numbers_of(exhibit: Exhibit, v: int, points: Tensor) -> list[float]:
    """What states and points are as numbers, of which there is a mean."""
    column = exhibit.schema.columns[v]
    shift = column.low if column.kind == "count" and not exhibit.is_image else 0.0
    return [float(point) + shift for point in points.tolist()]


def _layer(circuit: Circuit, layer: Layer, points: list[Tensor], numbers: Numbers) -> dict[str, Any]:
    if isinstance(layer, Input):
        return _input(circuit, layer, points, numbers)
    inputs = [circuit.layers.index(item) for item in layer.inputs]
    common = {"kind": layer.kind, "units": layer.units, "inputs": inputs}
    if isinstance(layer, Sum):
        if len(layer.inputs) > 1:
            raise _refusal("with sums of one input each", circuit.where(layer), "it has several")
        return common | {"weight": numbers.place(weight_of(circuit, layer))}
    if isinstance(layer, Kronecker) and layer.units > WIDEST and _is_read_directly(circuit, layer):
        raise _refusal("with sums above products", circuit.where(layer), f"{layer.units} units have none")
    assert isinstance(layer, Kronecker | Hadamard)
    return common


def _is_read_directly(circuit: Circuit, layer: Layer) -> bool:
    return layer in circuit.roots or any(
        layer in other.inputs and not isinstance(other, Sum) for other in circuit.layers
    )


def _input(circuit: Circuit, layer: Input, points: list[Tensor], numbers: Numbers) -> dict[str, Any]:
    """The values of an input layer at all states; or at points, with ∫ ℓ ℓᴴ, ∫ x ℓ ℓᴴ and ∫ x² ℓ ℓᴴ."""
    if not isinstance(layer.family, Family):
        return _block(circuit, layer, numbers)
    v = layer.variable
    at = evaluate_input(circuit, layer, points[v]).T
    found = {"kind": "input", "variable": v, "units": layer.units, "table": numbers.place(at)}
    if circuit.domains[v].is_discrete:
        return found
    nodes, weights = gauss_legendre(layer.family.breakpoints(circuit.family_values(layer)))
    values = evaluate_input(circuit, layer, nodes)
    return found | dict(
        zip(("gram", "first", "second"), _moments(values, nodes, weights, numbers), strict=True)
    )


def _block(circuit: Circuit, layer: Input, numbers: Numbers) -> dict[str, Any]:
    """The Gaussians of a block, which no sum mixes, so that of its pairs of functions only squares count."""
    family, where = layer.family, circuit.where(layer)
    if not isinstance(family, MultivariateGaussian) or layer.weight is not None:
        raise _refusal("a mixture of Gaussians", where, "its functions are others")
    if any(not isinstance(above, Hadamard) for above in _above(circuit, layer)):
        raise _refusal("a mixture of Gaussians", where, "a sum or a Kronecker product is above a block")
    means, factors = family.gaussians(circuit.family_values(layer))
    if family.covariance == "tied":
        factors = factors[:1]
    covariances = torch.diag_embed(factors.square()) if factors.ndim == 2 else factors @ factors.mT
    maps = [
        None if t is None else {"knots": t.knots, "values": t.values, "slopes": t.slopes, "tails": t.tails}
        for t in family.columns or (None,) * family.dimension
    ]
    found = {"kind": "block", "variables": layer.variables, "units": layer.units, "maps": maps}
    return found | {"means": numbers.place(means), "covariances": numbers.place(covariances)}


def _above(circuit: Circuit, layer: Layer) -> set[Layer]:
    """All layers that read a layer, directly or not."""
    found = {layer}
    for other in circuit.layers:  # from the inputs up
        if not isinstance(other, Input) and found & set(other.inputs):
            found.add(other)
    return found - {layer}


def _moments(values: Tensor, nodes: Tensor, weights: Tensor, numbers: Numbers) -> Iterator[dict[str, Any]]:
    for power in range(3):
        yield numbers.place((values * (weights * nodes**power).unsqueeze(1)).T @ values.conj())


def _refusal(wanted: str, place: str, reason: str) -> StructureError:
    """The error of a circuit that a page cannot evaluate."""
    fix = "show it with squircuit explore, or train one circuit: fit with --units"
    return StructureError(wanted, place, reason, fix)


def _static(name: str) -> str:
    return files("squircuit.explore").joinpath("static", name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
