"""No wrong number, whatever the circuit and whatever happened to its weights.

Each law is checked by enumeration or quadrature on circuits that once broke it.
"""

from __future__ import annotations

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
import torch

import oracle
import squircuit as sq

FOUR = sq.Categorical(4)
PAIRS = torch.cartesian_prod(torch.arange(4), torch.arange(4))


def alternatives(shared: bool = False) -> sq.Circuit:
    """A sum of two products whose inputs are blocks of rows of one semi-unitary matrix a variable."""
    weights = [sq.Parameter((4, 4)) for _ in range(2)]
    if shared:
        weights[1] = weights[0]
    products = [sq.Kronecker([sq.Input(v, FOUR, 2, weights[v], row) for v in range(2)]) for row in (0, 2)]
    return sq.Circuit(sq.Sum(products, units=1))


def trained(model: sq.SquaredCircuit, optimiser: torch.optim.Optimizer, steps: int = 5) -> sq.SquaredCircuit:
    model.train()
    for _ in range(steps):
        optimiser.zero_grad()
        (-model.log_prob(PAIRS[::2]).mean()).backward()
        optimiser.step()
    return model.eval()


def exact(model: sq.SquaredCircuit) -> torch.Tensor:
    """p of all states of two variables by enumeration of the present weights: (4, 4)."""
    density = torch.as_tensor(oracle.density(model.circuit(), PAIRS.numpy()))
    return (density / density.sum()).reshape(4, 4)


def assert_answers_are_exact(model: sq.SquaredCircuit, tolerance: float = 1e-9) -> None:
    p = exact(model)
    close = {"atol": tolerance, "rtol": tolerance}
    torch.testing.assert_close(model.log_prob(PAIRS).exp().double().reshape(4, 4), p, **close)
    for v in range(2):
        torch.testing.assert_close(model.marginals().values[v][0].double(), p.sum(1 - v), **close)
        missing = torch.arange(2) != v
        alone = model.log_prob(PAIRS, missing=missing).exp().double()
        torch.testing.assert_close(alone, p.sum(1 - v)[PAIRS[:, v]], **close)
    drawn = model.sample(4000, seed=0)
    counts = torch.zeros(4, 4).index_put((drawn[:, 0], drawn[:, 1]), torch.ones(4000), accumulate=True)
    assert ((counts / 4000 - p).abs() <= 6 * (p * (1 - p) / 4000).sqrt() + 1e-3).all()


# ---------------------------------------------------------------------- the plan and the circuit


def test_input_layers_that_hold_one_parameter_read_its_entry_of_the_stack_and_no_other():
    p, q = sq.Parameter((4, 4)), sq.Parameter((4, 4))
    products = [sq.Kronecker([sq.Input(0, FOUR, 2, p, row), sq.Input(1, FOUR, 4, q)]) for row in (0, 2)]
    circuit = sq.Circuit(sq.Sum(products, units=1)).initialise(seed=0)
    assert_answers_are_exact(sq.SquaredCircuit(circuit, dtype=torch.complex128).eval())


@pytest.mark.parametrize("row", [0, 2])
def test_free_blocks_of_rows_of_one_matrix_count_with_their_own_rows_in_z(row):
    weights = [sq.Parameter((4, 4), "free") for _ in range(2)]
    blocks = [[sq.Input(v, FOUR, 2, weights[v], first) for v in range(2)] for first in (row, 2 - row)]
    circuit = sq.Circuit([sq.Sum(sq.Kronecker(inputs), units=1) for inputs in blocks]).initialise(seed=0)
    alone = sq.Circuit(sq.Sum(sq.Kronecker(blocks[0]), units=1)).initialise(seed=0)
    for each in (circuit, alone):
        model = sq.SquaredCircuit(each, dtype=torch.complex128).eval()
        assert model.log_partition().item() == pytest.approx(math.log(oracle.partition(each)), abs=1e-9)
        assert_answers_are_exact(model)


def test_alternatives_that_share_an_input_layer_keep_their_cross_terms_in_marginals():
    """(U4) fails for x0, so that with x0 marginalised alone the two products interfere."""
    weight = sq.Parameter((4, 4))
    shared, blocks = sq.Input(0, FOUR, 2), [sq.Input(1, FOUR, 2, weight, row) for row in (0, 2)]
    circuit = sq.Circuit(sq.Sum([sq.Kronecker([shared, block]) for block in blocks], units=1))
    assert sq.is_unitary(circuit)
    assert not sq.satisfies_u4(circuit)
    assert_answers_are_exact(sq.SquaredCircuit(circuit, seed=0, dtype=torch.complex128).eval())


def test_one_learnable_number_may_serve_in_several_roles_and_layers():
    q, r = (sq.Parameter((), "free", False, value=torch.tensor(v, dtype=torch.float64)) for v in (0.3, -0.2))
    both = sq.Input(0, sq.Hermite(2, learnable=True), 1, parameters={"loc": q, "log_scale": q})
    other = sq.Input(1, sq.Hermite(2, learnable=True), 1, parameters={"loc": r, "log_scale": q})
    circuit = sq.Circuit(sq.Sum(sq.Hadamard([both, other]), units=1))
    model = sq.SquaredCircuit(circuit, dtype=torch.complex128).eval()
    x = torch.tensor([[0.1, 0.2], [-1.0, 0.7]], dtype=torch.float64)
    expected = sq.evaluate(model.circuit(), x).abs().square()[:, 0]
    torch.testing.assert_close(model.log_prob(x).exp(), expected)


