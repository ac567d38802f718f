"""Circuits that break exactly one property: each is caught, with the right reason and place."""

from __future__ import annotations

import pytest
import torch

import squircuit as sq
from squircuit import Circuit, Hadamard, Input, Kronecker, Sum, scalar

TWO, FOUR = sq.Categorical(2), sq.Categorical(4)


def blocks(variable: int, count: int, units_each: int = 2) -> list[Input]:
    """Orthogonal input layers over one variable."""
    weight = sq.Parameter((count * units_each, 4), name=f"x{variable}")
    return [Input(variable, FOUR, units_each, weight, first_row=i * units_each) for i in range(count)]


def unitary() -> Circuit:
    """Two alternatives that share nothing, split alike: every property of layers holds."""
    (a0, b0), (a1, b1) = blocks(0, 2), blocks(1, 2)
    return Circuit(Sum([Kronecker([a0, a1]), Hadamard([b0, b1])], units=1)).initialise(seed=0)


def test_the_circuit_that_the_others_are_made_from_satisfies_every_condition_on_layers():
    report = sq.check(unitary())
    for name in (
        "smooth",
        "decomposable",
        "structured-decomposable",
        "orthogonal",
        "U1",
        "U2",
        "U3",
        "U4",
        "unitary",
    ):
        assert report[name], report[name]


def failures(circuit: Circuit, *names: str) -> set[str]:
    report = sq.check(circuit)
    return {name for name in names if not report[name]}


LAYERED = ("smooth", "decomposable", "U1", "U2", "U3")


def test_a_circuit_that_is_only_not_smooth_is_caught_at_the_sum():
    circuit = Circuit(Sum([Input(0, TWO), Input(1, TWO)], units=1), validate=False).initialise()
    verdict = sq.is_smooth(circuit)
    assert failures(circuit, *LAYERED) == {"smooth"}
    assert "{0} and {1}" in verdict.reason
    assert verdict.where == "sum2 over {0,1}"
    assert not sq.is_unitary(circuit)
    assert not sq.is_structured_decomposable(circuit)


def test_a_circuit_that_is_only_not_decomposable_is_caught_at_the_product():
    x = Input(0, TWO)
    circuit = Circuit(Sum(Hadamard([x, x]), units=1), validate=False).initialise()
    verdict = sq.is_decomposable(circuit)
    assert failures(circuit, *LAYERED) == {"decomposable"}
    assert "{0}" in verdict.reason
    assert verdict.where == "hadamard1 over {0}"


def test_a_circuit_with_only_u1_broken_in_one_layer_is_caught_there():
    circuit = unitary()
    weight = circuit.weights["x1"].clone()
    weight[0] *= 2
    broken = circuit.with_weights({"x1": weight})
    verdict = sq.satisfies_u1(broken)
    assert failures(broken, *LAYERED) == {"U1"}
    assert verdict.where == f"{broken.name(first_over(broken, 1))} over {{1}}"
    assert "not orthonormal, error 3" in verdict.reason


def test_a_circuit_with_only_u1_broken_between_two_layers_is_caught_with_both():
    circuit = unitary()
    weight = circuit.weights["x0"].clone()
    weight[2:] = weight[:2]
    broken = circuit.with_weights({"x0": weight})
    verdict = sq.satisfies_u1(broken)
    assert failures(broken, *LAYERED) == {"U1"}
    assert "not orthogonal to input" in verdict.reason
    assert "over {0}" in verdict.where


def first_over(circuit: Circuit, variable: int) -> Input:
    return next(layer for layer in circuit.inputs if layer.variable == variable)


def test_a_circuit_with_only_u2_broken_is_caught_at_the_sum_that_reuses_inputs():
    (a0,), (a1,) = blocks(0, 1), blocks(1, 1)
    circuit = Circuit(Sum([Kronecker([a0, a1]), Hadamard([a0, a1])], units=1)).initialise(seed=0)
    verdict = sq.satisfies_u2(circuit)
    assert failures(circuit, *LAYERED) == {"U2"}
    assert not sq.satisfies_u4(circuit)
    assert "share input layers" in verdict.reason
    assert verdict.where == f"{circuit.name(circuit.roots[0])} over {{0,1}}"


