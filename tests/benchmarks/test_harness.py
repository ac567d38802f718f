"""The harness on models small enough for a test; figures are not looked at, only that they are there."""

import json
import math

import pytest
import torch

import peers
from breakdown import main as breakdown
from breakdown import measure as parts_of
from measure import Plan, Row, measure
from report import table
from setups import KINDS, Setup, suite
from slopes import exponent
from slopes import main as slopes
from step import main as step
from versions import main as versions
from versions import step_of

TINY = Setup(units=2, batch=3, side=2)
QUICK = Plan(repeats=2, warm_up=1, isolate=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inputs", ["learnt", "fixed"])
def test_a_tiny_model_gives_a_row(kind, inputs):
    row = measure("ours", TINY.with_(kind=kind, inputs=inputs), QUICK)
    assert row.problem == ""
    assert len(row.times) == 2
    assert row.ms > 0
    assert row.gib > 0
    assert math.isfinite(row.loss)


@pytest.mark.slow
def test_a_row_can_be_measured_in_a_process_of_its_own():
    row = measure("ours-landing", TINY, Plan(repeats=2, warm_up=1))
    assert row.problem == ""
    assert row.setup == TINY
    assert len(row.optimiser_times) == 2


def test_a_process_that_takes_too_long_is_stopped_and_said():
    row = measure("ours-landing", TINY, Plan(limit=0.05))  # less than Python takes to start
    assert (row.peer, row.setup, row.problem) == ("ours-landing", TINY, "no result in 0.05 s")


def test_an_unknown_peer_is_named_with_those_that_exist(capsys):
    with pytest.raises(ValueError, match="unknown peer 'theirs': choose one of ours, cirkit"):
        measure("theirs", TINY, QUICK)
    with pytest.raises(SystemExit):
        step(["--peer", "theirs"])
    assert "unknown peer 'theirs'" in capsys.readouterr().err


def test_a_peer_that_is_not_there_says_what_to_give(tmp_path):
    row = measure("prototype", TINY, QUICK)
    assert row.problem.startswith("not importable: give --prototype PATH")
    assert "not importable" in table([Row("ours", TINY, [1.0]), row], "ours")


def test_an_adapter_of_ones_own_and_its_failure(tmp_path):
    adapter = tmp_path / "mine.py"
    adapter.write_text("def make(setup):\n    raise MemoryError('too big')\n")
    assert measure(f"mine={adapter}", TINY, QUICK).problem == "MemoryError: too big"


def test_the_ratio_is_the_references_best_time_over_the_rows():
    rows = [Row("ours", TINY, [2.0]), Row("ours", TINY.with_(tf32=True), [1.0]), Row("theirs", TINY, [4.0])]
    assert [line.split()[-1] for line in table(rows, "ours").splitlines()[1:]] == ["0.500", "1.000", "0.250"]


def test_step_prints_a_table_and_writes_json(tmp_path, capsys):
    path = tmp_path / "rows.json"
    options = ["--device", "cpu", "--units", "2", "--side", "2", "--batch", "3", "--repeats", "2"]
    step([*options, "--warm-up", "1", "--one-process", "--rounds", "2", "--json", str(path)])
    assert "unitary-kronecker K=2, 2×2, batch 3" in capsys.readouterr().out
    (row,) = json.loads(path.read_text())["rows"]
    assert len(row["times"]) == 4
    assert row["ms_quartiles"][0] <= row["ms"] <= row["ms_quartiles"][1]


def test_slopes_prints_the_fitted_exponent_beside_the_theoretical(capsys):
    options = ["--device", "cpu", "--units", "2", "--batch", "2", "--repeats", "1", "--warm-up", "1"]
    slopes([*options, "--one-process", "--along", "variables", "--values", "2", "3"])
    out = capsys.readouterr().out
    assert "exponent of the largest three: step" in out
    assert "theory 1 (regions are d/3)" in out


def test_a_breakdown_has_every_part_of_the_step_and_longest_first():
    rows = parts_of("ours", TINY, repeats=1, warm_up=1, folders={})
    assert {row.part for row in rows} == {"forward", "backward", "optimiser"}
    assert [row.ms for row in rows] == sorted((row.ms for row in rows), reverse=True)


def test_breakdown_prints_as_many_kernels_of_each_part_as_are_asked_for(capsys):
    options = ["--device", "cpu", "--units", "2", "--side", "2", "--batch", "3", "--repeats", "1"]
    breakdown([*options, "--warm-up", "1", "--top", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert "unitary-kronecker K=2, 2×2, batch 3, ours" in lines
    assert sum(" × " in line for line in lines) == 6


@pytest.mark.parametrize("power", [1.0, 2.5, 5.0])
def test_the_exponent_of_a_power_law_is_found(power):
    sizes = [1, 2, 4, 8, 16]
    times = [9.0, 9.0] + [0.3 * n**power for n in sizes[2:]]  # small sizes are overhead
    assert exponent(sizes, times) == pytest.approx(power)


def test_the_exponent_needs_two_points():
    assert math.isnan(exponent([4], [1.0]))


def test_both_set_ups_have_the_papers_parameter_counts():
    assert Setup(units=8).circuit().num_parameters() == 20_133_888
    by_model = {(s.kind, s.units): s for s in suite("32")}
    assert by_model["unitary-hadamard", 8].circuit().num_weights() == 87_304
    assert by_model["unitary-kronecker", 16].circuit().num_weights() == 356_843_520


@pytest.mark.parametrize("changes", [{"kind": "cubed"}, {"inputs": "absent"}])
def test_a_set_up_that_does_not_exist_is_refused(changes):
    with pytest.raises(ValueError, match="unknown"):
        TINY.with_(**changes)


def test_captured_steps_need_cuda():
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    assert "CUDA" in measure("ours-graph", TINY, QUICK).problem


def test_options_of_a_peer_are_checked():
    with pytest.raises(ValueError, match="cirkit has no option landing"):
        peers.check_name("cirkit-landing")


def test_a_case_of_versions_runs_and_a_folder_without_sources_is_refused(tmp_path, capsys):
    step_of("log Z, Kronecker K=4", "cpu", batch=1)()
    with pytest.raises(SystemExit):
        versions(["--before", str(tmp_path)])
    assert "--before needs a checkout that has src/squircuit" in capsys.readouterr().err
