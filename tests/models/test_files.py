"""Models that go through a file are the same models; files that are damaged never become one."""

import copy
import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import squircuit as sq
from strategies import circuits


def rows(circuit, count=7):
    """Rows inside every domain, floats where a variable is continuous."""
    generator = torch.Generator().manual_seed(1)
    columns = []
    for variable in range(circuit.num_variables):
        domain = circuit.domains.get(variable)
        size = getattr(domain, "size", None)
        draw = torch.rand(count, generator=generator, dtype=torch.float64)
        columns.append((draw * size).floor() if size else draw * 0.9)
    return torch.stack(columns, dim=1)


def through_a_file(model, folder, **options):
    path = folder / "model.safetensors"
    model.save(path, **options)
    return sq.load(path)


def assert_same(model, again, x):
    assert not again.training  # a loaded model is asked, not trained
    assert torch.equal(again.log_prob(x), model.eval().log_prob(x))
    assert torch.equal(again.train().log_prob(x), model.train().log_prob(x))
    assert torch.equal(again.log_partition(), model.log_partition())
    assert again.is_unitary == model.is_unitary
    state, expected = again.state_dict(), model.state_dict()
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[name], value) for name, value in expected.items())
    assert all(state[name].dtype == value.dtype for name, value in expected.items())
    constraints = {name: p.constraint for name, p in model.named_parameters()}
    assert {name: p.constraint for name, p in again.named_parameters()} == constraints


def train(model, x, steps=2):
    optimiser = sq.optim.Polar(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        (-model.log_prob(x).mean()).backward()
        optimiser.step()


@settings(max_examples=25)
@given(
    circuits(continuous=True, max_variables=4),
    st.sampled_from((torch.complex64, torch.complex128)),
    st.booleans(),
)
def test_unitary_models_are_the_same_after_a_file(tmp_path_factory, circuit, dtype, trained):
    model, x = sq.SquaredCircuit(circuit, dtype=dtype), rows(circuit)
    if trained and torch.isfinite(model.log_prob(x)).all():
        train(model, x)
    assert_same(model, through_a_file(model, tmp_path_factory.mktemp("models")), x)


@settings(max_examples=15)
@given(circuits(unitary=False, max_variables=4), st.sampled_from((torch.complex64, torch.complex128)))
def test_models_with_free_weights_are_the_same_after_a_file(tmp_path_factory, circuit, dtype):
    model = sq.SquaredCircuit(circuit, dtype=dtype)
    assert_same(model, through_a_file(model, tmp_path_factory.mktemp("models")), rows(circuit))


@settings(max_examples=10)
@given(circuits(structured=False, max_variables=4))
def test_models_that_split_in_several_ways_are_the_same_after_a_file(tmp_path_factory, circuit):
    model = sq.SquaredCircuit(circuit)
    assert_same(model, through_a_file(model, tmp_path_factory.mktemp("models")), rows(circuit))


@pytest.fixture
def model():
    families = [sq.Hermite(6, learnable=True), sq.Fourier(5, 4.0, learnable=True), sq.Categorical(3)]
    circuit = sq.build(sq.regions.linear(3), families, units=3, roots=3, root_weights="learnable")
    return sq.SquaredCircuit(circuit)


X = torch.tensor([[0.3, -0.2, 1.0], [1.4, 0.4, 2.0]])


def test_learnt_input_functions_and_mixture_weights_are_kept(model, tmp_path):
    train(model, X, steps=5)
    again = through_a_file(model, tmp_path)
    assert not torch.equal(model.hermite_loc, torch.zeros(1))
    assert not torch.allclose(again.root_shares(), torch.full((3,), 1 / 3))
    assert_same(model, again, X)


def test_a_root_of_weight_zero_is_kept(model, tmp_path):
    with torch.no_grad():
        model.root_logits.copy_(torch.tensor([0.0, -math.inf, 1.0]))
    assert_same(model, through_a_file(model, tmp_path), X)


def test_tied_weights_stay_tied(tmp_path):
    circuit = sq.build(sq.regions.quad_tree((4, 4)), sq.Categorical(5), units=3, tie=1)
    model = sq.SquaredCircuit(circuit)
    again = through_a_file(model, tmp_path)
    assert again.structure.num_parameters() == model.structure.num_parameters()
    train(again, x := torch.randint(5, (6, 16), generator=torch.Generator().manual_seed(0)))
    train(model, x)
    assert_same(model, again, x)


def test_a_model_that_another_optimiser_took_off_the_manifold_is_the_same(tmp_path):
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(4), sq.Categorical(3), units=3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    x = torch.tensor([[0, 1, 2, 0]])
    again = through_a_file(model, tmp_path)
    assert again.is_unitary
    assert not again.is_normalised()
    assert_same(model, again, x)


def test_schema_shape_and_notes_are_kept_by_files_and_copies(tmp_path):
    model = sq.SquaredCircuit(sq.build(sq.regions.quad_tree((2, 2)), sq.Categorical(3), units=2))
    assert (model.schema, model.shape, model.notes) == (None, None, {})
    model.schema = sq.data.Schema(tuple(sq.data.Column(f"ä{i}", "count", high=2.0) for i in range(4)))
    model.shape = (2, 2)
    again = through_a_file(model, tmp_path, notes={"epochs": 3, "why": ["a", None]})
    assert again.notes == {"epochs": 3, "why": ["a", None]}
    assert through_a_file(again, tmp_path).notes == again.notes
    for same in (again, copy.deepcopy(model)):
        assert (same.schema, same.shape) == (model.schema, (2, 2))


def test_the_file_of_an_image_model_is_little_larger_than_its_weights(tmp_path):
    model = sq.SquaredCircuit(sq.build(sq.regions.quad_tree((28, 28)), sq.Categorical(4), units=2))
    model.save(tmp_path / "model")
    weights = sum(value.numel() * value.element_size() for value in model.state_dict().values())
    assert (tmp_path / "model").stat().st_size - weights < 64_000


@dataclass(frozen=True)
class Mine(sq.Categorical):
    """A family of the user's."""


@pytest.mark.parametrize("family", [Mine(3), sq.Orthonormalised(Mine(3))])
def test_families_of_users_are_refused_when_saving(tmp_path, family):
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(2), family, units=2))
    with pytest.raises(sq.FormatError, match=r"Mine is not a family of squircuit.*Fix: "):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.hermite_loc.data.fill_(math.nan), "'hermite_loc' hold NaN or infinity"),
        (lambda m: setattr(m, "shape", (2, 2)), r"model\.shape is \(2, 2\), the model has 3 variables"),
        (lambda m: setattr(m, "schema", sq.data.Schema(())), r"model\.schema has 0 columns, the model 3"),
        (lambda m: setattr(m, "notes", {"f": print}), "no JSON data"),
        (lambda m: setattr(m, "notes", {1: 2}), "notes must be a mapping from texts"),
    ],
)
def test_what_cannot_be_kept_is_refused_when_saving(model, tmp_path, change, words):
    change(model)
    with pytest.raises(sq.ParameterError, match=words):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@settings(max_examples=60)
