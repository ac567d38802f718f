from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import assume
from hypothesis import strategies as st

import squircuit as sq
from networks.strategies import amplitudes, array, assert_close, law, mps_arrays, mps_dense
from squircuit.networks import canonical, from_mps, left_canonical, right_canonical, to_mps
from squircuit.regions import balanced_tree, linear


def dims_of(sites):
    return [np.shape(site)[1] for site in sites]


def assert_identity(matrix):
    assert_close(matrix, np.eye(len(matrix)))


# ---------------------------------------------------------------- circuits of chains


@law(mps_arrays())
def test_from_mps_evaluates_to_the_contraction_at_every_assignment_for_every_centre(sites):
    dense = mps_dense(sites)
    for centre in [None, *range(len(sites))]:
        assert_close(amplitudes(from_mps(sites, centre=centre), dims_of(sites)), dense)


@law(mps_arrays(min_d=1, max_d=4))
def test_boundary_bonds_may_be_left_out_and_tensors_serve_as_well_as_arrays(sites):
    short = [torch.tensor(site) for site in sites]
    short[0] = short[0].squeeze(0)
    short[-1] = short[-1].squeeze(-1)
    assert_close(amplitudes(from_mps(short), dims_of(sites)), mps_dense(sites))


@law(mps_arrays(), st.data())
def test_to_mps_inverts_from_mps(sites, data):
    centre = data.draw(st.integers(0, len(sites) - 1))
    back = to_mps(from_mps(sites, centre=centre))
    assert [tuple(site.shape) for site in back] == [site.shape for site in sites]
    assert_close(mps_dense(back), mps_dense(sites))


@pytest.mark.parametrize("product", ["kronecker", "hadamard"])
@pytest.mark.parametrize("options", [{}, {"input_sums": True}, {"unitary": False}, {"tie": "inputs"}])
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_every_circuit_over_a_linear_region_graph_is_a_matrix_product_state(d, product, options):
    circuit = sq.build(linear(d), sq.Categorical(3), units=2, product=product, **options).initialise(seed=d)
    sites = to_mps(circuit)
    assert dims_of(sites) == [3] * d
    assert_close(mps_dense(sites), amplitudes(circuit, [3] * d))
    assert_close(amplitudes(from_mps(sites), [3] * d), amplitudes(circuit, [3] * d))


def test_to_mps_takes_input_functions_without_weights_and_products_without_sums():
    x, y, z = (sq.Input(j, sq.Categorical(2)) for j in range(3))
    weight = torch.randn(2, 4, dtype=torch.complex128)
    inner = sq.Sum(sq.Kronecker([x, y]), weight=weight)
    for circuit in (
        sq.Circuit(sq.Sum(sq.Hadamard([inner, z]), weight=weight[:1, :2])),
        sq.Circuit(sq.Sum(sq.Kronecker([z, sq.Kronecker([y, x])]), weight=torch.randn(1, 8))),
        sq.Circuit(sq.Sum(sq.Kronecker([z, x, y]), weight=torch.randn(1, 8))),
        sq.Circuit(sq.Sum(sq.Hadamard([z, x, y]), weight=torch.randn(1, 2))),
    ):
        assert_close(mps_dense(to_mps(circuit)), amplitudes(circuit, [2, 2, 2]))


def test_a_circuit_of_a_real_chain_has_real_weights():
    assert not from_mps([np.ones((1, 2, 2)), np.ones((2, 2, 1))]).is_complex
    assert to_mps(from_mps([np.ones((1, 2, 2)), np.ones((2, 2, 1))]))[0].dtype == torch.float64


# ---------------------------------------------------------------- canonical forms


@law(mps_arrays(), st.data())
def test_the_canonical_form_is_the_same_state_up_to_its_norm(sites, data):
    centre = data.draw(st.integers(0, len(sites) - 1))
    dense = mps_dense(sites)
    new, norm = canonical(sites, centre)
    assert norm == pytest.approx(np.linalg.norm(dense), rel=1e-10)
    assert_close(norm * mps_dense(new), dense)
    assert all(site.is_complex() == np.iscomplexobj(old) for site, old in zip(new, sites, strict=True))


@law(mps_arrays(), st.data())
def test_sites_are_left_isometries_before_the_centre_and_right_isometries_after_it(sites, data):
    centre = data.draw(st.integers(0, len(sites) - 1))
    new = [site.numpy() for site in canonical(sites, centre)[0]]
    for site in new[:centre]:
        assert_identity(np.einsum("lkr,lks->rs", site, site.conj()))
    for site in new[centre + 1 :]:
        assert_identity(np.einsum("lkr,mkr->lm", site, site.conj()))
    assert np.linalg.norm(new[centre]) == pytest.approx(1)


