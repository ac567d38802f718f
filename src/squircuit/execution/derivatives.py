"""Derivatives written by hand are first derivatives: what asks for others is told so."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

from squircuit.errors import SquircuitError


def require_first() -> None:
    """Refuse that a backward pass be differentiated itself, as ``create_graph=True`` asks for."""
    if torch.is_grad_enabled():
        raise SquircuitError(
            "create_graph=True: derivatives of a model's derivatives are not there: its backward pass is "
            "written by hand. Fix: write the density with sq.evaluate(model.structure.with_weights("
            "model.weights()), x), which torch differentiates any number of times."
        )


def require_eager() -> None:
    """Refuse ``torch.func`` (grad, vmap, jvp) and forward mode, which cannot look into such a pass."""
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        raise SquircuitError(
            "a transform of torch.func (or forward mode) around a model, whose backward pass is "
            "written by hand. Fix: use torch.autograd.grad(model.log_prob(x).sum(), [*model.parameters()]), "
            "and no vmap."
        )


def require_no_batch() -> None:
    """Refuse ``torch.func.vmap`` over rows or weights: both are looked at before they are computed with."""
    stack = torch._C._functorch.get_interpreter_stack() or ()
    if any(level.key() == torch._C._functorch.TransformType.Vmap for level in stack):
        raise SquircuitError(
            "torch.func.vmap around a model, which looks at its data and weights first. Fix: pass all rows "
            "at once, model.log_prob(x); ask several models one after the other."
        )