def test_a_circuit_with_only_u4_broken_is_unitary_and_caught_by_the_u4_check_alone():
    (a0, b0), (a1,) = blocks(0, 2), blocks(1, 1)
    circuit = Circuit(Sum([Kronecker([a0, a1]), Hadamard([b0, a1])], units=1)).initialise(seed=0)
    assert sq.is_unitary(circuit)
    verdict = sq.satisfies_u4(circuit)
    assert not verdict
    assert "over {1}" in verdict.reason
    with pytest.raises(sq.StructureError, match="U4"):
        sq.inference.unitary.marginal(circuit, [[0, 0]], over=[0])


def test_a_circuit_with_only_u3_broken_is_caught_at_the_sum():
    circuit = unitary()
    name = circuit.parameter_name(circuit.roots[0].weight)
    broken = circuit.with_weights({name: circuit.weights[name] * 1.5})
    verdict = sq.satisfies_u3(broken)
    assert failures(broken, *LAYERED) == {"U3"}
    assert "differs from I by 1.25" in verdict.reason
    assert verdict.where.startswith(broken.name(broken.roots[0]))
    with pytest.raises(sq.StructureError, match="U3"):
        sq.inference.unitary.marginal(broken, [[0, 0]], over=[0])


def test_a_circuit_that_is_only_not_structured_decomposable_is_caught_with_both_splits():
    (a0, b0), (a1, b1), (a2, b2) = blocks(0, 2), blocks(1, 2), blocks(2, 2)
    first = Kronecker([Sum(Kronecker([a0, a1]), units=2), a2])
    second = Kronecker([b0, Sum(Kronecker([b1, b2]), units=2)])
    circuit = Circuit(Sum([first, second], units=1)).initialise(seed=0)
    verdict = sq.is_structured_decomposable(circuit)
    assert not verdict
    assert "{0} {1,2}" in verdict.reason
    assert "{0,1} {2}" in verdict.reason
    assert sq.is_unitary(circuit)
    with pytest.raises(sq.StructureError, match="structured-decomposable"):
        sq.square(circuit)


def test_circuits_that_split_differently_are_not_compatible_and_cannot_be_multiplied():
    left, right = sq.regions.linear(3), sq.regions.linear(3, order=[2, 1, 0])
    a, b = (sq.build(regions, TWO, 2).initialise() for regions in (left, right))
    verdict = sq.are_compatible(a, b)
    assert not verdict
    assert "splits its scope" in verdict.reason
    for operation in (sq.multiply, sq.inner_product):
        with pytest.raises(sq.StructureError, match="not compatible"):
            operation(a, b)
    assert sq.are_compatible(a, a)


def test_circuits_over_different_domains_are_not_compatible():
    a, b = (sq.build(sq.regions.linear(2), sq.Categorical(n), 2).initialise() for n in (2, 3))
    verdict = sq.are_compatible(a, b)
    assert "integers 0 to 1 and integers 0 to 2" in verdict.reason
    assert verdict.where == "variable 0"


def plus_minus() -> tuple[Input, Input]:
    return scalar.input_unit(0, TWO, [1, 1]), scalar.input_unit(0, TWO, [1, -1])


def test_a_circuit_that_is_orthogonal_but_not_deterministic_is_told_apart():
    circuit = Circuit(scalar.sum_unit(plus_minus(), [1, 1j]))
    assert sq.is_orthogonal(circuit)
    assert sq.is_regular_orthogonal(circuit)
    verdict = sq.is_deterministic(circuit)
    assert not verdict
    assert "2 inputs of unit 0 are non-zero at {0: 0.0}" in verdict.reason
    assert scalar.partition(circuit) == pytest.approx(4)