@law(mps_arrays())
def test_left_and_right_canonical_are_the_extreme_centres(sites):
    for (new, norm), centre in ((left_canonical(sites), len(sites) - 1), (right_canonical(sites), 0)):
        expected, expected_norm = canonical(sites, centre)
        assert norm == expected_norm
        assert all(torch.equal(a, b) for a, b in zip(new, expected, strict=True))


@law(mps_arrays())
def test_circuits_of_canonical_chains_are_unitary_with_z_1_for_every_centre(sites):
    for centre in range(len(sites)):
        circuit = from_mps(canonical(sites, centre)[0], centre=centre)
        assert sq.is_unitary(circuit)
        assert sq.partition(circuit) == pytest.approx(1, abs=1e-10)


@law(mps_arrays(), st.data())
def test_unitarise_scales_by_one_over_the_norm(sites, data):
    centre = data.draw(st.integers(0, len(sites) - 1))
    norm = np.linalg.norm(mps_dense(sites))
    assume(norm > 1e-6)
    assert sq.unitarise(from_mps(sites, centre=centre)).beta == pytest.approx(1 / norm, rel=1e-8)


@law(mps_arrays(min_d=2, max_d=4))
def test_a_chain_with_dependent_rows_still_has_a_canonical_form(sites):
    sites = [
        np.concatenate([site, site], axis=2) if j < len(sites) - 1 else site for j, site in enumerate(sites)
    ]
    sites = [np.concatenate([site, 0 * site], axis=0) if j else site for j, site in enumerate(sites)]
    new, norm = left_canonical(sites)
    assert_close(norm * mps_dense(new), mps_dense(sites))
    assert sq.is_unitary(from_mps(new))


# ---------------------------------------------------------------- physical bases


@pytest.mark.parametrize(
    "families",
    [
        sq.Hermite(3),
        sq.Fourier(3, period=4.0),
        [sq.Hermite(3), sq.Fourier(3, period=4.0), sq.Categorical(3), sq.Legendre(3)],
    ],
    ids=["hermite", "fourier", "mixed"],
)
def test_with_other_bases_the_circuit_is_the_expansion_in_their_products(families):
    rng = np.random.default_rng(0)
    sites = [array(rng, shape, True) for shape in [(1, 3, 2), (2, 3, 3), (3, 3, 2), (2, 3, 1)]]
    each = families if isinstance(families, list) else [families] * 4
    x = torch.tensor(
        [[0.3, -0.2, 1.0, 0.4], [0.1, 0.7, 0.0, -0.5], [0.9, 0.1, 2.0, 0.0]], dtype=torch.float64
    )
    phi = [family.evaluate(x[:, j]).numpy() for j, family in enumerate(each)]
    expected = np.zeros(3, dtype=complex)
    dense = mps_dense(sites)
    for k in itertools.product(range(3), repeat=4):
        expected += dense[k] * np.prod([phi[j][:, k[j]] for j in range(4)], axis=0)
    assert_close(sq.evaluate(from_mps(sites, families), x)[:, 0], expected)
    normalised = from_mps(canonical(sites, 1)[0], families, centre=1)
    assert sq.is_unitary(normalised)
    assert sq.partition(normalised) == pytest.approx(1, abs=1e-10)


# ---------------------------------------------------------------- long chains


def test_a_chain_of_784_sites_needs_no_recursion():
    d = 784
    rng = np.random.default_rng(0)
    sites = [rng.normal(size=(1 if j == 0 else 2, 2, 1 if j == d - 1 else 2)) / 2 for j in range(d)]
    states = rng.integers(0, 2, size=d)
    row = np.ones((1, 1))
    for site, state in zip(sites, states, strict=True):
        row = row @ site[:, state, :]
    for centre in (0, 400, 783):
        value = sq.evaluate(from_mps(sites, centre=centre), states[None])
        assert value.real.item() == pytest.approx(row.item(), rel=1e-8)
    back = to_mps(from_mps(sites, centre=400))
    assert all(np.allclose(a, b) for a, b in zip(back, sites, strict=True))


def test_the_canonical_form_of_a_long_chain_is_finite_though_its_norm_is_not():
    rng = np.random.default_rng(0)
    for scale, norm in ((30.0, np.inf), (1e-3, 0.0)):
        sites = [scale * rng.normal(size=(1 if j == 0 else 2, 2, 1 if j == 783 else 2)) for j in range(784)]
        new, found = canonical(sites, 300)
        assert found == norm
        assert sq.is_unitary(from_mps(new, centre=300))


