"""Several processes that train one model take the steps that one process takes with all rows."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import squircuit as sq

from . import two_processes as together

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("processes")]  # one worker starts them, once

SRC = str(Path(sq.__file__).resolve().parents[1])


SIZE = 2


def found_by(folder, size, *cases):
    """What each of so many processes has found."""
    env = os.environ | {"PYTHONPATH": SRC, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    words = [sys.executable, together.__file__]
    ranks = [
        subprocess.Popen([*words, str(rank), str(size), str(folder), *cases], env=env) for rank in range(size)
    ]
    try:
        assert [process.wait(timeout=600) for process in ranks] == [0] * size
    finally:
        for process in ranks:
            process.kill()
    return [torch.load(folder / f"{rank}.pt") for rank in range(size)]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each of the processes has found, and their folder."""
    folder = tmp_path_factory.mktemp("processes")
    return found_by(folder, SIZE), folder


def assert_close(some, other):
    """The same losses and weights up to rounding in double precision, and the same end."""
    assert some[2] == other[2]
    for row, twin in zip(some[0], other[0], strict=True):
        assert row == pytest.approx(twin, abs=1e-10)
    for name, weight in other[1].items():
        assert (some[1][name] - weight).abs().max() < 1e-10


def assert_trained_as_alone(found, name):
    """Each process, sharing the optimiser's work or not, has the weights that one process finds."""
    alone = together.trained(name)
    ways = (name, f"{name}, sharded", *[f"{name}, weights"] * (name in together.SPREAD))
    for way in ways:
        for each in found:
            assert_close(each[way], alone)
        assert len({str(each[way][1]) for each in found}) == 1
    start = dict(together.CASES[name][0]().named_parameters())
    assert any((start[n] - weight).abs().max() > 1e-3 for n, weight in alone[1].items())  # it has trained


@pytest.mark.parametrize("name", together.CASES)
@pytest.mark.filterwarnings("ignore:the weights are off the manifold")
def test_the_steps_of_several_processes_are_those_of_one(found, name):
    assert_trained_as_alone(found[0], name)


def assert_streamed_as_alone(found, name, folder):
    """Each process has the weights that one process finds, and has read its part of what that reads."""
    size, (*alone, whole) = len(found), together.streamed(name, folder)
    for each in found:
        assert_close(each[name][:3], alone)
    for rows, of_all in whole.items():
        read = [each[name][3][rows] for each in found]
        assert sum(read) == of_all == 3 * rows
        assert max(read) <= 3 * (rows / size + 6)


@pytest.mark.parametrize("name", together.SOURCES)
def test_of_data_that_is_read_while_training_each_process_reads_its_part_and_the_steps_are_those_of_one(
    found, name, tmp_path
):
    assert_streamed_as_alone(found[0], name, tmp_path)


@pytest.mark.slow
def test_the_steps_of_four_processes_are_those_of_one(tmp_path):
    cases = ("a batch that does not divide", "gaps", "free", "tied", "mixture")
    found = found_by(tmp_path, 4, *cases)
    for name in cases:
        assert_trained_as_alone(found, name)
    for name in ("Parquet", "data set of random rows", "loader"):
        assert_streamed_as_alone(found, name, tmp_path)


def test_a_part_without_a_known_cell_teaches_nothing_and_all_go_on_together(found):
    """Not to 1e-10 as one process: log p of a part that knows nothing is constant, off the manifold, too."""
    alone = together.trained("mostly unknown")
    for each in found[0]:
        rows, weights, stopped = each["mostly unknown"]
        assert stopped == alone[2] == "finished"
        assert [row[1] for row in rows] == [row[1] for row in alone[0]]
        assert str(weights) == str(found[0][0]["mostly unknown"][1])
        assert rows[-1][2] == pytest.approx(alone[0][-1][2], abs=0.05)


def test_all_start_from_the_weights_of_process_0(found):
    made = together.model(seed=0)
    sq.fit(made, together.coins(), **together.QUICK)
    for each in found[0]:
        for name, weight in made.named_parameters():
            assert (each["started apart"][name] - weight).abs().max() < 1e-10


def test_a_signal_to_one_stops_all_in_the_same_step_and_the_run_goes_on_as_if_it_had_not(found):
    ends, folder = found
    assert all(each["interrupted"][2] == "interrupted" for each in ends)
    assert all(each["interrupted"][0] == ends[0]["interrupted"][0] for each in ends)
    alone = together.trained("average, early stopping")
    for each in ends:
        for way in ("resumed", "resumed whole", "resumed, sharded", "resumed from parts", "resumed, weights"):
            assert_close(each[way], alone)
    files = {path.name for path in (folder / "run").iterdir()}
    assert files == {"config.json", "history.jsonl", "checkpoint.safetensors", "best.safetensors"}
    rows = [json.loads(line) for line in (folder / "run" / "history.jsonl").open()]
    assert [row["epoch"] for row in rows] == [row[0] for row in alone[0]]
    again = together.trained("average, early stopping", run=folder / "run", resume=True)  # by one process
    assert again[2] == alone[2]


