import dataclasses
import math

import numpy as np
import pytest

import squircuit as sq

REFUSED = {
    "epochs=0. Fix: pass at least 1": {"epochs": 0},
    "epochs=2.5. Fix: pass an integer or auto": {"epochs": 2.5},
    "batch=True. Fix: pass an integer or auto": {"batch": True},
    "lr=-1. Fix: pass a number above 0": {"lr": -1},
    "lr=nan. Fix": {"lr": math.nan},
    "progress=1. Fix: pass True or False": {"progress": 1},
    "optimiser='sgd'. Fix: pass one of auto, adam, .*polar": {"optimiser": "sgd"},
    "unit='bit'. Fix: did you mean 'bits'. Known are auto, bits, nats": {"unit": "bit"},
    "average=1.0": {"average": 1.0},
    "valid_fraction=1.5": {"valid_fraction": 1.5},
}


@pytest.mark.parametrize("message", REFUSED)
def test_values_of_the_wrong_type_or_range_are_refused_with_the_fix(message):
    with pytest.raises(sq.ParameterError, match=message):
        sq.TrainingConfig(**REFUSED[message])


@pytest.mark.parametrize(
    ("wrong", "right"), [("learning_rate", "lr"), ("pacience", "patience"), ("epoch", "epochs")]
)
def test_an_unknown_option_is_an_error_with_the_nearest_name(wrong, right):
    with pytest.raises(sq.ParameterError, match=f"no option '{wrong}'.*Known are.*{right}"):
        sq.TrainingConfig.of({wrong: 1})
    with pytest.raises(sq.ParameterError, match="did you mean 'patience'"):
        sq.TrainingConfig.of(None, pacience=3)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.toml", "epochs = 7\nlr = 0.25\nprogress = false\n"),
        ("run.yaml", "epochs: 7\nlr: 0.25\nprogress: false\n"),
        ("run.json", '{"epochs": 7, "lr": 0.25, "progress": false}'),
    ],
)
def test_files_of_all_formats_give_the_same_options_and_overrides_win(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    expected = sq.TrainingConfig(epochs=7, lr=0.25, progress=False)
    assert sq.TrainingConfig.of(path) == expected
    assert sq.TrainingConfig.of(str(path), epochs=9) == dataclasses.replace(expected, epochs=9)


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("a.toml", "epochs = ", sq.FormatError, "not valid TOML"),
        ("a.yaml", "epochs: [", sq.FormatError, "not valid YAML"),
        ("a.yaml", "[" * 3000, sq.FormatError, "not valid YAML"),
        ("a.json", '{"seed": ' + "9" * 5000 + "}", sq.FormatError, "not valid JSON"),
        ("a.json", "[" * 50_000, sq.FormatError, "not valid JSON"),
        ("a.toml", "seed = " + "9" * 5000, sq.FormatError, "not valid TOML"),
        ("a.yaml", "just a text", sq.FormatError, "holds no options"),
        ("a.ini", "epochs=3", sq.FormatError, "ending in '.ini'"),
        (
            "a.toml",
            "epocs = 3",
            sq.ParameterError,
            "a.toml: there is no option 'epocs'. Fix: did you mean 'epochs'",
        ),
        ("a.toml", 'epochs = "many"', sq.ParameterError, "a.toml: epochs='many'"),
    ],
)
def test_bad_files_say_what_is_wrong(tmp_path, name, text, error, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(error, match=message) as caught:
        sq.TrainingConfig.of(tmp_path / name)
    assert "\n" not in str(caught.value)  # YAML would draw where it is


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(sq.FormatError, match=r"none\.toml: cannot be read"):
        sq.TrainingConfig.of(tmp_path / "none.toml")


def test_every_option_can_be_given_as_a_text():
    config = sq.TrainingConfig(epochs=3, lr=0.5, jitter=0.1, tensorboard=True, unit="bits", batch=8)
    texts = {name: str(value) for name, value in config.to_dict().items()}
    assert sq.TrainingConfig.from_texts(texts) == config
    with pytest.raises(sq.ParameterError, match="epochs='many'"):
        sq.TrainingConfig.from_texts({"epochs": "many"})


def test_a_config_survives_its_dictionary():
    config = sq.TrainingConfig(epochs=3, average=0.99)
    assert sq.TrainingConfig.of(config.to_dict()) == config


@pytest.mark.parametrize("kind", ["cosine", "constant", "step"])
@pytest.mark.parametrize("steps", [1, 7, 1000])
def test_the_learning_rate_warms_up_never_exceeds_its_largest_and_ends_at_its_share(kind, steps):
    config = sq.TrainingConfig(schedule=kind, warm_up=0.1, final_lr=0.25)
    found = [config.rate_factor(step, steps) for step in range(steps)]
    warming = math.ceil(0.1 * steps)
    assert found[:warming] == pytest.approx([(i + 1) / warming for i in range(warming)])
    assert max(found) <= 1
    rest = found[warming:]
    assert rest == sorted(rest, reverse=True)
    if steps == 1000:
        assert rest[-1] == pytest.approx(1.0 if kind == "constant" else 0.25, abs=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "lr: !!timestamp x",
        "epochs: 2020-99-99",
        "a: &a [1]\nb: *a",
        "x: &a [1, 1]\n" + "".join(f"b{i}: &b{i} [*a, *a]\n" for i in range(9)),
        "lr: " + "1" * 400,
        "seed: 0x" + "f" * 5000,
        "self: 1",
        "cls: 1",
        "source: 1",
        '"x\\ny": 1',
        "x" * 5000 + ": 1",
        "epochs: " + "x" * 5000,
        "# " + "x" * 100_000,
    ],
    ids=range(13),
)
def test_hostile_files_of_options_are_refused_on_one_short_line(tmp_path, text):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(sq.SquircuitError) as caught:
        sq.TrainingConfig.of(tmp_path / "a.yaml")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000
    assert "Fix: " in str(caught.value)


def test_the_unit_of_images_is_bits_per_dimension_whatever_the_levels_of_their_channels():
    x = sq.data.to_ycocg(np.random.default_rng(0).integers(0, 256, (20, 12)))
    model = sq.image_model((2, 2, 3), units=2, levels=(256, 511, 511))
    assert sq.fit(model, x.astype(np.int64), epochs=1, progress=False).unit == "bits"