def test_places_of_several_sizes_and_fixed_places_have_stacks_of_their_own():
    fixed = sq.Parameter((), "fixed", False, value=torch.tensor(0.5, dtype=torch.float64))
    inputs = [
        sq.Input(0, sq.Gaussian(2), 1),
        sq.Input(1, sq.Gaussian(3), 1),
        sq.Input(2, sq.Hermite(2, learnable=True), 1, parameters={"loc": fixed}),
        sq.Input(3, sq.Hermite(2, learnable=True), 1),
    ]
    model = sq.SquaredCircuit(sq.Circuit(sq.Sum(sq.Hadamard(inputs), units=1)), dtype=torch.complex128)
    optimiser = torch.optim.Adam(model.parameters(), 0.1)
    (-model.log_prob(torch.zeros(1, 4, dtype=torch.float64)).mean()).backward()
    optimiser.step()
    assert model.weights()["input2.loc"].item() == 0.5
    assert model.weights()["input3.loc"].item() != 0


@pytest.mark.parametrize("constraint", ["semi-unitary", "free"])
@pytest.mark.parametrize("names", ["xa", "ax", "abc", "cb", "a"])
def test_roots_that_another_root_reads_answer_rows_with_masks_of_their_own(names, constraint):
    """Of these ∫ ℓ_j ℓ_k* is asked above, and of the root itself ∫ |ℓ_k|², in rows that lack some or all."""
    weights = [sq.Parameter(shape, constraint) for shape in [(2, 4), (2, 4), (2, 4), (2, 2), (1, 2)]]
    inputs = [sq.Input(v, FOUR, weight=weights[v]) for v in range(2)]
    first = sq.Sum(sq.Kronecker(inputs), weight=weights[2])
    second = sq.Sum(first, weight=weights[3])
    layers = {"a": first, "b": second, "c": sq.Sum(second, weight=weights[4])}
    if "x" in names:  # a root that is an input layer
        pair = sq.Input(0, sq.Categorical(16), 2, sq.Parameter((2, 16), constraint))
        layers = {"x": pair, "a": sq.Sum(pair, 1, sq.Parameter((1, 2), constraint))}
    circuit = sq.Circuit([layers[name] for name in names])
    model = sq.SquaredCircuit(circuit, seed=3, dtype=torch.complex128).eval()
    x = torch.arange(16)[:, None] if "x" in names else PAIRS
    terms = torch.as_tensor(np.abs(oracle.amplitudes(model.circuit(), x.numpy())) ** 2)
    table = (terms / terms.sum()).reshape(*[16] * (x.shape[1] == 1), *[4] * 2 * (x.shape[1] == 2), -1)
    masks = torch.rand(16, x.shape[1], generator=torch.Generator().manual_seed(0)) < 0.6
    found = model.log_prob(x, missing=masks).exp()
    shares = model.component_log_prob(x, missing=masks).exp()
    for row, mask, p, parts in zip(x, masks, found, shares, strict=True):
        at = tuple(slice(None) if lacks else int(state) for state, lacks in zip(row, mask, strict=True))
        units = table[at].reshape(-1, table.shape[-1]).sum(dim=0)
        assert p.item() == pytest.approx(units.sum().item(), abs=1e-12)
        expected = [part.sum().item() for part in units.split([root.units for root in circuit.roots])]
        assert parts.tolist() == pytest.approx(expected, abs=1e-12)


def test_a_root_that_is_there_twice_answers_every_query():
    model = sq.SquaredCircuit(alternatives(), dtype=torch.complex128)
    root = trained(model, torch.optim.Adam(model.parameters(), 0.1)).circuit()
    weights = sq.Parameter((2,), "simplex", False, value=torch.tensor([0.25, 0.75]))
    for pi in (None, weights):
        twice = sq.Circuit([root.roots[0]] * 2, root_weights=pi)
        values = {name: value for name, value in root.weights.items() if name in twice.parameters}
        assert_answers_are_exact(sq.SquaredCircuit(twice.with_weights(values), dtype=torch.complex128).eval())


def test_log_prob_of_no_rows_is_empty_in_every_mode():
    model = sq.SquaredCircuit(alternatives())
    none = torch.zeros(0, 2, dtype=torch.long)
    for mode in (model.train(), model.eval()):
        assert mode.log_prob(none).shape == (0,)
        assert mode.log_prob(none, missing=[True, False]).shape == (0,)
        assert mode.component_log_prob(none).shape == (0, 1)


# ---------------------------------------------------------------------- off the manifold

