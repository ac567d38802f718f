"""Numbers that nothing can be made of, files too deep: one line, before any work, never for ever."""

import json

import pytest
import torch

import squircuit as sq
from squircuit.storage import memory

from .conftest import call, error_line

HUGE = 2**70
MANY_DIGITS, DEEP = "9" * 5000, "[" * 100_000


@pytest.mark.parametrize("name", ["seed", "trees", "units", "components", "roots", "size", "epochs", "batch",
                                  "patience", "valid_every"])  # fmt: skip
@pytest.mark.parametrize("value", [str(HUGE), "1" + "0" * 400, MANY_DIGITS, DEEP, "1e300", "-1" + "0" * 400])
def test_numbers_far_out_are_refused_by_name_and_value(name, value, people, tmp_path):
    words = ("fit", people, "--out", tmp_path / "m", "--set", f"{name}={value}", "--set", "progress=false")
    line = error_line(*words)
    assert line.startswith(("error: ", f"error: {name}="))
    assert name in line
    assert len(line) < 400
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", [2**23, 2**63 - 1])
def test_every_seed_below_two_to_the_63_works_with_noise_and_trees(seed, people, tmp_path):
    call("fit", people, "--out", tmp_path / "m", "--epochs", 1, "--units", 1, "--seed", seed,
         "--set", "jitter=0.1", "--set", "trees=2", "--set", "size=4", "--set", "progress=false")  # fmt: skip


@pytest.mark.parametrize("value", ["1e400", str(10**400), "nan", "-inf"])
def test_rates_that_are_no_finite_numbers_are_refused(value, people, tmp_path):
    assert error_line("fit", people, "--out", tmp_path / "m", "--set", f"lr={value}").startswith("error: lr=")


BOMB = "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10))
CONTENT = {
    "deep.json": '{"epochs": ' + DEEP + "}",
    "digits.json": '{"epochs": ' + MANY_DIGITS + "}",
    "deep.toml": "epochs = " + "[" * 5000 + "]" * 5000,
    "digits.toml": f"epochs = {MANY_DIGITS}",
    "deep.yaml": "epochs: " + "[" * 5000 + "]" * 5000,
    "digits.yaml": f"epochs: {MANY_DIGITS}",
    "hex.yaml": "epochs: 0x" + "f" * 6000,
    "bomb.yaml": f"a0: &a0 [1]\n{BOMB}training: {{lr: *a9}}\n",
    "lists.yaml": "model: {units: " + "[" * 50 + "1" + "]" * 50 + "}\n",
    "itself.yaml": "lr: &a [*a]\n",
    "empty.yaml": 'epochs: !!int ""\n',
    "set.yaml": "model: {units: !!set {8}}\n",
    "date.yaml": "model: {order: 2020-01-01}\n",
    "binary.toml": "\x00",
}


@pytest.mark.parametrize("name", CONTENT)
def test_files_of_options_that_are_too_deep_or_long_are_one_line(name, people, tmp_path):
    (tmp_path / name).write_text(CONTENT[name])
    line = error_line("fit", people, "--out", tmp_path / "m", "--config", tmp_path / name)
    assert "Fix: " in line
    assert len(line) < 700


@pytest.mark.parametrize("content", [DEEP, '{"a": ' + MANY_DIGITS + "}"])
def test_a_circuit_that_is_too_deep_or_long_is_one_line(content, tmp_path):
    (tmp_path / "c.json").write_text(content)
    assert error_line("check", tmp_path / "c.json").startswith(f"error: {tmp_path / 'c.json'}: ")


@pytest.mark.parametrize("count", [2**40, HUGE])
def test_samples_that_do_not_fit_into_memory_are_refused_with_what_would(count, model_file, people):
    for words in (("sample", model_file), ("complete", model_file, people)):
        line = error_line(*words, "-n", count)
        assert line.startswith(f"error: -n {count}: this needs about ")
        assert "Fix: several calls of at most -n " in line