def test_inputs_that_are_not_orthogonal_are_caught_with_their_inner_product():
    a, b = scalar.input_unit(0, TWO, [1, 0]), scalar.input_unit(0, TWO, [0.6, 0.8])
    circuit = Circuit(scalar.sum_unit([a, b], [1, 1]))
    verdict = sq.is_orthogonal(circuit)
    assert "inner product 0.6" in verdict.reason
    assert verdict.where == "sum2 over {0}"
    assert "inner product 0.6" in sq.is_regular_orthogonal(circuit).reason
    assert sq.is_basis_decomposable(circuit)
    with pytest.raises(sq.StructureError, match="not orthogonal"):
        scalar.partition(circuit)
    assert sq.partition(circuit) == pytest.approx(1 + 1 + 1.2)


def test_a_sum_whose_inputs_share_an_input_function_is_not_basis_decomposable():
    a, b = plus_minus()
    y = scalar.input_unit(1, TWO, [1, 2])
    shared = Circuit(scalar.sum_unit([scalar.product_unit([a, y]), scalar.product_unit([a, y])], [1, 1]))
    verdict = sq.is_basis_decomposable(shared)
    assert not verdict
    assert verdict.where == "sum4 over {0,1}"
    split = Circuit(scalar.sum_unit([scalar.product_unit([a, y]), scalar.product_unit([b, y])], [1, 1]))
    assert sq.is_basis_decomposable(split)
    assert sq.is_basis_decomposable(split, over=[0])
    assert not sq.is_basis_decomposable(split, over=[1])
    assert sq.is_orthogonal(split, over=[0])
    assert not sq.is_orthogonal(split, over=[1])
    assert sq.is_orthogonal(split, over=[1]).name == "{1}-orthogonal"


def test_an_edge_of_weight_zero_is_no_edge():
    a, b = scalar.input_unit(0, TWO, [1, 1]), scalar.input_unit(0, TWO, [1, 2])
    circuit = Circuit(scalar.sum_unit([a, b], [1, 0]))
    for check in (sq.is_orthogonal, sq.is_deterministic, sq.is_basis_decomposable):
        assert check(circuit)


def test_determinism_over_continuous_variables_is_read_off_the_supports():
    splines = sq.BSpline(6, degree=1)
    left, right = (
        scalar.input_unit(0, splines, [1, 1, 0, 0, 0, 0]),
        scalar.input_unit(0, splines, [0, 0, 0, 0, 1, 1]),
    )
    middle = scalar.input_unit(0, splines, [0, 0, 1, 1, 0, 0])
    assert sq.is_deterministic(Circuit(scalar.sum_unit([left, right], [1, 1])))
    assert not sq.is_deterministic(Circuit(scalar.sum_unit([left, middle], [1, 1])))
    hermite = [scalar.input_unit(0, sq.Hermite(2), row) for row in ([1, 0], [0, 1])]
    circuit = Circuit(scalar.sum_unit(hermite, [1, 1]))
    assert sq.is_orthogonal(circuit)  # the paper's witness that orthogonality is the weaker property
    assert not sq.is_deterministic(circuit)


def test_a_large_deterministic_circuit_is_recognised_by_the_supports_of_one_variable():
    d = 40
    chain = [[scalar.input_unit(v, TWO, row) for row in ([1, 0], [0, 1])] for v in range(d)]
    unit = scalar.sum_unit(chain[0], [1, 1])
    for v in range(1, d):
        parts = [scalar.product_unit([leaf, unit]) for leaf in chain[v]]
        unit = scalar.sum_unit(parts, [0.6, 0.8j])
    circuit = Circuit(unit)
    assert sq.is_deterministic(circuit)
    assert sq.is_orthogonal(circuit)
    assert scalar.partition(circuit) == pytest.approx(sq.partition(circuit))


