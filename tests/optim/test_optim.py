"""Laws of optimisation on the manifold of semi-unitary matrices."""

from __future__ import annotations

import copy
import math

import pytest
import torch

import squircuit as sq
from squircuit import optim
from squircuit.optim.gram import Grams, inverse_square_root
from squircuit.optim.landing import rectification
from squircuit.optim.polar import polar_factors, polar_step, tangent

METHODS = {
    "Polar": lambda p, **k: optim.Polar(p, **{"lr": 0.05, **k}),
    "POGO": lambda p, **k: optim.POGO(p, **{"lr": 0.05, **k}),
    "LandingPC": lambda p, **k: optim.LandingPC(p, **{"lr": 0.05, "rectify": False, **k}),
    "LandingPC with RAdam": lambda p, **k: optim.LandingPC(p, **{"lr": 0.05, "betas": (0.9, 0.99), **k}),
    "LandingSGD": lambda p, **k: optim.LandingSGD(p, **{"lr": 0.05, **k}),
    "LandingSGD*": lambda p, **k: optim.LandingSGD(p, **{"lr": 0.05, "project": True, **k}),
}
FEASIBLE = ("Polar", "POGO")


def semi_unitary(*shape, seed=0, dtype=torch.complex128):
    generator = torch.Generator().manual_seed(seed)
    return optim.project(torch.randn(shape, generator=generator, dtype=dtype))


def constrained(weight):
    return [{"params": [weight], "constrained": True}]


@pytest.mark.parametrize("metric", ["euclidean", "canonical"])
@pytest.mark.parametrize("rows", [1, 4])
def test_directions_are_tangent_whatever_the_scale_of_their_rows(metric, rows):
    """R Xᴴ + X Rᴴ = 0 for X on the manifold."""
    x, m = semi_unitary(3, 4, 9), torch.randn(3, 4, 9, dtype=torch.complex128)
    g = Grams.of(x, m)
    a, b = g.scaled(*getattr(g, metric)(), 0.1 + torch.rand(3, rows, 1, dtype=torch.float64))
    r = a @ x + (b * m if b.shape[-1] == 1 else b @ m)
    assert (r @ x.mH + x @ r.mH).abs().max() < 1e-12


def test_the_gram_of_a_combination_needs_only_the_small_matrices():
    x, m = (torch.randn(2, 3, 7, dtype=torch.complex128) for _ in range(2))
    a, b = (torch.randn(2, 3, 3, dtype=torch.complex128) for _ in range(2))
    whole = a @ x + b @ m
    g = Grams.of(x, m)
    assert torch.allclose(g.combined(a, b), whole @ whole.mH)
    assert torch.allclose(g.norm(a, b).flatten(), torch.linalg.matrix_norm(whole))


def test_the_gram_along_a_line_is_quadratic_in_the_step():
    x, m = (torch.randn(2, 3, 7, dtype=torch.complex128) for _ in range(2))
    a, b = torch.randn(2, 3, 3, dtype=torch.complex128), torch.rand(2, 3, 1, dtype=torch.complex128)
    g = Grams.of(x, m)
    slope, square = g.line(a, b)
    y = x - 0.3 * (a @ x + b * m)
    assert torch.allclose(g.xx - 0.3 * slope + 0.09 * square, y @ y.mH)


@pytest.mark.parametrize("rows", [1, 40])
def test_nearly_square_matrices_take_the_same_step_as_the_gram_core(rows):
    x, m = semi_unitary(2, 40, 44), torch.randn(2, 40, 44, dtype=torch.complex128)
    scale = 0.1 + torch.rand(2, rows, 1, dtype=torch.float64)
    g = Grams.of(x, m)
    a, b = g.scaled(*g.euclidean(), scale)
    direction = a @ x + b * m
    assert torch.allclose(tangent(x, m, scale), direction)
    u, _, vh = torch.linalg.svd(
        x - 0.5 / torch.linalg.matrix_norm(direction)[:, None, None] * direction, False
    )
    polar_step(x, m, scale, rate=10.0, trust=0.5)
    assert torch.allclose(x, u @ vh)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("rate", [0.01, 10.0])
