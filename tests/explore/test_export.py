"""An exported page says what Python says, in double precision, and loads nothing."""

import base64
import hashlib
import json
import math
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.cli.reading import schema_of
from squircuit.errors import StructureError
from squircuit.explore.exhibit import Exhibit
from squircuit.explore.export import MODULES, document, page, script_of

from .conftest import people

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    NODE is None, reason="no node on this machine, which runs the page's arithmetic"
)
CLOSE = {"rel": 1e-10, "abs": 1e-10}
DOUBLE = torch.complex128  # so that Python computes in double precision, too


def exhibit_of(model):
    return Exhibit(model, schema_of(model), "model")


def answers(model, questions, folder):
    """What the page of a model answers to questions, (kind, question) each, by its own script."""
    script = script_of(tuple(name for name in MODULES if name in ("exact", "local")))
    held = json.dumps(document(exhibit_of(model)))
    asked = json.dumps(questions)
    run = f"{script}\nconst held = unpacked({held});\n"
    run += f"console.log(JSON.stringify({asked}.map(([kind, question]) => answer(held, kind, question))));"
    file = folder / "page.mjs"
    file.write_text(run)
    done = subprocess.run([NODE, file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


SEEN = [[2, None, 0, None, None, 1], [None] * 6, [0, 1, 2, 0, 1, 2]]


def drawn_model(kind):
    """Models of all shapes that a page can evaluate."""
    if kind == "hadamard":
        return sq.SquaredCircuit(
            sq.build(sq.regions.balanced_tree(6), sq.Categorical(3), units=3, product="hadamard"),
            seed=3,
            dtype=DOUBLE,
        )
    if kind == "components":
        circuit = sq.build(sq.regions.balanced_tree(6), sq.Categorical(3), units=2, components=3)
        return sq.SquaredCircuit(circuit, seed=4, dtype=DOUBLE)
    if kind == "halves":
        return sq.image_model((2, 3), units=4, levels=3, seed=1, parts=2, roots=2, dtype=DOUBLE)
    parts = [sq.image_model((2, 3), units=2, levels=3, seed=seed, dtype=DOUBLE) for seed in (1, 2)]
    return sq.mixture(parts, [0.3, 0.7]) if kind == "mixture" else parts[0]


@needs_node
@pytest.mark.process
@pytest.mark.parametrize("kind", ["plain", "halves", "mixture", "hadamard", "components"])
def test_an_exported_image_has_the_likelihoods_and_spreads_of_python_to_1e_10(kind, tmp_path):
    model = drawn_model(kind).eval().requires_grad_(False)
    questions = [(name, {"pixels": seen}) for seen in SEEN for name in ("likelihood", "spread")]
    found = answers(model, questions, tmp_path)
    for i, seen in enumerate(SEEN):
        gaps = [value is None for value in seen]
        x = [[value or 0 for value in seen]]
        assert found[2 * i]["log_prob"] == pytest.approx(model.log_prob(x, gaps).item(), **CLOSE)
        if len(model.structure.roots) > 1:
            shares = model.component_log_prob(x, gaps)[0].softmax(dim=0).tolist()
            assert found[2 * i]["members"] == pytest.approx(shares, **CLOSE)
        if any(gaps):
            by_python = model.marginals(x, gaps)
            assert found[2 * i + 1]["mean"] == pytest.approx(by_python.mean[0].tolist(), **CLOSE)
            deviation = by_python.variance[0].sqrt().tolist()
            assert found[2 * i + 1]["deviation"] == pytest.approx(deviation, rel=1e-9, abs=1e-9)


@needs_node
@pytest.mark.process
@pytest.mark.parametrize("product", ["kronecker", "hadamard"])
def test_an_exported_table_has_the_distributions_of_python_to_1e_10(product, tmp_path):
    model = sq.table_model(people(), units=2, size=6, seed=1, product=product, dtype=DOUBLE)
    model.eval().requires_grad_(False)
    points = document(exhibit_of(model))["columns"][2]["points"]
    given = [{}, {"group": "b"}, {"height": points[40], "sex": "m"}]
    questions = [("distributions", {"evidence": cells}) for cells in given]
    found = answers(
        model, [*questions, ("pair", {"x": "height", "y": "sex", "evidence": {"group": "a"}})], tmp_path
    )
    names = model.schema.names
    for cells, answer in zip(given, found, strict=False):
        row = model.schema.encode([[cells.get(name) for name in names]])
        x, gaps = torch.from_numpy(row.x), torch.from_numpy(row.missing)
        assert answer["log_prob"] == pytest.approx(model.log_prob(x, gaps).item(), **CLOSE)
        for v, name in enumerate(names):
            lacking = gaps.clone()
            lacking[0, v] = True
            grid = {2: points} if lacking[0, 2] else {}
            own = model.marginals(x, lacking, grid=grid)
            assert answer["columns"][name]["values"] == pytest.approx(
                own.values[v][0].tolist(), rel=1e-9, abs=1e-10
            )
            if name in ("children", "height"):
                mean = own.mean[0, v].item() + (model.schema.columns[v].low if name == "children" else 0)
                assert answer["columns"][name]["mean"] == pytest.approx(mean, **CLOSE)
    pair, at = found[-1], 13
    third = math.ceil((len(points) - 1) / 40)
    row = model.schema.encode([["a", None, points[third * at], "f"], ["a", None, None, None]])
    p = model.log_prob(torch.from_numpy(row.x), torch.from_numpy(row.missing))
    assert pair["values"][at][0] == pytest.approx((p[0] - p[1]).exp().item(), **CLOSE)


@needs_node
@pytest.mark.process
def test_samples_of_an_exported_page_are_as_frequent_as_python_says(tmp_path):
    model = drawn_model("mixture").eval().requires_grad_(False)
    model.notes = {"classes": ["first", "second"]}
    asked = [
        {"pixels": SEEN[0], "count": 4000, "seed": 5},
        {"pixels": SEEN[1], "count": 4000, "seed": 6, "class": "first"},
    ]
    all_classes, first = answers(model, [("completions", each) for each in asked], tmp_path)
    gaps = [value is None for value in SEEN[0]]
    for drawn, own in (
        (all_classes, model.marginals([[value or 0 for value in SEEN[0]]], gaps)),
        (first, exhibit_of(model).part(0).marginals()),
    ):
        images = np.array(drawn["completions"])
        error = 5 * np.sqrt(own.variance[0].numpy() / 4000) + 1e-9
        assert (np.abs(images.mean(axis=0) - own.mean[0].numpy()) <= error).all()
    pairs = np.array(first["completions"])[:, [0, 3]]  # that samples are joint ones: a pair of pixels
    given = torch.tensor([[a, 0, 0, b, 0, 0] for a in range(3) for b in range(3)])
    p = (
        exhibit_of(model)
        .part(0)
        .log_prob(given, [False, True, True, False, True, True])
        .double()
        .exp()
        .numpy()
    )
    counted = np.bincount(3 * pairs[:, 0] + pairs[:, 1], minlength=9) / 4000
    assert (np.abs(counted - p) <= 5 * np.sqrt(p * (1 - p) / 4000)).all()


def test_an_exported_page_loads_nothing_and_its_script_is_the_one_its_policy_names(image_model):
    text = page(exhibit_of(image_model))
    assert "https://" not in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    script = re.search(r'<script type="module">(.*?)</script>', text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)


def test_sliders_of_an_exported_page_stop_at_round_numbers_that_cover_the_range(table_model):
    exhibit = exhibit_of(table_model)
    held = document(exhibit)
    told, points = held["described"]["columns"][2], held["columns"][2]["points"]
    low, high = exhibit.ranges[2]
    assert low <= told["low"] < low + told["step"]
    assert high - told["step"] < told["high"] <= high
    assert 60 < len(points) < 200
    assert all(point == pytest.approx(round(point, 6)) for point in points)


def test_models_that_a_page_cannot_evaluate_are_refused_with_the_reason():
    frame = {"a": np.random.default_rng(0).normal(size=60), "b": np.random.default_rng(1).normal(size=60)}
    learnt = sq.learn(frame, minutes=0.01, progress=False)
    with pytest.raises(StructureError, match=r"block|several"):
        page(exhibit_of(learnt))
