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
from squircuit.data.given import encoded
from squircuit.errors import StructureError
from squircuit.explore.exhibit import Exhibit
from squircuit.explore.export import MODULES, document, page, script_of
from squircuit.learning.members import GaussianMixture

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
    script = script_of(tuple(name for name in MODULES if name in ("gaussian", "exact", "calendar", "local")))
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


@pytest.fixture(scope="module")
def learnt():
    """A mixture of what `learn` tries: blocks behind maps and without, narrow ones, and a column of dates."""
    rng = np.random.default_rng(0)
    days = np.arange("2023-01-01", "2024-06-01", dtype="M8[D]")[::2]
    rain = np.where(rng.random(len(days)) < 0.7, 0.0, rng.exponential(3.0, len(days)).round(2))
    frame = {
        "day": days,
        "rain": rain,
        "warm": np.where(rain > 0, 10, 20) + 3 * rng.normal(size=len(days)),
        "open": rng.random(len(days)) < 0.3,
        "x": rng.lognormal(size=len(days)),
    }
    table = sq.data.table(frame)
    kinds = [
        GaussianMixture(3, knots=16),
        GaussianMixture(2),
        GaussianMixture(2, "tied", knots=16),
        GaussianMixture(2, "low-rank", knots=64, rank=1, joint=64),
        GaussianMixture(2, "diagonal"),
    ]
    members = [kind.fit(table, None, 1, torch.device("cpu")).model() for kind in kinds]
    model = sq.mixture(members, [0.3, 0.2, 0.2, 0.2, 0.1]).eval().requires_grad_(False)
    model.schema = table.schema
    return model


@needs_node
@pytest.mark.process
def test_an_exported_mixture_of_gaussians_has_the_distributions_of_python_to_1e_10(learnt, tmp_path):
    schema, columns = learnt.schema, document(exhibit_of(learnt))["columns"]
    points = {column["name"]: column["points"] for column in columns}
    given = [
        {},
        {"open": 1},
        {"rain": 0.0, "x": points["x"][20]},
        {"day": "2023-03-15", "warm": points["warm"][50]},
        {"day": "2024-02-09", "rain": points["rain"][9], "warm": points["warm"][70], "open": 0},
    ]
    found = answers(learnt, [("distributions", {"evidence": cells}) for cells in given], tmp_path)
    for cells, answer in zip(given, found, strict=True):
        row = encoded(schema, cells)
        x, gaps = torch.from_numpy(row.x), torch.from_numpy(row.missing)
        assert answer["log_prob"] == pytest.approx(learnt.log_prob(x, gaps).item(), **CLOSE)
        shares = learnt.component_log_prob(x, gaps)[0].softmax(dim=0).tolist()
        assert answer["members"] == pytest.approx(shares, **CLOSE)
        for name in schema.table_names:
            lacking = gaps.clone()
            lacking[:, schema.variables(name)] = True
            grid = {
                v: points[schema.names[v]]
                for v in range(len(columns))
                if lacking[0, v] and not columns[v]["discrete"]
            }
            own = learnt.marginals(x, lacking, grid=grid)
            for v in schema.variables(name):
                told = answer["columns"][schema.names[v]]
                assert told["values"] == pytest.approx(own.values[v][0].tolist(), rel=1e-9, abs=1e-10)
                if not columns[v]["discrete"]:  # by a rule that is not exact at the knots of a map
                    assert told["mean"] == pytest.approx(own.mean[0, v].item(), rel=1e-3, abs=1e-3)
                    spread = own.variance[0, v].sqrt().item()
                    assert told["deviation"] == pytest.approx(spread, rel=1e-3)


@needs_node
@pytest.mark.process
def test_samples_and_pairs_of_an_exported_mixture_of_gaussians_are_those_of_its_density(learnt, tmp_path):
    asked = [
        ("samples", {"evidence": {"open": 1}, "count": 3000, "seed": 2}),
        ("pair", {"x": "warm", "y": "open", "evidence": {"day": "2023-03-15"}}),
        ("samples", {"evidence": {"day": "2023-03-15"}, "count": 5, "seed": 2}),
    ]
    drawn, pair, dated = answers(learnt, asked, tmp_path)
    assert tuple(drawn["names"]) == learnt.schema.table_names
    rain, warm = (np.array([row[i] for row in drawn["rows"]]) for i in (1, 2))
    own = learnt.decode(learnt.sample(3000, given={"open": True}, seed=1))
    assert (rain == 0).mean() == pytest.approx((own["rain"] == 0).mean(), abs=0.05)
    assert rain.mean() == pytest.approx(own["rain"].mean(), abs=0.5)
    assert np.cov(rain, warm)[0, 1] == pytest.approx(np.cov(own["rain"], own["warm"])[0, 1], abs=2.5)
    months = np.bincount([int(row[0][5:7]) for row in drawn["rows"]], minlength=13)
    expected = np.bincount(own["day"].astype("M8[M]").astype(int) % 12 + 1, minlength=13)
    assert abs(months - expected).max() < 90
    points = pair["x"]["points"]
    rows = [{"day": "2023-03-15", "warm": points[20], "open": is_open} for is_open in (False, True)]
    p = learnt.log_prob(encoded_rows(learnt, rows)) - learnt.log_prob({"day": "2023-03-15"})
    assert pair["values"][20] == pytest.approx(p.exp().tolist(), rel=1e-4)
    assert {row[0] for row in dated["rows"]} == {"2023-03-15"}


def encoded_rows(model, rows):
    return {name: np.array([row[name] for row in rows], dtype=object) for name in rows[0]}


def test_models_that_a_page_cannot_evaluate_are_refused_with_the_reason():
    block = sq.Input((0, 1), sq.MultivariateGaussian(3, 2))
    model = sq.SquaredCircuit(sq.Circuit(sq.Sum(block, units=2)))
    with pytest.raises(StructureError, match=r"a sum or a Kronecker product is above a block"):
        page(exhibit_of(model))
