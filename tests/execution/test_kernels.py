"""GPU kernels agree with their plain twins; skipped where there is no CUDA device."""

from __future__ import annotations

import pytest
import torch

import squircuit as sq
from squircuit.circuits.initial import haar
from squircuit.execution import complex_planes, weighted_product
from squircuit.execution.algebras import entrywise_gradients
from squircuit.execution.cuda_graph import CapturedStep
from squircuit.execution.inputs import lookup
from squircuit.execution.kernels import draws, entrywise, hermitian, pairs, products, row_sums
from squircuit.execution.log_scales import normalise
from squircuit.execution.precision import tf32
from squircuit.inference.sampling.ancestral import _normalised
from squircuit.inference.sampling.draws import draw_index, squares
from squircuit.inference.sampling.square_roots import _square_root
from squircuit.optim import Polar
from squircuit.optim.gram import Grams
from squircuit.optim.kernels import gram, wide
from squircuit.optim.polar import polar_direction, polar_factors, polar_root, polar_step, tangent_factor

needs_gpu = pytest.mark.gpu
needs_hopper = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != pairs.HOPPER,
    reason="no Hopper device",
)
SHAPES = [(3, 4, 16, 33), (2, 8, 64, 256), (1, 1, 4, 1), (2, 3, 9, 100)]


def close(a, b, tolerance=1e-5):
    return (a.cpu() - b.cpu()).abs().max() <= tolerance * b.abs().max().cpu()


@needs_gpu
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernels_of_the_contraction_agree_with_plain_torch(shape):
    folds, units, height, batch = shape
    product = torch.randn(folds, units, height, 2, batch)
    left, gradient = torch.randn(folds, height, 2, batch), torch.randn(folds, units, 2, batch)
    plain = weighted_product.reduce_rows(product, left)
    assert close(row_sums.reduce_rows(product.cuda(), left.cuda()), plain)
    expected = weighted_product.spread_rows(product, left, gradient)
    found = row_sums.spread_rows(product.cuda(), left.cuda(), gradient.cuda())
    assert all(close(a, b) for a, b in zip(found, expected, strict=True))


