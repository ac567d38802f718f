"""Files of models: damaged ones, and crafted ones whose checksum is right."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from broken.bombs import deflated_zeros
from broken.judge import Case, require
from broken.mutate import HOSTILE, dumps, mutated_bytes, mutated_document
from broken.tables import people
from safetensors.torch import load as read_tensors
from torch import Tensor

import squircuit as sq
from squircuit.families.domain import Finite

NAME = "model.safetensors"
MOST_STATES = 512
"""Of small models, whose probabilities are summed."""
WIDEST = 1000
"""Variables of a model that is asked at all."""


class Original(NamedTuple):
    """A good model and its file, taken apart."""

    model: sq.SquaredCircuit
    content: bytes
    metadata: dict[str, str]
    tensors: dict[str, Tensor]
    document: dict[str, Any]
    structure: dict[str, Any]


# ---------------------------------------------------------------------- good models


@lru_cache(maxsize=1)
def originals() -> tuple[Original, ...]:
    """Small models of every kind."""
    return tuple(_taken_apart(model) for model in (*_discrete(), *_continuous(), _table()))


def _discrete() -> list[sq.SquaredCircuit]:
    binary, pairs = sq.Categorical(2), sq.regions.balanced_tree(4)
    mixed = sq.build(pairs, binary, units=2, roots=2, root_weights="learnable")
    free = sq.build(sq.regions.linear(3), sq.Categorical(3), units=2, unitary=False, is_complex=False)
    parts = sq.build(pairs, binary, units=2, components=2, tie="inputs")
    images = sq.image_model((2, 2), units=2, levels=3)
    return [
        sq.SquaredCircuit(sq.build(sq.regions.linear(3), binary, units=2), seed=1),
        sq.SquaredCircuit(mixed, seed=2, dtype=torch.float64),
        sq.SquaredCircuit(free, seed=3, dtype=torch.float64),
        sq.SquaredCircuit(parts, seed=4),
        images,
    ]


def _continuous() -> list[sq.SquaredCircuit]:
    families = [
        sq.Hermite(4, loc=1.0, learnable=True),
        sq.Fourier(3, period=2.0, learnable=True),
        sq.Legendre(3, 0.0, 1.0),
        sq.Laguerre(3),
        sq.Categorical(3, ordered=True),
    ]
    unitary = sq.build(sq.regions.linear(5), families, units=2)
    free = sq.build(sq.regions.linear(2), [sq.Gaussian(2), sq.BSpline(5, 0.0, 1.0)], units=1, unitary=False)
    return [sq.SquaredCircuit(unitary, seed=5), sq.SquaredCircuit(free, seed=6, dtype=torch.float64)]


def _table() -> sq.SquaredCircuit:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "people.csv"
        file.write_bytes(people())
        model = sq.model_for(sq.data.read(file), units=2, size=4, seed=7)
    model.notes = {"trained": "not at all", "scores": [1.0, 2.5]}
    return model


def _taken_apart(model: sq.SquaredCircuit) -> Original:
    with TemporaryDirectory() as folder:
        file = Path(folder) / NAME
        model.save(file)
        tensors, metadata = unpacked(file.read_bytes())
    structure = json.loads(model.structure.to_json())
    document = json.loads(metadata["document"])
    return Original(model.eval(), packed(tensors, metadata), metadata, tensors, document, structure)


# ---------------------------------------------------------------------- crafted files


def signed(tensors: Mapping[str, Tensor], complex_names: str, document: str, kind: str = "model") -> bytes:
    """A file whose checksum is right, as docs/models.md describes it."""
    notes = {"complex": complex_names, "document": document, "kind": kind}
    total = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name]
        total.update(json.dumps([name, str(value.dtype), list(value.shape)]).encode())
        total.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return packed(tensors, {"format": "squircuit", "version": "1", **notes, "sha256": total.hexdigest()})


def packed(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """A file of safetensors, in an order that is always the same, which that of the library is not."""
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))}
    data = b""
    for name in sorted(tensors, key=lambda name: (-tensors[name].element_size(), name)):
        value = tensors[name].contiguous()
        start, data = len(data), data + value.reshape(-1).view(torch.uint8).numpy().tobytes()
        entry = {"dtype": TYPES[value.dtype], "shape": list(value.shape), "data_offsets": [start, len(data)]}
        header[name] = entry
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def unpacked(content: bytes) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file, by name in order."""
    (size,) = struct.unpack("<Q", content[:8])
    metadata = json.loads(content[8 : 8 + size])["__metadata__"]
    return dict(sorted(read_tensors(content).items())), dict(sorted(metadata.items()))


TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.bool: "BOOL", torch.uint8: "U8",
}  # fmt: skip


def _compressed(text: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(bytearray(zlib.compress(text, 1)), dtype=np.uint8))


def _damaged(one: Original, rng: Random) -> bytes:
    return mutated_bytes(one.content, rng)


