"""`compress` and `decompress`: images pixel by pixel, tables cell by cell, and one line for what is wrong."""

import numpy as np
import pytest
import torch
from PIL import Image

import squircuit as sq
from squircuit.cli import colours
from squircuit.cli.pictures import folder_of_pictures
from squircuit.compression.codec import packed
from squircuit.data import Rows

from .conftest import call, document, error_line


@pytest.fixture
def pictures(tmp_path):
    """A folder of images of 4×4 pixels with 3 levels, some in a folder below."""
    folder = tmp_path / "images"
    (folder / "more").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in ("a.png", "b.bmp", "more/c.png"):
        Image.fromarray(rng.integers(0, 3, (4, 4)).astype(np.uint8)).save(folder / name)
    return folder


def test_a_folder_of_images_comes_back_pixel_by_pixel_under_its_names(pictures, image_file, tmp_path):
    found = document("compress", pictures, "--model", image_file, "--out", tmp_path / "i.sqz", "--verify")
    assert found["rows"] == 3
    assert found["bytes"] == (tmp_path / "i.sqz").stat().st_size
    call("decompress", tmp_path / "i.sqz", "--model", image_file, "--out", tmp_path / "again")
    again = sorted(
        file.relative_to(tmp_path / "again").as_posix() for file in (tmp_path / "again").rglob("*.*")
    )
    assert again == ["a.png", "b.png", "more/c.png"]
    for name, other in (("a.png", "a.png"), ("b.bmp", "b.png"), ("more/c.png", "more/c.png")):
        assert np.array_equal(
            np.asarray(Image.open(pictures / name)), np.asarray(Image.open(tmp_path / "again" / other))
        )
    assert not list(tmp_path.glob(".*"))


def test_arrays_of_images_come_back_as_arrays(image_file, tmp_path):
    images = np.random.default_rng(1).integers(0, 3, (7, 4, 4)).astype(np.uint8)
    np.save(tmp_path / "x.npy", images)
    text = call("compress", tmp_path / "x.npy", "--model", image_file, "--out", tmp_path / "x.sqz").stdout
    assert "7 rows of 16 columns in " in text
    assert "bits per dimension; −log₂ p has " in text
    call("decompress", tmp_path / "x.sqz", "--model", image_file, "--out", tmp_path / "y.npy")
    assert np.array_equal(np.load(tmp_path / "y.npy"), images)


def test_images_in_colour_come_back(tmp_path):
    model = tmp_path / "colour.safetensors"
    sq.image_model((2, 2, 3), units=2, levels=256).save(model)
    (tmp_path / "in").mkdir()
    image = np.random.default_rng(0).integers(0, 256, (2, 2, 3)).astype(np.uint8)
    Image.fromarray(image).save(tmp_path / "in" / "x.png")
    call("compress", tmp_path / "in", "-m", model, "--out", tmp_path / "x.sqz")
    call("decompress", tmp_path / "x.sqz", "-m", model, "--out", tmp_path / "out")
    assert np.array_equal(np.asarray(Image.open(tmp_path / "out" / "x.png")), image)


def test_picture_files_are_read_and_written_in_the_colours_of_a_model_of_ycocg(tmp_path):
    model = sq.image_model((2, 2, 3), units=2, levels=(256, 511, 511), order="hcv", parts=2)
    file, folder = tmp_path / "colour.safetensors", tmp_path / "in"
    model.save(file)
    folder.mkdir()
    images = np.random.default_rng(0).integers(0, 256, (3, 2, 2, 3)).astype(np.uint8)
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number}.png")
    expected = model.log_prob(sq.data.to_ycocg(images.reshape(3, 12)).astype(np.int64)).sum().item()
    assert document("score", file, folder)["mean_log_prob"] * 3 == pytest.approx(expected, rel=1e-5)
    call("compress", folder, "-m", file, "--out", tmp_path / "x.sqz")
    call("decompress", tmp_path / "x.sqz", "-m", file, "--out", tmp_path / "out")
    again = [np.asarray(Image.open(tmp_path / "out" / f"{n}.png")) for n in range(3)]
    assert np.array_equal(again, images)
    call("sample", file, "--count", "2", "--out", tmp_path / "s.png")
    call("complete", file, folder, "--mask", "right", "--out", tmp_path / "c.png")


