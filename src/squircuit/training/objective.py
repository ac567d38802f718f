"""What a step of training maximises."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from squircuit.circuits.mixture import independent
from squircuit.execution.scaled import log_sum
from squircuit.models import SquaredCircuit


@final
class Objective:
    """The log-likelihood of a model, or that of each of the parts that it mixes, as if they were alone.

    p(x) = Σ_g p(g) p(x | g) over parts g that have no weight in common. The gradient of log p reaches a part
    multiplied by p(g | x): it learns the rows that it is better at than the others. Apart, each learns all
    rows: Σ_g log p(x | g) is maximised, and the shares p(g) stay as they are. Circuits without constraint are
    trained together: their shares change with their Z.

    Args:
        model: to be trained.
        apart: parts learn as if they were alone.
    """

    def __init__(self, model: SquaredCircuit, apart: bool) -> None:
        self.model = model
        parts = independent(model.structure)
        self.is_apart = apart and model.is_unitary and len(parts) > 1
        # made here, since a step that is captured in a graph copies nothing from the host
        sizes = [root.units for root in model.structure.roots]
        numbers = torch.split(torch.arange(sum(sizes)), sizes)
        self._roots = [torch.tensor(part, device=model.device) for part in parts]
        self._units = [torch.cat([numbers[root] for root in part]).to(model.device) for part in parts]
        self._shares = [model.mixture().detach()[units].sum().log() for units in self._units]

    def __call__(self, x: Tensor, missing: Tensor | None) -> tuple[Tensor, Tensor]:
        """log p(x), (n,), and that whose mean is maximised, (n,)."""
        if not self.is_apart:
            log_p = self.model.log_prob(x, missing)
            return log_p, log_p
        terms = self.model.component_log_prob(x, missing)
        shares = self.model.component_log_weights()
        learnt = [
            log_sum(terms.index_select(1, roots) - shares.index_select(0, roots).logsumexp(dim=0), dim=1)
            for roots in self._roots
        ]
        return terms.detach().logsumexp(dim=1), torch.stack(learnt).sum(dim=0)

    @torch.no_grad()
    def keep_shares(self) -> None:
        """After a step that has moved root weights: those of each part sum to its share again."""
        logits: Tensor | None = getattr(self.model, "root_logits", None)
        if not self.is_apart or logits is None:
            return
        for units, share in zip(self._units, self._shares, strict=True):
            moved = logits.index_select(0, units)
            logits.index_copy_(0, units, moved - moved.logsumexp(dim=0) + share)