def test_determinism_that_cannot_be_decided_is_said_to_be_undecided():
    """Monomials that are zero at almost all of 2^40 points: a sample finds no overlap, yet there is one."""
    corner = [scalar.input_unit(v, TWO, [1, 0]) for v in range(40)]
    free = [scalar.input_unit(v, TWO, [1, 1e-3]) for v in range(40)]
    sparse = scalar.product_unit(corner)
    other = scalar.product_unit([*corner[:20], *free[20:]])
    verdict = sq.is_deterministic(Circuit(scalar.sum_unit([sparse, other], [1, 1])))
    assert verdict.holds is None
    assert "too many states" in verdict.reason


def hard_to_decide() -> Circuit:
    """Two alternatives over 20 variables, different splits, the same input layers: #P-hard in general."""
    d = 20
    inputs = [Input(v, TWO, weight=torch.tensor([[1.0, 2.0]])) for v in range(d)]

    def chain(order: list[int]) -> sq.Layer:
        layer: sq.Layer = inputs[order[0]]
        for v in order[1:]:
            layer = Sum(Hadamard([layer, inputs[v]]), weight=torch.ones(1, 1))
        return layer

    return Circuit(Sum([chain(list(range(d))), chain(list(range(d))[::-1])], weight=torch.ones(1, 2)))


def test_orthogonality_of_incompatible_inputs_is_not_decided_rather_than_guessed():
    verdict = sq.is_orthogonal(hard_to_decide())
    assert verdict.holds is None
    assert not verdict
    assert "#P-hard" in verdict.reason
    assert "not decided" in str(verdict)
    with pytest.raises(sq.StructureError, match="not decided"):
        scalar.partition(hard_to_decide())


def test_without_weights_what_is_not_declared_is_not_decided():
    free = sq.build(sq.regions.linear(2), TWO, 2, unitary=False)
    for check in (sq.satisfies_u1, sq.satisfies_u3, sq.is_unitary, sq.is_orthogonal, sq.is_deterministic):
        assert check(free).holds is None, check
    assert sq.is_smooth(free)
    declared = sq.build(sq.regions.linear(2), TWO, 2)
    assert sq.is_unitary(declared)


def test_one_parameter_may_serve_layers_over_different_variables_but_not_one_variable_twice():
    weight = sq.Parameter((2, 4), name="shared")
    over_two = Circuit(Sum(Kronecker([Input(v, FOUR, weight=weight) for v in (0, 1)]), units=2)).initialise()
    assert sq.is_unitary(over_two)
    assert sq.satisfies_u4(over_two)
    twice = Circuit(Sum([Input(0, FOUR, weight=weight), Input(0, FOUR, weight=weight)], units=1))
    assert sq.satisfies_u1(twice).holds is None
    assert sq.satisfies_u1(twice.initialise()).holds is False


def test_tolerances_are_stated_and_can_be_chosen():
    circuit = unitary()
    name = circuit.parameter_name(circuit.roots[0].weight)
    slightly = circuit.with_weights({name: circuit.weights[name] * (1 + 1e-6)})
    assert not sq.satisfies_u3(slightly)
    assert sq.satisfies_u3(slightly, tolerance=1e-4)
    assert "tolerance 1.5e-08" in sq.satisfies_u3(circuit).reason


def test_one_weight_in_single_precision_is_reason_enough_for_its_tolerance():
    circuit = unitary().initialise(seed=0, dtype=torch.complex64)
    exact = {"x0": unitary().initialise(seed=0).weights["x0"]}
    mixed = circuit.with_weights(exact)
    assert {value.dtype for value in mixed.weights.values()} == {torch.complex64, torch.complex128}
    assert sq.is_unitary(mixed)
    assert "tolerance 0.00035" in sq.satisfies_u3(mixed).reason


@pytest.mark.parametrize("factor", [1e-20, 1e20])
def test_inputs_are_non_zero_together_however_small_one_is_beside_the_other(factor):
    large = scalar.input_unit(0, TWO, torch.ones(2, dtype=torch.float64))
    small = scalar.input_unit(0, TWO, torch.tensor([0.0, factor], dtype=torch.float64))
    verdict = sq.is_deterministic(Circuit(scalar.sum_unit([large, small], [1, 1])))
    assert verdict.holds is False
    assert "non-zero at {0: 1.0}" in verdict.reason


