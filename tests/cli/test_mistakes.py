"""The likely mistakes: one line, exit code 2, nothing written, no traceback."""

import pytest
import torch

import squircuit as sq

from .conftest import call, error_line

UNKNOWN_CATEGORY = (
    "line 2, column 'group': unknown category 'z'; known are 'a', 'b', 'c'. "
    "Fix: correct the cell, leave it empty (missing), or train with data that has it."
)
IMAGES = "mnist, fashion-mnist, cifar10, cifar10-ycocg"
SETS = f"{IMAGES}, nltcs, plants, baudio, dna, digits, ring, spinner, spiral"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("no.csv",), "no.csv: there is no such file or folder. Fix: check the path."),
        (
            ("minst",),
            "minst: there is no such file, and no data set of that name. Fix: did you mean 'mnist'? "
            f"Known are {SETS}.",
        ),
        (("digits", "--set", "lr"), "--set lr: not understood. Fix: write --set NAME=VALUE."),
        (("digits", "--set", "lr=fast"), "lr='fast'. Fix: pass a number or auto."),
        (("digits", "--epochs", "0"), "epochs=0. Fix: pass at least 1, and at most 1000000."),
        (("digits", "--columns", "pixel0=drop"), "--columns: the data set 'digits' has its types. "
         "Fix: leave the option out."),
        (("digits", "--resume"), "--resume needs the folder of the run. Fix: --run FOLDER."),
        (("digits", "--device", "tpu"), "--device tpu: not known. Fix: cpu, cuda or auto."),
        (("digits", "--preset", "smal"), "there is no preset 'smal' for 'digits'. Fix: did you mean 'small'? "
         "Known are cifar10-ycocg-best, fashion-mnist-best, fashion-mnist-small, mnist-best, mnist-small, "
         "small."),
        (("digits", "--units", "-1"),
         "build: units must be an integer ≥ 1, got -1. Fix: pass a whole number from 1."),
    ],
)  # fmt: skip
def test_fit_refuses(words, expected, tmp_path):
    assert error_line("fit", *words, "--out", tmp_path / "m") == f"error: {expected}"
    assert not (tmp_path / "m").exists()


def test_a_misspelt_option_of_training_names_the_nearest(tmp_path):
    line = error_line("fit", "digits", "--out", tmp_path / "m", "--set", "epoch=3")
    assert line.startswith("error: there is no option 'epoch'. Fix: did you mean 'epochs'? Known are units, ")


def test_what_is_far_from_all_names_is_not_taken_for_one_of_them(people, tmp_path):
    line = error_line("fit", people, "--out", tmp_path / "m", "--columns", "wind=angle")
    known = "positive, bounded, ordered, date, datetime, time, drop"
    assert line.endswith(f"Fix: pass one of binary, categorical, count, continuous, periodic, {known}.")


def test_names_of_data_sets_in_capitals_are_understood_in_the_error(tmp_path):
    assert "Fix: did you mean 'mnist'?" in error_line("fit", "MNIST", "--out", tmp_path / "m")


