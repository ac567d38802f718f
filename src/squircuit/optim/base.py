"""What all optimisers on the manifold share: groups, momentum, checks, and Adam for free parameters."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from squircuit.circuits.semi_unitary import distance
from squircuit.errors import ParameterError, suggestion
from squircuit.optim.gram import Grams
from squircuit.optim.kernels import adam as adam_kernel
from squircuit.optim.manifold import is_constrained, nearest
from squircuit.optim.stacks import Stacks, grouped, real_view

Params = Iterable[Tensor] | Iterable[dict[str, Any]]
NEAR = 0.75
"""The largest distance from the manifold that methods go on from."""
DEFAULTS = {
    "free_lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8, "second_moment": "matrix",
    "weight_decay": 0.0,
}  # fmt: skip
"""Options that every group has; what a method does not pass to the base class is this."""
QUIET = 0.03
"""Least root mean square of a row's gradient, as a share of its matrix' largest, that scales a step."""


def groups(model: nn.Module, **options: Any) -> list[dict[str, Any]]:
    """The parameters of a model in two groups, semi-unitary and free ones, for any optimiser here.

    Args:
        model: e.g. a SquaredCircuit.
        options: of the semi-unitary group; those of the free one have the prefix ``free_``.
    """
    free = {name.removeprefix("free_"): value for name, value in options.items() if name.startswith("free_")}
    others = {name: value for name, value in options.items() if not name.startswith("free_")}
    made = []
    for flag, chosen in ((True, others), (False, free)):
        params = [p for p in model.parameters() if is_constrained(p) is flag]
        made += [{"params": params, "constrained": flag, **chosen}] if params else []
    return made


def names() -> list[str]:
    """The names of all optimisers, by which the option ``optimiser`` of :func:`squircuit.fit` calls them.

    Example:
        >>> {"polar", "pogo", "landing-pc", "landing-sgd", "adam"} <= set(names())
        True
    """
    return sorted(_KNOWN)


def named(optimiser: str | type[StiefelOptimizer]) -> type[StiefelOptimizer]:
    """The class of an optimiser by its name; a class that has a name of its own is given back.

    Example:
        >>> named("polar").rate, named("polar").stays_on_manifold
        (0.2, True)
        >>> named("poler")
        Traceback (most recent call last):
        squircuit.errors.ParameterError: optimiser='poler'. Fix: did you mean 'polar'? Known are ...
    """
    if isinstance(optimiser, type):
        if optimiser not in _KNOWN.values():
            raise ParameterError(
                f"optimiser={optimiser.__name__} is not known. Fix: make it a subclass of "
                "sq.optim.StiefelOptimizer that has a name, such as name = 'mine'."
            )
        return optimiser
    if optimiser not in _KNOWN:
        raise ParameterError(f"optimiser={optimiser!r}. Fix: {suggestion(optimiser, _KNOWN)}")
    return _KNOWN[optimiser]


_KNOWN: dict[str, type[StiefelOptimizer]] = {}


def _register(cls: type[StiefelOptimizer]) -> None:
    """Make an optimiser known by its name; a class that is defined anew, as in notebooks, replaces itself."""
    other = _KNOWN.get(cls.name)
    if not isinstance(cls.name, str) or cls.name in ("", "auto"):
        raise ParameterError(f"{cls.__name__}: name={cls.name!r}. Fix: pass a text, but not 'auto'.")
    if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ParameterError(
            f"{cls.__name__}: the name {cls.name!r} is that of {other.__name__}. Fix: choose another one."
        )
    _KNOWN[cls.name] = cls


class StiefelOptimizer(Optimizer):
    """An optimiser for semi-unitary matrices (…, K1, K2), rows orthonormal, and Adam for free parameters.

    Parameters are semi-unitary if they say so (those of a SquaredCircuit do) or if their group has
    ``constrained=True``. Learning rates may be numbers or tensors; schedulers of torch work.

    A new optimiser is a subclass in a file of its own. It declares what is listed under "Attributes", takes
    its options as keywords of ``__init__``, and moves the weights in :meth:`update`. As soon as the class
    exists, :func:`squircuit.fit` knows it by its name (docs/training.md has an example).

    Attributes:
        name: by which it is called; a class without a name of its own is not offered.
        rate: the learning rate where none is given.
        stays_on_manifold: weights are semi-unitary after every step, up to rounding.
        takes_semi_unitary: it knows the manifold; False: it treats all parameters as free ones.
        is_capturable: no step waits for the host, so that it can be part of a CUDA graph.

    Args:
        params: parameters or groups.
        lr: learning rate of the semi-unitary parameters.
        free_lr: learning rate of the others.
        betas: decay of the averages of gradient and of its square.
        eps: added to the denominator.
        second_moment: ``"row"`` or ``"matrix"``: one real second moment for each row or each matrix
            (VectorAdam). Both, unlike one for each entry, do not depend on the choice of basis. Rows
            count as having at least 0.03 of the largest moment's root in their matrix.
        weight_decay: refused for semi-unitary parameters, on which it does nothing.
    """

    name: ClassVar[str]
    rate: ClassVar[float] = 0.01
    stays_on_manifold: ClassVar[bool] = False
    takes_semi_unitary: ClassVar[bool] = True
    is_capturable: ClassVar[bool] = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "name" in vars(cls):
            _register(cls)

    def __init__(self, params: Params, **options: Any) -> None:
        super().__init__(self._split(params), {"lr": self.rate, **DEFAULTS, **options})
        for group in self.param_groups:
            _check_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """One more group of parameters, see :class:`torch.optim.Optimizer`."""
        _plain(Optimizer.add_param_group)(self, param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters."""
        _plain(Optimizer.zero_grad)(self, set_to_none)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of all parameters; raises before any is changed if a gradient is not finite."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._make_dense()
        made = [self._stacks(group) for group in self.param_groups]
        self._require_finite(made)
        if self._begin():  # then what was found of the weights is no longer true
            made = [self._stacks(group) for group in self.param_groups]
        for group, some in zip(self.param_groups, made, strict=True):
            parameters = [p for p in group["params"] if p.grad is not None]
            self._count(parameters)
            for stacks in some:
                self.update(stacks, group)
            if not group["constrained"]:
                rate = group["free_lr" if self.takes_semi_unitary else "lr"]
                for parameter in parameters:
                    adam(parameter, parameter.grad, self.state[parameter], group, rate)
        return loss

    def _make_dense(self) -> None:
        """Parameters that are views become tensors of their own: fused updates read memory as it lies."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.is_conj() or parameter.is_neg() or not parameter.is_contiguous():
                    parameter.data = parameter.data.resolve_conj().resolve_neg().contiguous()

    def _begin(self) -> bool:
        """Weights that begin far from the manifold go to the nearest ones on it: methods start from there.

        Only before a parameter's first step, so that later ones do not wait for a device.

        Returns:
            Whether some weights have been moved.
        """
        moved = False
        for group in self.param_groups:
            for parameter in group["params"]:
                if group["constrained"] and parameter.grad is not None and not self.state.get(parameter):
                    matrices = parameter.view(-1, *parameter.shape[-2:])
                    far = ~(distance(matrices) <= NEAR)
                    if bool(far.any()):
                        found = nearest(matrices[far])
                        if bool(found.isfinite().all()):
                            matrices[far] = found
                            moved = True
        return moved

    def _stacks(self, group: dict[str, Any]) -> list[Stacks]:
        """The semi-unitary parameters of a group that have gradients."""
        if not group["constrained"]:
            return []
        return grouped(self._stacked(p) for p in group["params"] if p.grad is not None)

    def _count(self, parameters: list[Tensor]) -> None:
        """One more step for each parameter, counted on its device."""
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["step"] = torch.zeros((), device=parameter.device)
        if parameters:
            torch._foreach_add_([self.state[p]["step"] for p in parameters], 1)

    def _stacked(self, parameter: Tensor) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """A parameter as a stack of matrices (S, K1, K2), its gradient and its state."""
        assert parameter.grad is not None
        shape = parameter.shape if parameter.ndim == 3 else (-1, *parameter.shape[-2:])
        return parameter.view(shape), parameter.grad.reshape(shape), self.state[parameter]

    def update(self, stacks: Stacks, group: dict[str, Any]) -> None:
        """Change semi-unitary weights in place; methods that take some have this."""
        raise NotImplementedError(f"{type(self).__name__} takes free parameters only. Fix: write update().")

    def _split(self, params: Params) -> list[dict[str, Any]]:
        """Groups with a flag ``constrained``; one made of what the parameters say where it is absent."""
        if isinstance(params, nn.Module):
            raise ParameterError("an optimiser takes parameters. Fix: pass model.parameters()")
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
        if not self.takes_semi_unitary and any(group["constrained"] for group in made):
            raise ParameterError(
                f"{type(self).__name__} leaves the manifold of semi-unitary weights. Fix: sq.optim.Polar, or "
                "constrained=False in their group."
            )
        return made

    def _require_finite(self, made: list[list[Stacks]]) -> None:
        """Raise before anything is changed if a gradient is not finite."""
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return  # a captured step cannot ask the host
        plain = [stacks for some in made for stacks in some if not stacks.fused]
        fused = [g for some in made for stacks in some if stacks.fused for g in stacks.gradients]
        free = [p.grad for group in self.param_groups if not group["constrained"] for p in group["params"]]
        sizes = [stacks.norms.sum() for stacks in plain]  # which the update needs anyway
        others = [real_view(g) for g in fused + free if g is not None]
        sizes += torch._foreach_norm(others) if others else []
        if sizes and not math.isfinite(sum(torch.stack([s.double().cpu() for s in sizes]).tolist())):
            self._raise_not_finite()

    def _raise_not_finite(self) -> None:
        for number, group in enumerate(self.param_groups):
            for place, parameter in enumerate(group["params"]):
                if parameter.grad is not None and not torch.isfinite(real_view(parameter.grad)).all():
                    raise FloatingPointError(
                        f"the gradient of parameter {place} of group {number}, shape "
                        f"{tuple(parameter.shape)}, holds NaN or infinity; no weight was changed. "
                        "Fix: a smaller lr, or look at the data."
                    )
        raise FloatingPointError(
            "the gradient is so large that its norm overflows; no weight was changed. Fix: a smaller lr."
        )


def _plain(method: Callable[..., None]) -> Callable[..., None]:
    """A method of torch's without the wrapper that imports the compiler, for seconds, when first called."""
    plain: Callable[..., None] = inspect.unwrap(method)
    return plain