def test_the_report_prints_a_mark_and_a_reason_for_every_property():
    text = str(sq.check(unitary()))
    assert text.count("✓") + text.count("✗") + text.count("?") == 12
    assert len(text.splitlines()) == 14


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_what_counts_as_orthogonal_does_not_depend_on_scale(factor):
    table = torch.tensor([[1.0, 1.0], [1.0, 0.0], [1.0, -1.0]], dtype=torch.float64) * factor
    a, b, c = (scalar.input_unit(0, TWO, row) for row in table)
    skew, right = (Circuit(scalar.sum_unit([a, other], [1, 1])) for other in (b, c))
    for check in (sq.is_regular_orthogonal, sq.is_orthogonal):
        assert check(skew).holds is False
        assert check(right).holds is True
    with pytest.raises(sq.StructureError, match="not orthogonal"):
        scalar.partition(skew)


@pytest.mark.parametrize("factor", [1e-6, 1.0])
def test_incompatible_parts_with_small_input_functions_are_refused_not_taken_for_orthogonal(factor):
    regions = sq.regions.patch_splits((2, 2), min_side=2)
    circuit = sq.build(regions, FOUR, 2, unitary=False).initialise(seed=0)
    small = {n: v * factor for n, v in circuit.weights.items() if n.startswith("x")}
    with pytest.raises(sq.StructureError, match="not compatible"):
        sq.partition(circuit.with_weights(small))


def test_the_partition_function_of_a_circuit_that_is_not_structured_is_exact_in_single_precision_too():
    circuit = sq.build(sq.regions.patch_splits((4, 4), min_side=4), sq.Categorical(16), 2)
    for dtype, error in ((torch.complex128, 1e-12), (torch.complex64, 1e-5)):
        assert sq.partition(circuit.initialise(seed=0, dtype=dtype)) == pytest.approx(1, abs=error)


def test_variables_may_be_given_by_an_iterator():
    a, b = scalar.input_unit(0, TWO, [1, 1]), scalar.input_unit(0, TWO, [1, 0])
    skew = Circuit(scalar.sum_unit([a, b], [1, 1]))
    for check in (sq.is_orthogonal, sq.is_regular_orthogonal, sq.is_basis_decomposable):
        assert check(skew, over=iter([0])).holds == check(skew, over=[0]).holds
    with pytest.raises(sq.StructureError, match="-orthogonal"):
        scalar.marginal(skew, over=iter([0]))


def test_large_kronecker_layers_are_never_squared():
    """K = 8: the Gram matrix of a four-way product would have 4096² entries a region and row."""
    circuit = sq.build(sq.regions.quad_tree((8, 8)), sq.Categorical(16), 8).initialise(seed=0)
    assert sq.partition(circuit) == pytest.approx(1, abs=1e-10)
    rows = torch.randint(16, (2, 64), generator=torch.Generator().manual_seed(0))
    half = [v for v in range(64) if v % 8 < 4]
    exact, fast = sq.marginal(circuit, rows, half), sq.inference.unitary.marginal(circuit, rows, half)
    assert torch.allclose(exact, fast, rtol=1e-9, atol=0)
    assert sq.is_orthogonal(circuit)


def test_circuits_that_are_not_smooth_or_decomposable_can_be_evaluated_but_not_integrated():
    x = Input(0, TWO, weight=torch.tensor([[1.0, 2.0]]))
    overlapping = Circuit(Sum(Hadamard([x, x]), weight=torch.ones(1, 1)), validate=False)
    uneven = Circuit(Sum([Input(0, TWO), Input(1, TWO)], weight=torch.ones(1, 4)), validate=False)
    assert sq.evaluate(overlapping, [[1]]).item() == 4
    for circuit, missing in ((overlapping, "decomposable"), (uneven, "smooth")):
        for question in (sq.partition, sq.integrate):
            with pytest.raises(sq.StructureError, match=f"not {missing}"):
                question(circuit)
    assert sq.is_deterministic(uneven).holds is None