WAYS = {
    "Adam": lambda m: trained(m, torch.optim.Adam(m.parameters(), 0.1)),
    "SGD": lambda m: trained(m, torch.optim.SGD(m.parameters(), 0.5)),
    "Polar": lambda m: trained(m, sq.optim.Polar(m.parameters(), 0.1)),
    "POGO": lambda m: trained(m, sq.optim.POGO(m.parameters(), 0.1)),
    "LandingSGD": lambda m: trained(m, sq.optim.LandingSGD(m.parameters(), 0.1)),
    "LandingPC": lambda m: trained(m, sq.optim.LandingPC(m.parameters(), 0.1)),
    "data": lambda m: [p.data.mul_(1.5) for p in m.parameters()],
    "new data": lambda m: [setattr(p, "data", 0.7 * p.data) for p in m.parameters()],
    "noise": lambda m: [p.data.add_(torch.randn_like(p)) for p in m.parameters()],
    "vector": lambda m: torch.nn.utils.vector_to_parameters(
        2 * torch.nn.utils.parameters_to_vector(m.parameters()), m.parameters()
    ),
    "assign": lambda m: m.load_state_dict({n: 1.3 * v for n, v in m.state_dict().items()}, assign=True),
    "load": lambda m: m.load_state_dict({n: 1.3 * v for n, v in m.state_dict().items()}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.filterwarnings("ignore:a training step")
def test_answers_are_exact_however_weights_were_changed_after_a_first_question(way, shared):
    model = sq.SquaredCircuit(alternatives(shared), seed=1, dtype=torch.complex128).eval()
    assert_answers_are_exact(model)
    WAYS[way](model)
    assert_answers_are_exact(model.eval())
    changed = copy.deepcopy(model)
    changed.get_parameter(next(iter(dict(model.named_parameters())))).data.mul_(1.1)
    assert_answers_are_exact(changed)
    assert_answers_are_exact(model)
    assert_answers_are_exact(pickle.loads(pickle.dumps(changed)))


def test_functional_calls_are_normalised_with_the_weights_that_they_are_given():
    model = sq.SquaredCircuit(alternatives(), dtype=torch.complex128).eval()
    assert model.is_normalised()
    doubled = {name: 2 * value for name, value in model.state_dict().items()}
    log_p = torch.func.functional_call(model, doubled, (PAIRS,))
    assert log_p.exp().sum().item() == pytest.approx(1)
    torch.testing.assert_close(log_p, model.log_prob(PAIRS))


def test_free_inputs_that_begin_orthogonal_do_not_count_as_orthogonal():
    """Their verdict now holds, but what a model relies on has to hold for all weights that may come."""

    def given(rows):
        return sq.Parameter((len(rows), len(rows[0])), "free", False, value=torch.tensor(rows).double())

    rows = [[[0.5, 0.5, 0.5, 0.5]], [[0.5, -0.5, 0.5, -0.5]]]
    products = [sq.Hadamard([sq.Input(v, FOUR, weight=given(r)) for v in range(2)]) for r in rows]
    circuit = sq.Circuit(sq.Sum(products, weight=given([[0.6, 0.8]])))
    assert sq.satisfies_u1(circuit)
    model = sq.SquaredCircuit(circuit, dtype=torch.float64)
    assert not model.is_unitary
    assert_answers_are_exact(trained(model, torch.optim.Adam(model.parameters(), 0.1)))


def test_semi_unitary_inputs_of_two_matrices_that_begin_orthogonal_are_no_promise():
    def given(rows):
        return sq.Parameter((len(rows), len(rows[0])), is_complex=False, value=torch.tensor(rows).double())

    inputs = [sq.Input(0, FOUR, weight=given([[0.5, s * 0.5, 0.5, s * 0.5]])) for s in (1, -1)]
    model = sq.SquaredCircuit(sq.Circuit(sq.Sum(inputs, weight=given([[0.6, 0.8]]))), dtype=torch.float64)
    sq.fit(model, [[0]] * 60 + [[1]] * 20 + [[3]] * 20, epochs=10, seed=0, progress=False)
    states = [[0], [1], [2], [3]]
    assert model.log_prob(states).exp().sum().item() == pytest.approx(1)
    total = sq.evaluate(model.circuit(), states).abs().square().sum().item()
    assert model.log_partition().item() == pytest.approx(math.log(total), abs=1e-9)


def test_functions_at_two_learnt_places_are_no_promise_of_orthogonality():
    inputs = [sq.Input(0, sq.Hermite(4, learnable=True), weight=torch.eye(4)[k : k + 1]) for k in range(2)]
    fixed = [
        sq.Input(0, sq.Hermite(4, learnable=True), 1, sq.Parameter((1, 4), "fixed", False, value=row))
        for row in torch.eye(4).split(1)[:2]
    ]
    for pair in (inputs, fixed):
        circuit = sq.Circuit(sq.Sum(pair, weight=sq.Parameter((1, 2), "semi-unitary", False)))
        model = sq.SquaredCircuit(circuit, seed=0, dtype=torch.float64)
        assert not model.is_unitary
        with torch.no_grad():
            model.hermite_loc.add_(torch.tensor([0.0, 0.7], dtype=torch.float64))
        grid = torch.linspace(-12, 12, 4801, dtype=torch.float64)
        p = model.eval().log_prob(grid[:, None]).exp()
        assert (p.sum() * (grid[1] - grid[0])).item() == pytest.approx(1, abs=1e-9)


def test_where_cross_terms_are_not_tractable_every_road_says_so_and_training_ends_on_the_manifold():
    circuit = sq.build(sq.regions.patch_splits((4, 4), 2), sq.Categorical(8), units=2)
    model = sq.SquaredCircuit(circuit, dtype=torch.float64)
    x = torch.randint(0, 8, (40, 16), generator=torch.Generator().manual_seed(0))
    sq.fit(model, x, epochs=2, optimiser="landing-sgd", progress=False, seed=0)
    assert model.is_normalised()
    generator = torch.Generator().manual_seed(1)
    for parameter in model.eval().parameters():
        parameter.data.add_(0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    some = torch.arange(16) < 3
    roads = [
        lambda: model.log_prob(x),
        lambda: model.log_prob(x, missing=some),
        lambda: model.component_log_weights(),
        lambda: model.log_partition(),
        lambda: model.marginals(),
        lambda: model.sample(2),
        lambda: model.log_conditional(x, of=[0], given=[1]),
    ]
    for road in roads:
        with pytest.raises(sq.StructureError, match=r"left the manifold.*Fix: .*retract"):
            road()
    sq.optim.retract(model)
    assert all(road() is not None for road in roads)


def test_inputs_of_other_lengths_that_are_still_orthogonal_leave_circuits_tractable():
    circuit = sq.build(sq.regions.patch_splits((2, 2), 2), sq.Categorical(4), units=2)
    assert not sq.is_structured_decomposable(circuit)
    model = sq.SquaredCircuit(circuit, seed=0, dtype=torch.complex128).eval()
    for number, parameter in enumerate(model.parameters()):
        parameter.data.mul_(1.2 + number)
    rows = torch.cartesian_prod(*[torch.arange(4)] * 4)
    density = torch.as_tensor(oracle.density(model.circuit(), rows.numpy()))
    p = (density / density.sum()).reshape(4, 4, 4, 4)
    torch.testing.assert_close(model.log_prob(rows).exp().reshape(4, 4, 4, 4), p)
    for v in range(4):
        alone = p.sum([u for u in range(4) if u != v])
        torch.testing.assert_close(model.marginals().values[v][0], alone)


def test_a_training_step_off_the_manifold_warns_once_and_its_loss_is_the_true_one():
    model = sq.SquaredCircuit(alternatives(), dtype=torch.complex128)
    optimiser = torch.optim.Adam(model.parameters(), 0.1)

    def steps():
        for _ in range(6):
            optimiser.zero_grad()
            with model.training_step():
                loss = -model.log_prob(PAIRS[::2]).mean()
            true = -exact(model).log().flatten()[::2].mean().item()
            assert loss.item() == pytest.approx(true, abs=1e-9)
            loss.backward()
            optimiser.step()

    with pytest.warns(UserWarning, match=r"left the manifold.*Fix: train with sq.optim.Polar") as caught:
        steps()
    assert len(caught) == 1


@pytest.mark.parametrize(("optimiser", "lr"), [(sq.optim.Polar, 0.3), (sq.optim.POGO, 0.02)])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_training_on_the_manifold_does_not_warn(optimiser, lr, dtype):
    model = sq.SquaredCircuit(alternatives(), dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(model, optimiser(model.parameters(), lr), steps=20)


def test_weights_that_were_assigned_keep_their_constraint():
    model = sq.SquaredCircuit(alternatives(), dtype=torch.complex128)
    model.load_state_dict(model.state_dict(), assign=True)
    assert {p.constraint for p in model.parameters()} == {"semi-unitary"}
    assert trained(model, sq.optim.Polar(model.parameters(), 0.1)).is_normalised()


# ---------------------------------------------------------------------- mixtures


def test_a_mixture_answers_what_each_of_its_parts_answers():
    x = [sq.Input(v, FOUR, 2, torch.randn(2, 4).double()) for v in range(4)]
    tree = sq.Circuit(sq.Sum([sq.Hadamard(x), sq.Hadamard(x)], weight=torch.randn(1, 4).double()))
    free = sq.SquaredCircuit(tree, dtype=torch.float64)
    unitary = sq.SquaredCircuit(
        sq.build(sq.regions.patch_splits((2, 2), 2), FOUR, units=2), dtype=torch.float64
    )
    both = sq.mixture([free, unitary], weights=[0.3, 0.7])
    rows = torch.cartesian_prod(*[torch.arange(4)] * 4)
    p = both.log_prob(rows).exp()
    expected = 0.3 * free.eval().log_prob(rows).exp() + 0.7 * unitary.eval().log_prob(rows).exp()
    torch.testing.assert_close(p, expected)
    table = p.reshape(4, 4, 4, 4)
    for v in range(4):
        others = [u for u in range(4) if u != v]
        torch.testing.assert_close(both.marginals().values[v][0], table.sum(others).detach())
    assert both.sample(3, seed=0).shape == (3, 4)


def test_a_mixture_of_models_whose_input_weights_serve_in_sums_has_the_shares_that_were_asked_for():
    def model(seed):
        w = sq.Parameter((2, 2), "free", False)
        x = [sq.Sum(sq.Input(v, sq.Categorical(2), 2, w), weight=w) for v in range(2)]
        root = sq.Sum(sq.Hadamard(x), weight=sq.Parameter((1, 2), "free", False))
        return sq.SquaredCircuit(sq.Circuit(root), seed=seed, dtype=torch.float64).eval()

    first, second = model(0), model(1)
    both = sq.mixture([first, second], weights=[0.25, 0.75])
    x = torch.cartesian_prod(torch.arange(2), torch.arange(2))
    expected = 0.25 * first.log_prob(x).exp() + 0.75 * second.log_prob(x).exp()
    torch.testing.assert_close(both.log_prob(x).exp(), expected)
    torch.testing.assert_close(both.component_log_weights().exp(), torch.tensor([0.25, 0.75]).double())


def test_a_mixture_of_a_model_with_huge_weights_has_the_shares_that_were_asked_for():
    big = torch.tensor([[7.3e29, 1.9e29, 1e29, 0.0]])
    huge = sq.Circuit(sq.Sum(sq.Input(0, FOUR, weight=big), weight=torch.tensor([[1.9e30]])))
    models = [sq.SquaredCircuit(huge).eval(), sq.SquaredCircuit(sq.Circuit(sq.Input(0, FOUR, 1))).eval()]
    both = sq.mixture(models)
    torch.testing.assert_close(both.component_log_weights().exp(), torch.tensor([0.5, 0.5]))
    states = torch.arange(4)[:, None]
    expected = sum(model.log_prob(states).exp() for model in models) / 2
    torch.testing.assert_close(both.log_prob(states).exp(), expected)


# ---------------------------------------------------------------------- tolerances


def test_functions_count_as_orthogonal_by_their_angle_not_by_their_size():
    """[1, 1] and [1e-8, 1e-8] under weights 1 and 1e8 are parallel: Z = 8, and without cross terms 4."""
    two = sq.Categorical(2)
    f, g = (sq.Input(0, two, weight=torch.tensor([[s, s]], dtype=torch.float64)) for s in (1.0, 1e-8))
    circuit = sq.Circuit(sq.Sum([f, g], weight=torch.tensor([[1.0, 1e8]], dtype=torch.float64)))
    assert sq.is_orthogonal(circuit).holds is False
    assert sq.is_regular_orthogonal(circuit).holds is False
    assert sq.is_deterministic(circuit).holds is False
    with pytest.raises(sq.StructureError):
        sq.scalar.partition(circuit)
    assert sq.partition(circuit) == pytest.approx(8)
    model = sq.SquaredCircuit(circuit, dtype=torch.float64).eval()
    assert model.log_partition().item() == pytest.approx(math.log(8))


def test_checks_go_on_below_rows_of_zeros():
    two = sq.Categorical(2)
    zero = sq.Sum(sq.Input(0, two), weight=torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64))
    circuit = sq.Circuit(sq.Sum(zero, weight=torch.ones(1, 2, dtype=torch.float64)))
    for verdict in sq.check(circuit):
        assert verdict.holds in (True, False, None)


def test_a_circuit_that_is_zero_everywhere_has_no_density_and_says_so():
    model = sq.SquaredCircuit(sq.Circuit(sq.Sum(sq.Input(0, FOUR), weight=torch.zeros(1, 4))))
    for mode in (model.train(), model.eval()):
        questions = [
            lambda mode=mode: mode.log_prob([[0]]),
            lambda mode=mode: mode.log_prob([[0]], missing=[True]),
            lambda mode=mode: mode.component_log_weights(),
        ]
        for question in questions:
            with pytest.raises(sq.ParameterError, match=r"log Z is -inf.*Fix"):
                question()


# ---------------------------------------------------------------------- precision


@pytest.mark.parametrize("offset", [1e6, 1.7e9])
@pytest.mark.parametrize(
    "family",
    [
        lambda a: sq.Hermite(6, a, 100.0),
        lambda a: sq.Legendre(5, a - 500, a + 500),
        lambda a: sq.Fourier(5, 2000.0, a),
        lambda a: sq.Laguerre(5, a - 300, 100.0),
        lambda a: sq.Orthonormalised(sq.BSpline(6, a - 500, a + 500)),
    ],
)
def test_single_precision_tells_large_numbers_apart_that_differ_by_little(family, offset):
    circuit = sq.build(sq.regions.balanced_tree(3), family(offset), units=2)
    single, double = (
        sq.SquaredCircuit(circuit, seed=0, dtype=d).eval() for d in (torch.float32, torch.float64)
    )
    x = offset + 60 * torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    some = torch.tensor([True, False, False])
    torch.testing.assert_close(single.log_prob(x).double(), double.log_prob(x), atol=1e-3, rtol=1e-4)
    marginals = [m.log_prob(x, missing=some).double() for m in (single, double)]
    torch.testing.assert_close(*marginals, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(single.mean() - offset, double.mean() - offset, atol=0.02, rtol=1e-4)
    torch.testing.assert_close(single.variance(), double.variance(), atol=1.0, rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("far", [13.0, 30.0, 300.0, 1e6])
def test_far_from_the_data_log_densities_stay_finite_and_exact(dtype, far):
    """log h₀(t)² = −t² − log(π)/2, also where h₀ itself is 0 in every float; marginals and training, too."""
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(2), sq.Hermite(1), units=1), dtype=dtype)
    x = torch.tensor([[far, 0.0]], dtype=torch.float64)
    expected = -(far**2) - math.log(math.pi)
    relative = 1e-6 if dtype == torch.float32 else 1e-12
    for mode in (model.train(), model.eval()):
        assert mode.log_prob(x).item() == pytest.approx(expected, rel=relative)
        alone = mode.log_prob(x, missing=[False, True]).item()
        assert alone == pytest.approx(expected + math.log(math.pi) / 2, rel=relative)


def test_units_far_smaller_than_others_of_their_layer_keep_their_digits_in_single_precision():
    """Of two bare functions a state picks the one that is 10⁻²² of the other: its square is no float."""
    functions = sq.Input(0, sq.Gaussian(2, (0.0, 4.0), (1.0, 1.8), learnable=False))
    product = sq.Hadamard([functions, sq.Input(1, sq.Categorical(2))])
    circuit = sq.Circuit(sq.Sum(product, weight=torch.ones(1, 2)))
    single, double = (sq.SquaredCircuit(circuit, dtype=d).eval() for d in (torch.float32, torch.float64))
    x = torch.tensor([[11.0, 0.0], [11.5, 0.0], [12.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(single.log_prob(x).double(), double.log_prob(x), atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-140, 1e-30, 1e-8, 1e8, 1e30, 1e140])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_answers_do_not_depend_on_the_size_of_free_weights(scale, dtype):
    if dtype == torch.float32 and not 1e-35 < scale < 1e35:
        pytest.skip("no number in single precision")
    generator = torch.Generator().manual_seed(0)
    x = [
        sq.Input(v, FOUR, weight=scale * torch.randn(2, 4, generator=generator, dtype=torch.float64))
        for v in range(2)
    ]
    root = sq.Sum(sq.Hadamard(x), weight=torch.randn(1, 2, generator=generator, dtype=torch.float64) / scale)
    model = sq.SquaredCircuit(sq.Circuit(root), dtype=dtype).eval()
    unscaled = {n: v.double() / scale for n, v in model.weights().items() if n.startswith("input")}
    unscaled |= {n: v.double() * scale for n, v in model.weights().items() if n.startswith("sum")}
    plain = sq.SquaredCircuit(
        model.structure.with_weights({n: v.detach() for n, v in unscaled.items()}), dtype=torch.float64
    ).eval()
    p = exact(plain)
    tolerance = {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(model.log_prob(PAIRS).exp().double().reshape(4, 4), p, **tolerance)
    torch.testing.assert_close(model.marginals().values[0][0].double(), p.sum(1), **tolerance)
    torch.testing.assert_close(
        model.log_prob(PAIRS[::4], missing=[False, True]).exp().double(), p.sum(1), **tolerance
    )


def test_a_unit_that_is_zero_everywhere_has_gradient_zero():
    a, b = sq.Input(0, FOUR, 3), sq.Input(0, FOUR, 3)
    dead = sq.Sum(b, weight=torch.zeros(1, 3, dtype=torch.float64))
    model = sq.SquaredCircuit(sq.Circuit([sq.Sum(a, units=1), dead]), dtype=torch.complex128)
    model.log_prob([[0], [1]]).sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize(
    "family", [sq.Hermite(2, 1e30), sq.Gaussian(2, (-1e30, 1e30), 0.5), sq.Gaussian(2, (0.0, 1e30), 0.5)]
)
def test_functions_further_out_than_double_precision_resolves_are_refused_by_name(family):
    weight = sq.Parameter((1, 2), "free", value=torch.tensor([[0.6, 0.8]], dtype=torch.float64))
    model = sq.SquaredCircuit(sq.Circuit(sq.Sum(sq.Input(0, family), weight=weight)))
    for question in (lambda: model.sample(2), lambda: model.marginals(), lambda: model.mean()):
        with pytest.raises(sq.ParameterError, match=r"variable 0: its functions lie .*Fix"):
            question()


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("far", [0.5, 50.0, 1e6, 1e10])
def test_conditionals_on_what_is_far_from_the_data_are_normalised(dtype, far):
    """log p of the evidence is −10²⁰, and that of a state given it is not."""
    inputs = [
        sq.Input(0, sq.Categorical(3), 2),
        sq.Input(1, sq.Hermite(4), 2),
        sq.Input(2, sq.Legendre(3), 2),
    ]
    model = sq.SquaredCircuit(sq.Circuit(sq.Sum(sq.Kronecker(inputs), units=2)), seed=1, dtype=dtype).eval()
    rows = torch.tensor([[state, far, 0.0] for state in range(3)], dtype=torch.float64)
    hidden = [True, False, True]
    p = model.log_conditional(rows, of=[0], given=[1]).exp()
    assert p.sum().item() == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close(p, model.marginals(rows[:1], hidden).values[0][0])
    rest = model.given(rows[:1], hidden)
    asked = torch.tensor([[[state, far, math.nan]] for state in range(3)], dtype=torch.float64)
    torch.testing.assert_close(rest.log_prob(asked).exp().flatten(), p)
    expected = (p * torch.arange(3)).sum().item()
    found = model.expectation({0: lambda x: x}, rows[:1], hidden).item()
    assert found == pytest.approx(expected, abs=1e-5)


def test_evidence_is_kept_when_the_rows_that_it_came_from_change():
    model = sq.SquaredCircuit(alternatives(), dtype=torch.complex128).eval()
    x = torch.tensor([[1, 0]])
    rest = model.given(x, missing=[False, True])
    before = rest.mean.clone()
    x[0, 0] = 3
    torch.testing.assert_close(rest.mean, before)


def test_masked_arrays_and_arrays_of_other_byte_orders_are_not_misread():
    model = sq.SquaredCircuit(alternatives()).eval()
    with pytest.raises(sq.DataError, match=r"masked.*Fix: .*missing="):
        model.log_prob(np.ma.array([[0, 1]], mask=[[False, True]]))
    torch.testing.assert_close(model.log_prob(np.array([[0, 1]], dtype=">i4")), model.log_prob([[0, 1]]))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("unitary", [True, False])
def test_weights_that_are_no_numbers_are_named_by_every_question(bad, unitary):
    families = [sq.Categorical(3), sq.Hermite(3, learnable=True)]
    circuit = sq.build(
        sq.regions.balanced_tree(2), families, units=2, roots=2, root_weights="learnable", unitary=unitary
    )
    x = torch.tensor([[0.0, 0.5]], dtype=torch.float64)
    names = [n for n, p in sq.SquaredCircuit(circuit).named_parameters() if p.numel()]
    for name in names:
        model = sq.SquaredCircuit(circuit, seed=0).eval()
        model.get_parameter(name).data.view(-1)[-1] = bad
        assert not unitary or name == "root_logits" or "hermite" in name or not _is_normalised(model)
        questions = [
            lambda model=model: model.log_prob(x),
            lambda model=model: model.log_prob(x, missing=[True, False]),
            lambda model=model: model.sample(2, seed=0),
            lambda model=model: model.mean(),
            lambda model=model: model.log_conditional(x, of=[0], given=[1]),
        ]
        for question in questions:
            with pytest.raises(sq.ParameterError, match=r"NaN or infinity.*Fix"):
                question()


def _is_normalised(model: sq.SquaredCircuit) -> bool:
    try:
        return model.is_normalised()
    except sq.ParameterError:
        return False


@pytest.mark.parametrize("offset", [0.0, 1.7e9])
def test_training_tells_large_numbers_apart_that_differ_by_little(offset):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(120, 2, generator=generator, dtype=torch.float64) + torch.tensor([offset, 0.0])
    model = sq.table_model(x, seed=0)
    history = sq.fit(model, x, valid=x, epochs=4, progress=False, seed=0)
    assert history.best.valid == pytest.approx(-model.log_prob(x).mean().item(), abs=1e-4)
    assert 2 < history.best.valid < 4


def test_moving_to_double_precision_keeps_a_model_on_the_manifold_and_tractable():
    circuit = sq.build(sq.regions.patch_splits((2, 2), 2), FOUR, units=2)
    model = sq.SquaredCircuit(circuit, dtype=torch.complex64).eval()
    x = torch.tensor([[0, 1, 2, 3]])
    before = model.log_prob(x, missing=[True, False, False, False]).item()
    after = model.double().log_prob(x, missing=[True, False, False, False]).item()
    assert model.is_normalised()
    assert after == pytest.approx(before, abs=1e-5)
    both = sq.mixture([sq.SquaredCircuit(circuit, dtype=torch.complex64), model])
    assert both.is_normalised()


@pytest.mark.parametrize("constraint", [sq.Constraint.FREE, sq.Constraint.SEMI_UNITARY])
def test_an_unpickled_model_with_a_shared_parameter_answers_as_before(constraint, tmp_path):
    weight, family = sq.Parameter((2, 2), constraint), sq.Categorical(2)
    inputs = [sq.Input(0, family, 1, weight, row) for row in (0, 1)]
    model = sq.SquaredCircuit(sq.Circuit(sq.Sum(inputs, units=1))).eval()
    again = pickle.loads(pickle.dumps(model))
    x = torch.tensor([[0], [1]])
    assert torch.equal(again.log_prob(x), model.log_prob(x))
    assert torch.equal(again.marginals().values[0], model.marginals().values[0])


def test_gradients_off_the_manifold_count_cross_terms_also_where_rows_are_orthogonal():
    rows = sq.Parameter((3, 3))
    inputs = [sq.Input(0, sq.Categorical(3), 1, rows, first_row=row) for row in (0, 1)]
    model = sq.SquaredCircuit(sq.Circuit(sq.Sum(inputs, units=1)), seed=28, dtype=torch.complex128)
    for parameter in model.parameters():
        parameter.data.mul_(1.5)  # the products of rows stay zero, and their derivatives do not
    x = torch.tensor([[1]])
    held = list(model.parameters())
    found = torch.autograd.grad(model.log_prob(x).sum(), held)
    generator = torch.Generator().manual_seed(0)
    for parameter, gradient in zip(held, found, strict=True):
        step = 1e-6 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        ends = []
        for sign in (1, -2):
            parameter.data.add_(sign * step)
            ends.append(model.log_prob(x).item())
        parameter.data.add_(step)
        slope = (gradient.conj() * step).real.sum().item()
        assert (ends[0] - ends[1]) / 2 == pytest.approx(slope, rel=1e-4)


def off_the_manifold_with_orthogonal_rows(circuit):
    """A model whose weights are multiples of semi-unitary ones, so that all cross terms are still zero."""
    model = sq.SquaredCircuit(circuit, seed=1, dtype=torch.complex128).eval()
    for number, parameter in enumerate(model.parameters()):
        parameter.data.mul_(1.2 + 0.1 * number)
    return model


def slope_and_difference(model, ask):
    """The slope of a question along a random direction, by its gradient and by a central difference."""
    held = list(model.parameters())
    found = torch.autograd.grad(ask(), held)
    generator = torch.Generator().manual_seed(0)
    ways = [1e-4 * torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in held]
    ends = []
    for sign in (1, -1):
        for p, way in zip(held, ways, strict=True):
            p.data.add_(sign * way)
        with torch.no_grad():
            ends.append(evaluated_density(model))
        for p, way in zip(held, ways, strict=True):
            p.data.sub_(sign * way)
    slope = sum((g.conj() * way).real.sum().item() for g, way in zip(found, ways, strict=True))
    return slope, (ends[0] - ends[1]) / 2


def evaluated_density(model):
    """log p(0, …) by evaluation of the circuit and a sum over all its states, not by rules of the model."""
    circuit = model.circuit()
    states = torch.cartesian_prod(*[torch.arange(2)] * len(circuit.scope))
    squares = sq.evaluate(circuit, states).abs().square().sum(dim=1)
    return (squares[0] / squares.sum()).log().item()


def test_gradients_off_the_manifold_are_right_or_refused_where_circuits_split_differently():
    model = off_the_manifold_with_orthogonal_rows(
        sq.build(sq.regions.patch_splits((2, 2), 2), sq.Categorical(2), units=1)
    )
    assert not sq.is_structured_decomposable(model.circuit())
    row = torch.zeros(1, 4, dtype=torch.long)
    slope, difference = slope_and_difference(model, lambda: model.log_prob(row).sum())
    assert slope == pytest.approx(difference, rel=1e-4)
    log_p = model.log_prob(row, [True, False, False, False])  # the value is right, its gradient is not
    both = torch.cat([row, row])
    both[1, 0] = 1
    assert log_p.item() == pytest.approx(model.log_prob(both).exp().sum().log().item(), abs=1e-9)
    with pytest.raises(
        sq.StructureError, match=r"cross terms are zero, but their gradients are not.*no_grad"
    ):
        log_p.sum().backward()
    assert all(p.grad is None for p in model.parameters())


def test_weights_that_are_zero_have_their_gradient_also_in_rows_that_one_component_cannot_have():
    def one_hot(*states):
        return sq.Parameter((len(states), 4), value=torch.eye(4, dtype=torch.float64)[list(states)])

    line, states = sq.Hermite(2), sq.Categorical(4)
    impossible = sq.Kronecker([sq.Input(1, states, weight=one_hot(3)), sq.Input(0, line, 1)])
    both = sq.Sum(sq.Input(1, states, weight=one_hot(0, 1)), 1)  # of state 1 the first unit is zero
    circuit = sq.Circuit([impossible, sq.Hadamard([sq.Input(0, line, 1), both])])
    model = sq.SquaredCircuit(circuit, seed=81, dtype=torch.complex128).eval()
    rows, missing = torch.tensor([[0.3, 0.0], [-1.0, 1.0]]), torch.tensor([[False, True], [False, False]])
    held = list(model.parameters())
    alone = torch.autograd.grad(model.log_prob(rows[1:]).sum(), held, allow_unused=True)
    beside = torch.autograd.grad(model.log_prob(rows, missing)[1], held, allow_unused=True)
    for parameter, one, other in zip(held, alone, beside, strict=True):
        if getattr(parameter, "constraint", "free") == "semi-unitary":
            skew = [(g.mT.conj() @ parameter).detach() for g in (one, other)]  # what is tangent of them
            skew = [s - s.mH for s in skew]
            assert torch.allclose(*skew, atol=1e-9)
            assert skew[0].abs().max() > 1e-3 or parameter.shape[1] == 1