@needs_gpu
@pytest.mark.parametrize("kind", ["kronecker", "hadamard"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("batch", [1, 33, 256])
def test_the_kernels_of_products_agree_with_plain_torch(kind, count, batch):
    count = min(count, 2) if kind == "kronecker" else count
    widths = [5, 7] if kind == "kronecker" else [6] * 4
    factors = [torch.randn(3, widths[i], 2, batch) for i in range(count)]
    on_gpu = [factor.cuda() for factor in factors]
    assert products.usable(kind, on_gpu)
    plain = complex_planes.kronecker(factors) if kind == "kronecker" else complex_planes.hadamard(factors)
    assert close(products.product(kind, on_gpu, expand=False), plain)
    assert close(products.product(kind, on_gpu, expand=True), complex_planes.expanded(plain))
    folded = torch.randn(3, 2 * plain.shape[1], 2 * batch)
    for gradient in (folded, complex_planes.contracted(folded, 2)):
        expected, found = ([torch.empty_like(f) for f in each] for each in (factors, on_gpu))
        weighted_product.product_gradients(kind, factors, gradient, expected)
        products.gradients(kind, on_gpu, gradient.cuda(), found)
        assert all(close(a, b) for a, b in zip(found, expected, strict=True))


PAIRS = [
    (3, 3, 32, 5, 7, 33),
    (5, 1, 40, 33, 6, 20),
    (2, 2, 64, 64, 64, 256),
    (2, 1, 128, 70, 128, 130),
    (1, 1, 33, 2, 1, 1),
]


@needs_gpu
@needs_hopper
@pytest.mark.parametrize("shape", PAIRS)
def test_the_kernels_of_weighted_pairs_agree_with_plain_torch_up_to_tf32(shape):
    folds, stacks, units, height, width, batch = shape
    weight, gradient = torch.randn(stacks, units, 2 * height * width), torch.randn(folds, units, 2, batch)
    factors = [torch.randn(folds, n, 2, batch) for n in (height, width)]
    expected, saved = weighted_product.forward("kronecker", weight, factors, keep=True)
    targets, total = [torch.empty_like(f) for f in factors], torch.empty_like(weight)
    weighted_product.backward("kronecker", weight, saved, gradient, targets, total, fresh=True)
    on_gpu, there = [f.cuda() for f in factors], weight.cuda()
    with tf32(True):
        assert pairs.usable(there, on_gpu)
        found, saved = weighted_product.forward("kronecker", there, on_gpu, keep=True)
        assert saved.is_fused
        found_targets, found_total = [torch.empty_like(f) for f in on_gpu], torch.ones_like(there)
        for fresh in (True, False):  # written, then added: twice the gradient
            arguments = (gradient.cuda(), found_targets, found_total, fresh)
            weighted_product.backward("kronecker", there, saved, *arguments)
    assert close(found, expected, 3e-3)
    assert all(close(a, b, 3e-3) for a, b in zip(found_targets, targets, strict=True))
    assert close(found_total, 2 * total, 3e-3)


@needs_gpu
@pytest.mark.parametrize("tie", [None, 2])
def test_the_gradient_of_a_circuit_in_halves_is_that_in_double_precision_up_to_tf32(tie):
    graph = sq.regions.quad_tree((6, 5), parts=2)
    model = sq.SquaredCircuit(sq.build(graph, sq.Categorical(64), 40, roots=3, tie=tie))
    x, gradients = torch.randint(64, (33, 30)), []
    for dtype, device in ((torch.float64, "cpu"), (torch.float32, "cuda")):
        moved = sq.SquaredCircuit(model.circuit()).to(device, dtype)
        moved.log_density(x.to(device)).mean().backward()
        gradients.append([p.grad.cpu() for p in moved.parameters()])
    # the largest error of 200 draws was 4.8e-3, their median 2.9e-3
    assert all((a - b).norm() <= 1e-2 * a.norm() for a, b in zip(*gradients, strict=True))


@needs_gpu
def test_evaluation_without_gradients_uses_neither_fused_kernels_nor_tf32():
    model = sq.SquaredCircuit(sq.build(sq.regions.quad_tree((6, 5), parts=2), sq.Categorical(64), 40))
    x = torch.randint(64, (20, 30))
    with torch.no_grad():
        expected = sq.SquaredCircuit(model.circuit()).double().log_prob(x)
        found = model.cuda().log_prob(x.cuda()).cpu()
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()


@needs_gpu
@pytest.mark.parametrize("shape", [(3, 5, 2, 100), (1, 1, 2, 1), (4, 64, 2, 256)])
def test_the_kernel_of_normalisation_agrees_with_plain_torch(shape):
    out, scales = torch.randn(shape), [torch.randn(shape[0], shape[3]) for _ in range(4)]
    out[0, :, :, 0] = 0
    results = []
    for device in ("cpu", "cuda"):
        values, scale = torch.empty(shape, device=device), torch.empty(shape[0], shape[3], device=device)
        inverse = normalise(out.to(device), [s.to(device) for s in scales], values, scale)
        results.append((values, scale, inverse))
    assert results[1][1][0, 0].item() == pytest.approx(sum(s[0, 0].item() for s in scales), abs=1e-5)
    assert results[1][2][0, 0, 0, 0] == 1  # what is zero has norm 1, so that its gradient passes
    assert all(close(b, a) for a, b in zip(*results, strict=True))


@needs_gpu
@pytest.mark.parametrize("tables", [1, 3])
@pytest.mark.parametrize("units", [1, 5, 40])
def test_the_kernels_of_the_lookup_agree_with_plain_torch(tables, units):
    table = torch.randn(tables, units, 70, dtype=torch.complex64)
    x, g = torch.randint(70, (3, 50)), torch.randn(3, units, 2, 50)
    found = []
    for device in ("cpu", "cuda"):
        leaf = table.detach().to(device, copy=True).requires_grad_()
        out = lookup(leaf, x.to(device))
        (out * g.to(device)).sum().backward()
        found.append((out.detach(), torch.view_as_real(leaf.grad)))
    assert all(close(b, a) for a, b in zip(*found, strict=True))


@needs_gpu
@pytest.mark.parametrize(
    "shape", [(3, 8, 4096), (2, 15, 65536), (5, 4, 256), (2, 3, 7), (1, 1, 4096), (2, 5, 300)]
)
def test_the_kernels_of_the_optimiser_agree_with_plain_torch(shape):
    x, g, m = (torch.randn(shape, dtype=torch.complex64) / shape[-1] ** 0.5 for _ in range(3))
    alpha, beta = (torch.randn(shape[0], shape[1], shape[1], dtype=torch.complex64) for _ in range(2))
    gx, gg, gm = x.cuda(), g.cuda(), m.cuda()
    sums = gram.Sums(shape[0] + 1, shape[1] + 1, gx.device)  # the matrices of another parameter come first
    gram.momentum_and_grams(gx, gg, gm, 0.9, 0.1, sums, start=1)
    *products, squares = (part[1:, : shape[1], : shape[1]] for part in sums.grams())
    average = m.lerp(g, 0.1)
    assert close(gm, average)
    plain = Grams.of(x.to(torch.complex128), average.to(torch.complex128))
    for found, expected in zip(products, (plain.xx, plain.xm, plain.mm), strict=True):
        assert close(found, expected)
    assert close(squares.squeeze(2), g.abs().square().sum(dim=2))
    gram.combine(gx, gm, gram.factors(alpha.cuda(), beta.cuda()), start=0)
    assert close(gx, alpha @ x + beta @ average)


@needs_gpu
@pytest.mark.parametrize("rows", [2, 5, 8, 16])
@pytest.mark.parametrize("by_row", [True, False])
def test_the_kernel_between_the_passes_of_polar_agrees_with_plain_torch(rows, by_row):
    x, m = (torch.randn(7, rows, 40, dtype=torch.complex128) for _ in range(2))
    x = torch.linalg.qr(x.mH)[0].mH + 1e-3 * x
    scale = 0.1 + torch.rand(7, rows if by_row else 1, 1, dtype=torch.float64)
    g = Grams.of(x, m)
    on_gpu = Grams(g.xx.cuda(), g.xm.cuda(), g.mm.cuda())
    for lr in (0.01, 10.0):
        plain, found = polar_factors(g, scale, lr, 0.5), polar_factors(on_gpu, scale.cuda(), lr, 0.5)
        assert all(close(a, b, 1e-10) for a, b in zip(found, plain, strict=True))


@needs_gpu
@pytest.mark.parametrize("rows", [3, 40, 65])
def test_the_kernel_of_the_tangent_direction_agrees_with_plain_torch(rows):
    cross, scale = torch.randn(2, rows, rows, dtype=torch.complex64), torch.rand(2, rows, 1)
    assert close(tangent_factor(cross.cuda(), scale.cuda()), tangent_factor(cross, scale))


@needs_gpu
@pytest.mark.parametrize("rows", [128, 150, 256])
@pytest.mark.parametrize("depth", [7, 200])
def test_the_kernel_of_hermitian_products_is_as_exact_as_single_precision(rows, depth):
    w = torch.randn(3, rows, depth, dtype=torch.complex64, device="cuda")
    core = torch.randn(3, depth, depth, dtype=torch.complex64, device="cuda")
    half = w @ (core + core.mH)
    for a in (w, half):
        assert hermitian.usable(a, w)
        exact = a.to(torch.complex128) @ w.to(torch.complex128).mH
        plain = (a @ w.mH - exact).abs().max()
        found = hermitian.product(a, w)
        assert (found - exact).abs().max() <= 2 * plain + 1e-7 * exact.abs().max()


@needs_gpu
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 7), (5, 64, 64)])
def test_the_kernels_of_entrywise_products_of_grams_agree_with_double_precision(count, shape):
    grams = [torch.randn(shape, dtype=torch.complex64, device="cuda") for _ in range(count)]
    gradient = torch.randn(shape, dtype=torch.complex64, device="cuda")
    targets = [torch.empty_like(gram) for gram in grams]
    assert entrywise.usable(grams)
    entrywise_gradients(grams, gradient, targets)
    exact = [gram.to(torch.complex128).requires_grad_() for gram in grams]
    whole = exact[0]
    for other in exact[1:]:
        whole = whole * other
    whole.backward(gradient.to(torch.complex128))
    assert close(entrywise.product(grams), whole.detach())
    for target, each in zip(targets, exact, strict=True):
        assert close(target, each.grad)