def test_narrow_functions_far_apart_are_seen_where_they_are():
    """At a random point of the line all of them underflow to zero, and would pass for disjoint."""
    family = sq.Gaussian(3, loc=(0.0, 0.1, 1000.0), scale=1.0, learnable=False)
    a, b = (scalar.input_unit(0, family, row) for row in ([1, 0, 0], [0, 1, 0]))
    circuit = Circuit(scalar.sum_unit([a, b], [1, 1]))
    assert sq.is_deterministic(circuit).holds is False
    x = scalar.input_unit(1, TWO, [1, 2])
    product = Circuit(scalar.sum_unit([scalar.product_unit([x, g]) for g in (a, b)], [1, 1]))
    assert sq.is_orthogonal(product, over=[1]).holds is False
    with pytest.raises(sq.StructureError):
        scalar.marginal(product, [[0.05, 0.0]], over=[1])


def test_orthogonality_to_a_unit_that_may_be_zero_or_rounding_is_not_decided():
    """0.1 f + 0.2 f − 0.3 f is 5e-17 f, not zero; over x₁ the inputs are parallel wherever it is not zero."""
    f, h = (scalar.input_unit(0, TWO, row) for row in ([1.0, 2.0], [1.0, 1.0]))
    y = scalar.input_unit(1, TWO, [1.0, 2.0])
    zero, twice = scalar.sum_unit([f, f, f], [0.1, 0.2, -0.3]), scalar.sum_unit([f, f, f], [0.1, 0.2, 0.3])

    def over_x1(unit):
        products = [scalar.product_unit([unit, y]), scalar.product_unit([h, y])]
        return sq.is_orthogonal(Circuit(scalar.sum_unit(products, [1, 1])), over=[1])

    assert over_x1(zero).holds is None
    assert over_x1(twice).holds is False


def test_declared_properties_are_checked_against_the_values_that_are_there():
    wrong = sq.Parameter((1, 2), value=torch.tensor([[3.0, 4.0]]))
    circuit = Circuit(Sum(Kronecker([Input(0, TWO), Input(1, TWO, units=1)]), weight=wrong))
    assert not circuit.has_weights
    assert sq.satisfies_u3(circuit).holds is False
    identity = sq.Parameter((2, 2), "fixed", False, value=torch.eye(2))
    assert sq.satisfies_u3(Circuit(Sum(Input(0, TWO, units=2), weight=identity))).holds is True


@pytest.mark.parametrize(
    "check", [sq.satisfies_u1, sq.satisfies_u3, sq.is_unitary, sq.is_regular_orthogonal, sq.is_orthogonal]
)
def test_every_numerical_check_has_a_tolerance_that_can_be_chosen(check):
    e = 1e-3
    rows = torch.tensor([[1.0, 0.0], [e, 1.0]], dtype=torch.float64)
    inputs = [scalar.input_unit(0, TWO, row) for row in rows]
    weight = torch.tensor([[0.6, 0.8 + e]], dtype=torch.float64)
    circuit = Circuit(Sum(inputs, weight=weight))
    assert not check(circuit)
    assert check(circuit, tolerance=0.1)


def test_products_of_many_inputs_of_one_unit_are_integrated():
    inputs = [Input(v, TWO, weight=torch.tensor([[0.6, 0.8]], dtype=torch.float64)) for v in range(60)]
    for product in (Kronecker, Hadamard):
        circuit = Circuit(Sum(product(inputs), weight=torch.ones(1, 1)))
        assert sq.partition(circuit) == pytest.approx(1)
        half = sq.inference.unitary.marginal(circuit, torch.zeros(1, 60), over=range(30))
        assert half.item() == pytest.approx(0.36**30)