def test_samples_of_ycocg_are_drawn_in_red_green_and_blue():
    model = sq.image_model((1, 1, 3), units=2, levels=(256, 511, 511))
    red = torch.from_numpy(sq.data.to_ycocg([[255, 0, 0]]))
    assert colours.drawn(model, red).tolist() == [[255, 0, 0]]
    assert colours.drawn(sq.image_model((1, 1, 3), units=2), red).tolist() == red.tolist()


def test_a_table_comes_back_cell_by_cell_with_its_gaps(tmp_path):
    rng = np.random.default_rng(0)
    lines = [
        f'{rng.choice(["f", "m"])},{rng.integers(20, 30) if rng.random() < 0.8 else ""},"New York, NY"'
        for _ in range(60)
    ]
    file = tmp_path / "people.csv"
    file.write_text("\n".join(["sex,age,city", *lines, 'f,21,"Köln"', ""]), encoding="utf-8")
    model = tmp_path / "m.safetensors"
    call("fit", file, "--out", model, "--epochs", 2, "--set", "progress=false")
    text = call("compress", file, "--model", model, "--out", tmp_path / "p.sqz").stdout
    assert "bits a row; −log₂ p has " in text
    call("decompress", tmp_path / "p.sqz", "--model", model, "--out", tmp_path / "q.csv")
    assert (tmp_path / "q.csv").read_text(encoding="utf-8") == file.read_text(encoding="utf-8").replace(
        '"Köln"', "Köln"
    )
    assert call("decompress", tmp_path / "p.sqz", "--model", model).stdout.startswith("sex,age,city\n")
    (tmp_path / "more.csv").write_text("id,sex,age,city\n7,f,21,Köln\n", encoding="utf-8")
    assert "the model has no column 'id', which would be lost. Fix: take it out" in error_line(
        "compress", tmp_path / "more.csv", "--model", model, "--out", tmp_path / "more.sqz"
    )


def test_mistakes_are_told_in_one_line_and_nothing_is_written(
    pictures, image_file, model_file, people, tmp_path
):
    out = tmp_path / "i.sqz"
    assert error_line("compress", people, "-m", model_file, "--out", out) == (
        "error: compress: column 'height' of the model is continuous, and only discrete columns have a "
        "lossless code. Fix: leave it out, or read it as a count or a category, and fit again."
    )
    assert "a name ending in .sqz" in error_line(
        "compress", pictures, "-m", image_file, "--out", tmp_path / "i.zip"
    )
    assert not out.exists()
    call("compress", pictures, "-m", image_file, "--out", out)
    other = tmp_path / "other.safetensors"
    sq.image_model((4, 4), units=2, levels=3, seed=2).save(other)
    again = tmp_path / "again"
    assert f"{out}: compressed with another model" in error_line(
        "decompress", out, "-m", other, "--out", again
    )
    assert "not a kind of file" in error_line("decompress", out, "-m", model_file, "--out", again)
    assert "images need a place" in error_line("decompress", out, "-m", image_file)
    assert "there is something already" in error_line("decompress", out, "-m", image_file, "--out", pictures)
    assert "there is no folder" in error_line(
        "decompress", out, "-m", image_file, "--out", tmp_path / "no" / "x"
    )
    out.write_bytes(out.read_bytes()[:-20])
    assert f"{out}: damaged: it is cut off" in error_line("decompress", out, "-m", image_file, "--out", again)
    assert not again.exists()


@pytest.mark.parametrize("name", ["../x.png", "/tmp/x.png", "a/../../x.png", "a\0b", "", "C:x.png", 7])
def test_names_that_lead_elsewhere_are_replaced_by_numbers(name, tmp_path):
    model = sq.image_model((2, 2), units=2, levels=3)
    rows = model.sample(2, seed=0)
    folder_of_pictures(tmp_path / "out", model, rows, [name, "b.png"])
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["000000.png", "000001.png"]
    assert packed(model, Rows(rows)) == packed(model, Rows(rows))
