from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

import squircuit as sq
from networks.strategies import amplitudes, array, assert_close, assignments, law
from squircuit.networks import Site, canonicalise, contract, from_tree, to_tree
from squircuit.networks.site import sites
from squircuit.regions import balanced_tree, linear, patch_splits, quad_tree


@st.composite
def trees(draw, max_d=6):
    """A random tree of sites of any arity, with bare physical indices, and its variables' dimensions."""
    d = draw(st.integers(1, max_d))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    is_complex = draw(st.booleans())
    dims = [int(v) for v in rng.integers(1, 4, size=d)]
    parts = [int(v) for v in rng.permutation(d)]
    while True:
        count = min(len(parts), int(rng.integers(1, 4)))
        last = count == len(parts)
        shape = [dims[p] if isinstance(p, int) else p.up for p in parts[:count]]
        up = 1 if last else int(rng.integers(1, 4))
        site = Site(array(rng, (up, *shape), is_complex), tuple(parts[:count]))
        parts = [*parts[count:], site]
        if last:
            return site, dims


def dense_of(root, dims):
    """One einsum over all sites: the bond above site n has label n, variable j has label 30 + j."""
    order = sites(root)
    label = {site: n for n, site in enumerate(order)}
    operands = []
    for site in order:
        below = [label[c] if isinstance(c, Site) else 30 + c for c in site.children]
        operands += [site.tensor.numpy(), [label[site], *below]]
    return np.einsum(*operands, [label[root], *(30 + j for j in range(len(dims)))])


@law(trees())
def test_from_tree_evaluates_to_the_contraction_and_contract_is_that_tensor(tree):
    root, dims = tree
    expected = dense_of(root, dims)[0]
    assert_close(contract(root), expected)
    assert_close(amplitudes(from_tree(root), dims), expected)


@law(trees())
def test_to_tree_inverts_from_tree(tree):
    root, dims = tree
    assert_close(contract(to_tree(from_tree(root))), dense_of(root, dims)[0])


@law(trees())
def test_canonical_trees_are_isometries_of_the_same_state_and_unitary_circuits(tree):
    root, dims = tree
    expected = dense_of(root, dims)[0]
    new, norm = canonicalise(root)
    assert norm == pytest.approx(np.linalg.norm(expected), rel=1e-10)
    assert_close(norm * dense_of(new, dims)[0], expected)
    for site in sites(new):
        assert_close(site.matrix @ site.matrix.mH, np.eye(site.up))
        assert site.tensor.is_complex() == root.tensor.is_complex()
    circuit = from_tree(new)
    assert sq.is_unitary(circuit)
    assert sq.partition(circuit) == pytest.approx(1, abs=1e-10)


@law(trees())
def test_canonicalising_twice_changes_nothing(tree):
    new, _ = canonicalise(tree[0])
    again, norm = canonicalise(new)
    assert norm == pytest.approx(1)
    for a, b in zip(sites(new), sites(again), strict=True):
        assert_close(a.tensor.abs(), b.tensor.abs())


@pytest.mark.parametrize("product", ["kronecker", "hadamard"])
@pytest.mark.parametrize("options", [{}, {"input_sums": True}, {"tie": 1}, {"mixing": False}])
@pytest.mark.parametrize(
    "regions", [balanced_tree(4), quad_tree((2, 3)), linear(3)], ids=["binary", "quad", "linear"]
)
def test_built_circuits_with_one_input_a_sum_are_tree_tensor_networks(regions, product, options):
    circuit = sq.build(regions, sq.Categorical(2), 2, product, **options).initialise(seed=1)
    dims = [2] * regions.num_variables
    root = to_tree(circuit)
    assert_close(contract(root), amplitudes(circuit, dims))
    assert_close(amplitudes(from_tree(root), dims), amplitudes(circuit, dims))


def test_products_at_the_root_and_under_products_get_an_identity():
    x, y, z = (sq.Input(j, sq.Categorical(2), units=2, weight=torch.randn(2, 2).double()) for j in range(3))
    w = sq.Input(2, sq.Categorical(4))
    for root in (
        sq.Kronecker([x, sq.Kronecker([y, z])]),
        sq.Hadamard([x, sq.Hadamard([z, y])]),
        sq.Hadamard([sq.Kronecker([x, y]), w]),
        x,
        sq.Input(0, sq.Categorical(2)),
        sq.Sum(sq.Sum(x, weight=torch.randn(3, 2).double()), weight=torch.ones(1, 3)),
    ):
        circuit = sq.Circuit(root)
        dims = [circuit.domains[j].size for j in range(circuit.num_variables)]
        tree = to_tree(circuit)
        assert tree.up == circuit.num_roots
        expected = sq.evaluate(circuit, torch.as_tensor(assignments(dims))).T.reshape(-1, *dims)
        assert_close(dense_of(tree, dims), expected)


def test_several_root_units_keep_their_axis_and_share_the_norm():
    root = Site(np.random.default_rng(0).normal(size=(3, 2, 2)), (0, 1))
    assert_close(contract(root), root.tensor)
    new, norm = canonicalise(root)
    assert_close(norm * contract(new), root.tensor)
    assert from_tree(root).num_roots == 3


