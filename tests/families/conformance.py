"""The laws of every family, checked against quadratures and formulas that the library does not use."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from scipy.special import roots_legendre
from torch import Tensor

from squircuit.errors import DataError, ParameterError
from squircuit.families import Categorical, Conjugated, Family, Legendre, family_from_dict, family_to_dict
from squircuit.families.quadrature import gauss_legendre


@dataclass(frozen=True)
class Case:
    """A family with values of its learnable parameters; None stands for the initial ones."""

    family: Family
    values: dict[str, Tensor] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return repr(self.family) + ("" if self.values is None else " with values")

    def evaluate(self, x: Tensor) -> Tensor:
        return self.family.evaluate(x, self.values)

    def setting(self, name: str) -> np.ndarray:
        """The number(s) in force for a field: the value given, else the field."""
        if self.values is not None and name in self.values:
            return self.values[name].numpy()
        if self.values is not None and f"log_{name}" in self.values:
            return self.values[f"log_{name}"].exp().numpy()
        return np.asarray(getattr(self.family, name))


def scalars(**numbers: float) -> dict[str, Tensor]:
    return {name: torch.tensor(number, dtype=torch.float64) for name, number in numbers.items()}


def dense_rule(low: float, high: float, panels: int) -> tuple[Tensor, Tensor]:
    """40-point Gauss–Legendre on equal panels, from scipy."""
    nodes, weights = roots_legendre(40)
    half = (high - low) / panels / 2
    middles = low + half * (2 * np.arange(panels) + 1)
    points = (middles[:, None] + half * nodes).ravel()
    return torch.from_numpy(points), torch.from_numpy(np.tile(half * weights, panels))


def close(actual: Tensor, expected: Tensor, atol: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected.to(actual.dtype), rtol=0, atol=atol)


class FamilyConformance:
    """Inherit, and supply cases and oracles. Each test is a law that every family obeys."""

    def cases(self) -> list[Case]:
        """Small families, size 1 among them, fixed and learnable."""
        raise NotImplementedError

    def large(self) -> list[Case]:
        """Families of the largest sizes that are promised to be accurate."""
        return []

    def window(self, case: Case) -> tuple[float, float, int]:
        """An interval that holds all of the mass, and into how many panels to cut it; continuous only."""
        raise NotImplementedError

    def formula(self, case: Case, x: np.ndarray) -> np.ndarray:
        """The functions by an independent formula, (q,) → (q, n)."""
        raise NotImplementedError

    def others(self, case: Case) -> list[Case]:
        """Families on the same domain, for inner products."""
        raise NotImplementedError

    def outside(self, case: Case) -> list[float]:
        """Points outside the domain."""
        raise NotImplementedError

    def points(self, case: Case) -> Tensor:
        """A few points of the domain at which the functions are smooth."""
        low, high, _ = self.window(case)
        generator = torch.Generator().manual_seed(0)
        return low + (high - low) * torch.rand(5, dtype=torch.float64, generator=generator)

    def rule(self, case: Case) -> tuple[Tensor, Tensor]:
        """The test's own quadrature."""
        return dense_rule(*self.window(case))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        for name, cases in (("case", self.cases()), ("any_case", self.cases() + self.large())):
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, cases, ids=str)

    def overlap(self, case: Case, other: Case, rule: tuple[Tensor, Tensor]) -> Tensor:
        nodes, weights = rule
        left, right = case.evaluate(nodes).to(torch.complex128), other.evaluate(nodes).to(torch.complex128)
        return (left.mT * weights) @ right.conj()

    # Values

    def test_values_agree_with_an_independent_formula(self, any_case):
        x, _ = self.rule(any_case)
        expected = torch.from_numpy(self.formula(any_case, x.numpy()))
        actual = any_case.evaluate(x)
        assert actual.is_complex() == any_case.family.is_complex
        close(actual, expected, atol=1e-11 * max(1.0, expected.abs().max().item()))

    def test_scaled_values_are_the_values(self, any_case):
        x, _ = self.rule(any_case)
        functions, scale = any_case.family.evaluate_scaled(x, any_case.values)
        expected = any_case.evaluate(x)
        close(functions * scale.exp()[:, None], expected, atol=1e-11 * max(1.0, expected.abs().max().item()))

    def test_values_have_one_more_axis_of_length_size(self, case):
        for shape in ((), (5,), (2, 3), (0,)):
            assert case.evaluate(self.points(case)[0].expand(shape)).shape == (*shape, case.family.size)

    def test_values_are_zero_outside_the_domain_and_at_nan(self, case):
        x = torch.tensor([*self.outside(case), torch.nan, torch.inf, -torch.inf], dtype=torch.float64)
        assert not case.family.domain.contains(x).any()
        assert case.evaluate(x).eq(0).all()

    def test_float32_stays_float32_and_is_accurate(self, case):
        x = self.points(case).float()
        actual, expected = case.evaluate(x), case.evaluate(x.double())
        assert actual.dtype == (torch.complex64 if case.family.is_complex else torch.float32)
        close(actual.to(expected.dtype), expected, atol=1e-4 * max(1.0, expected.abs().max().item()))

    def test_integers_are_computed_in_float64(self, case):
        values = case.evaluate(torch.zeros(2, dtype=torch.int32))
        assert values.dtype == (torch.complex128 if case.family.is_complex else torch.float64)

    def test_values_stay_on_the_device_of_the_points(self, case):
        x = self.points(case).to("meta")  # a device without data, which refuses to mix with the CPU
        assert case.evaluate(x).device == x.device

    def test_values_are_the_same_under_torch_compile(self, case):
        x = self.points(case)
        compiled = torch.compile(case.family.evaluate, backend="eager")
        close(compiled(x, case.values), case.evaluate(x), atol=1e-13)

    def test_half_precision_and_complex_points_are_refused(self, case):
        for dtype in (torch.float16, torch.bfloat16, torch.complex64):
            with pytest.raises(DataError, match="convert it to float32"):
                case.evaluate(torch.zeros(1, dtype=dtype))

    def test_huge_points_give_neither_nan_values_nor_nan_gradients(self, any_case):
        for dtype in (torch.float32, torch.float64):
            x = torch.tensor([-1e30, 1e30, 3.0, torch.nan], dtype=dtype, requires_grad=True)
            values = {name: value.requires_grad_() for name, value in any_case.family.parameters().items()}
            result = any_case.family.evaluate(x, values)
            assert result[:2].eq(0).all()
            assert result.isfinite().all()
            if result.requires_grad:
                gradients = torch.autograd.grad(result.abs().square().sum(), [x, *values.values()])
                assert all(gradient.isfinite().all() for gradient in gradients)

    # Integrals

    def test_gram_agrees_with_an_independent_quadrature(self, any_case):
        family, values = any_case.family, any_case.values
        expected = self.overlap(any_case, any_case, self.rule(any_case))
        gram = family.gram(values).to(torch.complex128)
        close(gram, expected, atol=1e-10)
        if family.is_orthonormal:
            assert torch.equal(gram, torch.eye(family.size, dtype=gram.dtype))

    def test_gram_is_the_inner_product_with_itself(self, case):
        family, values = case.family, case.values
        copy = None if values is None else dict(values)
        close(family.inner(family, values, copy), family.gram(values), atol=1e-12)

    def test_integrals_agree_with_an_independent_quadrature(self, any_case):
        nodes, weights = self.rule(any_case)
        expected = (weights[:, None] * any_case.evaluate(nodes)).sum(0)
        integrals = any_case.family.integrals(any_case.values)
        assert integrals.dtype == (torch.complex128 if any_case.family.is_complex else torch.float64)
        close(integrals, expected, atol=1e-11)

    def test_inner_products_agree_with_an_independent_quadrature(self, case):
        for other in self.others(case):
            expected = self.overlap(case, other, self.rule(case))
            actual = case.family.inner(other.family, case.values, other.values)
            assert actual.dtype in (torch.float64, torch.complex128)
            assert actual.shape == (case.family.size, other.family.size)
            close(actual.to(torch.complex128), expected)

    def test_inner_products_are_hermitian(self, case):
        for other in self.others(case):
            there = case.family.inner(other.family, case.values, other.values)
            back = other.family.inner(case.family, other.values, case.values)
            close(there, back.mH.resolve_conj(), atol=1e-12)

    def test_inner_products_need_equal_domains(self, case):
        for stranger in (Categorical(97), Legendre(2, -97.0, 98.0)):
            with pytest.raises(ParameterError, match=r"different domains.*Fix"):
                case.family.inner(stranger)

    # Panels

    def test_sixteen_points_between_breakpoints_integrate_every_product(self, any_case):
        family, values = any_case.family, any_case.values
        if family.domain.is_discrete:
            with pytest.raises(ParameterError, match="continuous variables only"):
                family.breakpoints(values)
            return
        actual = self.overlap(any_case, any_case, gauss_legendre(family.breakpoints(values), points=16))
        close(actual, family.gram(values).to(torch.complex128), atol=1e-12)

    def test_functions_vanish_beyond_the_breakpoints(self, any_case):
        family, values = any_case.family, any_case.values
        if family.domain.is_discrete:
            return
        breaks = family.breakpoints(values)
        width = breaks[-1] - breaks[0]
        steps = torch.linspace(1e-12, 2, 2001, dtype=torch.float64)
        beyond = torch.cat([breaks[0] - width * steps, breaks[-1] + width * steps])
        assert any_case.evaluate(beyond).abs().max() < 1e-18

    def test_breakpoints_and_pieces_are_sorted_and_have_one_extent(self, any_case):
        family, values = any_case.family, any_case.values
        if family.domain.is_discrete:
            return
        breaks, pieces = family.breakpoints(values), family.pieces(values)
        for points in (breaks, pieces):
            assert points.dtype == torch.float64
            assert not points.requires_grad
            assert points.diff().ge(0).all()
            assert len(points) >= 2
        assert torch.equal(breaks[[0, -1]], pieces[[0, -1]])

    # Derivatives

    def test_derivatives_in_x_are_right(self, case):
        if case.family.domain.is_discrete:
            return
        x = self.points(case).requires_grad_()
        assert torch.autograd.gradcheck(case.evaluate, [x])

    def test_derivatives_in_the_parameters_are_right(self, case):
        parameters = case.family.parameters() | (case.values or {})
        if not parameters:
            return
        x, other = self.points(case), self.others(case)[0]

        def results(*tensors: Tensor) -> tuple[Tensor, ...]:
            values = dict(zip(parameters, tensors, strict=True))
            inner = case.family.inner(other.family, values, other.values)
            return case.family.evaluate(x, values), inner, case.family.integrals(values)

        tensors = [value.clone().requires_grad_() for value in parameters.values()]
        assert torch.autograd.gradcheck(results, tensors)

    def test_values_can_be_batched_by_vmap(self, case):
        parameters = case.family.parameters() | (case.values or {})
        x = self.points(case).repeat(3, 1)
        batch = {name: torch.stack([value, value + 0.1, value - 0.1]) for name, value in parameters.items()}
        actual = torch.func.vmap(case.family.evaluate)(x, batch)
        for k in range(3):
            one = {name: value[k] for name, value in batch.items()}
            close(actual[k], case.family.evaluate(x[k], one), atol=1e-14)

    # Parameters

    def test_parameters_are_float64_and_default_to_their_initial_values(self, case):
        parameters = case.family.parameters()
        assert all(value.dtype == torch.float64 for value in parameters.values())
        x = self.points(case)
        assert torch.equal(case.family.evaluate(x, parameters), case.family.evaluate(x))
        for name, value in parameters.items():
            assert torch.equal(case.family.evaluate(x, {name: value}), case.family.evaluate(x, {}))

    def test_unknown_parameters_and_wrong_shapes_are_named(self, case):
        x = self.points(case)
        with pytest.raises(ParameterError, match=r"unknown parameter 'colour'.*Fix"):
            case.family.evaluate(x, {"colour": torch.zeros(())})
        for name in case.family.parameters():
            with pytest.raises(ParameterError, match=rf"{name} has shape \(7, 7\).*Fix"):
                case.family.evaluate(x, {name: torch.zeros(7, 7)})

    # Identity

    def test_json_round_trip_gives_an_equal_family(self, any_case):
        text = json.dumps(family_to_dict(any_case.family), allow_nan=False)
        assert family_from_dict(json.loads(text)) == any_case.family

    def test_equal_families_hash_alike_and_different_ones_differ(self, any_case):
        twin = pickle.loads(pickle.dumps(any_case.family))
        assert twin == any_case.family
        assert hash(twin) == hash(any_case.family)
        assert [case.family for case in self.cases() + self.large()].count(twin) == 1

    def test_families_are_frozen(self, case):
        with pytest.raises(AttributeError):
            case.family.colour = "red"

    def test_conjugate_conjugates_the_values_and_is_an_involution(self, case):
        conjugate, x = case.family.conjugate(), self.points(case)
        assert conjugate.conjugate() == case.family
        assert (conjugate is case.family) == (not case.family.is_complex)
        if case.family.is_complex:
            assert isinstance(conjugate, Conjugated) != isinstance(case.family, Conjugated)
        if isinstance(conjugate, Conjugated):
            assert conjugate.conjugate() is case.family
        actual = conjugate.evaluate(x, case.values)
        assert torch.equal(actual, torch.conj_physical(case.evaluate(x)))