def test_the_gram_core_takes_the_step_of_the_polar_decomposition(rows, rate):
    """αX + βM is the polar factor of X − ηD, D tangent with scaled rows and η‖D‖ ≤ ½."""
    x = semi_unitary(2, 4, 9)
    generator = torch.Generator().manual_seed(1)
    m = torch.randn(x.shape, dtype=x.dtype, generator=generator)
    scale = 0.1 + torch.rand(2, rows, 1, dtype=torch.float64, generator=generator)
    direction = tangent(x, m, scale)
    norm = torch.linalg.matrix_norm(direction)[:, None, None]
    u, _, vh = torch.linalg.svd(x - (0.5 / norm).clamp_max(rate) * direction, False)
    alpha, beta = polar_factors(Grams.of(x, m), scale, rate, 0.5)
    assert torch.allclose(alpha @ x + beta @ m, u @ vh, atol=1e-10)


def test_newton_schulz_gives_the_inverse_square_root():
    y = semi_unitary(5, 4, 8) + 0.1 * torch.randn(5, 4, 8, dtype=torch.complex128)
    root = inverse_square_root(y @ y.mH, steps=8)
    assert optim.distance(root @ y).max() < 1e-12


def test_many_steps_of_nearly_square_matrices_stay_on_the_manifold():
    weight = torch.nn.Parameter(semi_unitary(3, 40, 48, dtype=torch.complex64))
    optimiser = optim.Polar(constrained(weight), lr=0.2)
    for _ in range(200):
        weight.grad = torch.randn_like(weight)
        optimiser.step()
    assert optim.distance(weight.detach()).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dtype", [torch.complex128, torch.float64])
def test_procrustes_reaches_its_known_optimum(name, dtype):
    """max Re tr(A Wᴴ) over semi-unitary W is the sum of the singular values of A."""
    a = torch.randn(2, 3, 6, dtype=dtype, generator=torch.Generator().manual_seed(1))
    best = torch.linalg.svdvals(a).sum()
    weight = torch.nn.Parameter(semi_unitary(2, 3, 6, dtype=dtype))
    optimiser = METHODS[name](constrained(weight))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 1500)
    for _ in range(1500):
        optimiser.zero_grad()
        loss = -(a * weight.conj()).real.sum()
        loss.backward()
        optimiser.step()
        schedule.step()
    found = (a * optim.project(weight.detach()).conj()).real.sum()
    assert found == pytest.approx(best.item(), rel=1e-3)


@pytest.mark.parametrize("name", METHODS)
def test_the_row_space_moves(name):
    """The column form of the relative gradient, applied to wide matrices, would never leave it."""
    weight = torch.nn.Parameter(semi_unitary(1, 2, 6))
    start = weight.detach().clone()
    target = semi_unitary(1, 2, 6, seed=3)
    optimiser = METHODS[name](constrained(weight))
    for _ in range(150):
        optimiser.zero_grad()
        (-(target * weight.conj()).real.sum()).backward()
        optimiser.step()
    outside = weight.detach() @ (torch.eye(6) - start.mH @ start)
    assert outside.abs().max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", FEASIBLE)
def test_feasible_methods_stay_on_the_manifold(name):
    weight = torch.nn.Parameter(semi_unitary(4, 3, 20, dtype=torch.complex64))
    optimiser = METHODS[name](constrained(weight), lr=0.1 if name == "Polar" else 0.02)
    generator = torch.Generator().manual_seed(0)
    for _ in range(2_000 if name == "Polar" else 500):
        weight.grad = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        optimiser.step()
    assert optim.distance(weight.detach()).max() <= (1e-5 if name == "Polar" else 1e-3)