def test_advice_for_python_is_not_given_in_the_shell(people, model_file, tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3\n")
    assert error_line("data", "show", tmp_path / "x.csv").endswith("cells end at ',', else pass --delimiter.")
    (tmp_path / "y.csv").write_text("group,kids,height,wind\na,1,1.7,3\n")
    assert error_line("score", model_file, tmp_path / "y.csv").endswith(
        "or pass --no-header if the first line holds data."
    )
    words = ("fit", people, "--out", tmp_path / "m", "--run", tmp_path / "r", "--epochs", 1, "--units", 2)
    call(*words)
    line = error_line(*words, "--lr", 0.5, "--resume")
    assert line.endswith("has lr=0.2, this one lr=0.5. Fix: --set lr=0.2, or another folder.")


def test_a_misspelt_command_names_the_nearest_in_one_sentence():
    assert error_line("fitt") == (
        "error: No such command 'fitt'. Did you mean 'fit'? Fix: squircuit --help lists all."
    )


def test_a_model_in_place_of_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.safetensors").touch()
    assert "files ending in '.safetensors' are not known" in error_line("fit", "model.safetensors")


def test_a_table_in_place_of_a_model(people):
    line = error_line("check", people)
    assert "this is a table, and a model is expected here" in line
    assert line.endswith("Fix: the model comes first, as in squircuit score MODEL DATA.")


def test_a_flag_that_is_no_number_names_the_flag(tmp_path):
    line = error_line("fit", "digits", "--out", tmp_path / "m", "--lr", "fast")
    assert line.startswith("error: Invalid value for '--lr': ")
    assert line.endswith(". Fix: squircuit fit --help lists all.")


def test_a_misspelt_flag_names_the_nearest_in_one_line(tmp_path):
    line = error_line("fit", "digits", "--out", tmp_path / "m", "--epoch", 3)
    assert line.startswith("error: No such option: --epoch")
    assert "--epochs" in line


def test_a_wrong_type_of_a_column_names_line_and_cell(people, tmp_path):
    line = error_line("fit", people, "--out", tmp_path / "m", "--columns", "group=continuous")
    assert line.startswith(f"error: {people}, line ")
    assert "column 'group': " in line
    assert "is not a number, but the column is read as continuous. Fix: " in line


def test_messages_of_the_library_speak_of_options_of_the_program(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,\n2,\n")
    line = error_line("fit", tmp_path / "x.csv", "--out", tmp_path / "m")
    assert line.endswith("column 'b': every cell is missing. Fix: leave it out, --columns b=drop.")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_cuda(tmp_path):
    line = error_line("fit", "digits", "--out", tmp_path / "m", "--device", "cuda")
    assert line == "error: --device cuda: there is no CUDA device here. Fix: --device cpu."


def test_a_folder_that_is_not_there_is_found_before_training(people, tmp_path):
    out = tmp_path / "no" / "m"
    assert error_line("fit", people, "--out", out) == (
        f"error: {out}: cannot be written, there is no folder {out.parent}. "
        "Fix: pass a file in a folder that exists."
    )


def test_a_run_that_is_there_is_not_begun_again(people, tmp_path):
    words = ("fit", people, "--out", tmp_path / "m", "--run", tmp_path / "run", "--epochs", 1, "--units", 2)
    call(*words)
    assert error_line(*words) == (
        f"error: {tmp_path / 'run'} holds a run. Fix: --resume to go on with it, or pass another folder."
    )


@pytest.mark.parametrize("content", [{"epoch": 1}, {"model": {"unit": 1}}, {"model": {}, "lr": 0.1}])
def test_a_file_of_options_with_a_wrong_name_is_named(content, people, tmp_path):
    file = tmp_path / "options.json"
    file.write_text(sq.cli.report.json.dumps(content))
    line = error_line("fit", people, "--out", tmp_path / "m", "--config", file)
    assert line.startswith(f"error: {file}: there is no option ")


def test_foreign_and_missing_model_files(people, tmp_path):
    file = tmp_path / "weights.pt"
    torch.save({"w": torch.zeros(2)}, file)
    assert error_line("score", file, people).startswith(
        f"error: {file}: a pickle, as torch.save writes it, which is not opened because it can run any "
    )
    assert error_line("check", tmp_path / "no") == (
        f"error: {tmp_path / 'no'}: there is no such file. Fix: check the path."
    )


def test_an_unknown_category_names_file_line_and_column(model_file, tmp_path):
    file = tmp_path / "new.csv"
    file.write_text("group,children,height,wind\nz,1,1.7,3\n")
    assert error_line("score", model_file, file) == f"error: {file}, {UNKNOWN_CATEGORY}"


def test_data_with_other_columns(model_file):
    assert error_line("score", model_file, "digits") == (
        "error: digits: 64 columns, but the model has 4 variables. Fix: pass data like that of its training."
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("complete", "--mask", "left"), "--mask left: the model is not of images. "
         "Fix: leave the cells to be filled empty."),
        (("complete", "--out", "x.png"), "x.png: the model is not of images. Fix: --out FILE.csv."),
        (("complete", "--out", "x.jpg"), "x.jpg: not a kind of file for this. "
         "Fix: a name ending in .csv, .tsv, .txt, .parquet, .pq, .feather, .arrow, .npy, .png, .pdf, .svg."),
        (("complete", "--method", "best"), "--method best: not known. Fix: one of mean, mode, sample."),
        (("complete", "--method", "mean", "-n", "2"), "--count 2: there is one mean only. "
         "Fix: --method sample."),
        (("score", "--missing", "hight"), "--missing hight: no such column. Fix: did you mean 'height'?"),
        (("score", "--part", "tset"), "--part tset: not known. Fix: one of train, valid, test."),
    ],
)  # fmt: skip
def test_questions_refuse(words, expected, model_file, people):
    command, *options = words
    assert error_line(command, model_file, people, *options) == f"error: {expected}"