@given(st.data())
def test_a_damaged_file_is_refused_or_the_very_same_model(tmp_path_factory, data):
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
    path = tmp_path_factory.mktemp("damaged") / "model"
    model.save(path, notes={"a": "b"})
    content = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    place = data.draw(st.one_of(st.integers(0, header - 1), st.integers(0, len(content) - 1)))
    if data.draw(st.booleans()):
        del content[place:]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        again = sq.load(path)
    except sq.FormatError as error:
        assert str(path) in str(error)  # noqa: PT017
        return
    assert again.notes == {"a": "b"}
    assert_same(model, again, torch.tensor([[0, 1, 0]]))


def _rewritten(path, change):
    """A file with a valid checksum and another content."""
    tensors, document = sq.storage.read(path, "model")
    change(tensors, document)
    sq.storage.write(path, tensors, document, "model")


def _shorten(tensors, document):
    tensors["input0"] = tensors["input0"][:, :1]


def _in_double(tensors, document):
    tensors["input0"] = tensors["input0"].to(torch.complex128)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t, d: t.pop("input0"), "the tensor 'input0' is missing"),
        (_shorten, r"the tensor 'input0' has shape .*, expected \(3, 2, 2\) of torch\.complex64"),
        (_in_double, r"the tensor 'input0' has .* of torch\.complex128, expected"),
        (lambda t, d: t.pop("structure"), "the entry 'structure' is missing"),
        (lambda t, d: d.pop("dtype"), "the entry 'dtype' is missing"),
        (lambda t, d: d["weights"].pop("input0"), "no tensor holds the parameter 'x0'"),
        (lambda t, d: d["weights"].update(more=["what"]), "the entry 'what' is missing"),
        (lambda t, d: d.update(structure_bytes=10), "its structure has 1286 bytes, expected 10"),
        (lambda t, d: t.update(structure=torch.zeros(9, dtype=torch.uint8)), "no zlib data"),
        (lambda t, d: d.update(schema={"columns": [{}]}), "not the description of a schema"),
        (lambda t, d: d.update(weights=3), "not a valid model"),
    ],
)
def test_a_file_that_is_no_model_says_why(tmp_path, change, words):
    path = tmp_path / "model.safetensors"
    sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2)).save(path)
    _rewritten(path, change)
    with pytest.raises(sq.FormatError, match=words) as caught:
        sq.load(path)
    assert str(path) in str(caught.value)
    assert "Fix: " in str(caught.value)


def test_a_device_that_is_not_there_is_named(model, tmp_path):
    model.save(tmp_path / "model")
    with pytest.raises(sq.ParameterError, match=r"device='nowhere' is not there.*Fix: "):
        sq.load(tmp_path / "model", device="nowhere")
