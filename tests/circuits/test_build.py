"""Circuits from region graphs: sizes as printed in the paper, ties, widths, roots, bad input."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import oracle
import squircuit as sq
from squircuit.regions import balanced_tree, linear, patch_splits, quad_tree, random_tree

PAPER_KRONECKER = {4: 2_135_296, 6: 6_426_048, 8: 20_133_888, 10: 55_646_080, 16: 547_667_968}
PAPER_HADAMARD = {16: 6_557_728, 32: 13_385_792, 512: 343_933_952}


@pytest.mark.parametrize("units", PAPER_KRONECKER)
def test_kronecker_circuits_on_28x28_have_the_papers_number_of_parameters(units):
    circuit = sq.build(quad_tree((28, 28)), sq.Categorical(256), units)
    assert circuit.num_parameters() == PAPER_KRONECKER[units]


@pytest.mark.parametrize("units", PAPER_HADAMARD)
def test_hadamard_circuits_on_28x28_have_the_papers_number_of_parameters(units):
    # the baseline has free weights: 512 functions do not fit as orthonormal ones in a basis of 256
    circuit = sq.build(quad_tree((28, 28)), sq.Categorical(256), units, product="hadamard", unitary=False)
    assert circuit.num_parameters() == PAPER_HADAMARD[units]


@pytest.mark.parametrize(
    ("product", "units", "count"), [("hadamard", 8, 87_304), ("kronecker", 16, 356_843_520)]
)
def test_the_benchmark_set_up_on_32x32_has_the_papers_number_of_weights(product, units, count):
    circuit = sq.build(quad_tree((32, 32)), sq.Categorical(256), units, product, input_sums=True)
    assert circuit.num_weights("sum") == count


def test_building_without_weights_is_declared_unitary():
    circuit = sq.build(quad_tree((28, 28)), sq.Categorical(256), units=16)
    assert not circuit.has_weights
    assert sq.is_unitary(circuit)
    assert sq.is_orthogonal(circuit)


def test_the_patch_splits_circuit_on_28x28_is_unitary_but_not_structured_decomposable():
    circuit = sq.build(patch_splits((28, 28)), sq.Categorical(256), units=4)
    assert sq.is_unitary(circuit)
    assert sq.satisfies_u4(circuit)
    assert not sq.is_structured_decomposable(circuit)
    (weight,) = {layer.weight for layer in circuit.inputs if layer.variable == 0}
    assert weight.shape == (6 * 4, 256)  # six input layers a pixel, blocks of one matrix


@pytest.mark.parametrize("tie", ["inputs", 0, 1, 2])
@pytest.mark.parametrize("product", ["kronecker", "hadamard"])
def test_tied_circuits_are_still_unitary_and_normalised(tie, product):
    circuit = sq.build(quad_tree((2, 3)), sq.Categorical(3), 2, product, tie=tie).initialise(seed=1)
    assert len({layer.weight for layer in circuit.inputs}) == 1
    assert sq.is_unitary(circuit)
    assert sq.satisfies_u4(circuit)
    assert oracle.partition(circuit) == pytest.approx(1)


def test_tying_inputs_and_the_lowest_level_counts_each_shared_matrix_once():
    circuit = sq.build(quad_tree((28, 28)), sq.Categorical(256), 12, tie=1)
    assert circuit.num_weights("input") == 12 * 256
    lowest = [layer for layer in circuit.sums if len(layer.scope) == 4]
    assert len(lowest) == 196
    assert len({layer.weight for layer in lowest}) == 1


def test_levels_are_tied_among_regions_over_the_same_families():
    families = [sq.Categorical(5), sq.Categorical(7), sq.Categorical(7)] * 4
    circuit = sq.build(quad_tree((2, 2, 3), 2, "vhc"), families, 3, tie=3)
    plane = {0: set(), 1: set(), 2: set()}
    for layer in circuit.sums:
        channels = {variable % 3 for variable in layer.scope}
        if len(channels) == 1:
            plane[channels.pop()].add(layer.weight)
    assert plane[1] == plane[2]
    assert not plane[0] & plane[1]
    assert len(plane[0]) == 2  # one weight of pairs, one of blocks of four


def test_tied_inputs_of_several_blocks_keep_the_layers_of_one_variable_orthogonal():
    circuit = sq.build(random_tree(3, seed=2, repetitions=2), sq.Categorical(4), 2, tie="inputs").initialise(
        seed=0
    )
    assert len({layer.weight for layer in circuit.inputs}) == 1
    assert sq.satisfies_u1(circuit)
    assert oracle.partition(circuit) == pytest.approx(1)


def test_variables_with_small_domains_get_as_many_units_as_they_can_carry():
    circuit = sq.build(balanced_tree(4), sq.Categorical(2), units=8).initialise(seed=0)
    assert [layer.units for layer in circuit.inputs] == [2, 2, 2, 2]
    assert sorted(layer.units for layer in circuit.sums) == [1, 4, 4]
    assert oracle.partition(circuit) == pytest.approx(1)


@pytest.mark.parametrize("roots", [1, 3])
@pytest.mark.parametrize("root_weights", ["uniform", "learnable"])
def test_several_roots_are_a_normalised_mixture(roots, root_weights):
    circuit = sq.build(linear(3), sq.Categorical(3), 2, roots=roots, root_weights=root_weights).initialise(
        seed=0
    )
    assert circuit.num_roots == roots
    assert oracle.partition(circuit) == pytest.approx(1)
    if root_weights == "learnable":
        other = circuit.with_weights(
            {"roots": torch.tensor([0.5, 0.3, 0.2][:roots]) if roots > 1 else torch.ones(1)}
        )
        assert oracle.partition(other) == pytest.approx(1)


def test_one_variable_makes_a_circuit():
    circuit = sq.build(linear(1), sq.Categorical(4), units=3).initialise(seed=0)
    assert oracle.partition(circuit) == pytest.approx(1)


def test_tied_input_sums_of_different_widths_are_different_parameters():
    families = [sq.Categorical(n) for n in (2, 4, 2, 4)]
    circuit = sq.build(balanced_tree(4), families, 3, tie="inputs", input_sums=True).initialise(seed=0)
    assert sq.is_unitary(circuit)
    assert oracle.partition(circuit) == pytest.approx(1)


def test_mixed_columns_have_a_family_each():
    families = [
        sq.Categorical(3),
        sq.Hermite(6),
        sq.Fourier(5, period=6.0),
        sq.Orthonormalised(sq.BSpline(6)),
    ]
    circuit = sq.build(balanced_tree(4), families, units=3).initialise(seed=0)
    assert sq.is_unitary(circuit)
    assert sq.partition(circuit) == pytest.approx(1, abs=1e-9)


def test_learnable_shifts_are_named_parameters_of_their_variable():
    circuit = sq.build(linear(2), sq.Fourier(3, period=2.0, learnable=True), 2)
    assert {"x0.shift", "x1.shift"} <= set(circuit.parameters)


def test_input_functions_can_be_used_without_mixing():
    circuit = sq.build(linear(2), sq.Fourier(3, period=2.0), 3, mixing=False).initialise(seed=0)
    assert all(layer.weight is None for layer in circuit.inputs)
    assert sq.is_unitary(circuit)


def test_the_baseline_with_gaussian_inputs_has_a_partition_function_by_quadrature():
    circuit = sq.build(linear(2), sq.Gaussian(3), 3, "hadamard", unitary=False, mixing=False).initialise(
        seed=0
    )
    x = torch.linspace(-12, 12, 601, dtype=torch.float64)
    rows = torch.cartesian_prod(x, x)
    total = sq.evaluate(circuit, rows).abs().square().sum() * (x[1] - x[0]) ** 2
    assert sq.partition(circuit) == pytest.approx(total.item(), rel=1e-6)


BAD = {
    "units must be": {"units": 0},
    r"units must be an integer ≥ 1, got '8;12'": {"units": "8;12"},
    r"units must be an integer ≥ 1, got \[\]": {"units": []},
    "roots must be": {"roots": -1},
    "product must be": {"product": "tucker"},
    "tie must be": {"tie": -2},
    "root_weights must be": {"root_weights": "sorted"},
    "3 families for 4 variables": {"family": [sq.Categorical(2)] * 3},
    "not a family": {"family": [sq.Categorical(2)] * 3 + [5]},
    "not orthonormal": {"family": sq.Gaussian(2)},
    "do not fit in a basis of 2": {"product": "hadamard", "units": 3},
    "use roots ≤ 4": {"roots": 5},
}


@pytest.mark.parametrize("message", BAD)
def test_a_bad_argument_gets_one_error_that_names_it(message):
    arguments = {"family": sq.Categorical(2), "units": 2, **BAD[message]}
    with pytest.raises(sq.SquircuitError, match=message):
        sq.build(balanced_tree(4), **arguments)


def test_too_many_alternatives_for_the_basis_is_an_error_with_a_fix():
    with pytest.raises(sq.StructureError, match="larger family or fewer alternatives"):
        sq.build(random_tree(3, seed=0, repetitions=3), sq.Categorical(2), 1)


@pytest.mark.parametrize("tie", [None, 1])
@pytest.mark.parametrize("product", ["kronecker", "hadamard"])
def test_units_may_differ_from_level_to_level_and_z_stays_one(product, tie):
    regions, units = quad_tree((8, 8)), [4, 3, 2]
    circuit = sq.build(regions, sq.Categorical(5), units, product, roots=2, tie=tie).initialise(seed=0)
    assert {layer.units for layer in circuit.inputs} == {4}
    assert Counter(layer.units for layer in circuit.sums) == {3: 16, 2: 4 + 1}
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    assert abs(model.log_partition().item()) < 1e-12
    x = torch.randint(5, (3, 64), generator=torch.Generator().manual_seed(0))
    amplitudes = sq.evaluate(circuit, x)
    assert torch.allclose(model.log_prob(x), amplitudes.abs().square().mean(dim=1).log())


@pytest.mark.parametrize("units", [[], [2, 0], [2, 1.5], "22", [True]])
def test_units_by_level_are_positive_integers(units):
    with pytest.raises(sq.ParameterError, match="units must be an integer ≥ 1"):
        sq.build(quad_tree((2, 2)), sq.Categorical(4), units)


@pytest.mark.parametrize("root_weights", ["uniform", "learnable"])
def test_components_share_inputs_have_sums_of_their_own_and_are_normalised(root_weights):
    one = sq.build(balanced_tree(5), sq.Categorical(2), 2, roots=2)
    several = sq.build(
        balanced_tree(5), sq.Categorical(2), 2, roots=2, components=3, root_weights=root_weights
    )
    assert len(several.inputs) == 5
    assert several.num_weights("sum") == 3 * one.num_weights("sum")
    assert several.num_roots == 6
    assert sq.is_unitary(several)
    assert oracle.partition(several.initialise(seed=0)) == pytest.approx(1)


def test_the_first_component_is_the_circuit_without_components():
    one = sq.build(linear(4), sq.Categorical(2), 2).initialise(seed=0)
    two = sq.build(linear(4), sq.Categorical(2), 2, components=2).initialise(seed=1)
    two = two.with_weights(dict(one.weights))
    rows, _ = oracle.assignments(one, range(4))
    assert oracle.amplitudes(two, rows)[:, 0] == pytest.approx(oracle.amplitudes(one, rows)[:, 0])
    assert oracle.amplitudes(two, rows)[:, 1] != pytest.approx(oracle.amplitudes(one, rows)[:, 0])


def test_components_share_the_layers_of_tied_levels_and_are_normalised():
    circuit = sq.build(quad_tree((2, 4), parts=2), sq.Categorical(2), 2, roots=2, tie=1, components=3)
    heights = {2: 4, 4: 2 * 3, 8: 3}  # pixels of a region: its sums
    assert {n: sum(len(layer.scope) == n for layer in circuit.sums) for n in heights} == heights
    assert len({layer.weight for layer in circuit.sums if len(layer.scope) == 2}) == 1
    circuit = circuit.initialise(seed=0)
    assert oracle.partition(circuit) == pytest.approx(1)
    rows, _ = oracle.assignments(circuit, range(8))
    density = (abs(oracle.amplitudes(circuit, rows)) ** 2).sum(axis=1) / circuit.num_roots
    found = sq.SquaredCircuit(circuit, dtype=torch.complex128).log_prob(rows)
    assert found.exp().tolist() == pytest.approx(density.tolist())


def test_components_of_one_variable_and_with_input_sums_are_normalised():
    for graph, options in ((balanced_tree(1), {}), (linear(3), {"input_sums": True})):
        circuit = sq.build(graph, sq.Categorical(3), 2, components=2, **options).initialise(seed=0)
        assert circuit.num_roots == 2
        assert oracle.partition(circuit) == pytest.approx(1)


@pytest.mark.parametrize("components", [0, -1, True, 1.5])
def test_bad_numbers_of_components_are_refused(components):
    with pytest.raises(sq.ParameterError, match="components must be an integer ≥ 1"):
        sq.build(linear(3), sq.Categorical(2), 2, components=components)


@pytest.mark.parametrize("unitary", [True, False])
@pytest.mark.parametrize("units", [1, 3, 16, 40])
def test_ordered_states_start_alike_where_they_are_neighbours(units, unitary):
    def first_weight(ordered: bool) -> torch.Tensor:
        family = sq.Categorical(40, ordered=ordered)
        circuit = sq.build(linear(2), family, units, "hadamard", unitary=unitary).initialise(seed=3)
        return circuit.matrix(circuit.inputs[0])

    def roughness(weight: torch.Tensor) -> float:
        return float(weight.diff(dim=1).abs().square().sum() / weight.abs().square().sum())

    smooth, rough = first_weight(True), first_weight(False)
    assert float(sq.Categorical(40, ordered=True).smoothing(units).square().sum()) == pytest.approx(40)
    if units < 40 or not unitary:  # 40 orthonormal functions of 40 states are all there are
        assert roughness(smooth) < 0.7 * roughness(rough)
    if unitary:
        identity = torch.eye(units, dtype=smooth.dtype)
        torch.testing.assert_close(smooth @ smooth.mH, identity, atol=1e-10, rtol=0)


def test_order_changes_no_function_so_families_are_equal():
    assert sq.Categorical(3, ordered=True) == sq.Categorical(3)
    assert hash(sq.Categorical(3, ordered=True)) == hash(sq.Categorical(3))
    assert repr(sq.Categorical(3, ordered=True)) == "Categorical(size=3, ordered=True)"


def parts(circuit, layers):
    """Real and imaginary parts of all weights."""
    values = torch.cat([circuit.value(layer.weight).flatten() for layer in layers])
    return torch.view_as_real(values) if values.is_complex() else values


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_free_weights_begin_with_terms_that_add_up(ordered, real):
    """Positive in inner sums; of states with mean and variance of numbers that are uniform in (0, 1)."""
    family = sq.Categorical(16, ordered=ordered)
    circuit = sq.build(linear(40), family, 6, unitary=False, is_complex=not real).initialise(seed=0)
    inner = [layer for layer in circuit.sums if layer not in circuit.roots]
    assert bool((parts(circuit, inner) > 0).all())
    of_states = parts(circuit, circuit.inputs)
    assert abs(of_states.mean() - 0.5) < 0.05
    assert abs(of_states.var() - 1 / 12) < 0.02
    assert bool((parts(circuit, circuit.roots) < 0).any())


def test_semi_unitary_weights_begin_with_any_sign():
    circuit = sq.build(linear(4), sq.Categorical(4), 3).initialise(seed=0)
    for layers in (circuit.sums, circuit.inputs):
        assert bool((parts(circuit, layers) < 0).any())


def test_free_sums_over_functions_of_one_variable_begin_with_any_sign():
    families = sq.Fourier(7, period=1.0)
    circuit = sq.build(linear(2), families, 3, unitary=False, mixing=False, input_sums=True).initialise(
        seed=0
    )
    inner = [layer for layer in circuit.sums if layer not in circuit.roots]
    assert bool((parts(circuit, inner) < 0).any())
