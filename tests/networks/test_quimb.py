from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest
import torch

import squircuit as sq
from networks.strategies import amplitudes, array, assert_close, mps_dense, ttn_dense
from squircuit.networks import from_mps, from_quimb, from_ttn, to_mps, to_quimb, to_ttn
from squircuit.regions import balanced_tree, linear, quad_tree

qtn = pytest.importorskip("quimb.tensor")


def dense(network, d):
    return np.asarray(network.contract(output_inds=[f"k{j}" for j in range(d)]).data)


# ---------------------------------------------------------------- quimb → circuit


@pytest.mark.parametrize("d", range(2, 9))
@pytest.mark.parametrize("dtype", [float, complex])
def test_a_quimb_mps_and_its_circuit_agree_on_amplitudes_and_norm_for_every_centre(d, dtype):
    mps = qtn.MPS_rand_state(d, bond_dim=3, phys_dim=2, dtype=dtype, seed=d) * 1.7
    expected = mps.to_dense().reshape([2] * d)
    for centre in [None, *range(d)]:
        circuit = from_quimb(mps, centre=centre)
        assert np.abs(amplitudes(circuit, [2] * d) - expected).max() < 1e-10
        assert abs(sq.partition(circuit) - mps.norm() ** 2) < 1e-10


def test_an_mps_of_one_site_and_product_states_are_converted():
    one = qtn.MPS_rand_state(1, bond_dim=3, phys_dim=3, seed=0)
    assert_close(amplitudes(from_quimb(one), [3]), one.to_dense().ravel())
    product = qtn.MPS_computational_state("0110")
    assert_close(amplitudes(from_quimb(product), [2] * 4), product.to_dense().reshape([2] * 4))


def test_an_mps_that_quimb_made_canonical_is_unitary_at_its_centre_only():
    mps = qtn.MPS_rand_state(6, bond_dim=3, dtype=complex, seed=0)
    for centre in range(6):
        moved = mps.copy()
        moved.canonicalize_(centre)
        assert sq.is_unitary(from_quimb(moved, centre=centre))
        assert not sq.is_unitary(from_quimb(moved, centre=(centre + 2) % 6))


def test_more_than_ten_sites_keep_their_order():
    mps = qtn.MPS_rand_state(12, bond_dim=2, dtype=complex, seed=0)
    x = np.random.default_rng(0).integers(0, 2, size=(20, 12))
    expected = [mps.amplitude("".join(map(str, row))) for row in x]
    assert_close(sq.evaluate(from_quimb(mps), torch.as_tensor(x))[:, 0], expected)
    plain = qtn.TensorNetwork(mps.tensors)
    assert_close(sq.evaluate(from_quimb(plain), torch.as_tensor(x))[:, 0], expected)


@pytest.mark.parametrize("seed", range(5))
def test_a_quimb_tree_and_its_circuit_agree_whichever_tensor_is_the_root(seed):
    tree = qtn.TN_rand_tree(6, 3, phys_dim=2, seed=seed, dtype=complex)
    expected = dense(tree, 6)
    for centre in [None, *range(6)]:
        circuit = from_quimb(tree, centre=centre)
        assert np.abs(amplitudes(circuit, [2] * 6) - expected).max() < 1e-10 * max(1, np.abs(expected).max())
    assert sq.partition(from_quimb(tree)) == pytest.approx(np.linalg.norm(expected) ** 2)


def test_inner_tensors_without_variables_and_several_variables_on_a_tensor_are_converted():
    rng = np.random.default_rng(0)
    network = qtn.TensorNetwork(
        [
            qtn.Tensor(array(rng, (2, 3, 2), True), ["a", "b", "c"]),
            qtn.Tensor(array(rng, (4, 2), True), ["k0", "a"]),
            qtn.Tensor(array(rng, (2, 3, 5), True), ["k1", "b", "k2"]),
            qtn.Tensor(array(rng, (2, 3), True), ["c", "k3"]),
        ]
    )
    assert_close(amplitudes(from_quimb(network), [4, 2, 5, 3]), dense(network, 4))
    circuit = from_quimb(network, order=["k3", "k0", "k2", "k1"], centre=1)
    assert_close(amplitudes(circuit, [3, 4, 5, 2]), dense(network, 4).transpose(3, 0, 2, 1))


def test_several_bonds_between_two_tensors_and_a_separate_exponent_are_taken_in():
    rng = np.random.default_rng(0)
    network = qtn.TensorNetwork(
        [
            qtn.Tensor(rng.normal(size=(2, 3, 2)), ["k0", "a", "b"]),
            qtn.Tensor(rng.normal(size=(2, 3, 2)), ["b", "a", "k1"]),
        ]
    )
    expected = dense(network, 2)
    assert_close(amplitudes(from_quimb(network), [2, 2]), expected)
    network.exponent = 2.0
    assert_close(amplitudes(from_quimb(network), [2, 2]), 100 * expected)


def test_other_bases_are_handed_on():
    mps = qtn.MPS_rand_state(3, bond_dim=2, phys_dim=4, seed=0)
    circuit = from_quimb(mps, sq.Hermite(4))
    assert sq.partition(circuit) == pytest.approx(1)
    assert {type(layer.family) for layer in circuit.inputs} == {sq.Hermite}


