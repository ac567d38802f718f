"""The circuits of the paper's figures have the properties that the paper says; the demo says what is true."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch

import anomalies
import baselines
import demo
import demo_page
import imputation
import members
import oracle
import paper_figures
import paper_tour
import squircuit as sq
from paper_figures import FIGURES


@pytest.mark.parametrize("title", FIGURES)
def test_every_figure_is_smooth_decomposable_and_has_z_and_marginals_as_enumerated(title):
    circuit = FIGURES[title]()
    assert sq.is_smooth(circuit)
    assert sq.is_decomposable(circuit)
    assert sq.partition(circuit) == pytest.approx(oracle.partition(circuit), rel=1e-10)
    rows = oracle.some_rows(circuit)
    for over in oracle.subsets(circuit.scope):
        expected = oracle.marginal(circuit, rows, over)
        assert sq.marginal(circuit, rows, over).numpy() == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_fig_1_the_matrix_product_state_is_structured_and_the_contraction_of_its_factors():
    circuit = paper_figures.matrix_product_state("generic")
    assert sq.is_structured_decomposable(circuit)
    psi_1, psi_2, psi_3 = ({} for _ in range(3))
    for layer in circuit.inputs:
        functions = (psi_1, psi_2, psi_3)[layer.variable]
        functions[len(functions)] = circuit.matrix(layer)[0].tolist()
    # order of appearance from the left: ψ₁¹ ψ₂¹¹ ψ₁² ψ₂²¹ ψ₃¹ ψ₂¹² ψ₂²² ψ₃²
    second = {(0, 0): psi_2[0], (1, 0): psi_2[1], (0, 1): psi_2[2], (1, 1): psi_2[3]}
    for row in ([0, 0, 0], [1, 2, 3], [3, 1, 2]):
        expected = sum(
            psi_1[i][row[0]] * second[i, j][row[1]] * psi_3[j][row[2]] for i in range(2) for j in range(2)
        )
        assert sq.evaluate(circuit, [row]).item() == pytest.approx(expected)


def test_fig_2_disjoint_supports_make_it_deterministic_and_orthogonal_functions_only_orthogonal():
    disjoint = paper_figures.matrix_product_state("disjoint")
    orthogonal = paper_figures.matrix_product_state("orthogonal")
    for circuit in (disjoint, orthogonal):
        assert sq.is_basis_decomposable(circuit)
        assert sq.is_basis_decomposable(circuit, over=[1])
        assert sq.is_regular_orthogonal(circuit, over=[1])
        assert sq.is_orthogonal(circuit, over=[1])
        assert sq.is_orthogonal(circuit)
        assert sq.scalar.partition(circuit) == pytest.approx(oracle.partition(circuit))
    assert sq.is_deterministic(disjoint)
    assert not sq.is_deterministic(orthogonal)


def test_fig_3_the_gadgets_differ_in_basis_decomposability_and_agree_in_u2():
    scalar, dense = paper_figures.basis_decomposable_gadget(), paper_figures.dense_gadget()
    assert sq.is_basis_decomposable(scalar)
    assert sq.satisfies_u2(scalar)
    assert not sq.is_basis_decomposable(dense)
    assert sq.satisfies_u2(dense)
    assert sq.is_orthogonal(dense)


def test_fig_4_the_custom_factorisation_is_unitary_with_u4_but_not_structured_decomposable():
    circuit = paper_figures.custom_factorisation()
    verdict = sq.is_structured_decomposable(circuit)
    assert not verdict
    assert "{0,1} {2}" in verdict.reason
    assert "{0,2} {1}" in verdict.reason
    assert sq.is_unitary(circuit)
    assert sq.satisfies_u4(circuit)
    assert oracle.partition(circuit) == pytest.approx(1)


def test_fig_b1_the_tree_tensor_network_is_structured_unitary_and_not_basis_decomposable():
    circuit = paper_figures.tree_tensor_network()
    assert sq.is_structured_decomposable(circuit)
    assert sq.is_unitary(circuit)
    assert not sq.is_basis_decomposable(circuit)
    assert oracle.partition(circuit) == pytest.approx(1)


def test_the_tour_prints_equal_exact_and_enumerated_numbers_for_every_figure(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paper_tour.main()
    out = capsys.readouterr().out
    pairs = [line.split() for line in out.splitlines() if "enumerated" in line]
    assert len(pairs) == 2 * len(FIGURES)
    for words in pairs:
        exact, enumerated = float(words[words.index("exact") + 1]), float(words[-1])
        assert exact == pytest.approx(enumerated, rel=1e-9)
    assert len(list((tmp_path / "tour").glob("*.svg"))) == len(FIGURES)


def test_densities_tell_malignant_from_benign_rows_also_where_half_of_the_cells_are_missing(capsys):
    complete, half = anomalies.main()["squared circuit"]
    assert complete > 0.9
    assert half > 0.85
    assert f"{complete:.3f}" in capsys.readouterr().out


def test_conditional_means_are_better_than_means_of_columns(capsys):
    errors = imputation.main()
    assert errors["squared circuit"] < 0.9 * errors["mean of the column"]
    assert f"{errors['squared circuit']:.3f}" in capsys.readouterr().out


def test_four_members_are_better_than_one_and_gaussians_are_scored_in_the_units_of_the_columns(monkeypatch):
    monkeypatch.delitem(members.KINDS, "and members=8")
    means = members.main(["--data", "iris", "--splits", "1"])["iris"]
    assert means["and members=4"] > means["components=8"] > means["default"]
    rows = np.random.default_rng(0).normal(size=(4000, 2)) * [3.0, 0.1]
    entropy = np.log(2 * np.pi * np.e) + np.log(0.3)  # of that Gaussian
    assert members.best_gaussians(rows[:2000], rows[2000:]) == pytest.approx(-entropy, abs=0.05)


# ---- the demo


@pytest.fixture(scope="module")
def digits():
    return sq.data.load("digits")


@pytest.mark.parametrize(
    "model",
    [
        baselines.IndependentPixels.fit(np.array([[0, 1, 2], [0, 2, 2], [1, 1, 0]]), levels=3),
        baselines.MixtureOfPixels.fit(
            np.array([[0, 1, 2], [0, 2, 2], [1, 1, 0]]), 3, components=2, smoothing=0.3
        ),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_probabilities_of_a_discrete_baseline_sum_to_one(model):
    everything = np.array(list(itertools.product(range(3), repeat=3)))
    assert np.exp(model.log_prob(everything)).sum() == pytest.approx(1)


def test_the_bound_of_the_gaussians_is_below_their_probabilities_and_close_to_them():
    x = np.random.default_rng(0).integers(4, size=(500, 1))
    model = baselines.DequantisedGaussians.fit(x, components=1, ridge=1e-6, draws=512)
    mean, variance = model.mixture.means_[0, 0], model.mixture.covariances_[0, 0, 0]
    cumulative = torch.distributions.Normal(mean, variance**0.5).cdf(torch.arange(5.0)).numpy()
    exact = np.log(np.diff(cumulative))[x[:, 0]]
    assert model.log_prob(x).mean() == pytest.approx(exact.mean(), abs=0.01)
    loose = baselines.DequantisedGaussians(model.mixture, draws=1, seed=1)
    assert loose.log_prob(x).mean() < exact.mean()


def test_the_demo_writes_one_page_with_the_scores_it_prints_and_nothing_from_elsewhere(
    capsys, tmp_path, monkeypatch, digits
):
    smaller = {"MIXTURES": [(2, 1.0)], "GAUSSIANS": [(1, 0.1)], "DRAWS": 2, "UNITS": 2}
    for name, value in smaller.items():
        monkeypatch.setattr(demo, name, value)
    page = demo.main(tmp_path / "site", epochs=1, progress=False).read_text(encoding="utf-8")
    printed = capsys.readouterr().out
    addresses = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(addresses) == 4
    assert all(address.startswith("data:image/png;base64,") for address in addresses)
    assert "http" not in re.sub(r'"data:[^"]*"', "", page)
    independent = baselines.IndependentPixels.fit(digits.train.astype(int), 17).log_prob(
        digits.test.astype(int)
    )
    assert f"{independent.mean():.2f} ±" in printed
    assert f"{independent.mean():.2f} ±".replace("-", "−") in page
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["index.html"]


def test_the_code_on_the_page_runs_as_it_stands(digits):
    code = demo_page.CODE.format(units=2, roots=2, lr=0.2, average=0.9, epochs=1)
    lines = [line for line in code.splitlines() if "sq.fit" not in line]
    names = {}
    exec("\n".join(lines), names)
    assert names["model"].log_prob(digits.test[:3]).shape == (3,)