def test_nothing_to_complete(image_file, tmp_path):
    call("sample", image_file, "-n", 2, "--out", tmp_path / "x.npy")
    assert error_line("complete", image_file, tmp_path / "x.npy") == (
        f"error: {tmp_path / 'x.npy'}: nothing is missing. Fix: pass a mask, such as --mask left."
    )


def test_texts_do_not_go_into_arrays(model_file, tmp_path):
    assert error_line("sample", model_file, "--out", tmp_path / "x.npy") == (
        "error: column 'group' holds texts, which a .npy file does not. Fix: --out FILE.csv."
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--what", "curve", "--out", "x.png"), "--what curve: not known. "
         "Fix: one of curves, samples, density, circuit, regions."),
        (("--what", "circuit", "--out", "x.png"), "x.png: not a kind of file for this. "
         "Fix: a name ending in .svg."),
        (("--what", "samples", "--out", "x.png"), "--what samples: the model is not of images. "
         "Fix: --what density, or squircuit sample."),
    ],
)  # fmt: skip
def test_plot_refuses(words, expected, model_file):
    assert error_line("plot", model_file, *words) == f"error: {expected}"


def test_a_folder_without_a_run_has_no_curves(tmp_path):
    pytest.importorskip("squircuit.plots")
    line = error_line("plot", tmp_path, "--what", "curves", "--out", tmp_path / "c.png")
    assert line.startswith(f"error: {tmp_path}: no history of a run (")


def test_errors_that_are_no_mistakes_of_the_user_are_not_hidden(model_file, people, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(sq.cli.score, "scored", broken)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        call("score", model_file, people)


def test_ctrl_c_ends_with_130(model_file, people, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(sq.cli.score, "scored", interrupted)
    call("score", model_file, people, code=130)


def test_a_model_is_not_written_over_the_data(people):
    before = people.read_bytes()
    line = error_line("fit", people, "--out", people, "--epochs", 1)
    assert line == f"error: {people}: not a kind of file for this. Fix: a name ending in .safetensors."
    assert people.read_bytes() == before


def empty(folder):
    """A file that no one can read a table from."""
    path = folder / "empty.csv"
    path.touch()
    return path


@pytest.mark.parametrize("place", ["people.csv/run", "x" * 300, "new/" + "x" * 300])
def test_a_run_where_no_folder_can_be_is_refused_before_data_is_read(place, people):
    line = error_line(
        "fit", empty(people.parent), "--out", people.parent / "m", "--run", people.parent / place
    )
    assert line.startswith("error: --run ")
    assert "Fix: pass a" in line
    assert not (people.parent / "m").exists()


def test_a_name_that_is_too_long_is_refused_before_data_is_read(tmp_path):
    data = empty(tmp_path)
    line = error_line("fit", data, "--out", tmp_path / ("x" * 300))
    assert "cannot be written (File name too long). Fix: " in line
    assert list(tmp_path.iterdir()) == [data]
