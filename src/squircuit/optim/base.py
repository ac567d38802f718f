"""What all optimisers on the manifold share: groups, momentum, checks, and Adam for free parameters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from squircuit.circuits import Constraint
from squircuit.errors import ParameterError
from squircuit.optim import kernels
from squircuit.optim.gram import Grams

Params = Iterable[Tensor] | Iterable[dict[str, Any]]


def groups(model: nn.Module, **options: Any) -> list[dict[str, Any]]:
    """The parameters of a model in two groups, semi-unitary and free ones, for any optimiser here.

    Args:
        model: e.g. a SquaredCircuit.
        options: of the semi-unitary group; those of the free one have the prefix ``free_``.
    """
    free_options = {k.removeprefix("free_"): v for k, v in options.items() if k.startswith("free_")}
    constrained_options = {k: v for k, v in options.items() if not k.startswith("free_")}
    constrained = [p for p in model.parameters() if is_constrained(p)]
    free = [p for p in model.parameters() if not is_constrained(p)]
    made = [
        {"params": constrained, "constrained": True, **constrained_options},
        {"params": free, "constrained": False, **free_options},
    ]
    return [group for group in made if group["params"]]


def is_constrained(parameter: Tensor) -> bool:
    """The parameter says that its rows are orthonormal."""
    return getattr(parameter, "constraint", None) == Constraint.SEMI_UNITARY


class StiefelOptimizer(Optimizer):
    """An optimiser for semi-unitary matrices (…, K1, K2), rows orthonormal, and Adam for free parameters.

    Parameters are semi-unitary if they say so (those of a SquaredCircuit do) or if their group has
    ``constrained=True``. Learning rates may be numbers or tensors; schedulers of torch work.

    Args:
        params: parameters or groups.
        lr: learning rate of the semi-unitary parameters.
        free_lr: learning rate of the others.
        betas: decay of the averages of gradient and of its square.
        eps: added to the denominator.
        second_moment: ``"row"`` or ``"matrix"``: one real second moment for each row or each matrix
            (VectorAdam). Both, unlike one for each entry, do not depend on the choice of basis.
        weight_decay: refused for semi-unitary parameters, on which it does nothing.
    """

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        super().__init__(_split(params), {"weight_decay": 0.0, **defaults})
        for group in self.param_groups:
            _check_group(group)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of all parameters; raises before any is changed if a gradient is not finite."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._require_finite()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["step"] = torch.zeros((), device=parameter.device)
                state["step"] += 1
                if group["constrained"]:
                    shape = parameter.shape if parameter.ndim > 2 else (1, *parameter.shape)
                    weight, gradient = parameter.view(shape), parameter.grad.reshape(shape)
                    self.update(weight, gradient, state, group)
                else:
                    _adam(parameter, parameter.grad, state, group)
        return loss

    @abstractmethod
    def update(self, weight: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Change semi-unitary weights (S, K1, K2) in place."""

    def _require_finite(self) -> None:
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return  # a captured step cannot ask the host
        for number, group in enumerate(self.param_groups):
            for place, parameter in enumerate(group["params"]):
                # a sum of squares is finite only if all of them are (or overflows, which is as bad)
                if parameter.grad is not None and not torch.isfinite(real_view(parameter.grad).norm()):
                    raise FloatingPointError(
                        f"the gradient of parameter {place} of group {number}, shape "
                        f"{tuple(parameter.shape)}, holds NaN or infinity; no weight was changed. "
                        "Lower the learning rate or look at the data"
                    )


def vector_adam(
    weight: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
) -> tuple[Tensor, Grams, Tensor]:
    """VectorAdam: the average m of the gradient, the Grams of X and m, and the factors 1/((1−β₁ᵗ)√v̂).

    The factors are real, (S, K1 or 1, 1), in double precision.
    """
    rows = group["second_moment"] == "row"
    if "exp_avg" not in state:
        state["exp_avg"] = torch.zeros_like(gradient)
        size = (len(gradient), gradient.shape[1] if rows else 1, 1)
        state["exp_avg_sq"] = torch.zeros(size, dtype=gradient.real.dtype, device=gradient.device)
    beta1, beta2 = group["betas"]
    average, square, step = state["exp_avg"], state["exp_avg_sq"], state["step"]
    g, squares = _momentum(weight, gradient, average, beta1)  # squares of the rows' norms, (S, K1, 1)
    square.lerp_(squares if rows else squares.sum(dim=1, keepdim=True), 1 - beta2)
    corrected = (square / (1 - beta2**step)).sqrt()
    return average, g, (1 / ((1 - beta1**step) * (corrected + group["eps"]))).double()


