"""How close two models are: exactly where that is tractable, by samples with an interval elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol, final

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.errors import ParameterError, is_whole
from squircuit.reference.inner_product import inner_product, root_norms


class Model(Protocol):
    """What is compared: a density that can be sampled."""

    def circuit(self) -> Circuit:
        """The circuit with its weights."""

    def sample(self, count: int, *, seed: int | None = None) -> Tensor:
        """Samples."""

    def log_prob(self, x: Tensor) -> Tensor:
        """log p."""


def overlap(a: Model | Circuit, b: Model | Circuit) -> Tensor:
    """⟨a_r, b_s⟩ = ∫ a_r b_s* / √(Z_a Z_b) of the root units of two compatible circuits: (R_a, R_b) complex.

    Z = Σ_r π_r ∫ |c_r|². Cost O(L_a L_b S_a S_b), see :func:`squircuit.inner_product`, in double precision:
    an overlap below 1e-308, as of unrelated models of many variables, is 0.

    Example:
        >>> import squircuit as sq
        >>> c = sq.build(sq.regions.linear(3), sq.Categorical(2), units=2).initialise(seed=0)
        >>> round(overlap(c, c).item().real, 12)
        1.0
    """
    first, second = _circuit(a), _circuit(b)
    norms = [_partition(c).sqrt() for c in (first, second)]
    return inner_product(first, second)[0] / norms[0] / norms[1]


def _partition(circuit: Circuit) -> Tensor:
    """Z, which has to be a number."""
    z = root_norms(circuit)[0] @ circuit.root_shares
    if not (bool(z.isfinite()) and z > 0):
        raise ParameterError(
            f"overlap: Z of a circuit is {z.item()} in double precision: it is 0 everywhere, or its weights "
            "are too large or too small. Fix: multiply its weights by a number, which changes no density."
        )
    return z


def fidelity(a: Model | Circuit, b: Model | Circuit) -> float:
    """Between 0 and 1, which is reached by equal models: |⟨a, b⟩|², for several roots Uhlmann's fidelity.

    The states are ρ = Σ_r π_r |c_r⟩⟨c_r| / Z; their fidelity is ‖M‖₁², the squared sum of the singular values
    of M_rs = √(π_r π'_s) ⟨a_r, b_s⟩.

    Example:
        >>> import squircuit as sq
        >>> structure = sq.build(sq.regions.linear(3), sq.Categorical(2), units=2, roots=2)
        >>> round(fidelity(structure.initialise(seed=0), structure.initialise(seed=0)), 12)
        1.0
    """
    weights = [_circuit(c).root_shares.sqrt() for c in (a, b)]
    matrix = overlap(a, b) * weights[0].unsqueeze(1) * weights[1]
    return float(torch.linalg.svdvals(matrix).sum().square())


@final
@dataclass(frozen=True)
class Estimate:
    """A number estimated from samples, with an interval that holds it with the stated confidence."""

    value: float
    low: float
    high: float
    confidence: float


def kl_divergence(
    p: Model, q: Model, samples: int = 1000, confidence: float = 0.95, seed: int | None = None
) -> Estimate:
    """KL(p ‖ q) = E_p[log p(x) − log q(x)], from exact samples of p, in nats; ∞ where q misses one of them.

    Example:
        >>> import squircuit as sq
        >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
        >>> kl_divergence(model, model, seed=0).value
        0.0
    """
    return estimated(_log_ratios(p, q, samples, seed), confidence, (0.0, math.inf))


def total_variation(
    p: Model, q: Model, samples: int = 1000, confidence: float = 0.95, seed: int | None = None
) -> Estimate:
    """½ ∫ |p − q| = E_p[max(0, 1 − q(x)/p(x))], from exact samples of p."""
    ratios = _log_ratios(p, q, samples, seed)
    return estimated((1 - (-ratios).exp()).clamp_min(0), confidence, (0.0, 1.0))


@torch.no_grad()
def _log_ratios(p: Model, q: Model, samples: int, seed: int | None) -> Tensor:
    """log p(x)/q(x) of samples of p: (n,) float64."""
    if not is_whole(samples, 2):
        raise ParameterError(
            f"an estimate with an interval needs at least 2 samples, got {samples!r}"
            ". Fix: pass a whole number from 2."
        )
    for model in (p, q):
        if not hasattr(model, "log_prob") or len(getattr(model, "batch_shape", "")) > 0:
            raise ParameterError(
                f"a divergence is between two densities over rows, such as SquaredCircuit; got {model!r}"
                ". Fix: pass two of them."
            )
    x = p.sample(samples, seed=seed)
    return p.log_prob(x).double() - q.log_prob(x).double().to(x.device)


def estimated(values: Tensor, confidence: float, bounds: tuple[float, float]) -> Estimate:
    """The mean, and an interval by the central limit theorem cut to where the number can be."""
    if not 0 < confidence < 1:
        raise ParameterError(
            f"confidence must lie between 0 and 1, got {confidence!r}. Fix: pass a number such as 0.95."
        )
    if len(values) < 2:
        raise ParameterError(f"{len(values)} samples tell no interval. Fix: pass samples=1000, or more.")
    mean = float(values.mean())
    error = float(values.std()) / math.sqrt(len(values)) * NormalDist().inv_cdf((1 + confidence) / 2)
    if math.isinf(mean):
        return Estimate(mean, mean, mean, confidence)
    value, low, high = (
        min(max(number, bounds[0]), bounds[1]) for number in (mean, mean - error, mean + error)
    )
    return Estimate(value, low, high, confidence)


def _circuit(model: Model | Circuit) -> Circuit:
    if isinstance(model, Circuit):
        return model
    if not hasattr(model, "circuit"):
        raise ParameterError(
            f"expected a model or a circuit, got {model!r}. Fix: pass a SquaredCircuit or a Circuit."
        )
    return model.circuit()
