"""The fuzzer on a fixed budget, and that it notices what is wrong."""

import sys
from pathlib import Path

import pytest
import torch

from squircuit.families import Monotone, MultivariateGaussian
from squircuit.inference.upward.derivatives import Densities
from squircuit.models import SquaredCircuit
from squircuit.models.density import Density

sys.path.append(str(Path(__file__).resolve().parent.parent))

from fuzz.case import run
from fuzz.shrink import shrunk


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def failures(seeds):
    return (failure for seed in seeds for failure in run(seed).failures)


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_random_circuits_answer_as_the_oracle_does(first):
    found = list(failures(range(first, first + 50)))
    assert not found, "\n".join(shrunk(failure, 5.0).text() for failure in found[:3])


def test_a_density_that_is_off_is_noticed(monkeypatch):
    right = Density.log_prob
    monkeypatch.setattr(Density, "log_prob", lambda *args, **kwargs: right(*args, **kwargs) + 1e-3)
    assert any(failure.problem.kind == "log_prob" for failure in failures(range(40)))


def test_a_gradient_that_is_off_is_noticed(monkeypatch):
    right = Density.log_prob

    def steeper(self, *args, **kwargs):
        log_p = right(self, *args, **kwargs)
        return log_p + 0.003 * (log_p - log_p.detach()).nan_to_num(0.0)

    monkeypatch.setattr(Density, "log_prob", steeper)
    assert any(failure.problem.kind == "gradient of log_prob" for failure in failures(range(300)))


def test_samples_that_are_off_are_noticed(monkeypatch):
    right = SquaredCircuit.sample

    def shifted(self, *args, **kwargs):
        drawn = right(self, *args, **kwargs)
        return torch.cat([drawn[:1].expand(len(drawn) // 2, *drawn.shape[1:]), drawn[len(drawn) // 2 :]])

    monkeypatch.setattr(SquaredCircuit, "sample", shifted)
    assert any(failure.problem.question.startswith("sample") for failure in failures(range(300)))


def test_a_failure_is_a_program_that_shows_it(monkeypatch):
    right = Density.log_prob
    monkeypatch.setattr(Density, "log_prob", lambda *args, **kwargs: right(*args, **kwargs) + 1e-1)
    failure = next(f for f in failures(range(40)) if f.problem.kind == "log_prob")
    smaller = shrunk(failure, 5.0)
    assert len(smaller.lines) <= len(failure.lines)
    exec(compile(smaller.text().split("\n", 3)[3], "<failure>", "exec"), {})


def test_a_marginal_over_a_part_of_a_block_that_is_off_is_noticed(monkeypatch):
    right = MultivariateGaussian._log_squares

    def shifted(self, x, observed, values):
        return right(self, x, observed, values) + 1e-3 * (not all(observed))

    monkeypatch.setattr(MultivariateGaussian, "_log_squares", shifted)
    assert any(failures(range(300)))


def test_a_slope_of_a_transform_that_is_off_is_noticed(monkeypatch):
    right = Monotone.forward

    def steeper(self, x):
        t, log_slope = right(self, x)
        return t, 1.001 * log_slope

    monkeypatch.setattr(Monotone, "forward", steeper)
    assert any(failures(range(300)))


def test_tables_of_many_rows_with_masks_of_their_own_that_are_off_are_noticed(monkeypatch):
    right = Densities.tables

    def backwards(self, evidence, numbers):
        return {v: (rows, table.flip(1)) for v, (rows, table) in right(self, evidence, numbers).items()}

    monkeypatch.setattr(Densities, "tables", backwards)
    monkeypatch.setattr("fuzz.case.MANY", 1.0)
    assert any(failure.problem.kind == "moments" for failure in failures(range(40)))