@pytest.mark.parametrize("name", ["LandingPC", "LandingSGD"])
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_landing_without_a_gradient_leads_to_the_manifold(name, factor):
    weight = torch.nn.Parameter(factor * semi_unitary(2, 3, 8))
    optimiser = METHODS[name](constrained(weight), lr=1.0, project=False)
    before = optim.distance(weight.detach())
    for _ in range(40):
        weight.grad = torch.zeros_like(weight)
        optimiser.step()
        after = optim.distance(weight.detach())
        assert (after < before).all()
        before = after
    assert (after < 1e-3).all()


def test_landing_with_projection_never_goes_beyond_its_radius():
    weight = torch.nn.Parameter(semi_unitary(4, 3, 20))
    optimiser = optim.LandingPC(constrained(weight), lr=5.0, radius=0.3)
    for step in range(200):
        weight.grad = torch.randn(
            weight.shape, generator=torch.Generator().manual_seed(step), dtype=weight.dtype
        )
        optimiser.step()
        assert optim.distance(weight.detach()).max() <= 0.3 + 1e-6


def test_a_row_with_a_negligible_gradient_gives_way_to_one_that_needs_its_state():
    """Both rows want the first state, one of them a million times less; they are orthogonal to each other."""
    weight = torch.nn.Parameter(semi_unitary(2, 8, dtype=torch.float64))
    optimiser = optim.Polar(constrained(weight), lr=0.1)
    for _ in range(60):
        optimiser.zero_grad()
        (-weight[0, 0].square().log() - 1e-6 * weight[1, 0].square().log()).backward()
        optimiser.step()
    assert weight[0, 0].square() > 0.99


def test_training_with_polar_keeps_the_partition_function_at_one_and_improves_the_likelihood():
    model = sq.SquaredCircuit(sq.build(sq.regions.quad_tree((6, 6)), sq.Categorical(8), 4))
    data = (torch.arange(36) + torch.randint(2, (256, 36), generator=torch.Generator().manual_seed(0))) % 8
    optimiser = optim.Polar(model.parameters(), lr=0.1)
    before = model.log_prob(data).mean().item()
    for _ in range(40):
        optimiser.zero_grad()
        (-model.log_prob(data).mean()).backward()
        optimiser.step()
        assert abs(model.log_partition().item()) < 1e-3
    assert model.log_prob(data).mean().item() > before + 20


@pytest.mark.slow
def test_log_z_of_the_papers_model_stays_at_zero_through_training_with_polar():
    """28×28 images, K = 8, complex64: within 10⁻³ nats, measured exactly."""
    model = sq.SquaredCircuit(sq.build(sq.regions.quad_tree((28, 28)), sq.Categorical(256), 8), seed=0)
    optimiser = optim.Polar(model.parameters(), lr=0.2)
    x = torch.randint(256, (4, 784), generator=torch.Generator().manual_seed(0))
    losses = []
    for _ in range(4):
        optimiser.zero_grad()
        loss = -model.log_prob(x).mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        assert abs(model.log_partition().item()) < 1e-3
    assert losses[-1] < losses[0] - 50


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_gradients_that_are_not_finite_raise_before_any_weight_changes(name, bad):
    first, second = (torch.nn.Parameter(semi_unitary(1, 2, 4)) for _ in range(2))
    optimiser = METHODS[name]([{"params": [first, second], "constrained": True}])
    first.grad, second.grad = torch.ones_like(first), torch.full_like(second, bad)
    before = first.detach().clone()
    with pytest.raises(FloatingPointError, match="parameter 1 of group 0"):
        optimiser.step()
    assert torch.equal(first.detach(), before)


