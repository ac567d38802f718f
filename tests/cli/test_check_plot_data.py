"""`check`, `plot`, `data` and `bench`."""

import json
import math
import re

import pytest
import torch

import squircuit as sq
from squircuit.circuits.region_graph import region_graph

from .conftest import call, document


def test_check_says_every_property_of_the_library_s_report(model_file):
    report = sq.check(sq.load(model_file).circuit())
    found = document("check", model_file)
    assert {v["name"]: v["holds"] for v in found["properties"]} == {v.name: v.holds for v in report}
    assert found["parameters"] == sq.load(model_file).structure.num_parameters()
    assert abs(found["log_z"]) < 1e-4
    assert found["off_manifold"] == {}
    text = call("check", model_file).stdout
    assert all(verdict.name in text and verdict.reason in text for verdict in report)
    assert "every semi-unitary weight is on it" in text


def test_check_finds_the_weight_that_is_off_its_manifold_and_the_exact_log_z(image_file, tmp_path):
    model = sq.load(image_file)
    circuit = model.circuit()
    name = circuit.parameter_name(circuit.sums[-1].weight)
    off = sq.SquaredCircuit(circuit)
    with torch.no_grad():
        off.stacks()[-1].mul_(2)
    off.save(tmp_path / "off")
    found = document("check", tmp_path / "off")
    assert found["log_z"] == pytest.approx(math.log(4), abs=1e-5)
    assert found["off_manifold"] == {name: pytest.approx(3, abs=1e-4)}
    assert f"W Wᴴ differs from I at {name} by 3" in call("check", tmp_path / "off").stdout


def test_check_reads_circuits_as_json_with_weights_and_without(tmp_path):
    circuit = sq.build(sq.regions.linear(3), sq.Categorical(2), units=2)
    (tmp_path / "c.json").write_text(circuit.to_json())
    assert document("check", tmp_path / "c.json")["log_z"] is None
    (tmp_path / "w.json").write_text(circuit.initialise(seed=0).to_json(weights=True))
    assert document("check", tmp_path / "w.json")["log_z"] == pytest.approx(0, abs=1e-12)


def test_circuit_and_regions_are_drawn_as_the_library_draws_them(image_file, tmp_path):
    call("plot", image_file, "--what", "circuit", "--out", tmp_path / "c.svg")
    call("plot", image_file, "--what", "regions", "--out", tmp_path / "r.svg")
    assert (tmp_path / "c.svg").read_text() == sq.load(image_file).draw()
    expected = sq.regions.quad_tree((4, 4)).draw([f"pixel{i}" for i in range(16)])
    assert titles((tmp_path / "r.svg").read_text()) == titles(expected)


def titles(svg):
    """The labels of all nodes."""
    return sorted(re.findall("<title>(.*?)</title>", svg, flags=re.DOTALL))


def splits(graph):
    """How every region is split, without the order of the regions."""
    scopes = [tuple(sorted(region.scope)) for region in graph.regions]
    ways = [[[scopes[child] for child in way] for way in region.partitions] for region in graph.regions]
    return sorted(zip(scopes, ways, strict=True))


@pytest.mark.parametrize("what", ["curves", "density"])
def test_pictures_of_a_model(what, model_file, tmp_path):
    pytest.importorskip("squircuit.plots")
    call("plot", model_file, "--what", what, "--out", tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_of_images(image_file, tmp_path):
    pytest.importorskip("squircuit.plots")
    call("plot", image_file, "--what", "samples", "-n", 9, "--out", tmp_path / "a.png")
    call("sample", image_file, "-n", 9, "--out", tmp_path / "b.png")
    call("sample", image_file, "-n", 4, "--out", tmp_path / "x.npy")
    call("complete", image_file, tmp_path / "x.npy", "--mask", "left", "-n", 2, "--out", tmp_path / "c.png")
    assert all((tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in "abc")


@pytest.mark.parametrize(
    "graph", [sq.regions.quad_tree((3, 5)), sq.regions.linear(4), sq.regions.patch_splits((4, 4), 2)]
)
def test_the_skeleton_of_a_built_circuit_is_the_region_graph_it_was_built_on(graph):
    assert splits(region_graph(sq.build(graph, sq.Categorical(16), units=2))) == splits(graph)


def test_the_skeleton_of_one_variable_is_a_leaf():
    graph = region_graph(sq.Circuit(sq.Sum(sq.Input(0, sq.Categorical(2)), units=1)))
    assert graph.num_variables == len(graph.regions) == 1


def test_data_sets_are_listed_and_verified(tmp_path):
    assert list(document("data", "list", "--folder", tmp_path)) == sq.data.names()
    assert "0 of 3 there" in call("data", "list", "--folder", tmp_path).stdout
    found = document("data", "verify", "nltcs", "--folder", tmp_path, code=1)
    assert found == sq.data.verify("nltcs", tmp_path)
    call("data", "verify", "digits")


def test_fetch_says_what_is_there_now():
    found = document("data", "fetch", "spinner")
    assert found["rows"] == {"train": 20000, "valid": 1000, "test": 5000}


def test_show_infers_the_columns_of_a_file(people):
    found = document("data", "show", people, "--columns", "group=drop")
    assert [column["name"] for column in found["columns"]] == ["children", "height", "wind"]
    assert str(sq.data.scan(people)) in call("data", "show", people).stdout


@pytest.mark.slow
def test_bench_passes_its_arguments_on(capfd):
    call("bench", "--no-such-option", code=2)
    assert "unrecognized arguments: --no-such-option" in capfd.readouterr().err


def test_reproduce_lists_its_experiments_and_names_the_nearest():
    listed = call("reproduce").stdout
    assert all(name in listed for name in ("densities", "images", "marginals", "optimisers"))
    assert "record" not in listed
    assert "did you mean 'densities'?" in call("reproduce", "densitys", code=2).stderr


@pytest.mark.slow
def test_reproduce_passes_its_arguments_on(tmp_path, capfd):
    call("reproduce", "marginals", "--sides", "4", "--units", "2", "--repeats", "1", "--out", tmp_path)
    assert "4×4, 4 columns missing: 0 of 5 layers mixed" in capfd.readouterr().out
    assert (tmp_path / "marginals.jsonl").exists()


@pytest.mark.slow
def test_reproduce_and_bench_print_one_document_when_asked(tmp_path, capfd):
    call(
        "reproduce",
        "marginals",
        "--sides",
        "4",
        "--units",
        "2",
        "--repeats",
        "1",
        "--out",
        tmp_path,
        "--json",
    )
    rows = json.loads(capfd.readouterr().out)["rows"]
    assert [row["options"]["mixed"] for row in rows if row["options"]["width"] == 4] == [0]
    small = (
        "--units",
        "2",
        "--side",
        "4",
        "--batch",
        "4",
        "--repeats",
        "1",
        "--warm-up",
        "1",
        "--one-process",
    )
    done = call("bench", "--json", *small, "--device", "cpu")
    assert json.loads(done.stdout)["rows"][0]["peer"] == "ours"
