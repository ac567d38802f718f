"""The experiments run, and the truth they compare with is true."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import benchmark
import best
import binary
import compression
import densities
import images
import marginals
import optimisers
import record
import squircuit as sq
from setups import Setup

pytest.importorskip("matplotlib")


@pytest.mark.slow
@pytest.mark.parametrize("data", ["spinner", "spiral"])
def test_the_density_of_the_noisy_points_integrates_to_one_and_is_that_of_samples(data):
    period, side = densities.PERIODS[data], 120
    points = densities.grid(period, side)
    truth = densities.wrapped_density(data, points)
    assert truth.sum() * (period / side) ** 2 == pytest.approx(1, abs=1e-6)
    samples = densities.wrapped(densities.SAMPLES[data](40000, seed=0, noise=densities.NOISE), period)
    for centre, radius in (((0.0, 0.0), 0.8), ((1.0, -1.0), 0.9), ((-1.5, 1.0), 0.7)):
        share = (np.linalg.norm(samples - centre, axis=1) < radius).mean()
        fine = densities.grid(period, 150)
        inside = np.linalg.norm(fine - centre, axis=1) < radius
        mass = densities.wrapped_density(data, fine[inside]).sum() * (period / 150) ** 2
        assert share == pytest.approx(mass, abs=0.01)


def test_the_divergence_of_a_density_from_itself_is_zero_and_from_the_uniform_one_is_known():
    points = densities.grid(6.0, 60)
    truth = densities.wrapped_density("spinner", points)
    area = (6.0 / 60) ** 2
    assert densities.divergence(truth, np.log(truth), area) == 0
    uniform = np.full(len(truth), -np.log(36.0))
    entropy = -(truth * np.log(truth)).sum() * area
    assert densities.divergence(truth, uniform, area) == pytest.approx(np.log(36.0) - entropy)


def test_a_model_of_the_figure_is_trained_scored_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(densities, "PERIODS", {"spinner": 6.0})
    monkeypatch.setattr(densities, "PAPER", densities.PAPER[-1:])
    monkeypatch.setattr(densities, "OURS", [])
    (row,) = densities.main(["--steps", "5", "--side", "30", "--out", str(tmp_path)])
    assert row.scores["kl"] > 0
    assert abs(row.scores["log_z"]) < 0.1  # landing: near the manifold
    (written,) = record.read("densities", tmp_path)
    assert written["kl"] == row.scores["kl"]
    assert {"command", "commit", "machine", "params", "seed", "minutes", "log_z"} <= written.keys()
    assert (tmp_path / "densities.png").stat().st_size > 1000


def test_optimisers_are_scored_as_claimed_as_true_and_projected(tmp_path, monkeypatch):
    chosen = {name: optimisers.METHODS[name] for name in ("LandingSGD", "Polar")}
    monkeypatch.setattr(optimisers, "METHODS", chosen)
    pytest.importorskip("sklearn")
    landing, polar = optimisers.main(
        ["--steps", "4", "--units", "2", "--rows", "200", "--out", str(tmp_path)]
    )
    bit = 64 * np.log(2)
    for row in (landing, polar):
        scores = row.scores
        assert scores["true_bpd"] - scores["claimed_bpd"] == pytest.approx(scores["log_z"] / bit, abs=1e-9)
        assert abs(scores["log_z_projected"]) < 1e-4
    assert abs(polar.scores["log_z"]) < 1e-4 < abs(landing.scores["log_z"])


def test_mixed_layers_are_those_whose_scope_is_cut():
    circuit = sq.build(sq.regions.quad_tree((4, 4)), sq.Categorical(2), units=2)
    count = [marginals.mixed_layers(circuit, marginals.rectangle(4, width)) for width in range(5)]
    assert count == [0, 3, 1, 3, 0]
    weights, squared = marginals.sizes(circuit)
    assert weights == sum(layer.weight.shape[0] * layer.weight.shape[1] for layer in circuit.sums)
    assert squared == sum((layer.weight.shape[0] * layer.weight.shape[1]) ** 2 for layer in circuit.sums)


def test_bits_per_dimension_of_a_uniform_model_are_those_of_its_levels():
    class Uniform(torch.nn.Module):
        device = torch.device("cpu")

        def log_prob(self, x):
            return torch.full((len(x),), -float(np.log(8)) * x.shape[1])

    assert images.bits(Uniform(), torch.zeros(7, 5, dtype=torch.long)) == pytest.approx(3)


@pytest.mark.parametrize("draws", [True, False])
def test_members_are_mixed_into_one_normalised_model_that_scores_above_their_mean(draws):
    rng = np.random.default_rng(0)
    rows = (rng.integers(2, size=(300, 1)) ^ (rng.random((300, 5)) < 0.1)).astype(np.uint8)
    columns = sq.data.table(rows).schema.columns
    data = sq.data.Dataset(rows[:200], rows[200:250], rows[250:], columns, "nltcs", (5,))
    setting = binary.Setting({"units": 2, "components": 2}, {"epochs": 2}, members=3, draws=draws)
    row = binary.run(data, 1, "cpu", setting)
    assert abs(row.scores["log_z"]) < 1e-5
    assert len(set(row.options["member_valid_ll"])) == 3  # three seeds
    assert row.scores["valid_ll"] >= np.mean(row.options["member_valid_ll"])
    assert row.model == "⊥ Kronecker, 6 roots"


def test_rows_are_written_whole_or_not_at_all(tmp_path):
    row = record.Row("name", "data", "model", 3, 0, {"test_ll": -1.0, "log_z": 0.0}, 0.1)
    path = record.write([row], tmp_path)
    assert json.loads(path.read_text())["test_ll"] == -1.0
    record.write([row, row], tmp_path)
    assert len(record.read("name", tmp_path)) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["name.jsonl"]


SHOWN = [
    ("densities", "kl"),
    ("optimisers-digits", "true_bpd"),
    ("optimisers-mnist", "true_bpd"),
    ("best", "test_bpd"),
    ("best", "valid_bpd"),
    ("binary", "test_ll"),
]


@pytest.mark.parametrize(("name", "score"), SHOWN)
def test_the_page_of_results_shows_the_numbers_of_the_rows(name, score):
    page = (record.HERE.parent / "docs" / "results.md").read_text(encoding="utf-8").replace("−", "-")
    rows = record.read(name)
    assert rows
    for row in rows:
        assert f"{row[score]:.4f}" in page, row["model"]


def test_the_command_of_a_row_does_not_say_where_files_lie(monkeypatch):
    monkeypatch.setattr(
        "sys.argv", ["binary.py", "--data", "nltcs", "--folder", "here", "--out", "there", "--seeds", "1"]
    )
    assert record.command() == "squircuit reproduce binary --data nltcs --seeds 1"


def test_a_preset_is_trained_and_scored_on_test_rows(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    digits = sq.data.load("digits")
    monkeypatch.setattr(best.sq.data, "load", lambda name, folder: digits)
    (row,) = best.main(["--data", "mnist", "--preset", "small", "--epochs", "1", "--out", str(tmp_path)])
    assert row.options["units"] == 4
    assert 0 < row.scores["test_bpd"] < np.log2(17)
    assert abs(row.scores["log_z"]) < 1e-4


def test_members_are_mixed_and_the_mixture_is_not_worse_than_their_mean(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    digits = sq.data.load("digits")
    monkeypatch.setattr(best.sq.data, "load", lambda name, folder: digits)
    options = ["--data", "mnist", "--preset", "small", "--epochs", "1", "--members", "2"]
    first, second, both = best.main([*options, "--orders", "hv", "vh", "--out", str(tmp_path)])
    assert (first.seed, second.seed, both.seed) == (0, 1, 0)
    assert both.options["orders"] == ["hv", "vh"]
    assert both.params == first.params + second.params + 2 * 4  # the weights of four roots each
    for score in ("test_bpd", "valid_bpd"):
        scores = first.scores[score], second.scores[score]
        assert both.scores[score] < sum(scores) / 2  # Jensen
        assert both.scores[score] < min(scores) + 1 / 64  # half of the better one: one bit of 64 pixels
    assert abs(both.scores["log_z"]) < 1e-4
    assert len(record.read("best", tmp_path)) == 3
    with pytest.raises(SystemExit):
        best.main([*options, "--seeds", "0", "1", "--out", str(tmp_path)])
    with pytest.raises(sq.ParameterError, match="got 'vw'"):
        best.main([*options, "--orders", "hv", "vw", "--out", str(tmp_path)])


def test_rows_of_the_same_data_model_and_seed_are_replaced_and_others_kept(tmp_path):
    def row(data, seed, score):
        return record.Row("name", data, "model", 1, seed, {"test_bpd": score}, 0.1)

    record.write([row("a", 0, 1.0), row("b", 0, 2.0)], tmp_path)
    record.write([row("b", 0, 3.0), row("b", 1, 4.0)], tmp_path)
    found = [(r["data"], r["seed"], r["test_bpd"]) for r in record.read("name", tmp_path)]
    assert found == [("a", 0, 1.0), ("b", 0, 3.0), ("b", 1, 4.0)]


@pytest.mark.slow
def test_the_figure_of_images_needs_rows_and_shows_the_mean_of_the_seeds(tmp_path, capsys):
    with pytest.raises(SystemExit):
        images.main(["--draw", "--out", str(tmp_path)])
    assert "train some models first" in capsys.readouterr().err
    for seed, score in ((0, 1.0), (1, 2.0)):
        row = record.Row("images-mnist-unitary", "mnist", "K=4", 100, seed, {"test_bpd": score}, 0.1)
        record.write([row], tmp_path)
    images.main(["--draw", "--out", str(tmp_path)])
    assert (tmp_path / "images.png").stat().st_size > 1000
    here, paper, *_ = images.draw(tmp_path).axes[0].get_lines()
    assert here.get_xydata().tolist() == [[100, 1.5]]
    assert [2_135_296, 1.3112] in paper.get_xydata().tolist()
    assert [547_667_968, 1.1923] in paper.get_xydata().tolist()


def test_an_error_of_the_library_ends_an_experiment_in_one_line(monkeypatch):
    monkeypatch.setattr("sys.argv", ["best.py", "--data", "mnist"])

    def main():
        raise sq.DataError("no such file. Fix: put it there.")

    with pytest.raises(SystemExit, match=r"^error: no such file\. Fix: put it there\.$"):
        record.run(main)


@pytest.mark.slow
def test_the_benchmark_keeps_time_and_memory_of_every_model_and_draws_them(tmp_path, monkeypatch):
    small = [Setup(kind, 2, 8, 4) for kind in ("unitary-kronecker", "squared-hadamard")]
    monkeypatch.setattr(benchmark, "suite", lambda name: small)
    rows = benchmark.main(["--suites", "any", "--device", "cpu", "--repeats", "2", "--out", str(tmp_path)])
    assert [row.model for row in rows] == ["⊥ kronecker K=2, ours", "± hadamard K=2, ours"]
    assert [row.params for row in rows] == [setup.circuit().num_parameters() for setup in small]
    assert all(row.scores["ms"] > 0 and row.scores["gib"] > 0 for row in rows)
    assert len(record.read("benchmark", tmp_path)) == 2
    assert benchmark.main(["--draw", "--out", str(tmp_path)]) == []
    assert (tmp_path / "benchmark.png").stat().st_size > 1000


def test_the_benchmark_measures_the_peer_with_and_without_tf32_and_ours_once(monkeypatch):
    seen = []
    monkeypatch.setattr(
        benchmark.measure, "measure", lambda peer, setup, plan: seen.append((peer, setup.tf32))
    )
    plan = benchmark.measure.Plan(folders={"cirkit": "there"})
    list(benchmark.run([Setup("unitary-kronecker", 2, 8, 4)], "cpu", plan, "both"))
    assert seen == [("ours", False), ("cirkit", False), ("cirkit", True)]


def test_a_figure_without_rows_says_what_to_do(tmp_path, capsys):
    with pytest.raises(SystemExit):
        benchmark.main(["--draw", "--out", str(tmp_path)])
    assert "measure some models first" in capsys.readouterr().err


def test_codes_of_a_model_stand_beside_those_of_codecs(tmp_path):
    pytest.importorskip("constriction")
    model = tmp_path / "digits.safetensors"
    sq.model_for(sq.data.load("digits"), units=2).save(model)
    words = ["--data", "digits", "--model", str(model), "--images", "40", "--out", str(tmp_path)]
    rows = compression.main(words)
    assert [row.model.partition(",")[0] for row in rows[:2]] == ["PNG", "PNG"]
    ours = rows[-1].scores
    assert 0 < ours["bytes"] - 40 * 64 * ours["model_bpd"] / 8 < 260  # the header
    assert len(record.read("compression", tmp_path)) == len(rows)
    assert compression.mosaic(np.arange(12, dtype=np.uint8).reshape(3, 2, 2)).tolist()[0] == [0, 1, 4, 5]
