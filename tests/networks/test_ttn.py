from __future__ import annotations

import numpy as np
import pytest
import torch

import squircuit as sq
from networks.strategies import amplitudes, assert_close, law, ttn_arrays, ttn_dense
from squircuit.networks import from_mps, from_ttn, to_ttn, upper_canonical
from squircuit.regions import balanced_tree, quad_tree, random_tree


def dims_of(factors):
    return [np.shape(factor)[1] for factor in factors]


@law(ttn_arrays())
def test_from_ttn_evaluates_to_the_contraction_at_every_assignment(ttn):
    assert_close(amplitudes(from_ttn(*ttn), dims_of(ttn[0])), ttn_dense(*ttn))


def test_the_example_of_the_paper_is_its_four_nested_sums():
    rng = np.random.default_rng(0)
    psi, w = rng.normal(size=(4, 2, 3)), rng.normal(size=(3, 2, 2, 2))
    expected = np.einsum("ab,acd,bef,cw,dx,ey,fz->wxyz", w[0, 0], w[1], w[2], *psi)
    assert_close(amplitudes(from_ttn(psi, [w[0, 0], w[1], w[2]]), [3] * 4), expected)
    circuit = from_ttn(psi, [w[0, 0], w[1], w[2]], [(1, 2), (3, 4), (5, 6)])
    assert_close(amplitudes(circuit, [3] * 4), expected)
    assert circuit.sums[-1].weight.shape == (1, 4)


@law(ttn_arrays())
def test_to_ttn_inverts_from_ttn(ttn):
    back = to_ttn(from_ttn(*ttn))
    assert_close(ttn_dense(*back), ttn_dense(*ttn))
    assert [tuple(f.shape) for f in back.factors] == [f.shape for f in ttn[0]]
    assert_close(amplitudes(from_ttn(*back), dims_of(ttn[0])), ttn_dense(*ttn))


@law(ttn_arrays())
def test_the_upper_canonical_form_is_the_same_function_with_isometric_factors_and_tensors(ttn):
    new, norm = upper_canonical(*ttn)
    dense = ttn_dense(*ttn)
    assert norm == pytest.approx(np.linalg.norm(dense), rel=1e-10)
    assert_close(norm * ttn_dense(*new), dense)
    factors, tensors = ([array.numpy() for array in arrays] for arrays in new[:2])
    for factor in factors if tensors else []:
        assert_close(np.einsum("kx,lx->kl", factor, factor.conj()), np.eye(len(factor)))
    for tensor in tensors[1:]:
        assert_close(np.einsum("aij,bij->ab", tensor, tensor.conj()), np.eye(len(tensor)))
    root = tensors[0] if tensors else factors[0]
    assert np.linalg.norm(root) == pytest.approx(1)


@law(ttn_arrays())
def test_circuits_of_upper_canonical_networks_are_unitary_with_z_1(ttn):
    new, norm = upper_canonical(*ttn)
    circuit = from_ttn(*new)
    assert sq.is_unitary(circuit)
    assert sq.partition(circuit) == pytest.approx(1, abs=1e-10)
    assert sq.unitarise(from_ttn(*ttn)).beta == pytest.approx(1 / norm, rel=1e-8)


@pytest.mark.parametrize("product", ["kronecker", "hadamard"])
@pytest.mark.parametrize("regions", [balanced_tree(5), random_tree(6, seed=1)], ids=["balanced", "random"])
def test_circuits_over_binary_region_trees_are_binary_tree_tensor_networks(regions, product):
    circuit = sq.build(regions, sq.Categorical(3), units=2, product=product).initialise(seed=0)
    ttn = to_ttn(circuit)
    assert len(ttn.tensors) == regions.num_variables - 1
    assert_close(ttn_dense(*ttn), amplitudes(circuit, [3] * regions.num_variables))


def test_a_matrix_product_state_is_a_binary_tree_with_identities_as_factors():
    rng = np.random.default_rng(0)
    circuit = from_mps([rng.normal(size=shape) for shape in [(1, 3, 2), (2, 2, 2), (2, 4, 1)]])
    ttn = to_ttn(circuit)
    assert_close(ttn.factors[2], np.eye(4))
    assert_close(ttn_dense(*ttn), amplitudes(circuit, [3, 2, 4]))


