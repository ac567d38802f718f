"""What a step of training maximises."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from squircuit.circuits.mixture import independent
from squircuit.models import SquaredCircuit


@final
class Objective:
    """The log-likelihood of a model, or that of each of the parts that it mixes, as if they were alone.

    p(x) = Σ_g p(g) p(x | g) over parts g that have no weight in common. The gradient of log p reaches a part
    multiplied by p(g | x): it learns the rows that it is better at than the others. Apart, each learns all
    rows: Σ_g log p(g, x) is maximised, with root weights that stay as they are, and p(g) with them. Circuits
    without constraint are trained together: their p(g) change with their Z.

    Args:
        model: to be trained.
        apart: parts learn as if they were alone.
    """

    def __init__(self, model: SquaredCircuit, apart: bool) -> None:
        self.model = model
        # made here, since a step that is captured in a graph copies nothing from the host
        self.parts = [torch.tensor(part, device=model.device) for part in independent(model.structure)]
        self.is_apart = apart and model.is_unitary and len(self.parts) > 1

    def learns(self, name: str) -> bool:
        """Whether the model's parameter of that name is learnt."""
        return not (self.is_apart and name == "root_logits")

    def __call__(self, x: Tensor, missing: Tensor | None) -> tuple[Tensor, Tensor]:
        """log p(x), (n,), and that whose mean is maximised, (n,)."""
        if not self.is_apart:
            log_p = self.model.log_prob(x, missing)
            return log_p, log_p
        terms = self.model.component_log_prob(x, missing)
        learnt = [_log_sum(terms.index_select(1, part)) for part in self.parts]
        return terms.detach().logsumexp(dim=1), torch.stack(learnt).sum(dim=0)


def _log_sum(terms: Tensor) -> Tensor:
    """log Σ exp of the columns, with gradient 0 and not NaN in rows where all are −inf: (n, M) → (n,).

    Example:
        >>> _log_sum(torch.tensor([[0.0, 0.0], [-torch.inf, -torch.inf]]))
        tensor([0.6931,   -inf])
    """
    lost = (terms == -torch.inf).all(dim=1)
    return torch.where(lost, -torch.inf, torch.where(lost.unsqueeze(1), 0.0, terms).logsumexp(dim=1))