# ---------------------------------------------------------------- errors


ONE = np.ones((1, 2, 1))


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        ([], "there are no sites"),
        (
            [np.ones((1, 2, 3)), np.ones((2, 2, 1))],
            r"site 0 of shape \(1, 2, 3\) has right bond 3.*bond 2",
        ),
        ([np.ones((2, 2, 2)), np.ones((2, 2, 2))], r"site 0 has shape \(2, 2, 2\).*outer bond must be 1"),
        ([ONE, np.ones((1, 2, 2))], r"site 1 has shape \(1, 2, 2\).*outer bond must be 1"),
        ([ONE, np.ones((1, 2)), ONE], r"site 1 has shape \(1, 2\). Fix: pass \(R_left, v, R_right\)\.$"),
        ([np.ones(2), ONE], r"site 0 has shape \(2,\). Fix: pass \(R_left, v, R_right\), or \(v, R_right\)"),
        ([np.ones((2, 1))], r"site 0 has shape \(2, 1\). Fix: pass \(R_left, v, R_right\), or \(v,\)"),
        ([ONE, np.full((1, 2, 1), np.nan)], "site 1 .* holds NaN or infinity"),
        ([ONE * np.inf, ONE], "site 0 .* holds NaN or infinity"),
        ([np.ones((1, 0, 1))], r"site 0 .* every side of shape \(1, 0, 1\) must be ≥ 1"),
        (3, "expected a list of arrays, got int"),
        ([["a", "b"]], "site 0 .* expected an array of numbers"),
    ],
)
def test_bad_sites_get_one_clear_error(sites, message):
    for function in (from_mps, left_canonical, right_canonical):
        with pytest.raises(sq.ParameterError, match=message):
            function(sites)


@pytest.mark.parametrize("centre", [-1, 2, 0.0, True, "last"])
def test_a_centre_that_is_no_site_is_refused(centre):
    with pytest.raises(sq.ParameterError, match="centre must be a site from 0 to 1"):
        from_mps([ONE, ONE], centre=centre)


@pytest.mark.parametrize(
    ("families", "message"),
    [
        (sq.Categorical(3), "variable 0 has a physical index of dimension 2, but .* has 3 functions"),
        ([sq.Categorical(2), sq.Hermite(4)], "variable 1 has a physical index of dimension 2"),
        ([sq.Categorical(2)], "1 families for 2 variables"),
        ([sq.Categorical(2), 2], "2 for variable 1 is not a family"),
    ],
)
def test_families_that_do_not_fit_are_refused(families, message):
    with pytest.raises(sq.ParameterError, match=message):
        from_mps([ONE, ONE], families)


def test_a_state_that_is_zero_has_no_canonical_form():
    with pytest.raises(sq.ParameterError, match="zero everywhere"):
        left_canonical([ONE, 0 * ONE])


def test_circuits_that_are_no_chains_are_refused_by_place():
    tree = sq.build(balanced_tree(4), sq.Categorical(2), units=2).initialise()
    with pytest.raises(sq.StructureError, match=r"the site over \{0,1,2,3\}: .* \{0,1\} and \{2,3\}"):
        to_mps(tree)
    a, b, c = (sq.Input(j, sq.Categorical(2), units=2) for j in (0, 2, 1))
    shuffled = sq.Circuit(sq.Sum(sq.Kronecker([sq.Sum(sq.Kronecker([a, b]), units=2), c]))).initialise()
    with pytest.raises(sq.StructureError, match=r"\{0,2\} and \{1\}"):
        to_mps(shuffled)
    deeper = sq.Sum(sq.Kronecker([sq.Sum(sq.Kronecker([a, b]), units=2), c]), units=2)
    end = sq.Input(3, sq.Categorical(2))
    with pytest.raises(sq.StructureError, match=r"the site over \{0,1,2\}"):
        to_mps(sq.Circuit(sq.Sum(sq.Kronecker([deeper, end]))).initialise())
    with pytest.raises(sq.StructureError, match="it has 2 units"):
        to_mps(sq.build(linear(3), sq.Categorical(2), units=2, roots=2).initialise())
    with pytest.raises(sq.StructureError, match="variable 0 is missing"):
        to_mps(sq.Circuit(sq.Sum(sq.Input(1, sq.Categorical(2)))).initialise())


def test_a_circuit_without_weights_is_refused():
    with pytest.raises(sq.ParameterError, match="no values yet"):
        to_mps(sq.build(linear(3), sq.Categorical(2), units=2))