@pytest.mark.parametrize("family", [sq.Hermite(3), sq.Fourier(3, period=4.0)])
def test_an_upper_canonical_network_over_orthonormal_functions_is_normalised(family):
    rng = np.random.default_rng(0)
    factors, tensors = rng.normal(size=(4, 2, 3)), rng.normal(size=(3, 2, 2, 2))
    new, _ = upper_canonical(factors, [tensors[0, :1], *tensors[1:]])
    assert sq.partition(from_ttn(*new, families=family)) == pytest.approx(1, abs=1e-10)


def test_a_caterpillar_of_784_variables_needs_no_recursion():
    d = 784
    children = [(n + 1, d - 1 + n) for n in range(d - 2)] + [(2 * d - 3, 2 * d - 2)]
    factors = [np.eye(2)] * d
    rng = np.random.default_rng(0)
    tensors = [rng.normal(size=(1, 2, 2)), *rng.normal(size=(d - 2, 2, 2, 2))]
    new, norm = upper_canonical(factors, tensors, children)
    circuit = from_ttn(*new)
    assert sq.is_unitary(circuit)
    assert to_ttn(circuit).children == children
    assert norm > 0


# ---------------------------------------------------------------- errors

PAIR = [np.ones((2, 3)), np.ones((2, 3))]
ROOT = np.ones((1, 2, 2))


@pytest.mark.parametrize(
    ("factors", "tensors", "message"),
    [
        ([], [], "0 factors and 0 tensors"),
        (None, [], "expected a list of arrays, got NoneType"),
        (PAIR, [], "2 factors and 0 tensors"),
        (PAIR, [np.ones((1, 2, 3))], r"tensor 0 has shape \(1, 2, 3\).*nodes 1 and 2, need \(R, 2, 2\)"),
        (PAIR, [np.ones(4)], r"tensor 0 has shape \(4,\). Fix: pass an array \(R, R_left, R_right\)"),
        ([*PAIR, np.ones(2)], [ROOT, ROOT], r"factor 2 has shape \(2,\). Fix: pass an array \(R, v\)"),
        ([PAIR[0], np.full((2, 3), np.inf)], [ROOT], "factor 1 .* holds NaN or infinity"),
        (PAIR, [ROOT * np.nan], "tensor 0 .* holds NaN or infinity"),
    ],
)
def test_bad_arrays_get_one_clear_error(factors, tensors, message):
    for function in (from_ttn, upper_canonical):
        with pytest.raises(sq.ParameterError, match=message):
            function(factors, tensors)


@pytest.mark.parametrize(
    "children",
    [[], [(1, 1)], [(0, 2)], [(1, 3)], [(1, 2), (3, 4)], [(1, 2, 3)], [3], [("a", "b")], [(1.0, 2.0)]],
)
def test_children_that_form_no_binary_tree_are_refused(children):
    with pytest.raises(sq.StructureError, match="not 1 pairs with each of the nodes 1 … 2 once"):
        from_ttn(PAIR, [ROOT], children)


def test_a_cycle_among_the_children_is_refused():
    with pytest.raises(sq.StructureError, match="after its parent"):
        from_ttn([np.ones((1, 2))] * 4, [np.ones((1, 1, 1))] * 3, [(3, 4), (2, 5), (1, 6)])


def test_families_of_the_wrong_size_are_refused():
    with pytest.raises(sq.ParameterError, match="physical index of dimension 3"):
        from_ttn(PAIR, [ROOT], families=sq.Categorical(2))


def test_a_network_that_is_zero_has_no_upper_canonical_form():
    with pytest.raises(sq.ParameterError, match="zero everywhere"):
        upper_canonical(PAIR, [0 * ROOT])


def test_circuits_that_are_not_binary_are_refused_by_place():
    circuit = sq.build(quad_tree((2, 2)), sq.Categorical(2), units=2).initialise()
    with pytest.raises(sq.StructureError, match=r"the site over \{0,1,2,3\}: it has 4 children"):
        to_ttn(circuit)
    chain = from_mps([torch.ones(1, 2, 2), torch.ones(2, 2, 2), torch.ones(2, 2, 1)], centre=1)
    with pytest.raises(sq.StructureError, match="it has 3 children"):
        to_ttn(chain)
    with pytest.raises(sq.StructureError, match="variable 0 is missing"):
        to_ttn(sq.Circuit(sq.Sum(sq.Input(1, sq.Categorical(2)))).initialise())