def test_what_is_free_decides_how_many_samples_may_be(model_file, monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 40_000)
    assert "-n 101" in error_line("sample", model_file, "-n", 101)
    assert call("sample", model_file, "-n", 100).stdout.count("\n") == 101
    monkeypatch.setattr(memory, "free_bytes", lambda: None)  # nothing tells: nothing is refused
    call("sample", model_file, "-n", 101)


def test_a_model_that_does_not_fit_into_memory_is_refused_before_it_is_made(people, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 10_000)
    line = error_line("fit", people, "--out", tmp_path / "m", "--units", 8)
    assert line.startswith("error: a model of ")
    assert line.endswith("Fix: fewer units or components.")


@pytest.mark.parametrize("seed", [-1, HUGE])
@pytest.mark.parametrize("command", ["sample", "score", "complete"])
def test_seeds_of_questions_have_a_range(seed, command, model_file, people):
    words = (command, model_file) if command == "sample" else (command, model_file, people)
    assert error_line(*words, "--seed", seed).startswith("error: Invalid value for '--seed'")


# ------------------------------------------------------------------ scores that are none


def spoilt(tmp_path, change):
    model = sq.table_model({"a": [0, 1, 2, 0], "b": [0, 1, 0, 1]}, units=2)
    with torch.no_grad():
        for parameter in model.parameters():
            change(parameter)
    model.save(tmp_path / "m.safetensors")
    (tmp_path / "x.csv").write_text("a,b\n0,1\n2,0\n")
    return tmp_path / "m.safetensors", tmp_path / "x.csv"


@pytest.mark.parametrize("change", [torch.zero_, lambda p: p.fill_(torch.nan)])
def test_a_model_that_is_no_density_has_no_scores(change, tmp_path):
    try:
        model, rows = spoilt(tmp_path, change)
    except sq.SquircuitError:
        return  # it cannot even be saved
    line = error_line("score", model, rows)
    assert line.startswith("error: ")
    assert "nan" not in call("score", model, rows, code=2).stdout


def test_a_model_of_huge_weights_has_the_scores_of_ordinary_ones(tmp_path):
    scores = []
    for number, size in enumerate((1.0, 1e30)):
        folder = tmp_path / str(number)
        folder.mkdir()
        model, rows = spoilt(folder, lambda p, size=size: p.fill_(size))
        scores.append(json.loads(call("score", model, rows, "--json").stdout)["log_prob"])
    assert scores[1] == pytest.approx(scores[0], abs=1e-4)


def test_of_a_model_that_is_zero_everywhere_every_question_says_so(tmp_path):
    model, rows = spoilt(tmp_path, torch.zero_)
    (tmp_path / "gaps.csv").write_text("a,b\n0,\n")
    for words in (("score", model, rows), ("sample", model), ("complete", model, tmp_path / "gaps.csv")):
        assert error_line(*words).startswith("error: the model is no density: log Z is -inf, it is 0 every")


def test_scores_of_impossible_rows_are_infinite_and_no_error(tmp_path):
    both = sq.Kronecker([sq.Input(v, sq.Categorical(2)) for v in range(2)])
    model = sq.SquaredCircuit(sq.Circuit(sq.Sum(both, weight=torch.tensor([[1.0, 0, 0, 0]]))))
    model.save(tmp_path / "m.safetensors")
    (tmp_path / "x.csv").write_text("0,0\n1,0\n")
    found = json.loads(call("score", tmp_path / "m.safetensors", tmp_path / "x.csv", "--json").stdout)
    assert found["log_prob"][1] == "-inf"
    assert found["log_prob"][0] == pytest.approx(0, abs=1e-6)


def test_files_that_are_read_are_not_replaced(tmp_path):
    model, rows = spoilt(tmp_path, lambda p: p.mul_(1.0))
    before = rows.read_bytes()
    for command in ("score", "complete"):
        assert "is read, and would be lost" in error_line(command, model, rows, "--out", rows)
    assert rows.read_bytes() == before
