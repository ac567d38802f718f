"""W (R₁ ⊗ R₂) Wᴴ and its derivatives, beside the sum over all indices and finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from squircuit.inference.upward.contraction import weigh_beside_identity, weigh_pair

ROWS, UNITS, WIDTHS = 3, 2, (3, 2)
FORMS = ["matrix, matrix", "vector, matrix", "matrix, vector", "vector, identity", "identity, vector"]


def drawn(dtype: torch.dtype) -> tuple[Tensor, ...]:
    """A weight, and for each factor numbers of which vectors or Hermitian matrices are made."""
    generator = torch.Generator().manual_seed(0)
    shapes = (UNITS, WIDTHS[0] * WIDTHS[1]), *((ROWS, width, width) for width in WIDTHS)
    return tuple(torch.randn(s, dtype=dtype, generator=generator).requires_grad_() for s in shapes)


def factors(form: str, numbers: tuple[Tensor, ...]) -> list[Tensor | None]:
    kinds = {"matrix": lambda m: m @ m.mH, "vector": lambda m: m[..., 0], "identity": lambda _: None}
    return [kinds[kind](number) for kind, number in zip(form.split(", "), numbers, strict=True)]


def result(form: str, weight: Tensor, *numbers: Tensor) -> Tensor:
    first, second = factors(form, numbers)
    if second is None:
        return weigh_beside_identity(weight, first, 0)
    if first is None:
        return weigh_beside_identity(weight, second, 1)
    return weigh_pair(weight, first, second)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_the_sandwich_is_the_sum_over_all_indices(form, dtype):
    weight, *numbers = drawn(dtype)
    whole = []
    for factor, width in zip(factors(form, numbers), WIDTHS, strict=True):
        if factor is None:
            factor = torch.eye(width, dtype=dtype).expand(ROWS, width, width)
        whole.append(torch.einsum("na,nb->nab", factor, factor.conj()) if factor.ndim == 2 else factor)
    shaped = weight.reshape(UNITS, *WIDTHS)
    expected = torch.einsum("kab,nac,nbd,lcd->nkl", shaped, *whole, shaped.conj())
    torch.testing.assert_close(result(form, weight, *numbers), expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_first_and_second_derivatives_of_the_sandwich_are_finite_differences(form, dtype):
    wanted = drawn(dtype)
    unused = {"identity, vector": 1, "vector, identity": 2}.get(form)
    inputs = tuple(number for index, number in enumerate(wanted) if index != unused)

    def of_inputs(*given: Tensor) -> Tensor:
        given = list(given)
        if unused is not None:
            given.insert(unused, wanted[unused])
        return result(form, *given)

    assert torch.autograd.gradcheck(of_inputs, inputs)
    assert torch.autograd.gradgradcheck(of_inputs, inputs)
