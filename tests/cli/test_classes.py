"""Models of classes from the shell: trained, scored with their accuracy, and one class sampled."""

import pytest

import squircuit as sq

from .conftest import call, document, error_line

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def by_class(tmp_path_factory):
    file = tmp_path_factory.mktemp("classes") / "digits.safetensors"
    words = ["--units", 2, "--epochs", 4, "--set", "progress=false"]
    return file, document("fit", "digits", "--classes", *words, "--out", file)


def test_fit_trains_a_model_of_each_class_and_score_says_how_many_are_right(by_class):
    file, found = by_class
    assert sq.load(file).classes == [str(digit) for digit in range(10)]
    assert found["test"]["accuracy"] > 0.7
    scored = document("score", file, "digits")
    assert scored["accuracy"] == pytest.approx(found["test"]["accuracy"])
    assert scored["bits_per_dimension"] == pytest.approx(found["test"]["bits_per_dimension"], rel=1e-4)
    assert "; the class of " in call("score", file, "digits").stdout


def test_one_class_is_sampled_by_its_name(by_class, model_file):
    file, _ = by_class
    rows = document("sample", file, "-n", 20, "--class", 7)["rows"]
    model = sq.load(file)
    assert (model.component_log_prob(rows).argmax(dim=1) == 7).float().mean() > 0.5
    assert "--class 11: is none of the model. Fix: " in error_line("sample", file, "--class", 11)
    assert "but the model has no classes" in error_line("sample", model_file, "--class", 1)


def test_data_without_labels_is_refused(people, tmp_path):
    said = error_line("fit", people, "--classes", "--out", tmp_path / "m.safetensors")
    assert "--classes: no labels of" in said
    assert list(tmp_path.iterdir()) == []