def vector_adam(stacks: Stacks, group: dict[str, Any]) -> tuple[list[Tensor], Grams, Tensor]:
    """VectorAdam: the averages m of the gradients, the Grams of X and m, and the factors 1/((1−β₁ᵗ)√v̂).

    The factors are real, (N, K1 or 1, 1), in double precision.
    """
    averages, beta = stacks.state("exp_avg"), group["betas"][0]
    grams, norms = stacks.advance(averages, beta, 1 - beta)
    return averages, grams, vector_scale(stacks, norms, group).double()


def vector_scale(stacks: Stacks, norms: Tensor, group: dict[str, Any]) -> Tensor:
    """1/((1−β₁ᵗ)√v̂), (N, K1 or 1, 1), with ‖g_k‖² of the rows, (N, K1, 1).

    No row has less than ``QUIET`` of the largest √v̂ of its matrix. Input layers of one variable share a
    matrix where a circuit has alternatives (patch_splits), and gradients of those that lose vanish: with
    steps as long as the winner's they would hold on to the states that it needs, and be orthogonal to it.
    """
    beta1, beta2 = group["betas"]
    step = stacks.spread([state["step"] for state in stacks.states])
    squares = _second_moment(stacks, norms, group["second_moment"] == "row", beta2)
    squares = squares.maximum(QUIET**2 * squares.amax(dim=1, keepdim=True))
    corrected = (squares / (1 - beta2**step)).sqrt()
    scale: Tensor = 1 / ((1 - beta1**step) * (corrected + group["eps"]))
    return scale


