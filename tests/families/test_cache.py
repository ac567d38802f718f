"""What is computed once serves in every mode."""

import torch

from squircuit.families.cache import kept


def test_what_is_first_asked_for_in_inference_mode_can_be_trained_through():
    made = []

    @kept(4)
    def ones(count: int) -> torch.Tensor:
        made.append(count)
        return torch.ones(count)

    with torch.inference_mode():
        ones(3)
    weight = torch.zeros(3, requires_grad=True)
    (weight * ones(3)).sum().backward()
    assert weight.grad.tolist() == [1.0, 1.0, 1.0]
    assert made == [3]


def test_a_result_has_no_gradient_of_the_first_who_asked():
    base = torch.ones((), requires_grad=True)

    @kept(4)
    def doubled() -> torch.Tensor:
        return 2 * base

    assert not doubled().requires_grad