@needs_gpu
def test_the_kernel_of_adam_agrees_with_plain_torch():
    weights = [torch.randn(5, 300, dtype=torch.complex64), torch.randn(7)]
    found = []
    for device in ("cpu", "cuda"):
        leaves = [torch.nn.Parameter(w.clone().to(device)) for w in weights]
        optimiser = Polar(leaves, free_lr=0.1)
        for _ in range(5):
            optimiser.zero_grad()
            sum((leaf.abs() ** 2).sum() for leaf in leaves).backward()
            optimiser.step()
        found.append([leaf.detach() for leaf in leaves])
    assert all(close(b, a) for a, b in zip(*found, strict=True))


@needs_gpu
@pytest.mark.parametrize("units", [2, 4, 8])
def test_values_and_gradients_on_the_gpu_agree_with_double_precision_on_the_cpu(units):
    circuit = sq.build(sq.regions.quad_tree((12, 12)), sq.Categorical(16), units).initialise(seed=0)
    x = torch.randint(16, (64, 144), generator=torch.Generator().manual_seed(0))
    exact, fast = sq.SquaredCircuit(circuit, dtype=torch.complex128), sq.SquaredCircuit(circuit).cuda()
    exact.log_prob(x).sum().backward()
    fast.log_prob(x.cuda()).sum().backward()
    with torch.no_grad():  # evaluation is in full single precision
        assert (fast.log_prob(x.cuda()).cpu() - exact.log_prob(x)).abs().max() < 1e-4 * exact.log_prob(
            x
        ).abs().max()
    for a, b in zip(fast.parameters(), exact.parameters(), strict=True):
        assert (a.grad.cpu() - b.grad).norm() < 1e-2 * b.grad.norm()  # TF32 in the products of training


