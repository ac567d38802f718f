"""CPU kernels agree with their plain twins, with finite differences and with enumeration."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
import torch

import squircuit as sq
from squircuit.execution import log_scales, weighted_product
from squircuit.execution.inputs import lookup
from squircuit.execution.kernels import cpu
from squircuit.optim import Polar

pytestmark = pytest.mark.skipif(not cpu.status().endswith("on"), reason=cpu.status())

TYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-13}
PRODUCTS = [
    ("kronecker", (8, 8, 8)),
    ("kronecker", (3, 5, 2, 4)),
    ("kronecker", (33, 7)),
    ("kronecker", (7,)),
    ("linear", (9,)),
    ("hadamard", (5, 5, 5)),
    ("hadamard", (16, 16)),
]
SIZES = [(3, 3, 64, 8), (5, 1, 33, 7), (1, 1, 130, 1), (2, 2, 1, 3)]  # folds, matrices, batch, units


def without():
    return mock.patch.object(cpu, "_library", side_effect=cpu.NoKernelsError("for a comparison"))


def both(work):
    with without():
        plain = work()
    return work(), plain


def agree(found, expected, dtype):
    return all(
        (a - b).abs().max() <= TOLERANCE[dtype] * b.abs().max() for a, b in zip(found, expected, strict=True)
    )


def weighted(kind, weight, factors, gradient, fresh):
    out, saved = weighted_product.forward(kind, weight, factors, keep=True)
    targets, total = [torch.full_like(f, torch.nan) for f in factors], torch.ones_like(weight)
    weighted_product.backward(kind, weight, saved, gradient, targets, total, fresh)
    return [out, *targets, total]


def drawn(kind, widths, size, planes, dtype):
    (folds, stacks, batch, units), count = size, widths[0]
    count = count if kind == "hadamard" else torch.tensor(widths).prod().item()
    weight = torch.randn(stacks, units, planes * count, dtype=dtype)
    factors = [torch.randn(folds, width, planes, batch, dtype=dtype) for width in widths]
    return weight, factors, torch.randn(folds, units, planes, batch, dtype=dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize(("kind", "widths"), PRODUCTS)
def test_a_weighted_product_and_its_gradients_are_those_of_plain_torch(kind, widths, planes, dtype):
    for size, fresh in itertools.product(SIZES, (True, False)):
        arguments = kind, *drawn(kind, widths, size, planes, dtype), fresh
        assert agree(*both(lambda arguments=arguments: weighted(*arguments)), dtype)


def test_gradients_of_a_weighted_product_are_finite_differences():
    weight, factors, gradient = drawn("kronecker", (3, 4, 5), (2, 1, 5, 3), 2, torch.float64)
    _, *found = weighted("kronecker", weight, factors, gradient, fresh=True)

    def value():
        return (weighted_product.forward("kronecker", weight, factors, keep=True)[0] * gradient).sum()

    for tensor, slope in zip([*factors, weight], found, strict=True):
        direction = torch.randn_like(tensor)
        ends = []
        for step in (1e-6, -2e-6):
            tensor += step * direction
            ends.append(value())
        tensor += 1e-6 * direction
        assert abs((ends[0] - ends[1]) / 2e-6 - (slope * direction).sum()) <= 1e-6 * slope.norm()


@pytest.mark.parametrize("dtype", TYPES)
def test_results_do_not_depend_on_the_number_of_threads(dtype):
    arguments = drawn("kronecker", (4, 4, 4, 4), (7, 1, 100, 5), 2, dtype)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(weighted("kronecker", *arguments, fresh=True))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for each in found[1:] for a, b in zip(found[0], each, strict=True))


def test_what_is_not_a_number_stays_in_its_sample():
    weight, factors, gradient = drawn("kronecker", (4, 4, 4), (2, 2, 40, 3), 2, torch.float32)
    factors[0][0, 1, 0, 7] = torch.nan
    out, *targets, _ = weighted("kronecker", weight, factors, gradient, fresh=True)
    assert out[0, :, :, 7].isnan().all()
    for each in (out, *targets):
        each[0, :, :, 7] = 0
        assert each.isfinite().all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("planes", [1, 2])
def test_scaling_is_that_of_plain_torch_over_the_whole_range_of_numbers(planes, dtype):
    range_ = 37 if dtype == torch.float32 else 300
    out = torch.randn(5, 7, planes, 130, dtype=dtype)
    out *= torch.tensor(10.0, dtype=dtype) ** torch.randint(-range_, range_, (5, 1, 1, 130))
    out[0, :, :, 0], out[1, 2, 0, 3] = 0, torch.nan
    scales = [torch.randn(5, 130, dtype=dtype) for _ in range(3)]

    def work():
        values, scale = torch.empty_like(out), torch.empty(5, 130, dtype=dtype)
        inverse = log_scales.normalise(out, scales, values, scale)
        return values, scale, inverse

    found, expected = both(work)
    assert found[0][0, :, :, 0].eq(0).all()
    for each, plain, atol in zip(found, expected, (0, 10 * TOLERANCE[dtype], 0), strict=True):
        assert torch.allclose(
            each, plain, rtol=TOLERANCE[dtype], atol=atol, equal_nan=True
        )  # sums may cancel


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("tables", [1, 4])
def test_lookup_and_its_gradient_are_those_of_plain_torch(tables, is_complex, dtype):
    table = torch.randn(tables, 5, 9, dtype=dtype.to_complex() if is_complex else dtype)
    x, weights = torch.randint(9, (4, 70)), torch.randn(4, 5, 1 + is_complex, 70, dtype=dtype)

    def work():
        leaf = table.clone().requires_grad_()
        found = lookup(leaf, x)
        (found * weights).sum().backward()
        return found.detach(), leaf.grad

    assert agree(*both(work), dtype)


@pytest.mark.parametrize("tables", [1, 3])
def test_first_and_second_derivatives_of_the_lookup_are_finite_differences(tables):
    table = torch.randn(tables, 2, 4, dtype=torch.complex128, requires_grad=True)
    x = torch.randint(4, (3, 5))
    assert torch.autograd.gradcheck(lambda table: lookup(table, x), table)
    assert torch.autograd.gradgradcheck(lambda table: lookup(table, x).square(), table)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("shape", [(3, 4, 16), (2, 8, 300), (1, 5, 7), (2, 1, 33), (4, 3, 3), (1, 32, 100)])
def test_steps_of_polar_are_those_of_plain_torch_and_stay_on_the_manifold(shape, is_complex, dtype):
    dtypes = dtype.to_complex() if is_complex else dtype
    first = torch.linalg.qr(torch.randn(shape, dtype=dtypes).mH)[0].mH.contiguous()
    gradients = [torch.randn(shape, dtype=dtypes) for _ in range(3)]
    for moment, trust in itertools.product(("row", "matrix"), (0.5, 0.9)):

        def work(moment=moment, trust=trust):
            weight = torch.nn.Parameter(first.clone())
            group = {"params": [weight], "constrained": True}
            optimiser = Polar([group], lr=0.3, second_moment=moment, trust=trust)
            for gradient in gradients:
                weight.grad = gradient.clone()
                optimiser.step()
            return weight.detach(), optimiser.state[weight]["exp_avg"]

        found, expected = both(work)
        assert agree(found, expected, dtype)
        errors = found[0] @ found[0].mH - torch.eye(shape[1])
        assert errors.abs().max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("shape", [(3, 4, 16), (2, 8, 300), (1, 5, 7), (4, 1, 1), (2, 3, 1000), (1, 40, 64)])
def test_a_look_at_weights_finds_how_far_they_move_vectors(shape, is_complex, dtype):
    weight = torch.randn(shape, dtype=dtype.to_complex() if is_complex else dtype) / shape[2] ** 0.5
    z, exact = torch.randn(2, shape[1], dtype=dtype), weight.to(torch.complex128)
    moved = (z.to(torch.complex128) @ exact) @ exact.mH - z
    assert (cpu.look(weight, z) - moved.abs().amax(dim=(1, 2))).abs().max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("place", [(0, 0, 0), (1, 3, 299), (1, 0, 256)])
def test_a_look_at_weights_that_are_no_numbers_is_no_number(place):
    weight = torch.randn(2, 4, 300, dtype=torch.complex64)
    weight[place] = torch.nan
    found = cpu.look(weight, torch.ones(2, 4))
    assert found.isnan().tolist() == [place[0] == 0, place[0] == 1]


@pytest.mark.parametrize("kind", ["kronecker", "hadamard"])
@pytest.mark.parametrize("options", [{}, {"unitary": False}, {"tie": 1}, {"roots": 3}])
def test_probabilities_of_all_rows_sum_to_one_and_gradients_are_those_of_plain_torch(kind, options):
    circuit = sq.build(sq.regions.quad_tree((2, 3)), sq.Categorical(3), 3, kind, **options)
    x = torch.tensor(list(itertools.product(range(3), repeat=6)))
    weights = torch.randn(len(x), dtype=torch.float64)
    assert abs(sq.SquaredCircuit(circuit).log_prob(x).double().exp().sum() - 1) <= 1e-5

    def work():
        model = sq.SquaredCircuit(circuit, dtype=torch.complex128)
        log_p = model.log_prob(x)
        (log_p * weights).mean().backward()
        return log_p.detach(), *(p.grad for p in model.parameters())

    found, expected = both(work)
    assert abs(found[0].exp().sum() - 1) <= 1e-13
    assert all((a - b).norm() <= 1e-11 * b.norm() for a, b in zip(found, expected, strict=True))


@pytest.fixture
def unbuilt():
    """Nothing is known of kernels, before and after."""
    cpu._library.cache_clear()
    yield
    cpu._library.cache_clear()


@pytest.mark.usefixtures("unbuilt")
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SQUIRCUIT_KERNELS", "off", "CPU kernels: off, plain torch serves (SQUIRCUIT_KERNELS=off)"),
        ("CC", "no-such-compiler", "CPU kernels: off, plain torch serves ([Errno 2] No such file"),
        ("SQUIRCUIT_KERNELS", "/dev/null/nowhere", "CPU kernels: on"),  # built, and not kept
    ],
)
def test_there_is_a_word_on_which_kernels_serve(name, value, said, monkeypatch):
    monkeypatch.setenv(name, value)
    assert cpu.status().startswith(said)
    assert abs(sq.SquaredCircuit(sq.build(sq.regions.linear(2), sq.Categorical(2), 2)).log_partition()) < 1e-5


@pytest.mark.usefixtures("unbuilt")
def test_who_build_at_once_leave_one_library_and_a_damaged_one_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("SQUIRCUIT_KERNELS", str(tmp_path))
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: cpu._library(torch.float64, 1), range(3)))
    (library,) = tmp_path.iterdir()
    library.unlink()  # not overwritten: it is in memory
    library.write_bytes(b"half of it")
    cpu._library.cache_clear()
    assert cpu._library(torch.float64, 1).weigh
    assert library.stat().st_size > 10_000