@pytest.mark.parametrize("over", [0, ["a"], "01", [0.7], [True, False]])
def test_variables_that_are_no_numbers_are_refused(over):
    circuit = sq.build(sq.regions.linear(2), TWO, 2).initialise()
    with pytest.raises(sq.ParameterError, match="variables"):
        sq.marginal(circuit, [[0, 0]], over)


def test_layers_of_millions_of_units_are_not_gone_through_one_by_one():
    """A product of nine inputs of eight units has 8⁹ of them, and no weight: a small file holds it."""
    circuit = Circuit(Kronecker([Input(v, sq.Categorical(8)) for v in range(9)]))
    for check in (sq.is_deterministic, sq.is_basis_decomposable, sq.is_regular_orthogonal):
        verdict = check(circuit)
        assert verdict.holds is None
        assert "too many" in verdict.reason
    assert sq.is_unitary(circuit)


def overlapping(variable: int) -> Input:
    """Two functions that are not orthogonal."""
    return Input(variable, TWO, 2, torch.tensor([[1.0, 0.0], [0.8, 0.6]]))


def test_products_with_a_factor_that_is_zero_are_orthogonal_whatever_the_other_factors_are():
    zero = Input(1, TWO, 1, torch.zeros(1, 2))
    circuit = Circuit(Sum(Kronecker([overlapping(0), zero]), weight=torch.ones(1, 2)))
    for over in (None, [0], [1]):
        assert sq.is_orthogonal(circuit, over=over).holds, over
    there = Circuit(
        Sum(Kronecker([overlapping(0), Input(1, TWO, 1, torch.ones(1, 2))]), weight=torch.ones(1, 2))
    )
    assert sq.is_orthogonal(there).holds is False


def test_a_factor_that_is_zero_at_some_values_leaves_the_overlap_at_the_others():
    somewhere = Input(1, TWO, 1, torch.tensor([[0.0, 1.0]]))
    circuit = Circuit(Sum(Kronecker([overlapping(0), somewhere]), weight=torch.ones(1, 2)))
    verdict = sq.is_orthogonal(circuit, over=[0])
    assert verdict.holds is False
    assert "0.8" in verdict.reason


def test_a_factor_that_may_be_zero_or_rounding_leaves_overlaps_undecided():
    twice = sq.Gaussian(2, (0.0, 0.0), (1.0, 1.0), False)
    perhaps = Input(1, twice, 1, torch.tensor([[1.0, -1.0 - 1e-13]], dtype=torch.float64))
    circuit = Circuit(Sum(Kronecker([overlapping(0), perhaps]), weight=torch.ones(1, 2)))
    assert sq.is_orthogonal(circuit).holds is None


def test_inputs_that_never_meet_in_a_unit_need_not_be_comparable():
    inputs = [[Input(v, sq.Hermite(3), 1, sq.Parameter((1, 3))) for v in range(3)] for _ in range(2)]
    left = Kronecker([inputs[0][0], Kronecker([inputs[0][1], inputs[0][2]])])
    right = Kronecker([Kronecker([inputs[1][0], inputs[1][1]]), inputs[1][2]])
    for weight, holds in (([[1.0, 0.0]], True), ([[1.0, 0.0], [0.0, 1.0]], True), ([[1.0, 1.0]], None)):
        circuit = Circuit(Sum([left, right], weight=torch.tensor(weight))).initialise(seed=0)
        assert sq.is_orthogonal(circuit).holds is holds, weight


def test_the_work_of_a_check_grows_with_the_length_of_a_chain_not_with_its_square(monkeypatch):
    calls = [0]
    gram = sq.Categorical.gram

    def counted(*arguments):
        calls[0] += 1
        return gram(*arguments)

    monkeypatch.setattr(sq.Categorical, "gram", counted)
    work = []
    for length in (20, 40):
        circuit = sq.build(sq.regions.linear(length), TWO, units=2).initialise(seed=0)
        calls[0] = 0
        assert sq.check(circuit)["orthogonal"].holds
        work.append(calls[0])
    assert work[0] > 0
    assert work[1] <= 2.2 * work[0]