def _other_header(one: Original, rng: Random) -> bytes:
    """The header of safetensors changed, with its length right."""
    (size,) = struct.unpack("<Q", one.content[:8])
    header = dumps(mutated_document(json.loads(one.content[8 : 8 + size]), rng)).encode()
    return struct.pack("<Q", len(header)) + header + one.content[8 + size :]


def _other_document(one: Original, rng: Random) -> bytes:
    return signed(one.tensors, one.metadata["complex"], dumps(mutated_document(one.document, rng)))


def _other_structure(one: Original, rng: Random) -> bytes:
    text = dumps(mutated_document(one.structure, rng)).encode()
    tensors = one.tensors | {"structure": _compressed(text)}
    return signed(tensors, one.metadata["complex"], json.dumps(one.document | {"structure_bytes": len(text)}))


def _other_size(one: Original, rng: Random) -> bytes:
    """A size of the structure that is not its size, and structures that are much larger than their file."""
    tensors, size = dict(one.tensors), rng.choice((*HOSTILE, 10**9, 2**31 - 1, 2**63 - 1, 2**63 - 2))
    choice = rng.randrange(4)
    if choice == 0:
        tensors["structure"] = torch.from_numpy(np.frombuffer(bytearray(deflated_zeros(60, 15)), np.uint8))
        size = rng.choice((600 * 2**20, 10**9, size))
    elif choice == 1:
        tensors["structure"] = rng.choice(_other_tensors(tensors["structure"], rng))
    return signed(tensors, one.metadata["complex"], dumps(one.document | {"structure_bytes": size}))


def _other_weights(one: Original, rng: Random) -> bytes:
    """Tensors zeroed, not finite, of other types and shapes, missing and additional."""
    tensors, names = dict(one.tensors), [name for name in one.tensors if name != "structure"]
    name = rng.choice(names)
    match rng.randrange(6):
        case 0:
            del tensors[name]
        case 1:
            tensors[rng.choice(("extra", "", "sum", "root_logits", name + "1"))] = tensors[name].clone()
        case 2:
            tensors[name] = tensors[rng.choice(names)].clone()
        case 3:
            tensors = {key: torch.zeros_like(t) if key in names else t for key, t in tensors.items()}
        case _:
            tensors[name] = rng.choice(_other_tensors(tensors[name], rng))
    named = rng.choice(
        (*[one.metadata["complex"]] * 5, "[]", json.dumps(list(tensors)), dumps(rng.choice(HOSTILE)))
    )
    return signed(tensors, named, json.dumps(one.document))


def _other_tensors(value: Tensor, rng: Random) -> list[Tensor]:
    """Tensors that may stand in place of one."""
    spoilt = value.clone()
    if spoilt.numel():
        odd = rng.choice((0, 1, 255)) if spoilt.dtype == torch.uint8 else rng.choice(NUMBERS)
        spoilt.view(-1)[rng.randrange(spoilt.numel())] = odd
    floats = value.double()
    scaled = (
        [(floats * factor).to(value.dtype) for factor in (0, -1, 2, 1e-30, 1e30)]
        if value.dtype.is_floating_point
        else []
    )
    types = (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.int64,
        torch.bool,
        torch.uint8,
    )
    shapes = [
        value[..., :1],
        value[:0],
        value[None],
        value.reshape(-1),
        value.transpose(0, -1),
        torch.zeros(()),
    ]
    return [spoilt, spoilt, spoilt, *scaled, *(floats.to(dtype) for dtype in types), *shapes]


NUMBERS = (0.0, float("nan"), float("inf"), float("-inf"), 1e30, -1.0, 1e-38)


# ---------------------------------------------------------------------- laws


def require_same(one: Original, found: sq.SquaredCircuit) -> None:
    """The model of a damaged file is the original bit by bit."""
    expected, weights = one.model.state_dict(), found.state_dict()
    require(list(weights) == list(expected), "other weights")
    for name, value in expected.items():
        same = weights[name].dtype == value.dtype and _bytes(weights[name]) == _bytes(value)
        require(same, "other values of weights", name)
    for name in ("schema", "shape", "notes", "is_unitary", "precision"):
        require(
            getattr(found, name) == getattr(one.model, name), "another schema, shape, notes or type", name
        )
    require(found.structure.to_json() == one.model.structure.to_json(), "another structure")
    rows = _some_rows(found)
    require(torch.equal(found.log_prob(rows), one.model.log_prob(rows)), "other probabilities")


def _bytes(value: Tensor) -> bytes:
    return value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@torch.no_grad()
def require_valid(model: sq.SquaredCircuit) -> None:
    """Answers are probabilities, and those of the circuit that the model says it is."""
    if model.structure.num_variables > WIDEST:
        return
    rows = _all_rows(model)
    if rows is None:
        _require_numbers(model.log_prob(_some_rows(model)), densities=True)
    else:
        log_p = model.log_prob(rows).double()
        _require_numbers(log_p, densities=False)
        _require_distribution(model, rows, log_p)
    drawn = model.sample(3, seed=0)
    require(not drawn.isnan().any(), "samples are NaN")
    require(drawn.shape == (3, model.structure.num_variables), "samples of another shape", tuple(drawn.shape))
    _require_numbers(model.log_prob(drawn), densities=rows is None)


