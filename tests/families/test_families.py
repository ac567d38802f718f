"""The conformance suite, one subclass a family."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special as special
import torch
from scipy.interpolate import BSpline as ScipyBSpline
from scipy.stats import norm

from families.conformance import Case, FamilyConformance, close, dense_rule, scalars
from squircuit.families import (
    BSpline,
    Categorical,
    Concatenated,
    Fourier,
    Gaussian,
    Hermite,
    Laguerre,
    Legendre,
    Orthonormalised,
    Product,
)


class TestCategorical(FamilyConformance):
    def cases(self):
        return [Case(Categorical(size)) for size in (1, 2, 5)]

    def large(self):
        return [Case(Categorical(256))]

    def rule(self, case):
        states = torch.arange(case.family.domain.size, dtype=torch.float64)
        return states, torch.ones_like(states)

    def formula(self, case, x):
        return np.eye(case.family.size)[x.astype(int)]

    def others(self, case):
        size = case.family.size
        return [Case(Categorical(size)), Case(Product(Categorical(size), Categorical(size)))]

    def outside(self, case):
        return [-1.0, 0.5, float(case.family.size)]

    def points(self, case):
        return torch.tensor([0.0, case.family.size - 1.0], dtype=torch.float64)

    def test_images_of_unsigned_bytes_are_welcome(self):
        pixels = torch.tensor([0, 255], dtype=torch.uint8)
        assert torch.equal(Categorical(256).evaluate(pixels).argmax(-1), torch.tensor([0, 255]))


class TestFourier(FamilyConformance):
    def cases(self):
        return [
            Case(Fourier(1, period=2.0)),
            Case(Fourier(3, period=6.0)),
            Case(Fourier(7, period=4.0, centre=1.0, shift=0.5)),
            Case(Fourier(5, period=6.0, learnable=True), scalars(shift=0.8)),
        ]

    def large(self):
        return [Case(Fourier(61, period=12.0)), Case(Fourier(201, period=1.0))]

    def window(self, case):
        return case.family.domain.low, case.family.domain.high, 40

    def formula(self, case, x):
        k = np.arange(case.family.size) - (case.family.size - 1) / 2
        period = case.family.period
        return np.exp(2j * np.pi * k / period * (x[:, None] + case.setting("shift"))) / np.sqrt(period)

    def others(self, case):
        period, centre = case.family.period, case.family.centre
        return [
            Case(Fourier(5, period, centre, shift=0.3)),
            Case(Fourier(3, period, centre, learnable=True), scalars(shift=-0.4)),
            Case(Fourier(3, period, centre, shift=0.3).conjugate()),
            Case(Legendre(4, case.family.domain.low, case.family.domain.high)),
        ]

    def outside(self, case):
        return [case.family.domain.low - 1e-6, case.family.domain.high + 1e-6]


class TestHermite(FamilyConformance):
    def cases(self):
        return [
            Case(Hermite(1)),
            Case(Hermite(2, loc=1.0, scale=0.5)),
            Case(Hermite(6, learnable=True)),
            Case(Hermite(4, loc=-1.0, learnable=True), scalars(loc=0.7, log_scale=-0.3)),
        ]

    def large(self):
        return [Case(Hermite(60)), Case(Hermite(200)), Case(Hermite(200, loc=3.0, scale=0.01))]

    def window(self, case):
        reach = max(10.0, (2 * case.family.size) ** 0.5 + 4.5)  # further out the oracle below overflows
        loc, scale = float(case.setting("loc")), float(case.setting("scale"))
        return loc - reach * scale - 1e-3, loc + reach * scale, 80

    def formula(self, case, x):
        t, n = (x[:, None] - case.setting("loc")) / case.setting("scale"), np.arange(case.family.size)
        log_norm = -special.gammaln(n + 1) / 2 - t**2 / 2
        polynomials = special.eval_hermitenorm(n, np.sqrt(2) * t) * np.exp(log_norm)
        return polynomials / (np.pi**0.25 * np.sqrt(case.setting("scale")))

    def others(self, case):
        return [
            Case(Hermite(3, loc=float(case.setting("loc")) + 0.1, scale=0.8 * float(case.setting("scale")))),
            Case(Hermite(5, learnable=True), scalars(loc=float(case.setting("loc")), log_scale=-1.0)),
            Case(Gaussian(2, loc=(0.0, 0.5), scale=(0.3, 0.1))),
        ]

    def outside(self, case):
        return []

    @pytest.mark.parametrize("size", [1, 10, 200])
    def test_float32_is_accurate_where_the_weight_underflows(self, size):
        x = torch.linspace(-25, 25, 5001)
        assert torch.exp(-x[0].square() / 2) == 0
        family = Hermite(size)
        close(family.evaluate(x).double(), family.evaluate(x.double()), atol=1e-5)

    def test_float32_gradients_are_accurate_where_the_weight_underflows(self):
        gradients = []
        for dtype in (torch.float32, torch.float64):
            x = torch.linspace(-25, 25, 501, dtype=dtype).float().to(dtype).requires_grad_()
            Hermite(200).evaluate(x)[:, -1].sum().backward()
            gradients.append(x.grad.double())
        close(gradients[0], gradients[1], atol=1e-3)

    def test_derivatives_obey_the_ladder_of_hermite_functions(self):
        x = torch.linspace(-22, 22, 301, dtype=torch.float64, requires_grad=True)
        rows = Hermite(201).evaluate(x)
        (slope,) = torch.autograd.grad(rows[:, 199].sum(), x)
        close(slope, (199 / 2) ** 0.5 * rows[:, 198] - (200 / 2) ** 0.5 * rows[:, 200], atol=1e-11)

    def test_a_tiny_learnt_scale_and_a_huge_point_give_finite_gradients(self):
        values = {name: torch.tensor(-20.0, requires_grad=True) for name in ("loc", "log_scale")}
        result = Hermite(3, learnable=True).evaluate(torch.tensor([1e30, -1e30]), values)
        gradients = torch.autograd.grad(result.sum(), list(values.values()))
        assert result.eq(0).all()
        assert all(gradient.isfinite() for gradient in gradients)


class TestLegendre(FamilyConformance):
    def cases(self):
        return [Case(Legendre(1)), Case(Legendre(2, 0.0, 1.0)), Case(Legendre(6, -2.0, 5.0))]

    def large(self):
        return [Case(Legendre(60)), Case(Legendre(200, 1.0, 2.0))]

    def window(self, case):
        return case.family.low, case.family.high, 100

    def formula(self, case, x):
        low, high, n = case.family.low, case.family.high, np.arange(case.family.size)
        t = (2 * x[:, None] - low - high) / (high - low)
        return special.eval_legendre(n, t) * np.sqrt((2 * n + 1) / (high - low))

    def others(self, case):
        low, high = case.family.low, case.family.high
        return [
            Case(Legendre(9, low, high)),
            Case(Fourier(5, period=high - low, centre=(low + high) / 2)),
            Case(Orthonormalised(BSpline(4, low, high, degree=3))),
        ]

    def outside(self, case):
        return [case.family.low - 1e-9, case.family.high + 1e-9]


class TestLaguerre(FamilyConformance):
    def cases(self):
        return [
            Case(Laguerre(1)),
            Case(Laguerre(3, start=2.0, scale=0.5)),
            Case(Laguerre(5, learnable=True), scalars(log_scale=0.4)),
        ]

    def large(self):
        return [Case(Laguerre(60)), Case(Laguerre(200, start=-1.0))]

    def window(self, case):
        reach = 4 * case.family.size + 120 + 10 * case.family.size**0.5
        return case.family.start, case.family.start + reach * float(case.setting("scale")), 400

    def formula(self, case, x):
        t = (x[:, None] - case.family.start) / case.setting("scale")
        rows = special.eval_laguerre(np.arange(case.family.size), t)
        return rows * np.exp(-t / 2) / np.sqrt(case.setting("scale"))

    def others(self, case):
        return [
            Case(Laguerre(4, case.family.start, scale=0.7 * float(case.setting("scale")))),
            Case(Laguerre(2, case.family.start, learnable=True), scalars(log_scale=-0.5)),
        ]

    def points(self, case):
        return case.family.start + torch.tensor([0.1, 0.5, 1.0, 3.0, 7.0], dtype=torch.float64)

    def outside(self, case):
        return [case.family.start - 1e-9, -1e30]

    def test_float32_is_accurate_where_the_weight_underflows(self):
        x = torch.linspace(0, 900, 5001)
        assert torch.exp(-x[-1] / 2) == 0
        close(Laguerre(200).evaluate(x).double(), Laguerre(200).evaluate(x.double()), atol=1e-4)


class TestBSpline(FamilyConformance):
    def cases(self):
        return [
            Case(BSpline(1, degree=0)),
            Case(BSpline(3, low=-1.0, high=2.0, degree=1)),
            Case(BSpline(7)),
            Case(BSpline(4)),
        ]

    def large(self):
        return [Case(BSpline(60)), Case(BSpline(40, degree=15))]

    def window(self, case):
        return case.family.low, case.family.high, 4 * (case.family.size - case.family.degree)

    def formula(self, case, x):
        low, high, degree = case.family.low, case.family.high, case.family.degree
        inner = np.linspace(low, high, case.family.size - degree + 1)
        knots = np.concatenate([[low] * degree, inner, [high] * degree])
        return ScipyBSpline(knots, np.eye(case.family.size), degree)(x)

    def others(self, case):
        family = case.family
        pieces = family.size - family.degree
        return [
            Case(BSpline(2 * pieces + 2, family.low, family.high, degree=2)),
            Case(Legendre(4, family.low, family.high)),
        ]

    def outside(self, case):
        return [case.family.low - 1e-9, case.family.high + 1e-9]

    def test_b_splines_sum_to_one_everywhere_both_ends_included(self):
        for dtype in (torch.float32, torch.float64):
            family = BSpline(9, low=0.1, high=0.7)
            x = torch.linspace(0.1, 0.7, 101, dtype=dtype).clamp(0.1, 0.7)
            rows = family.evaluate(x)
            close(rows.sum(-1), torch.ones(101), atol=1e-5 if dtype == torch.float32 else 1e-14)
            assert rows[-1, -1] == 1
            assert rows[0, 0] == 1
            assert rows.ge(0).all()

    def test_pieces_are_the_knots(self):
        close(BSpline(6).pieces(), torch.tensor([0, 1, 2, 3]) / 3, atol=1e-7)


class TestOrthonormalised(FamilyConformance):
    def cases(self):
        return [
            Case(Orthonormalised(BSpline(1, degree=0))),
            Case(Orthonormalised(BSpline(7))),
            Case(Orthonormalised(Product(Legendre(1), Fourier(3, period=2.0, shift=0.3)))),
        ]

    def large(self):
        return [Case(Orthonormalised(BSpline(60))), Case(Orthonormalised(BSpline(13, degree=12)))]

    def window(self, case):
        base = case.family.base
        pieces = base.size - base.degree if isinstance(base, BSpline) else 4
        return base.domain.low, base.domain.high, 4 * pieces

    def formula(self, case, x):
        base, (nodes, weights) = case.family.base, self.rule(case)
        rows = base.evaluate(nodes).to(torch.complex128).numpy()
        factor = np.linalg.qr(np.sqrt(weights.numpy())[:, None] * rows, mode="r")
        _, singular, right = np.linalg.svd(factor)
        mixing = right.conj().T @ np.diag(1 / singular) @ right
        values = base.evaluate(torch.from_numpy(x)).numpy() @ mixing
        return values if base.is_complex else values.real

    def others(self, case):
        low, high = case.family.domain.low, case.family.domain.high
        return [Case(Legendre(5, low, high)), Case(Fourier(3, period=high - low, centre=(low + high) / 2))]

    def outside(self, case):
        return [case.family.domain.low - 1e-9, case.family.domain.high + 1e-9]

    def test_gaussians_and_states_can_be_orthonormalised_too(self):
        family = Orthonormalised(Gaussian(10, learnable=False))  # condition number 1e9
        nodes, weights = dense_rule(-9.0, 9.0, 100)
        rows = family.evaluate(nodes)
        close((rows.mT * weights) @ rows, torch.eye(10), atol=1e-10)
        close(Orthonormalised(Categorical(3)).evaluate(torch.arange(3)), torch.eye(3), atol=1e-15)

    def test_it_can_be_trained_through_after_use_in_inference_mode(self):
        with torch.inference_mode():
            family = Orthonormalised(BSpline(5, low=0.0, high=1.25))
        x = torch.tensor([0.3], requires_grad=True)
        family.evaluate(x).sum().backward()
        assert x.grad.isfinite().all()


class TestGaussian(FamilyConformance):
    def cases(self):
        two = torch.tensor([[0.5, -0.2], [0.1, -1.0]], dtype=torch.float64)
        return [
            Case(Gaussian(1)),
            Case(Gaussian(3, loc=(0.0, 1.0, -2.0), scale=(0.5, 1.0, 0.2), learnable=False)),
            Case(Gaussian(2), {"loc": two[0], "log_scale": two[1]}),
            Case(Gaussian(2, loc=(0.3, 0.4), scale=1.0)),
        ]

    def large(self):
        return [Case(Gaussian(60, scale=0.05)), Case(Gaussian(2, loc=(0.0, 0.1), scale=(1.0, 0.01)))]

    def window(self, case):
        return -13.0, 13.0, 400

    def points(self, case):
        return torch.tensor([-1.0, -0.1, 0.0, 0.5, 1.2], dtype=torch.float64)

    def formula(self, case, x):
        size = case.family.size
        spread = np.linspace(-1, 1, size) if size > 1 else np.zeros(1)
        loc = spread if case.family.loc is None and case.values is None else case.setting("loc")
        return norm.pdf(x[:, None], loc, np.broadcast_to(case.setting("scale"), size))

    def others(self, case):
        return [Case(Gaussian(3, scale=0.7)), Case(Hermite(4, scale=0.9)), case]

    def outside(self, case):
        return []

    def test_inner_products_in_closed_form_are_those_of_the_quadrature(self):
        first, second = Gaussian(3), Gaussian(2, loc=(0.1, 0.2), scale=(0.3, 0.4))
        nodes, weights = dense_rule(-12.0, 12.0, 100)
        expected = (first.evaluate(nodes).mT * weights) @ second.evaluate(nodes)
        close(first.inner(second), expected, atol=1e-14)


class TestConjugated(TestFourier):
    def cases(self):
        return [Case(case.family.conjugate(), case.values) for case in super().cases()]

    def large(self):
        return [Case(Fourier(61, period=12.0).conjugate())]

    def formula(self, case, x):
        return super().formula(Case(case.family.base, case.values), x).conj()

    def others(self, case):
        others = super().others(Case(case.family.base, case.values))
        return [*others, Case(case.family.base, case.values), case]


class TestProduct(FamilyConformance):
    def cases(self):
        left = Fourier(3, period=4.0, learnable=True)
        return [
            Case(Product(Legendre(1), Legendre(1))),
            Case(Product(Legendre(3, -2.0, 2.0), Fourier(3, period=4.0))),
            Case(Product(left, left.conjugate()), scalars(**{"left.shift": 0.3, "right.shift": -0.2})),
            Case(Product(left, Product(BSpline(4, -2.0, 2.0, degree=1), Legendre(2, -2.0, 2.0)))),
        ]

    def large(self):
        return [Case(Product(Legendre(20), Legendre(20)))]

    def window(self, case):
        return case.family.domain.low, case.family.domain.high, 30

    def formula(self, case, x):
        parts = []
        for name in ("left", "right"):
            prefix = f"{name}."
            values = (case.values or {}).items()
            given = {key.removeprefix(prefix): value for key, value in values if key.startswith(prefix)}
            parts.append(getattr(case.family, name).evaluate(torch.from_numpy(x), given).numpy())
        return np.stack([np.kron(a, b) for a, b in zip(*parts, strict=True)])

    def others(self, case):
        low, high = case.family.domain.low, case.family.domain.high
        period = Fourier(3, period=high - low)
        return [Case(Legendre(3, low, high)), Case(period), Case(Product(period.conjugate(), period))]

    def outside(self, case):
        return [case.family.domain.low - 1e-9, case.family.domain.high + 1e-9]

    def test_the_integrals_of_a_family_times_its_conjugate_are_its_gram_matrix(self):
        for family in (Categorical(3), Fourier(5, period=2.0), Hermite(4), Gaussian(3)):
            square = Product(family, family.conjugate())
            close(square.integrals(), family.gram().flatten(), atol=1e-14)

    def test_products_of_deltas_are_deltas(self):
        pairs = Product(Categorical(2), Categorical(2)).evaluate(torch.tensor([0, 1]))
        assert torch.equal(pairs, torch.tensor([[1, 0, 0, 0], [0, 0, 0, 1]], dtype=torch.float64))

    def test_products_of_functions_far_apart_integrate_to_zero(self):
        far = Product(Gaussian(1, loc=(0.0,)), Gaussian(1, loc=(1e3,)))
        assert far.gram().eq(0).all()
        assert far.pieces().diff().eq(0).all()


class TestConcatenated(FamilyConformance):
    def cases(self):
        left = Fourier(3, period=4.0, learnable=True)
        return [
            Case(Concatenated(Legendre(1), BSpline(4, -1.0, 1.0, degree=1))),
            Case(Concatenated(left, left.conjugate()), scalars(**{"left.shift": 0.3, "right.shift": -0.2})),
            Case(Concatenated(left, Concatenated(Legendre(3, -2.0, 2.0), Fourier(5, period=4.0)))),
        ]

    def large(self):
        return [Case(Concatenated(Legendre(20), Fourier(21, period=2.0)))]

    window = TestProduct.window

    def formula(self, case, x):
        parts = []
        for name in ("left", "right"):
            prefix = f"{name}."
            values = (case.values or {}).items()
            given = {key.removeprefix(prefix): value for key, value in values if key.startswith(prefix)}
            parts.append(getattr(case.family, name).evaluate(torch.from_numpy(x), given).numpy())
        return np.concatenate(parts, axis=1)

    others = TestProduct.others
    outside = TestProduct.outside


class TestProductOfHermiteFunctions(FamilyConformance):
    def cases(self):
        left = Hermite(3, learnable=True)
        values = {"left.loc": 0.2, "right.loc": -0.1, "right.log_scale": 0.3}
        return [Case(Product(left, left), scalars(**values)), Case(Product(left, Gaussian(2)))]

    def window(self, case):
        return -16.0, 16.0, 100

    def points(self, case):
        return torch.tensor([-1.0, -0.1, 0.0, 0.5, 1.2], dtype=torch.float64)

    formula = TestProduct.formula

    def others(self, case):
        return [Case(Hermite(6)), case]

    def outside(self, case):
        return []
