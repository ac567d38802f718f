"""p(x_v | y) at some points from the derivatives of log p(y) in what the input layers send upwards.

With R = ∫ ℓ ℓᴴ of the input layer of a variable that a row lacks, p(y) is linear in R; so with the derivative
G of log p(y) in R, p(x | y) = ℓ(x)ᴴ G ℓ(x), summed over the input layers of the variable. One sweep up and
one back tell G of all variables; points cost one product of matrices, and only where a row lacks them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from squircuit.execution.plan import InputGroup
from squircuit.inference.compile.compiled_circuit import Snapshot, constant
from squircuit.inference.evidence import Evidence, require_positive
from squircuit.inference.upward.contraction import as_reals
from squircuit.inference.upward.input_layers import evaluate_group, plain
from squircuit.inference.upward.inputs import InputMessages
from squircuit.inference.upward.messages import log_total
from squircuit.inference.upward.mixed import MixedMessages
from squircuit.inference.upward.quadrature import Nodes


@final
@dataclass(frozen=True, eq=False)
class Densities:
    """Densities of single variables at their nodes, of a circuit that is a tree of sums.

    Args:
        snapshot: of the model.
        nodes: of the variables that are asked for.
    """

    snapshot: Snapshot
    nodes: Nodes
    _pairs: dict[tuple[InputGroup, int], Tensor] = field(default_factory=dict)

    def tables(self, evidence: Evidence, numbers: Tensor) -> dict[int, tuple[Tensor, Tensor]]:
        """Variable → rows that lack it, (m,), and its density at its nodes there, (m, Q).

        Args:
            evidence: rows with any masks, that are computed together.
            numbers: of these rows, for errors: (B,).
        """
        with torch.inference_mode(mode=False), torch.enable_grad():
            x, missing = constant(evidence.x), constant(evidence.missing)
            inputs = InputMessages(self.snapshot.detached(), x, missing)
            found = MixedMessages(inputs, frozenset(self.nodes.rows))
            if self.snapshot.real == torch.float32 and bool(found.doubtful.any()):
                return Densities(self.snapshot.doubled(), self.nodes).tables(evidence, numbers)
            log_p = log_total(found)
            require_positive(log_p, numbers)
            leaves = [leaf for _, leaf in found.leaves.values()]
            gradients = torch.autograd.grad(log_p.sum(), leaves) if leaves else ()
        result: dict[int, tuple[Tensor, Tensor]] = {}
        with torch.no_grad():
            for ((group, fold), (rows, _)), gradient in zip(found.leaves.items(), gradients, strict=True):
                variable = group.variables[fold]
                table = _as_pairs(gradient) @ self._at_nodes(group, fold)
                result[variable] = rows, table + result[variable][1] if variable in result else table
            return {v: (rows, table.clamp_min(0)) for v, (rows, table) in result.items()}

    def _at_nodes(self, group: InputGroup, fold: int) -> Tensor:
        """ℓ_i ℓ_j* at the nodes of the layer's variable for i ≤ j, those of i < j twice: (pairs, Q)."""
        key = group, fold
        if key not in self._pairs:
            row = self.nodes.rows[group.variables[fold]]
            points = self.nodes.points[row : row + 1, : self.nodes.counts[row]]
            values = plain(evaluate_group(self.snapshot, group, (fold,), points))[0]  # (K, Q)
            i, j = torch.triu_indices(len(values), len(values), device=values.device)
            twice = torch.where(i == j, 1.0, 2.0).to(values.real.dtype)
            self._pairs[key] = as_reals((values[i] * values[j].conj()).T * twice).T.contiguous()
        return self._pairs[key]


def _as_pairs(gradient: Tensor) -> Tensor:
    """The entries G_ij with i ≤ j of Hermitian matrices as real numbers: (m, K, K) → (m, pairs)."""
    i, j = torch.triu_indices(gradient.shape[1], gradient.shape[1], device=gradient.device)
    return as_reals((gradient[:, i, j] + gradient[:, j, i].conj()) / 2)