def test_a_run_that_is_resumed_by_as_many_processes_ends_bit_for_bit_as_if_it_had_not_been_stopped(found):
    for each in found[0]:
        whole = each["average, early stopping, sharded"]
        assert each["resumed, sharded"][0] == whole[0]
        assert all(
            torch.equal(each["resumed, sharded"][1][name], weight) for name, weight in whole[1].items()
        )
        assert each["resumed"][0] == each["average, early stopping"][0]
        whole = each["average, early stopping, weights"]
        assert each["resumed, weights"][0] == whole[0]
        assert all(torch.equal(each["resumed, weights"][1][n], weight) for n, weight in whole[1].items())


def test_what_several_processes_sharing_the_optimiser_have_saved_one_goes_on_with(found):
    ends, folder = found
    assert all(each["interrupted, sharded"][2] == "interrupted" for each in ends)
    alone = together.trained("average, early stopping", run=folder / "shards", resume=True)
    assert_close(alone, together.trained("average, early stopping"))


@pytest.mark.parametrize("name", ["bytes", "bytes, free"])
def test_each_process_holds_its_share_of_the_optimisers_state_and_all_together_hold_it_once(found, name):
    whole, entry = together.state_bytes(sq.training.Processes(), free="free" in name)
    held = [each[name][0] for each in found[0]]
    assert sum(held) == whole
    assert max(held) <= whole / SIZE + entry


def test_each_process_holds_its_share_of_weights_and_gradients_and_the_model_is_whole_for_callbacks(found):
    """Of stacks of 16, 8, 4, 2 matrices half each; only the root's single one is whole in both."""
    made = together.model(d=16)
    root = together.nbytes(made.get_parameter(made.plan.stacks[-1].name))
    (whole, _), _ = found[0][0]["held"]["none"], None
    for each in found[0]:
        assert each["held"]["weights"] == [(whole - root) / SIZE + root] * 2
        assert each["refused"] == ("epochs=8", True, False)
    asked = []
    made = together.model()
    calls = [lambda _: asked.append(made.log_prob(together.coins()).mean().item())]
    sq.fit(made, together.coins(), callbacks=calls, **together.QUICK)
    assert found[0][0]["asked"][0] == pytest.approx(asked, abs=1e-10)
    for each in found[0]:
        assert each["asked"][1:] == (
            pytest.approx(made.log_prob(together.coins()).mean().item(), abs=1e-10),
            False,
        )


def test_what_one_process_alone_has_been_given_is_said_by_it_and_ends_all(found):
    def said(name):
        first, second = (each[name] for each in found[0])
        assert first == "ProcessError: process 1 has failed, so all end. Fix: see what process 1 says."
        return second

    for name, what in (
        ("other options", "option lr"),
        ("other data", "training data"),
        ("another model", "model"),
    ):
        assert said(name) == (
            f"ParameterError: process 1 has been given another {what} than process 0. "
            "Fix: give all processes the same; each takes its rows of every batch by itself."
        )
    assert said("no option").startswith("ParameterError: there is no option 'epoch'")
    assert said("bad data").startswith("DataError: train: row 7, column 0: 2.0 is not in the domain")


def test_what_process_0_cannot_write_ends_all_with_one_clear_line(found):
    first, *others = [each["no folder"] for each in found[0]]
    assert first.startswith("ParameterError: run=")
    assert "is a file. Fix: " in first
    assert others == ["ProcessError: process 0 has failed, so all end. Fix: see what process 0 says."] * len(
        others
    )
    for each in found[0]:
        for name in ("gaps in parts", "few gaps in parts", "gaps to validate"):
            assert each[name] == (
                "DataError: weights in parts are trained with rows that lack nothing, and some cells are "
                "missing. Fix: shard='optimiser', or fill the cells before."
            )
        assert each["small batches"] == (
            f"DataError: train: a batch of 1 row has none for each of {SIZE} processes. "
            "Fix: larger batches, or fewer processes."
        )
        assert each["small batch"] == (
            f"ParameterError: batch=1 has no row for each of {SIZE} processes. Fix: a larger batch."
        )


def test_one_process_asks_nobody():
    alone, gradient = sq.training.Processes(), torch.nn.Parameter(torch.ones(2))
    found = torch.tensor([1.0, math.nan])
    alone.sum_gradients([gradient], found)
    assert gradient.grad is None
    assert found[0] == 1
    assert alone.any(True, False) == [True, False]
    with pytest.raises(ZeroDivisionError):
        alone.on_first(lambda: 1 / 0)