@needs_gpu
@pytest.mark.parametrize("unitary", [True, False])
def test_log_z_on_the_gpu_of_inputs_without_weights_is_that_of_the_cpu(unitary):
    circuit = sq.build(
        sq.regions.quad_tree((3, 3)), sq.Categorical(4), 4, "hadamard", unitary=unitary, input_sums=True
    ).initialise(seed=0)
    model = sq.SquaredCircuit(circuit)
    expected = model.log_partition().item()
    assert model.cuda().log_partition().item() == pytest.approx(expected, abs=1e-6)


@needs_gpu
def test_values_outside_their_domain_are_refused_on_the_gpu_and_impossible_in_a_training_step():
    model = sq.SquaredCircuit(sq.build(sq.regions.balanced_tree(3), sq.Categorical(4), 2)).cuda()
    x = torch.tensor([[0, 1, 2], [0, 4, 2], [3, 3, -1]], device="cuda")
    with model.training_step():
        found = model.log_prob(x)
    assert found.isneginf().tolist() == [False, True, True]
    with pytest.raises(sq.DataError, match="row 1, column 1"), torch.no_grad():
        model.log_prob(x)
    with pytest.raises(sq.DataError, match="row 1, column 1"):
        model.eval().log_prob(x)


@needs_gpu
@pytest.mark.parametrize("units", [4, 40])
def test_a_captured_step_is_the_step(units):
    def prepare():
        product = "kronecker" if units < 8 else "hadamard"
        circuit = sq.build(sq.regions.quad_tree((8, 8)), sq.Categorical(64), units, product)
        model = sq.SquaredCircuit(circuit).cuda()
        optimiser = Polar(model.parameters(), lr=0.05)

        def step(x):
            optimiser.zero_grad(set_to_none=True)
            loss = -model.log_density(x).mean()
            loss.backward()
            optimiser.step()
            return loss.detach()

        return model, step

    batches = [
        torch.randint(8, (32, 64), generator=torch.Generator().manual_seed(i)).cuda() for i in range(6)
    ]
    (model, step), (twin, twin_step) = prepare(), prepare()
    captured = CapturedStep(twin_step, batches[0], warm_up=3)
    for _ in range(3):
        step(batches[0])
    for x in batches:
        assert captured(x).item() == step(x).item()
    assert abs(twin.log_partition().item()) < 1e-4
    assert abs(model.log_partition().item()) < 1e-4