def _second_moment(stacks: Stacks, norms: Tensor, by_row: bool, decay: float) -> Tensor:
    """v ← β₂v + (1−β₂)‖g‖², of each row or of each matrix: (N, K1 or 1, 1)."""
    new = norms if by_row else norms.sum(dim=1, keepdim=True)
    rows = [weight.shape[1] if by_row else 1 for weight in stacks.weights]
    moments = []
    for row, gradient, state in zip(rows, stacks.gradients, stacks.states, strict=True):
        if "exp_avg_sq" not in state:
            size = (len(gradient), row, 1)
            state["exp_avg_sq"] = torch.zeros(size, dtype=norms.dtype, device=norms.device)
        moments.append(state["exp_avg_sq"])
    parts = [part[:, :row] for part, row in zip(torch.split(new, stacks.sizes), rows, strict=True)]
    torch._foreach_lerp_(moments, parts, 1 - decay)
    padded = [functional.pad(m, (0, 0, 0, new.shape[1] - m.shape[1])) for m in moments]
    return torch.cat(padded) if len(padded) > 1 else moments[0]


def adam(
    parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any], lr: float | Tensor
) -> None:
    """Adam, entry by entry; real and imaginary parts apart."""
    value = (torch.view_as_real(parameter) if parameter.is_complex() else parameter).view(-1)
    grad = torch.view_as_real(gradient.resolve_conj()) if gradient.is_complex() else gradient
    grad = grad.reshape(-1)
    if "exp_avg" not in state:
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(value), torch.zeros_like(value)
    average, square, (beta1, beta2) = state["exp_avg"], state["exp_avg_sq"], group["betas"]
    if not adam_kernel.usable(value, grad):
        torch._fused_adam_(
            [value], [grad], [average], [square], [], [state["step"]],
            lr=lr, beta1=beta1, beta2=beta2, weight_decay=group["weight_decay"],
            eps=group["eps"], amsgrad=False, maximize=False,
        )  # fmt: skip
        return
    if group["weight_decay"]:
        grad = grad + group["weight_decay"] * value
    rate = lr / (1 - beta1 ** state["step"])
    correction = (1 - beta2 ** state["step"]).sqrt()
    adam_kernel.adam(value, grad, average, square, rate, correction, group["betas"], group["eps"])
    torch.autograd.graph.increment_version([parameter])


def _check_group(group: dict[str, Any]) -> None:
    if group["second_moment"] not in ("row", "matrix"):
        raise ParameterError(
            f"second_moment={group['second_moment']!r} is not known. Fix: pass 'row' or 'matrix'."
        )
    for name in ("lr", "free_lr"):
        if not float(group[name]) >= 0:
            raise ParameterError(f"{name}={group[name]}. Fix: pass a number from 0 upwards.")
    if not all(0 <= beta < 1 for beta in group["betas"]):
        raise ParameterError(f"betas={group['betas']}. Fix: pass two numbers in [0, 1).")
    if not group["constrained"]:
        return
    if group["weight_decay"]:
        raise ParameterError(
            "weight decay does nothing on semi-unitary matrices, whose norms are fixed. Fix: set "
            "weight_decay=0 for them (groups with constrained=False may have it)."
        )
    for parameter in group["params"]:
        if parameter.ndim < 2 or parameter.shape[-2] > parameter.shape[-1]:
            raise ParameterError(
                f"a semi-unitary parameter needs K1 ≤ K2, got shape {tuple(parameter.shape)}. "
                "Fix: transpose it, or put it into a group with constrained=False."
            )
