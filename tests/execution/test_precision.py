"""Settings of torch that are changed for a while."""

from __future__ import annotations

import pytest
import torch

import squircuit as sq
from squircuit.execution.precision import flushed_denormals


def is_flushed() -> bool:
    return torch.tensor([1e-40]).mul(1).item() == 0


@pytest.mark.parametrize("before", [True, False])
def test_denormals_are_flushed_inside_and_as_before_afterwards(before):
    torch.set_flush_denormal(before)
    try:
        with flushed_denormals():
            assert is_flushed()
        assert is_flushed() == before
    finally:
        torch.set_flush_denormal(False)


def test_training_leaves_denormals_as_they_were():
    model = sq.image_model((2, 2), units=2, levels=2)
    sq.fit(model, torch.randint(2, (20, 4)), epochs=1, progress=False)
    assert not is_flushed()
