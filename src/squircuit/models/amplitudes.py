"""c_r(x) of the root units at rows that lack nothing, and the density that they mix."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from squircuit.execution.inputs import FunctionsTogether, evaluate_inputs, points
from squircuit.execution.log_scales import log_sum
from squircuit.execution.network import Network
from squircuit.execution.unit_squares import has_no_sums, log_unit_squares
from squircuit.models.weights import StackedWeights


@final
class Amplitudes:
    """Evaluates input functions, then sums and products, with the weights that a model has now.

    Args:
        network: of the model's plan.
    """

    def __init__(self, network: Network) -> None:
        self._network, self._groups = network, network.plan.input_groups
        self._together = FunctionsTogether(self._groups)
        self.has_unit_scales = has_no_sums(network.plan)

    def log_density(self, weights: StackedWeights, x: Tensor, real: torch.dtype) -> Tensor:
        """log Σ_r π_r |c_r(x)|² in a precision, not divided by Z: (n, d) → (n,)."""
        if self.has_unit_scales:
            return log_sum(self._log_squares(weights, x, real), dim=1)
        return _log_mixed(*self._roots(weights, x, real))

    def log_densities(self, weights: StackedWeights, x: Tensor, real: torch.dtype) -> Tensor:
        """The same sum over the units r of every root layer by itself: (n, d) → (n, M)."""
        units = [root.units for root in weights.structure.roots]
        if self.has_unit_scales:
            parts = torch.split(self._log_squares(weights, x, real), units, dim=1)
            return torch.stack([log_sum(part, dim=1) for part in parts], dim=1)
        roots = (torch.split(each, units) for each in self._roots(weights, x, real))
        return torch.stack([_log_mixed(*each) for each in zip(*roots, strict=True)], dim=1)

    def _log_squares(self, weights: StackedWeights, x: Tensor, real: torch.dtype) -> Tensor:
        """log π_r |c_r(x)|² of circuits without sums, in double precision: (n, R)."""
        logs = log_unit_squares(self._network, _doubled(x), list(weights.stacks()), weights.family_values)
        return logs + weights.log_root_shares(real)

    def _roots(self, weights: StackedWeights, x: Tensor, real: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """|v_r|² (R, n), s_r (R, n) and log π_r (R,) of the root units, c_r = v_r exp(s_r)."""
        inputs, input_scales = self._inputs(weights, x, real)
        values, scales = self._network(inputs, weights.stacks(real), input_scales)
        return values.square().sum(dim=1), scales, weights.log_root_shares(real)

    def _inputs(
        self, weights: StackedWeights, x: Tensor, real: torch.dtype
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        """The outputs of the input groups and their log-scales."""
        x = _doubled(x)
        columns = [points(group, x, self._network.index(group.columns, x.device)) for group in self._groups]
        functions, stacks = self._together.functions(columns, real), weights.stacks()
        outputs = []
        for number, group in enumerate(self._groups):
            weight = None if group.weight is None else self._network.weight(stacks, group.weight)
            values = {role: value.double() for role, value in weights.family_values(group).items()}
            parts = group, columns[number], weight, values, weights.dtype_in(real), functions.get(number)
            outputs.append(evaluate_inputs(*parts))
        return [out for out, _ in outputs], [scale for _, scale in outputs]


def _doubled(x: Tensor) -> Tensor:
    """Floats in double precision, until locations have been subtracted."""
    return x.double() if x.is_floating_point() else x


def _log_mixed(squares: Tensor, scales: Tensor, log_shares: Tensor) -> Tensor:
    """log Σ_r π_r |v_r|² exp(2 s_r), −inf where that is 0: (R, n), (R, n), (R,) → (n,)."""
    exponents = torch.where(squares == 0, -torch.inf, 2 * scales) + log_shares.unsqueeze(1)
    largest, there = exponents.detach().amax(dim=0), exponents > -torch.inf
    factors = torch.where(there, torch.where(there, exponents - largest, 0.0).exp(), 0.0)
    density = (squares * factors).sum(dim=0)
    positive = density > 0
    return torch.where(positive, torch.where(positive, density, 1.0).log() + largest, -torch.inf)