@needs_gpu
@pytest.mark.parametrize(
    "family",
    [
        sq.Fourier(5, period=6.0), sq.Fourier(5, period=6.0, learnable=True), sq.Hermite(5),
        sq.Legendre(5, -3, 3), sq.Laguerre(5), sq.Gaussian(5), sq.Gaussian(5, learnable=False),
        sq.BSpline(6, -3, 3),
        sq.Orthonormalised(sq.BSpline(6, -3, 3)),
    ],
)  # fmt: skip
def test_training_on_a_gpu_captures_steps_with_every_family(family):
    unitary = family.is_orthonormal
    circuit = sq.build(sq.regions.balanced_tree(2), family, 4, "hadamard", unitary=unitary)
    x = 2.5 * torch.rand(300, 2, generator=torch.Generator().manual_seed(0))
    losses = []
    for graph in (True, False):
        model = sq.SquaredCircuit(circuit, seed=0).cuda()
        losses.append(sq.fit(model, x, epochs=3, batch=100, graph=graph, progress=False).rows[-1].train)
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@needs_gpu
def test_evaluation_queries_and_log_z_are_never_in_tf32_whatever_the_switch_says():
    circuit = sq.build(sq.regions.quad_tree((12, 12)), sq.Categorical(16), 8, unitary=False).initialise(
        seed=0
    )
    exact, fast = sq.SquaredCircuit(circuit, dtype=torch.complex128), sq.SquaredCircuit(circuit).cuda()
    x = torch.randint(16, (20, 144), generator=torch.Generator().manual_seed(0))
    missing = torch.arange(144) % 3 == 0
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        with torch.no_grad():
            found = [fast.log_prob(x), fast.log_prob(x, missing=missing), fast.log_partition(double=False)]
            expected = [exact.log_prob(x), exact.log_prob(x, missing=missing), exact.log_partition()]
        for a, b in zip(found, expected, strict=True):
            assert (a.cpu() - b).abs().max() < 1e-5 * b.abs().max()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@needs_gpu
