"""`mix` makes one model of several, and refuses what cannot be mixed."""

import pytest
import torch

import squircuit as sq

from .conftest import call, document, error_line


@pytest.fixture
def images(tmp_path):
    """Two models of images of 2×2 pixels with 3 levels."""
    files = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for seed, file in enumerate(files):
        sq.image_model((2, 2), units=2, levels=3, seed=seed).save(file)
    return files


@pytest.mark.parametrize(("words", "share"), [((), 0.5), (("--weights", "3,1"), 0.75)])
def test_the_mixture_has_the_weighted_sum_of_the_densities(images, tmp_path, words, share):
    found = document("mix", *images, "--out", tmp_path / "both.safetensors", *words)
    every = torch.cartesian_prod(*[torch.arange(3)] * 4)
    with torch.no_grad():
        first, second, both = (sq.load(file).log_prob(every).exp() for file in (*images, found["saved"]))
    assert torch.allclose(both, share * first + (1 - share) * second, atol=1e-6)
    assert both.sum() == pytest.approx(1, abs=1e-5)
    assert found["weights"] == [share, 1 - share]
    notes = sq.load(found["saved"]).notes
    assert [member["file"] for member in notes["members"]] == [str(file) for file in images]
    assert notes["command"].startswith("squircuit mix ")


def test_a_mixture_answers_like_a_model_in_the_words_of_its_data(model_file, people, tmp_path):
    file = tmp_path / "both.safetensors"
    text = call("mix", model_file, model_file, "--out", file).stdout
    assert f"saved  {file}" in text
    one, both = (document("score", model, people)["mean_log_prob"] for model in (model_file, file))
    assert both == pytest.approx(one, rel=1e-5)
    assert call("sample", file, "-n", 2).stdout.startswith("group,children,height,wind")


def test_mix_refuses_and_writes_nothing(images, model_file, tmp_path):
    out = tmp_path / "both.safetensors"
    assert error_line("mix", images[0], "--out", out) == (
        f"error: only {images[0]} is given. Fix: name two models or more."
    )
    for weights in ("1", "1,x", "1,0", "1,nan", "1,inf", "1e308,1e308", "1,-1", "-1,-3"):
        assert error_line("mix", *images, "--weights", weights, "--out", out) == (
            f"error: --weights {weights}: not 2 numbers above 0. Fix: one for each model, such as 1,1."
        )
    assert error_line("mix", images[0], model_file, "--out", out) == (
        "error: mixture: model 1 is over other variables or domains than model 0. Fix: mix models of the "
        f"same data. Model 0 is {images[0]}, 1 is {model_file}."
    )
    assert "2: there is no such file" in error_line("mix", *images, "--weights", "1", "2", "--out", out)
    (tmp_path / "note.txt").write_text("text")
    refused = error_line("mix", tmp_path / "note.txt", images[0], "--out", out)
    assert "Fix: pass a file of squircuit fit --out" in refused
    wrong = tmp_path / "both.csv"
    assert error_line("mix", *images, "--out", wrong) == (
        f"error: {wrong}: not a kind of file for this. Fix: a name ending in .safetensors."
    )
    assert not out.exists()