def real_view(value: Tensor) -> Tensor:
    """(…, K2) complex as (…, 2·K2) real, no copy; torch's complex norms are slow."""
    return torch.view_as_real(value.resolve_conj()).flatten(-2) if value.is_complex() else value


def _momentum(weight: Tensor, gradient: Tensor, average: Tensor, beta: float) -> tuple[Grams, Tensor]:
    """m ← βm + (1−β)g in place; the Grams of X and m, and the squared norms of the rows of g, (S, K1, 1)."""
    if kernels.usable(weight):
        *products, squares = kernels.momentum_and_grams(weight, gradient, average, beta)
        return Grams(*(product.to(torch.complex128) for product in products)), squares.unsqueeze(2)
    average.lerp_(gradient, 1 - beta)
    squares = real_view(gradient).square().sum(dim=-1, keepdim=True)
    return Grams.of(weight, average), squares


def apply(weight: Tensor, momentum: Tensor, alpha: Tensor, beta: Tensor) -> None:
    """X ← αX + βM, in place."""
    if kernels.usable(weight):
        kernels.combine(weight, momentum, alpha, beta)
        return
    moved = torch.bmm(beta.to(weight.dtype), momentum).baddbmm_(alpha.to(weight.dtype), weight)
    weight.copy_(moved)


def _adam(parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Adam, entry by entry; real and imaginary parts apart. The learning rate is ``free_lr``."""
    value = torch.view_as_real(parameter) if parameter.is_complex() else parameter
    grad = torch.view_as_real(gradient) if gradient.is_complex() else gradient
    if group["weight_decay"]:
        grad = grad + group["weight_decay"] * value
    if "exp_avg" not in state:
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(value), torch.zeros_like(value)
    beta1, beta2 = group["betas"]
    step = state["step"]
    state["exp_avg"].lerp_(grad, 1 - beta1)
    state["exp_avg_sq"].lerp_(grad.square(), 1 - beta2)
    corrected = (state["exp_avg_sq"] / (1 - beta2**step)).sqrt()
    value.sub_(group["free_lr"] / (1 - beta1**step) * state["exp_avg"] / (corrected + group["eps"]))


def _split(params: Params) -> list[dict[str, Any]]:
    """Groups with a flag ``constrained``; one made of what the parameters say where it is absent."""
    items: list[Any] = list(params)
    given: list[dict[str, Any]] = items if items and isinstance(items[0], dict) else [{"params": items}]
    made: list[dict[str, Any]] = []
    for group in given:
        tensors = list(group["params"])
        if "constrained" in group:
            made.append({**group, "params": tensors})
            continue
        for flag in (True, False):
            chosen = [p for p in tensors if is_constrained(p) is flag]
            if chosen:
                made.append({**group, "params": chosen, "constrained": flag})
    return made


def _check_group(group: dict[str, Any]) -> None:
    if group["second_moment"] not in ("row", "matrix"):
        raise ParameterError(f"second_moment must be 'row' or 'matrix', got {group['second_moment']!r}")
    for name in ("lr", "free_lr"):
        if not float(group[name]) >= 0:
            raise ParameterError(f"{name} must be ≥ 0, got {group[name]}")
    if not all(0 <= beta < 1 for beta in group["betas"]):
        raise ParameterError(f"betas must lie in [0, 1), got {group['betas']}")
    if not group["constrained"]:
        return
    if group["weight_decay"]:
        raise ParameterError(
            "weight decay does nothing on semi-unitary matrices, whose norms are fixed: set weight_decay=0 "
            "for them (groups with constrained=False may have it)"
        )
    for parameter in group["params"]:
        if parameter.ndim < 2 or parameter.shape[-2] > parameter.shape[-1]:
            raise ParameterError(
                f"a semi-unitary parameter needs K1 ≤ K2, got shape {tuple(parameter.shape)}"
            )