@pytest.mark.parametrize("name", METHODS)
def test_states_round_trip(name):
    def run(weight, optimiser, steps, start):
        for step in range(start, start + steps):
            generator = torch.Generator().manual_seed(step)
            weight.grad = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
            optimiser.step()

    weight = torch.nn.Parameter(semi_unitary(2, 2, 5))
    optimiser = METHODS[name](constrained(weight))
    run(weight, optimiser, 8, 0)
    twin = torch.nn.Parameter(weight.detach().clone())
    resumed = METHODS[name](constrained(twin))
    resumed.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    run(weight, optimiser, 5, 8)
    run(twin, resumed, 5, 8)
    assert torch.allclose(weight, twin, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("rate", [0.1, torch.tensor(0.1)])
def test_free_parameters_are_updated_by_adam(dtype, decay, rate):
    value = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=dtype))
    twin = torch.nn.Parameter(value.detach().clone())
    group = {"params": [value], "constrained": False, "weight_decay": decay}
    ours = optim.Polar([group], free_lr=rate, betas=(0.9, 0.99), eps=1e-8)
    theirs = torch.optim.Adam([twin], lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=decay, foreach=False)
    for step in range(5):
        for p in (value, twin):
            p.grad = torch.tensor([0.3, 1.0, 0.0]).to(dtype) * (step + 1) * (1j if dtype.is_complex else 1)
        ours.step()
        theirs.step()
    assert torch.allclose(value, twin, rtol=1e-5)


def test_a_models_parameters_are_split_by_what_they_say():
    circuit = sq.build(sq.regions.linear(2), sq.Fourier(5, 2.0, learnable=True), 2)
    model = sq.SquaredCircuit(circuit)
    made = optim.groups(model, lr=0.3, free_lr=0.02)
    assert [g["constrained"] for g in made] == [True, False]
    assert made[0]["lr"] == 0.3
    assert [g["constrained"] for g in optim.Polar(model.parameters()).param_groups] == [True, False]


REFUSED = {
    "weight decay does nothing": {"weight_decay": 0.1},
    "second_moment=.entry. is not known. Fix: ": {"second_moment": "entry"},
    "lr=-1": {"lr": -1.0},
    "betas=.*Fix: pass two numbers": {"betas": (1.0, 0.9)},
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_options_are_refused_with_a_reason(message):
    weight = torch.nn.Parameter(semi_unitary(1, 2, 4))
    with pytest.raises(sq.ParameterError, match=message):
        optim.Polar(constrained(weight), **REFUSED[message])


def test_tall_matrices_are_refused():
    with pytest.raises(sq.ParameterError, match="K1 ≤ K2"):
        optim.Polar(constrained(torch.nn.Parameter(torch.zeros(4, 2))))


def test_pogo_takes_the_steps_of_the_peer_package():
    pogo = pytest.importorskip("pogo.pogo")
    base = pytest.importorskip("pogo.base")
    weight = torch.nn.Parameter(semi_unitary(3, 2, 7))
    twin = torch.nn.Parameter(weight.detach().clone())
    ours = optim.POGO(constrained(weight), lr=0.1)
    theirs = pogo.POGO([twin], base_optimizer=base.VectorAdam(), lr=0.1)
    for step in range(10):
        generator = torch.Generator().manual_seed(step)
        gradient = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        weight.grad, twin.grad = gradient.clone(), gradient.clone()
        ours.step()
        theirs.step()
        assert torch.allclose(weight, twin, atol=1e-12)


@pytest.mark.parametrize("beta2", [0.9, 0.99, 0.999])
def test_the_rectification_is_that_of_torchs_radam(beta2):
    """With a constant gradient each step of RAdam is lr·r_t, or lr itself before r_t is known."""
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    peer = torch.optim.RAdam([weight], lr=1.0, betas=(0.9, beta2), eps=1e-30)
    for step in range(1, 60):
        before = weight.item()
        weight.grad = torch.ones_like(weight)
        peer.step()
        found = rectification(torch.tensor(float(step), dtype=torch.float64), beta2).item()
        moved = before - weight.item()
        assert found == pytest.approx(moved if found else 0, rel=1e-9)
        assert found > 0 or moved == pytest.approx(1)
