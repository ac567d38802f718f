"""The fast module against the oracle, in value and in gradient, for every kind of circuit."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracle
import squircuit as sq
from oracle import small
from squircuit.circuits.semi_unitary import deviation
from squircuit.execution import weighted_product
from strategies import Shape, circuits, max_error

KINDS = {
    "unitary": Shape(),
    "not structured": Shape(structured=False, alternatives=(1, 2)),
    "free": Shape(unitary=False, share_inputs=True, alternatives=(1, 2, 3)),
    "continuous": Shape(continuous=True),
}


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@settings(max_examples=30)
def test_log_prob_is_the_log_of_the_normalised_density(name, data):
    circuit = data.draw(circuits(KINDS[name], max_variables=3))
    assume(small(circuit, 20000))
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    rows = oracle.some_rows(circuit, 5)
    expected = np.log(oracle.density(circuit, rows)) - np.log(oracle.partition(circuit))
    assert max_error(model.log_prob(rows), expected) < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@settings(max_examples=15)
def test_gradients_agree_with_finite_differences(name, data):
    circuit = data.draw(circuits(KINDS[name], max_variables=3))
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    rows = oracle.some_rows(circuit, 3)
    assume(bool((oracle.density(circuit, rows) > 1e-6).all()))
    parameters = [p for p in model.parameters() if p.numel()]

    def log_prob(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (torch.tensor(rows),))

    names = [n for n, p in model.named_parameters() if p.numel()]
    with model.training_step(on_manifold=True):  # Z = 1 is taken for granted wherever weights are
        assert torch.autograd.gradcheck(log_prob, parameters, atol=1e-5)


@pytest.mark.parametrize("shape", [{"tie": 1, "roots": 3}, {"product": "hadamard"}, {"unitary": False}, {}])
def test_gradients_of_folded_and_tied_circuits_agree_with_finite_differences(shape):
    circuit = sq.build(sq.regions.quad_tree((2, 3)), sq.Categorical(3), 2, **shape).initialise(seed=0)
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    names = list(dict(model.named_parameters()))
    x = torch.tensor([[0, 1, 2, 0, 1, 2], [2, 2, 1, 1, 0, 0]])

    def log_prob(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (x,))

    with model.training_step(on_manifold=True):  # Z = 1 is taken for granted wherever weights are
        assert torch.autograd.gradcheck(log_prob, list(model.parameters()), atol=1e-6)


@pytest.mark.slow
def test_learnable_shifts_and_scales_get_gradients():
    families = [sq.Fourier(3, 4.0, learnable=True), sq.Hermite(4, learnable=True), sq.Gaussian(3)]
    circuit = sq.build(sq.regions.linear(3), families, 3, unitary=False, root_weights="learnable", roots=2)
    model = sq.SquaredCircuit(circuit.initialise(seed=0), dtype=torch.complex128)
    names = list(dict(model.named_parameters()))
    assert {"fourier_shift", "hermite_loc", "hermite_log_scale", "gaussian_loc", "root_logits"} <= set(names)
    x = torch.tensor([[0.1, 0.2, 0.3], [-1.0, 0.5, 0.0]], dtype=torch.float64)

    def log_prob(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (x,))

    with model.training_step(on_manifold=True):  # Z = 1 is taken for granted wherever weights are
        assert torch.autograd.gradcheck(log_prob, list(model.parameters()), atol=1e-5)


def image_model(dtype=torch.complex64, **options):
    return sq.SquaredCircuit(
        sq.build(sq.regions.quad_tree((28, 28)), sq.Categorical(256), 4, **options), dtype=dtype
    )


def test_single_precision_agrees_with_double_on_784_variables():
    single, double = image_model(), image_model(torch.complex128)
    x = torch.randint(256, (4, 784), generator=torch.Generator().manual_seed(0))
    relative = (single.log_prob(x).double() - double.log_prob(x)).abs() / double.log_prob(x).abs()
    assert relative.max() < 1e-4
    assert double.log_prob(x).max() < -3000  # far below the smallest positive float


def test_the_partition_function_is_exact_and_one_for_a_unitary_model():
    model = image_model()
    assert abs(model.log_partition().item()) < 1e-4
    assert model.log_partition().dtype == torch.float64
    circuit = model.circuit()
    assert math.exp(model.log_partition().item()) == pytest.approx(sq.partition(circuit), rel=1e-9)


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_the_baseline_is_normalised_whatever_the_size_of_its_weights(factor):
    circuit = sq.build(sq.regions.quad_tree((28, 28)), sq.Categorical(256), 2, "hadamard", unitary=False)
    circuit = circuit.initialise(seed=0)
    base = sq.SquaredCircuit(circuit)
    scaled = sq.SquaredCircuit(circuit.with_weights({n: v * factor for n, v in circuit.weights.items()}))
    x = torch.randint(256, (3, 784), generator=torch.Generator().manual_seed(0))
    assert torch.allclose(scaled.log_prob(x), base.log_prob(x), rtol=1e-4)


def test_zero_probability_is_minus_infinity_without_nan_in_value_or_gradient():
    weight = torch.tensor([[1.0, 0.0]], dtype=torch.complex128)
    inputs = [sq.Input(v, sq.Categorical(2)) for v in range(2)]
    left = sq.Sum(inputs[0], weight=weight)
    circuit = sq.Circuit(
        sq.Sum(sq.Hadamard([left, sq.Sum(inputs[1], weight=weight)]), weight=torch.ones(1, 1))
    )
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
    value = model.log_prob([[0, 0], [1, 0], [1, 1]])
    assert value.tolist() == [0.0, -math.inf, -math.inf]
    value[:1].sum().backward(retain_graph=True)
    finite = torch.where(torch.isinf(value), 0.0, value).sum()
    finite.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_results_do_not_depend_on_the_batch():
    model = image_model(torch.complex128)
    x = torch.randint(256, (7, 784), generator=torch.Generator().manual_seed(0))
    together = model.log_prob(x)
    assert torch.allclose(together, torch.cat([model.log_prob(row[None]) for row in x]), rtol=1e-12)
    assert torch.allclose(together.flip(0), model.log_prob(x.flip(0)), rtol=1e-12)
    assert model.log_prob(x[:0]).shape == (0,)


def test_states_and_copies_are_the_same_model():
    model = image_model()
    x = torch.randint(256, (2, 784), generator=torch.Generator().manual_seed(0))
    other = sq.SquaredCircuit(sq.build(sq.regions.quad_tree((28, 28)), sq.Categorical(256), 4), seed=5)
    assert not torch.allclose(other.log_prob(x), model.log_prob(x))
    other.load_state_dict(model.state_dict())
    for same in (other, copy.deepcopy(model)):
        assert torch.equal(same.log_prob(x), model.log_prob(x))
    assert list(model.state_dict()) == ["input0", "sum1", "sum2", "sum3", "sum4", "sum5", "sum6"]


def test_models_move_between_precisions():
    model = image_model().double()
    x = torch.randint(256, (2, 784), generator=torch.Generator().manual_seed(0))
    assert model.log_prob(x).dtype == torch.float64
    assert model.float().log_prob(x).dtype == torch.float32


def test_the_same_seed_gives_the_same_model():
    assert torch.equal(image_model().sum1, image_model().sum1)


@pytest.mark.parametrize("chunk", [1, 500, 1 << 20])
def test_one_gradient_for_a_tied_matrix_is_the_sum_over_its_layers(chunk, monkeypatch):
    monkeypatch.setattr(weighted_product, "CHUNK", chunk)  # folds all at once, some or one at a time
    regions = sq.regions.quad_tree((4, 4))
    tied = sq.build(regions, sq.Categorical(3), 2, tie=1).initialise(seed=0)
    free = sq.build(regions, sq.Categorical(3), 2)
    pairs = {
        free.parameter_name(a.weight): tied.value(b.weight)
        for a, b in zip(free.layers, tied.layers, strict=True)
        if hasattr(a, "weight")
    }
    x = torch.randint(3, (5, 16), generator=torch.Generator().manual_seed(0))
    one, many = (sq.SquaredCircuit(c, dtype=torch.complex128) for c in (tied, free.with_weights(pairs)))
    for model in (one, many):
        model.log_prob(x).sum().backward()
    assert torch.allclose(one.log_prob(x), many.log_prob(x))
    assert torch.allclose(one.input0.grad[0], many.input0.grad.sum(dim=0))
    assert torch.allclose(one.sum1.grad[0], many.sum1.grad.sum(dim=0))


def test_wrong_data_is_refused_before_anything_is_computed():
    model, x = image_model(), torch.zeros(1, 784, dtype=torch.long)
    x[0, 3] = 300
    with pytest.raises(sq.DataError, match="row 0, column 3"):
        model.log_prob(x)


def test_what_is_no_circuit_is_refused():
    with pytest.raises(sq.ParameterError, match="needs a Circuit"):
        sq.SquaredCircuit(3)


def test_a_model_counts_as_unitary_only_if_it_is_and_will_stay_so():
    """Free weights that happen to be semi-unitary will not stay so; declared ones may not be so yet."""
    declared = sq.build(sq.regions.linear(3), sq.Categorical(2), 2)
    circuit = declared.initialise(seed=0)
    assert sq.SquaredCircuit(declared).is_unitary
    assert sq.SquaredCircuit(circuit).is_unitary
    tripled = circuit.with_weights({n: 3 * v for n, v in circuit.weights.items()})
    free = sq.networks.from_mps(sq.networks.left_canonical([torch.randn(1, 2, 3), torch.randn(3, 2, 1)])[0])
    assert sq.is_unitary(free)
    for other in (tripled, free):
        model = sq.SquaredCircuit(other, dtype=torch.complex128)
        assert model.is_unitary == (other is tripled)
        assert not model.is_normalised()
        rows, _ = oracle.assignments(other, other.scope)
        assert model.log_prob(rows).exp().sum().item() == pytest.approx(1)


def leave_the_manifold(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.3)


@pytest.mark.parametrize("way", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_train_on_the_manifold_like_the_original(way):
    model = way(sq.SquaredCircuit(sq.build(sq.regions.linear(4), sq.Categorical(3), 2), seed=1))
    optimiser = sq.optim.Polar(model.parameters(), lr=0.2)
    for _ in range(5):
        optimiser.zero_grad()
        (-model.log_prob([[0, 1, 2, 0]]).sum()).backward()
        optimiser.step()
    assert abs(model.log_partition().item()) < 1e-5


def test_answers_are_normalised_even_where_weights_have_left_the_manifold():
    """Z is computed then: p sums to one, and marginals and conditionals are those of p."""
    circuit = sq.build(sq.regions.linear(4), sq.Categorical(3), 2)
    model = sq.SquaredCircuit(circuit, seed=1, dtype=torch.complex128)
    assert model.is_normalised()
    states = torch.cartesian_prod(*[torch.arange(3)] * 4)
    hidden = torch.tensor([False, True, False, True])
    for _ in range(2):
        with torch.no_grad():
            table = model.log_prob(states).exp().reshape(3, 3, 3, 3)
            assert table.sum().item() == pytest.approx(1)
            seen = model.log_prob(states, missing=hidden).exp().reshape(3, 3, 3, 3)[:, 0, :, 0]
            assert torch.allclose(seen, table.sum(dim=(1, 3)))
            assert (model.log_conditional(states, of=[0], given=[2]) <= 1e-12).all()
        leave_the_manifold(model)
    assert not model.is_normalised()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.div_(1.69)
    assert model.is_normalised()


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.log_prob(None),
        lambda model: model.impute(None),
        lambda model: model.log_prob([0, 1, 2, 0]),
        lambda model: model.log_prob([["a", "b", "c", "d"]]),
        lambda model: model.log_prob([[0, 1, 2, 0]], missing="all"),
        lambda model: model.marginals(grid=[0.0, 1.0]),
        lambda model: model.sample(3, generator=5),
        lambda model: model.sample(3, seed=2**70),
        lambda model: model.given([[0, 1, 2, 0]], [True] * 4).sample(-1),
        lambda model: model.half(),
        lambda model: sq.kl_divergence(model, model.circuit()),
        lambda model: sq.optim.Polar(model),
    ],
)
def test_likely_mistakes_get_one_clear_error(ask):
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(4), sq.Categorical(3), 2))
    with pytest.raises(sq.SquircuitError):
        ask(model)


def test_numbers_of_numpy_masks_as_lists_and_small_integers_are_welcome():
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(4), sq.Categorical(3), 2))
    x = np.array([[0, 1, 2, 0]], dtype=np.uint16)
    assert model.sample(np.int64(3), seed=np.int64(1)).shape == (3, 4)
    expected = model.log_conditional(x, of=[0, 1], given=[2])
    found = model.log_conditional(x, of=[True, True, False, False], given=torch.tensor([2]))
    assert torch.equal(found, expected)


def test_small_entries_beside_a_large_one_count_in_the_distance_to_the_manifold():
    row = torch.full((1, 1, 1 << 18), 2.0**-14, dtype=torch.complex64)  # the small ones make 2⁻¹⁰ of the norm
    row[0, 0, 0] = (1 - ((1 << 18) - 1) * 2.0**-28) ** 0.5
    assert deviation(row) < 1e-7
    assert deviation(row[:, :, :-1000]) == pytest.approx(1000 * 2.0**-28, rel=1e-3)


@pytest.mark.parametrize("is_complex", [True, False])
def test_no_direction_off_the_manifold_is_overlooked(is_complex):
    """WWᴴ = I + δ(I − zzᴴ/3) is I for z: no signs or phases z hide it from the look at the weights."""
    circuit = sq.build(sq.regions.linear(2), sq.Categorical(4), 3, is_complex=is_complex)
    model = sq.SquaredCircuit(circuit, seed=0, dtype=torch.complex128).eval()
    start = model.input0.detach().clone()
    phases = torch.tensor([1, -1, 1j, -1j] if is_complex else [1, -1], dtype=torch.complex128)
    for z in torch.cartesian_prod(phases, phases, phases):
        wrong = torch.eye(3, dtype=z.dtype) * (1 + 1e-6) - 1e-6 / 3 * torch.outer(z, z.conj())
        factor = torch.linalg.cholesky(wrong)
        assert model.is_normalised()
        model.input0.data[0] = (factor if is_complex else factor.real) @ start[0]
        assert not model.is_normalised()
        model.input0.data.copy_(start)


def tiny_products() -> sq.SquaredCircuit:
    """c(x) = Σ_k Π_v w_vk(x_v), where units 0 and 1 are 10⁻²⁴ for two variables each at x = 0."""
    circuit = sq.build(sq.regions.quad_tree((2, 2)), sq.Categorical(2), 2, "hadamard", unitary=False)
    model = sq.SquaredCircuit(circuit, seed=0)
    with torch.no_grad():
        for variable in range(4):
            rows = torch.tensor([[1.0, 0.5], [1e-24, 0.5]])
            model.input0[variable] = rows if variable % 2 else rows.flip(0)
    return model.eval()


def test_what_underflows_in_single_precision_is_not_zero():
    model = tiny_products()
    x = torch.cartesian_prod(*[torch.arange(2)] * 4)
    single = model.log_prob(x)
    density = torch.from_numpy(oracle.density(model.circuit(), x.numpy()))
    exact = density.log() - density.sum().log()
    assert exact[0] < -200
    assert torch.allclose(single.double(), exact, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("missing", [[3], [0, 1], [1, 3]])
def test_marginals_that_underflow_in_single_precision_are_not_zero(missing):
    model, hidden = tiny_products(), torch.zeros(4, dtype=torch.bool)
    hidden[missing] = True
    x = torch.cartesian_prod(*[torch.arange(2)] * 4)
    circuit = model.circuit()
    exact = np.log(oracle.marginal(circuit, x.numpy(), missing)) - math.log(oracle.partition(circuit))
    assert np.allclose(model.log_prob(x, missing=hidden).detach().numpy(), exact, rtol=1e-6, atol=1e-5)


def test_rows_that_underflow_have_the_gradient_of_double_precision():
    model = tiny_products()
    x = torch.zeros(1, 4, dtype=torch.long)
    (found,) = torch.autograd.grad(model.log_prob(x).sum(), model.sum1)
    exact = copy.deepcopy(model).double()
    (expected,) = torch.autograd.grad(exact.log_prob(x).sum(), exact.sum1)
    assert expected.abs().max() > 0.1
    assert torch.allclose(found.to(expected.dtype), expected, rtol=1e-4, atol=1e-5)


def test_probability_zero_stays_zero():
    model = tiny_products()
    with torch.no_grad():
        model.input0[0, :, 1] = 0
    assert model.log_prob([[1, 0, 0, 0]]).item() == -math.inf
    assert math.isfinite(model.log_prob([[0, 0, 0, 0]]).item())
