"""The recipes give normalised models that suit the data, and refuse what they cannot model."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.circuits import Circuit
from squircuit.circuits.root_layers import independent

RNG = np.random.default_rng(0)


def chain(n=400, d=5):
    """Binary columns in which each one depends on a neighbour, in a shuffled order."""
    rows = np.cumsum(RNG.random((n, d)) < 0.1, axis=1) % 2
    return rows[:, [3, 0, 4, 1, 2]]


def total(model, states):
    rows = torch.tensor(list(itertools.product(*map(range, states))))
    return model.log_prob(rows).exp().sum().item()


def test_an_image_model_is_unitary_normalised_and_knows_its_shape():
    model = sq.image_model((2, 3), units=2, levels=2, roots=2)
    assert model.is_unitary
    assert model.shape == (2, 3)
    assert len(model.schema.columns) == 6
    assert total(model, [2] * 6) == pytest.approx(1, abs=1e-5)


def test_the_default_image_model_is_the_one_of_the_paper():
    circuit = sq.image_model((8, 8)).structure
    by_hand = sq.build(sq.regions.quad_tree((8, 8)), sq.Categorical(256, ordered=True), units=8)
    assert circuit.to_json() == by_hand.to_json()


def test_the_channels_of_a_pixel_meet_before_pixels_do():
    model = sq.image_model((2, 2, 3), units=2, levels=2)
    scopes = {frozenset(layer.scope) for layer in model.structure.sums}
    assert scopes == {frozenset(range(3 * p, 3 * p + 3)) for p in range(4)} | {frozenset(range(12))}
    assert model.shape == (2, 2, 3)
    assert total(model, [2] * 12) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.float32, torch.float64])
def test_the_dtype_says_precision_and_whether_weights_are_complex(dtype):
    for model in (sq.image_model((2, 2), 2, 3, dtype=dtype), sq.table_model(chain(), dtype=dtype)):
        assert {parameter.dtype for parameter in model.parameters()} == {dtype}


def test_the_seed_draws_the_weights():
    first, same, other = (sq.table_model(chain(), seed=seed) for seed in (0, 0, 1))
    x = torch.zeros(1, 5, dtype=torch.long)
    assert torch.equal(first.log_prob(x), same.log_prob(x))
    assert not torch.equal(first.log_prob(x), other.log_prob(x))


def test_a_table_model_splits_along_the_chow_liu_tree():
    rows = chain(n=4000)
    scopes = {frozenset(layer.scope) for layer in sq.table_model(rows).structure.layers}
    assert scopes == {region.scope for region in sq.regions.chow_liu(rows).regions}


def test_missing_cells_are_left_out_of_the_tree():
    """A discrete cell that is missing is stored as 0, which would tie columns that lack the same rows."""
    rows = chain(n=4000).astype(float)
    rows[:2000, [0, 2]] = np.nan
    table = sq.data.table(rows)
    scopes = {frozenset(layer.scope) for layer in sq.table_model(table).structure.layers}
    assert scopes == {region.scope for region in sq.regions.chow_liu(rows).regions}


def mixed(n=300):
    height = RNG.normal(1.7, 0.1, n)
    wind = RNG.uniform(0, 360, n)
    colour = RNG.choice(["blue", "red", "green"], n)
    return sq.data.table(
        {"colour": colour, "height": height, "wind": wind, "n": RNG.integers(5, size=n)},
        {"wind": "periodic:360"},
    )


def test_families_follow_the_schema_which_the_model_keeps():
    table = mixed()
    model = sq.table_model(table, size=8)
    assert model.schema is table.schema
    families = {layer.variable: layer.family for layer in model.structure.inputs}
    assert [families[v] for v in range(4)] == table.families(8, "transformed")
    assert abs(model.log_partition().item()) < 1e-5
    decoded = model.schema.decode(model.sample(3, seed=0))
    assert {type(cell) for cell in decoded[0]} == {str, float, int}


def test_a_mixed_model_learns_and_goes_through_a_file(tmp_path):
    table = mixed()
    model = sq.model_for(table, size=8)
    rows = torch.from_numpy(table.rows)
    optimiser, before = sq.optim.Polar(model.parameters(), lr=0.1), model.log_prob(rows).mean().item()
    for _ in range(10):
        optimiser.zero_grad()
        (-model.log_prob(rows).mean()).backward()
        optimiser.step()
    assert model.log_prob(rows).mean().item() > before + 0.1
    model.save(tmp_path / "model")
    again = sq.load(tmp_path / "model")
    assert again.schema == table.schema
    assert torch.equal(again.log_prob(rows), model.log_prob(rows))


def test_more_rows_get_more_units_and_more_functions():
    widths = []
    for n in (10, 300, 2000, 20_000):
        inputs = sq.table_model(RNG.normal(size=(n, 4))).structure.inputs
        widths.append((max(layer.units for layer in inputs), inputs[0].family.size))
    assert widths == [(4, 4), (4, 6), (8, 16), (8, 16)]


def test_columns_are_transformed_unless_another_kind_is_asked_for():
    rows = RNG.lognormal(size=(400, 2))
    kinds = {"hermite": sq.Hermite, "bins": sq.Bins, "legendre": sq.Legendre, "transformed": sq.Transformed}
    for continuous, kind in kinds.items():
        model = sq.table_model(rows, continuous=continuous, units=2)
        assert {type(layer.family) for layer in model.structure.inputs} == {kind}
    assert {type(layer.family) for layer in sq.model_for(rows).structure.inputs} == {sq.Transformed}


@pytest.mark.slow
def test_transformed_columns_fit_skewed_rows_far_better_than_hermite_functions_at_their_mean():
    rows = np.exp(RNG.normal(size=(600, 1)) @ np.ones((1, 2)) + 0.5 * RNG.normal(size=(600, 2)))
    scores = {}
    for continuous in ("hermite", "transformed"):
        model = sq.table_model(rows[:400], continuous=continuous)
        sq.fit(model, rows[:400], valid=rows[400:500], epochs=15, progress=False)
        scores[continuous] = model.log_prob(rows[500:]).mean().item()
    assert scores["transformed"] > scores["hermite"] + 0.3


@pytest.mark.parametrize(
    ("data", "roots"),
    [(RNG.normal(size=(2000, 1)), 4), (RNG.integers(2, size=(50, 1)), 2), (RNG.integers(2, size=(50, 3)), 4)],
)
def test_there_are_four_roots_where_they_fit(data, roots):
    model = sq.table_model(data)
    assert model.structure.num_roots == roots
    assert abs(model.log_partition().item()) < 1e-5


def test_hadamard_products_take_as_many_units_as_the_smallest_basis_has():
    model = sq.table_model(RNG.integers(2, size=(500, 3)), product="hadamard")
    assert Counter(layer.units for layer in model.structure.inputs) == {2: 3}


def one_row():
    return sq.data.Table(sq.data.Rows.of(np.zeros((1, 1))), mixed().schema, "data", (1,))


def images(*shape):
    return RNG.integers(0, 2, size=(30, *shape)).astype(np.uint8)


@pytest.mark.parametrize("shape", [(4, 4), (2, 2, 3)])
@pytest.mark.parametrize("parts", [2, 4])
def test_arrays_of_images_get_a_quad_tree_in_halves_unless_quarters_are_wanted(shape, parts):
    model = sq.model_for(images(*shape), **({} if parts == 2 else {"parts": parts}))
    scopes = {frozenset(layer.scope) for layer in model.structure.layers}
    assert scopes == {region.scope for region in sq.regions.quad_tree(shape, parts).regions}
    assert model.shape == shape
    assert set(sq.image_model(shape, 2, 2, parts=parts).structure.to_json()) == set(model.structure.to_json())


@pytest.mark.parametrize("make", [sq.model_for, lambda data, **how: sq.image_model((4, 4), **how)])
def test_images_are_halved_in_the_order_that_is_wanted(make):
    model = make(images(4, 4), parts=2, order="vvhh")
    scopes = {frozenset(layer.scope) for layer in model.structure.layers}
    assert scopes == {region.scope for region in sq.regions.quad_tree((4, 4), 2, "vvhh").regions}


@pytest.mark.parametrize("order", ["vh,hv", "vh, hv", ["vh", "hv"]])
def test_several_orders_are_circuits_on_several_trees_that_are_mixed(order):
    data = images(4, 4)
    model = sq.model_for(data, units=2, roots=2, order=order)
    parts = [sq.model_for(data, units=2, roots=2, order=each, seed=n) for n, each in enumerate(("vh", "hv"))]
    mean = torch.stack([part.log_prob(data.reshape(30, -1)).exp() for part in parts]).mean(dim=0)
    torch.testing.assert_close(model.log_prob(data.reshape(30, -1)).exp(), mean, rtol=1e-4, atol=0)
    assert (model.is_unitary, model.shape, model.training) == (True, (4, 4), True)
    assert abs(model.log_partition().item()) < 1e-6


def test_several_trees_of_a_table_are_models_on_trees_of_drawn_rows_that_are_mixed():
    rows = RNG.integers(2, size=(60, 8))
    model = sq.table_model(rows, units=2, components=2, trees=3)
    assert len(model.structure.roots) == 6
    assert len(independent(model.structure)) == 3
    graphs = {
        frozenset(frozenset(layer.scope) for layer in Circuit(root).layers) for root in model.structure.roots
    }
    assert len(graphs) > 1  # columns that do not depend on each other have other trees in other samples
    first = sq.table_model(rows, units=2, components=2)
    terms = model.component_log_prob(rows)[:, :2].logsumexp(dim=1) + np.log(3)
    torch.testing.assert_close(terms, first.log_prob(rows), rtol=1e-4, atol=1e-5)
    assert model.training
    assert sq.model_for(rows, trees=2).structure.num_roots == 8


def test_images_get_the_most_units_with_no_more_parameters_than_cells():
    few, many = (sq.model_for(RNG.integers(0, 256, size=(n, 4, 4)).astype(np.uint8)) for n in (1000, 40000))
    assert [max(layer.units for layer in model.structure.inputs) for model in (few, many)] == [4, 16]
    numbers = [model.structure.num_parameters() for model in (few, many)]
    assert all(number <= 16 * rows for number, rows in zip(numbers, (1000, 40000), strict=True))


def test_data_sets_get_the_model_of_their_kind():
    digits, points = sq.model_for(sq.data.load("digits")), sq.model_for(sq.data.load("spinner"))
    assert (digits.shape, points.shape) == ((8, 8), None)
    assert max(layer.units for layer in digits.structure.layers if layer.kind == "input") == 8
    assert {type(layer.family) for layer in points.structure.inputs} == {sq.Fourier}
    assert digits.schema.columns == sq.data.load("digits").columns


@pytest.mark.parametrize("rows", [lambda x: x, torch.from_numpy, lambda x: x.tolist()])
def test_arrays_tensors_and_lists_make_the_same_model(rows):
    data = RNG.normal(size=(50, 3))
    assert sq.model_for(rows(data)).structure.to_json() == sq.model_for(data).structure.to_json()


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sq.image_model((28,)), sq.ParameterError, r"images of shape \(28,\): expected"),
        (lambda: sq.image_model(28), sq.ParameterError, "images of shape 28: expected"),
        (lambda: sq.image_model((3, 32, 32)), sq.ParameterError, "at most 4 channels"),
        (lambda: sq.image_model((0, 3)), sq.ParameterError, "two positive integers"),
        (lambda: sq.image_model((2, 2), levels=0), sq.ParameterError, "levels must be an integer"),
        (lambda: sq.image_model((2, 2), units=0), sq.ParameterError, "units must be an integer"),
        (lambda: sq.image_model((2, 2), dtype=torch.float16), sq.ParameterError, "single or double"),
        (lambda: sq.image_model((2, 2), dtype="complex64"), sq.ParameterError, "single or double"),
        (lambda: sq.model_for(images(4, 4), parts=3), sq.ParameterError, "parts must be 2 or 4, got 3"),
        (
            lambda: sq.table_model(images(4), trees=0),
            sq.ParameterError,
            "trees must be an integer ≥ 1, got 0",
        ),
        (
            lambda: sq.table_model(images(4), trees=2, regions=sq.regions.linear(4)),
            sq.ParameterError,
            "trees=2 besides regions",
        ),
        (lambda: sq.model_for(images(4, 4), trees=2), sq.ParameterError, "Fix: pass several orders"),
        (lambda: sq.model_for(images(4, 4), order=[]), sq.ParameterError, "order is empty"),
        (
            lambda: sq.model_for(images(4, 4), order=None),
            sq.ParameterError,
            "order must be a text .* got None",
        ),
        (lambda: sq.model_for(images(4, 4), order="vh,x"), sq.ParameterError, "got 'x'"),
        (lambda: sq.model_for(images(3, 8, 8)), sq.ParameterError, "Fix: bring the axes into this order"),
        (lambda: sq.model_for("mnist"), sq.DataError, r"Fix: pass sq\.data\.load\(name\)"),
        (lambda: sq.model_for(None), sq.DataError, "Fix: pass"),
        (lambda: sq.model_for(np.zeros(5)), sq.DataError, r"shape \(5,\) of float64"),
        (lambda: sq.model_for([[1, 2], [3]]), sq.DataError, "no table"),
        (
            lambda: sq.model_for([[0.5, 2.0], [np.inf, 3.0], [0.1, 1.0]]),
            sq.DataError,
            "row 1, column '0': inf is not finite",
        ),
        (lambda: sq.table_model(one_row()), sq.DataError, "1 rows teach nothing"),
        (
            lambda: sq.table_model(chain(), regions=sq.regions.linear(3)),
            sq.ParameterError,
            "5 families for 3",
        ),
        (lambda: sq.table_model(mixed(), continuous="x"), sq.ParameterError, "continuous='x' is unknown"),
    ],
)
def test_what_cannot_be_modelled_is_refused_in_one_sentence(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_components_of_a_table_model_are_mixed_with_weights_that_are_learnt():
    rows = np.random.default_rng(0).integers(2, size=(50, 5))
    model = sq.table_model(rows, units=2, components=3)
    assert model.structure.num_roots == 3  # one root each
    assert model.structure.root_weights is not None
    assert model.is_unitary
    assert abs(model.log_partition().item()) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("continuous", ["bins", "transformed"])
def test_samples_of_a_column_with_92_per_cent_zeros_show_as_many(continuous):
    generator = np.random.default_rng(0)
    gains = np.where(generator.uniform(size=1500) < 0.92, 0.0, np.round(generator.lognormal(7, 1, size=1500)))
    rows = np.stack([gains, generator.normal(size=1500)], axis=1)
    model = sq.table_model(rows, continuous=continuous, size=16)
    sq.fit(model, rows, epochs=20, progress=False)
    drawn = model.sample(4000, seed=0)[:, 0].round()
    assert (drawn == 0).float().mean().item() == pytest.approx((gains == 0).mean(), abs=0.03)