# ---------------------------------------------------------------- circuit → quimb


@pytest.mark.parametrize("product", ["kronecker", "hadamard"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_chain_becomes_a_matrix_product_state_with_the_same_amplitudes(d, product):
    circuit = sq.build(linear(d), sq.Categorical(3), units=2, product=product).initialise(seed=d)
    mps = to_quimb(circuit)
    assert isinstance(mps, qtn.MatrixProductState)
    assert_close(mps.to_dense().reshape([3] * d), amplitudes(circuit, [3] * d))
    assert mps.norm() == pytest.approx(1 if product == "kronecker" else sq.partition(circuit) ** 0.5)
    assert_close(amplitudes(from_quimb(mps), [3] * d), amplitudes(circuit, [3] * d))


@pytest.mark.parametrize("regions", [balanced_tree(5), quad_tree((2, 3))], ids=["binary", "quad"])
def test_other_trees_become_tree_networks_with_the_same_amplitudes(regions):
    d = regions.num_variables
    circuit = sq.build(regions, sq.Categorical(2), units=2).initialise(seed=0)
    network = to_quimb(circuit)
    assert not isinstance(network, qtn.MatrixProductState)
    assert_close(dense(network, d), amplitudes(circuit, [2] * d))
    assert_close(amplitudes(from_quimb(network), [2] * d), amplitudes(circuit, [2] * d))


def test_quimb_agrees_with_the_arrays_of_the_other_doors():
    rng = np.random.default_rng(0)
    sites = [array(rng, shape, True) for shape in [(1, 2, 3), (3, 3, 2), (2, 2, 1)]]
    assert_close(to_quimb(from_mps(sites, centre=1)).to_dense().reshape(2, 3, 2), mps_dense(sites))
    assert_close(mps_dense(to_mps(from_quimb(to_quimb(from_mps(sites)), centre=0))), mps_dense(sites))
    factors, tensors = array(rng, (4, 2, 3), True), array(rng, (3, 2, 2, 2), True)
    tensors = [tensors[0, :1], *tensors[1:]]
    assert_close(dense(to_quimb(from_ttn(factors, tensors)), 4), ttn_dense(factors, tensors, None))
    assert_close(ttn_dense(*to_ttn(from_ttn(factors, tensors))), ttn_dense(factors, tensors, None))


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("d", [3, 5])
def test_periodic_boundaries_are_refused(d):
    with pytest.raises(sq.StructureError, match="it closes a cycle"):
        from_quimb(qtn.MPS_rand_state(d, bond_dim=2, cyclic=True, seed=0))


def test_other_networks_that_are_no_trees_are_refused():
    with pytest.raises(sq.StructureError, match="it closes a cycle"):
        from_quimb(_square())
    a, b = qtn.Tensor(np.ones(2), ["k0"]), qtn.Tensor(np.ones(2), ["k1"])
    with pytest.raises(sq.StructureError, match="only 1 of 2 tensors are connected"):
        from_quimb(qtn.TensorNetwork([a, b]))
    copies = qtn.TensorNetwork([qtn.Tensor(np.ones((2, 2)), [f"k{j}", "h"]) for j in range(3)])
    with pytest.raises(sq.StructureError, match="index 'h': it joins 3 axes of 3 tensor"):
        from_quimb(copies)


def _square():
    corners = [("k0", "a", "b"), ("k1", "b", "c"), ("k2", "c", "d"), ("k3", "d", "a")]
    return qtn.TensorNetwork([qtn.Tensor(np.ones((2, 2, 2)), inds) for inds in corners])


def test_bad_arguments_get_one_clear_error():
    mps = qtn.MPS_rand_state(3, bond_dim=2, seed=0)
    with pytest.raises(sq.ParameterError, match="expected a quimb tensor network, got list"):
        from_quimb([np.ones((1, 2, 1))])
    with pytest.raises(sq.ParameterError, match="centre must be a variable from 0 to 2, got 3"):
        from_quimb(mps, centre=3)
    with pytest.raises(sq.ParameterError, match="is not an order of the outer indices"):
        from_quimb(mps, order=["k0", "k1"])
    with pytest.raises(sq.ParameterError, match="no outer index"):
        from_quimb(qtn.TensorNetwork([qtn.Tensor(np.ones(2), ["a"]), qtn.Tensor(np.ones(2), ["a"])]))
    with pytest.raises(sq.ParameterError, match="physical index of dimension 2"):
        from_quimb(mps, sq.Categorical(3))
    broken = mps.copy()
    broken[1].modify(data=np.nan * broken[1].data)
    with pytest.raises(sq.ParameterError, match=r"quimb tensor .* holds NaN or infinity"):
        from_quimb(broken)


def test_a_circuit_with_several_root_units_is_refused():
    with pytest.raises(sq.StructureError, match="it has 2 units"):
        to_quimb(sq.build(linear(3), sq.Categorical(2), units=2, roots=2).initialise())


def test_without_quimb_the_error_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"install .squircuit\[networks\]"):
        to_quimb(from_mps([np.ones(2)]))


@pytest.mark.process
def test_importing_the_library_does_not_import_quimb():
    code = "import sys, squircuit.networks; sys.exit('quimb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