def _require_numbers(log_p: Tensor, densities: bool) -> None:
    require(not log_p.isnan().any(), "log p is NaN")
    require(not (log_p == torch.inf).any(), "log p is infinite")
    require(densities or bool((log_p < 1e-3).all()), "p is above 1")


def _require_distribution(model: sq.SquaredCircuit, rows: Tensor, log_p: Tensor) -> None:
    close = 1e-9 if model.precision == torch.float64 else 1e-3
    total = float(log_p.exp().sum())
    require(abs(total - 1) < close, "probabilities do not sum to 1", total)
    circuit = model.circuit()
    expected = sq.evaluate(circuit, rows).abs().square() @ circuit.root_shares.double()
    weight = float(expected.sum())
    if 1e-200 < weight < 1e200:
        gap = float((expected / weight - log_p.exp()).abs().max())
        require(gap < close, "p is not that of the circuit", gap)


def _sizes(model: sq.SquaredCircuit) -> list[int] | None:
    """How many states each variable has; None where one is continuous."""
    domains = [model.structure.domains.get(v) for v in range(model.structure.num_variables)]
    return [domain.size for domain in domains] if all(isinstance(d, Finite) for d in domains) else None


def _all_rows(model: sq.SquaredCircuit) -> Tensor | None:
    """All states of a small discrete model."""
    sizes = _sizes(model)
    if sizes is None or not 0 < np.prod(np.array(sizes, dtype=float)) <= MOST_STATES:
        return None
    return torch.from_numpy(np.stack([axis.reshape(-1) for axis in np.indices(sizes)], axis=1))


def _some_rows(model: sq.SquaredCircuit) -> Tensor:
    """Two rows inside of the domains."""
    domains = [model.structure.domains.get(v) for v in range(model.structure.num_variables)]
    row = [0.0 if domain is None else domain.anchor for domain in domains]
    return torch.tensor([row, row], dtype=torch.float64)


# ---------------------------------------------------------------------- cases


def _case(kind: str, change: Callable[[Original, Random], bytes], same: bool) -> Callable[[Random], Case]:
    def make(rng: Random) -> Case:
        one = rng.choice(originals())
        again = rng.random() < 0.1

        def read(folder: Path) -> None:
            found = sq.load(folder / NAME)
            if same:
                require_same(one, found)
            else:
                require_valid(found)
                if again:
                    _require_kept(found, folder / "again.safetensors")

        return Case(f"model: {kind}", {NAME: change(one, rng)}, read)

    return make


def _require_kept(model: sq.SquaredCircuit, file: Path) -> None:
    """What was loaded can be saved and loaded again."""
    model.save(file)
    rows = _some_rows(model)
    require(torch.equal(sq.load(file).log_prob(rows), model.log_prob(rows)), "another model when saved again")


def crafted_model(rng: Random) -> bytes:
    """The file of some changed model, mostly of the people, for the command line."""
    change = rng.choice((_damaged, _other_document, _other_document, _other_structure, _other_weights))
    return change(rng.choice((originals()[-1], rng.choice(originals()))), rng)


def circuit_text(rng: Random) -> Case:
    """A circuit as JSON text, without any checksum."""
    one = rng.choice(originals())
    document = json.loads(one.model.circuit().to_json(weights=True)) if rng.random() < 0.5 else one.structure
    content = _text(document, rng)

    def read(folder: Path) -> None:
        circuit = sq.Circuit.from_json((folder / "circuit.json").read_bytes().decode("utf-8", "replace"))
        require(sq.Circuit.from_json(circuit.to_json()).num_variables == circuit.num_variables, "not kept")
        if circuit.num_variables <= WIDEST and circuit.has_weights:
            sq.partition(circuit)

    return Case("circuit: JSON", {"circuit.json": content}, read)


def regions_text(rng: Random) -> Case:
    """A region graph as JSON text."""
    graph = rng.choice((sq.regions.linear(5), sq.regions.balanced_tree(6), sq.regions.quad_tree((2, 4))))
    content = _text(json.loads(graph.to_json()), rng)

    def read(folder: Path) -> None:
        found = sq.RegionGraph.from_json((folder / "regions.json").read_bytes().decode("utf-8", "replace"))
        require(sq.RegionGraph.from_json(found.to_json()) == found, "not kept")

    return Case("regions: JSON", {"regions.json": content}, read)


def _text(document: Any, rng: Random) -> bytes:
    if rng.random() < 0.2:
        return mutated_bytes(json.dumps(document).encode(), rng)
    return dumps(mutated_document(document, rng)).encode()


CASES: tuple[tuple[float, Callable[[Random], Case]], ...] = (
    (14, _case("bytes", _damaged, same=True)),
    (8, _case("header", _other_header, same=True)),
    (12, _case("document", _other_document, same=False)),
    (16, _case("structure", _other_structure, same=False)),
    (3, _case("size", _other_size, same=False)),
    (12, _case("weights", _other_weights, same=False)),
    (4, circuit_text),
    (2, regions_text),
)
"""How often, and what."""