def test_more_root_units_than_dimensions_below_are_no_obstacle():
    root = Site(np.random.default_rng(0).normal(size=(5, 2)), (0,))
    new, norm = canonicalise(root)
    assert_close(norm * new.tensor, root.tensor)


def test_single_precision_and_integers_are_taken_and_canonicalised_in_double():
    assert Site(np.array([[3, 4]]), (0,)).tensor.dtype == torch.float64
    new, norm = canonicalise(Site(torch.tensor([[3.0, 4.0]]), (0,)))
    assert new.tensor.dtype == torch.float64
    assert norm == pytest.approx(5)


def test_real_and_complex_sites_may_be_mixed():
    leaf = Site(torch.tensor([[1.0, 2.0]]), (0,))
    root = Site(torch.tensor([[[1j, 0.0]]]), (leaf, 1))
    assert_close(contract(root), [[1j, 0], [2j, 0]])
    assert_close(amplitudes(from_tree(root), [2, 2]), [[1j, 0], [2j, 0]])
    assert_close(canonicalise(root)[1], np.sqrt(5))


def test_later_changes_of_an_array_do_not_change_its_site():
    values = np.ones((1, 2))
    site = Site(values, (0,))
    values[:] = 5
    assert_close(site.tensor, np.ones((1, 2)))


def test_a_deep_tree_prints_in_one_line():
    site = Site(np.ones((1, 2)), (0,))
    for variable in range(1, 2000):
        site = Site(np.ones((1, 1, 2)), (site, variable))
    assert repr(site) == "<site of shape (1, 1, 2) over {0,1,2,…,1999} (2000 variables)>"


# ---------------------------------------------------------------- errors

LEAF = Site(np.ones((2, 3)), (0,))


@pytest.mark.parametrize(
    ("tensor", "children", "message"),
    [
        (np.ones((1, 2)), (), "at least one child"),
        (np.ones((1, 2)), (0, 1), r"site with children \(0, 1\): expected 3 axes.*\(1, 2\)"),
        (
            np.ones((1, 3)),
            (LEAF,),
            r"children \(site\): axis 1 of shape \(1, 3\) .* up-dimension 2",
        ),
        (np.ones((1, 2)), (-1,), "a child is a site or the number of a variable"),
        (np.ones((1, 2)), (True,), "a child is a site or the number of a variable"),
        (np.ones((1, 2)), ("x",), "a child is a site or the number of a variable"),
        (np.full((1, 2), np.nan), (0,), "NaN"),
        (np.ones((1, 0)), (0,), "every side"),
        (object(), (0,), "expected an array of numbers"),
    ],
)
def test_bad_sites_are_refused(tensor, children, message):
    with pytest.raises(sq.ParameterError, match=message):
        Site(tensor, children)


def test_missing_and_repeated_variables_are_refused():
    with pytest.raises(sq.StructureError, match="variable 0 is missing"):
        from_tree(Site(np.ones((1, 2)), (1,)))
    with pytest.raises(sq.StructureError, match="variable 1 is missing"):
        from_tree(Site(np.ones((1, 2, 2)), (0, 2)))
    for function in (from_tree, contract, canonicalise):
        with pytest.raises(sq.StructureError, match="variable 0 among its children occurs elsewhere"):
            function(Site(np.ones((1, 2, 3)), (LEAF, 0)))
        with pytest.raises(sq.StructureError, match="a site among its children occurs elsewhere"):
            function(Site(np.ones((1, 2, 2)), (LEAF, LEAF)))


def test_a_network_that_is_zero_has_no_canonical_form():
    with pytest.raises(sq.ParameterError, match="zero everywhere"):
        canonicalise(Site(np.zeros((1, 2, 2)), (0, 1)))


def test_dense_tensors_that_do_not_fit_in_memory_are_refused():
    site = Site(np.ones((1, 2)), (0,))
    for variable in range(1, 40):
        site = Site(np.ones((1, 1, 2)), (site, variable))
    with pytest.raises(sq.ParameterError, match=r"40 variables, .* is too large"):
        contract(site)
    wide = sq.Hadamard([sq.Input(j, sq.Categorical(2), units=2) for j in range(40)])
    with pytest.raises(sq.StructureError, match="as a dense tensor this product has"):
        to_tree(sq.Circuit(sq.Sum(wide)).initialise())


def test_circuits_that_are_no_trees_are_refused_by_place():
    x, y = sq.Input(0, sq.Categorical(2), units=2), sq.Input(0, sq.Categorical(2), units=2)
    with pytest.raises(sq.StructureError, match=r"sum2 over \{0\}: the sum has 2 inputs"):
        to_tree(sq.Circuit(sq.Sum([x, y])).initialise())
    with pytest.raises(sq.StructureError, match="2 root layers"):
        to_tree(sq.Circuit([x, y]).initialise())
    with pytest.raises(sq.StructureError, match="decomposable"):
        to_tree(sq.Circuit(sq.Kronecker([x, y]), validate=False).initialise())
    splits = sq.build(patch_splits((4, 4), min_side=2), sq.Categorical(16), units=1).initialise()
    with pytest.raises(sq.StructureError, match="the sum has 2 inputs"):
        to_tree(splits)