@pytest.mark.parametrize("regions", [sq.regions.quad_tree((4, 4)), sq.regions.patch_splits((4, 4))])
def test_queries_on_the_gpu_agree_with_those_in_double_precision_on_the_cpu(regions):
    circuit = sq.build(regions, sq.Categorical(5), 3).initialise(seed=0)
    exact, fast = sq.SquaredCircuit(circuit, dtype=torch.complex128), sq.SquaredCircuit(circuit).cuda()
    x = torch.randint(5, (6, 16), generator=torch.Generator().manual_seed(0))
    masks = torch.rand(6, 16, generator=torch.Generator().manual_seed(1)) < 0.5
    with torch.no_grad():
        assert close(fast.log_prob(x, missing=masks), exact.log_prob(x, missing=masks))
        assert close(fast.mean(x, masks), exact.mean(x, masks), 1e-4)
        assert abs(fast.log_partition().item()) < 1e-5
    drawn = fast.sample(300, given=x, missing=masks, seed=0).cpu()
    assert torch.equal(drawn[:, ~masks], x[~masks].expand(300, -1))
    deviation = (drawn.double().mean(dim=0) - exact.mean(x, masks)).abs()
    assert (deviation <= 5 * (exact.variance(x, masks) / 300).sqrt() + 1e-9).all()


def test_a_captured_step_needs_a_gpu_and_says_so():
    with pytest.raises(sq.ParameterError, match="CUDA"):
        CapturedStep(lambda x: x, torch.zeros(2, 3))


@needs_gpu
@pytest.mark.parametrize("shape", [(2, 64, 4096), (300, 32, 1024), (3, 33, 257), (1, 17, 100), (2, 64, 300)])
@pytest.mark.parametrize(("rate", "trust"), [(100.0, 0.5), (0.1, 0.5), (1e-5, 0.5), (100.0, 1.0)])
@pytest.mark.parametrize("normal", [0.0, 5.0])
def test_the_three_passes_for_wide_matrices_take_the_step_of_polar_in_double(shape, rate, trust, normal):
    """Exactly on the manifold, and along D up to the errors of its product; m and ‖g‖² to rounding."""
    count, rows, columns = shape
    x = torch.stack([haar(torch.randn(rows, columns, dtype=torch.complex128)) for _ in range(count)])
    g, m = (torch.randn_like(x) + normal * columns**0.5 * x for _ in range(2))
    scale = torch.rand(count, rows, 1, dtype=torch.float64) / columns**0.5
    weight, gradient, momentum = (t.to("cuda", torch.complex64) for t in (x, g, m))
    cross, of_g, of_m = wide.advance(weight, gradient, momentum, 0.9, 0.1)
    expected = 0.9 * m + 0.1 * g
    assert close(momentum, expected, 1e-6)
    assert close(of_g, g.abs().square().sum(dim=-1, keepdim=True))
    assert close(of_m, expected.abs().square().sum(dim=-1, keepdim=True))
    on_gpu = scale.float().cuda()
    step, factor = polar_direction(cross, of_m, on_gpu, rate, trust)
    gram = wide.move(weight, momentum, step * on_gpu, step * factor)
    assert close(gram, weight.cdouble() @ weight.cdouble().mH, 1e-6)
    wide.retract(weight, polar_root(gram, trust))
    found, moved = weight.cdouble().cpu(), x.clone()
    polar_step(moved, expected, scale, rate, trust)
    assert (found @ found.mH - torch.eye(rows)).abs().max() < 1e-6
    assert (
        torch.linalg.vector_norm(found - moved, dim=(1, 2))
        <= 1e-2 * torch.linalg.vector_norm(moved - x, dim=(1, 2)) + 5e-6
    ).all()


@needs_gpu
def test_training_wide_matrices_on_a_gpu_keeps_log_z_at_zero_and_learns_as_on_a_cpu():
    circuit = sq.build(sq.regions.quad_tree((4, 4), 2), sq.Categorical(8), 24, "kronecker")
    x = torch.randint(8, (64, 16), generator=torch.Generator().manual_seed(0))
    losses = {}
    for device in ("cpu", "cuda"):
        model = sq.SquaredCircuit(circuit, seed=0).to(device)
        optimiser = Polar(model.parameters(), lr=0.2)
        for _ in range(20):
            optimiser.zero_grad()
            loss = -model.log_prob(x.to(device)).mean()
            loss.backward()
            optimiser.step()
        losses[device] = loss.item()
        assert abs(model.log_partition().item()) < 1e-4
    assert abs(losses["cpu"] - losses["cuda"]) < 0.02 * abs(losses["cpu"])


