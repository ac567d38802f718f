"""Presets are options that models and training take."""

import math

import pytest

import squircuit as sq
from squircuit import presets
from squircuit.cli.options import options


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_holds_valid_options(name):
    chosen = options("any", name)
    assert isinstance(chosen.training, sq.TrainingConfig)
    assert set(presets.load(name)) <= {"model", "training"}
    roots, trees = chosen.model.get("roots", 4), chosen.model.get("order", "hv").split(",")
    small = {"units": math.isqrt(roots - 1) + 1}  # as many as the root needs
    model = sq.model_for(sq.data.load("digits"), **chosen.model | small)
    assert [root.units for root in model.structure.roots] == [roots] * len(trees)


def test_a_preset_of_the_data_set_comes_first():
    assert presets.load("best", "mnist")["model"]["units"] == 64
    assert presets.load("small", "mnist") == presets.load("mnist-small") != presets.load("small")
    assert presets.load("small", "digits") == presets.load("small")


def test_an_unknown_preset_lists_the_known_ones_and_not_a_distant_one_as_meant():
    with pytest.raises(
        sq.ParameterError, match=r"no preset 'best' for 'nltcs'\. Fix: pass one of .*mnist-best"
    ):
        presets.load("best", "nltcs")
