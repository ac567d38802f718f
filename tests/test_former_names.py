"""What was called otherwise is still found under its former name, and says the new one."""

import importlib

import pytest

import squircuit as sq
from squircuit.execution.cuda_graph import CapturedStep


def test_scalar_circuits_were_called_units():
    with pytest.warns(DeprecationWarning, match="scalar"):
        assert sq.units.partition is sq.scalar.partition
    module = importlib.import_module("squircuit.units")
    for name in sq.scalar.__all__:
        with pytest.warns(DeprecationWarning, match=r"squircuit\.scalar"):
            assert getattr(module, name) is getattr(sq.scalar, name)
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing


def test_concatenated_families_were_called_together():
    with pytest.warns(DeprecationWarning, match="Concatenated"):
        assert sq.families.Together is sq.families.Concatenated


def test_files_of_concatenated_families_written_as_together_are_read():
    family = sq.families.Concatenated(sq.Legendre(2), sq.Legendre(1))
    content = sq.families.family_to_dict(family)
    assert content["family"] == "Concatenated"
    assert sq.families.family_from_dict({**content, "family": "Together"}) == family


def test_the_shares_of_root_units_were_called_mixture():
    circuit = sq.build(sq.regions.linear(2), sq.Categorical(2), units=2, roots=2).initialise(seed=0)
    with pytest.warns(DeprecationWarning, match="root_shares"):
        assert circuit.mixture.equal(circuit.root_shares)
    model = sq.SquaredCircuit(circuit)
    with pytest.warns(DeprecationWarning, match="root_shares"):
        assert model.mixture().equal(model.root_shares())
    with pytest.warns(DeprecationWarning, match="log_root_shares"):
        assert model.log_mixture().equal(model.log_root_shares())


def test_captured_steps_were_in_execution_graph():
    module = importlib.import_module("squircuit.execution.graph")
    with pytest.warns(DeprecationWarning, match="cuda_graph"):
        assert module.CapturedStep is CapturedStep