@needs_gpu
@pytest.mark.parametrize("shape", [(5, 64, 64, 64), (3, 33, 7, 5), (4, 1, 100, 1), (2, 3, 1, 3)])
def test_a_column_is_drawn_by_its_mass_as_in_plain_torch(shape):
    batch, units, count, height = shape
    tensor = torch.randn(batch, units, count, dtype=torch.complex64)
    masses_of = torch.randn(batch, height, count, dtype=torch.complex64)
    masses_of[:, :, : count // 2] = 0
    uniform = torch.rand(batch, dtype=torch.float64)
    uniform[0] = 0
    drawn = draw_index(squares(masses_of).sum(dim=1), uniform)
    plain = _normalised(tensor.gather(2, drawn[:, None, None].expand(-1, units, 1)).squeeze(2))
    found = draws.column(tensor.cuda(), masses_of.mT.contiguous().mT.cuda(), uniform.cuda())
    assert close(found, plain)
    assert close(draws.normalised(tensor[:, :, 0].cuda()), _normalised(tensor[:, :, 0]))
    assert not draws.normalised(torch.zeros(2, units, dtype=torch.complex64, device="cuda")).any()


@needs_gpu
def test_a_state_is_drawn_where_it_is_missing_and_its_values_are_returned():
    amplitudes, table = (torch.randn(n, 100, dtype=torch.complex64) for n in (50, 33))
    x, missing = torch.randint(100, (50, 4)).double(), torch.rand(50, 4) < 0.5
    uniform = torch.rand(50, dtype=torch.float64)
    on_gpu = x.cuda()
    column, mask = on_gpu[:, 2], missing.cuda()[:, 2]
    found = draws.state(amplitudes.cuda(), table.cuda(), uniform.cuda(), column, mask)
    drawn = draw_index(squares(amplitudes), uniform).double()
    x[:, 2] = torch.where(missing[:, 2], drawn, x[:, 2])
    assert torch.equal(on_gpu.cpu(), x)
    assert close(found, _normalised(table[:, x[:, 2].long()].T))


@needs_gpu
def test_roots_of_singular_matrices_on_a_gpu_have_their_squares():
    thin = torch.randn(7, 40, 3, dtype=torch.complex64)
    thin[:, 5] = 0
    thin[0] *= 1e-15
    matrix = thin @ thin.mH
    root = _square_root(matrix.cuda())
    assert all(close(a, b, 1e-4) for a, b in zip(root @ root.mH, matrix, strict=True))


@needs_gpu
@pytest.mark.parametrize("given", [False, True])
def test_samples_on_a_gpu_have_the_frequencies_that_the_model_says(given):
    """χ² of 200,000 samples of 3³ states beside the enumerated probabilities, at six standard deviations."""
    parts = [sq.SquaredCircuit(sq.build(sq.regions.linear(4), sq.Categorical(3), 3), seed=i) for i in (0, 1)]
    model = sq.mixture(parts).cuda()
    states = torch.cartesian_prod(*[torch.arange(3)] * 4)
    states = states[states[:, 0] == 1] if given else states
    evidence = {"given": [[1, 0, 0, 0]], "missing": [False, True, True, True]} if given else {}
    expected = model.log_prob(states.cuda()).double().softmax(dim=0).cpu()
    drawn = model.sample(200_000, seed=0, **evidence).reshape(-1, 4).cpu()
    places = (drawn * torch.tensor([27, 9, 3, 1])).sum(dim=1)
    counts = torch.bincount(places, minlength=81)[27:54] if given else torch.bincount(places, minlength=81)
    square = ((counts - 200_000 * expected).square() / (200_000 * expected)).sum()
    freedom = len(states) - 1
    assert square < freedom + 6 * (2 * freedom) ** 0.5
