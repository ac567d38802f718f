"""Stacking: the mixture of models with the weights that are best on rows that none of them has seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from squircuit.data import Rows
from squircuit.errors import DataError, ParameterError
from squircuit.models import SquaredCircuit, mixture

LEAST = 1e-3
"""Members with a smaller share are left out, unless they alone know some rows."""
GAP = 1e-6
"""Nats a row by which the weights found may be worse than the best ones."""
MOST_ITERATIONS = 20_000


def stack(
    models: Sequence[SquaredCircuit], rows: Any, missing: Any = None, weights: Any = None
) -> SquaredCircuit:
    r"""The mixture of some models whose weights have the highest likelihood on held-out rows,

    .. math:: p(x) = \sum_m w_m\, p_m(x), \qquad
              w = \operatorname{argmax}_{w \in \Delta} \sum_i \log \sum_m w_m\, p_m(x_i).

    The maximum is that of a concave function, so there is one, and EM finds it. On rows that the members have
    learnt from, the member that remembers most would win: pass rows that none of them has seen. The result is
    a model like others: normalised, with exact marginals, conditionals and samples. Members whose share is
    below 0.001 are left out.

    Args:
        models: over the same variables.
        rows: held-out rows, (n, d), or a Table; NaN is missing in continuous columns.
        missing: booleans (d,) or (n, d), True = missing; not besides a Table.
        weights: of the rows, (n,), default equal.

    Example:
        >>> import squircuit as sq
        >>> circuit = sq.build(sq.regions.balanced_tree(2), sq.Categorical(2), units=2)
        >>> first, second = (SquaredCircuit(circuit, seed=seed) for seed in (0, 1))
        >>> both = stack([first, second], [[0, 0], [1, 1], [1, 0]])
        >>> both.component_log_weights().exp().sum().item()
        1.0...
    """
    found = list(models) if isinstance(models, Sequence) else []
    if not found or not all(isinstance(model, SquaredCircuit) for model in found):
        raise ParameterError(f"stack: models={models!r}. Fix: pass a list of one SquaredCircuit or more.")
    cells, gaps = getattr(rows, "cells", rows), missing
    if isinstance(cells, Rows):
        cells, gaps = cells.x, cells.missing
    scores = torch.stack([log_probs(model, cells, gaps) for model in found])
    shares = stacking_weights(scores, weights)
    kept = [number for number, share in enumerate(shares.tolist()) if share > 0]
    made = mixture([found[number] for number in kept], shares[kept].tolist())
    made.notes = {"stack": {"shares": shares.tolist(), "rows": scores.shape[1]}}
    return made


@torch.no_grad()
def log_probs(model: SquaredCircuit, x: Any, missing: Any = None) -> Tensor:
    """log p of rows: (n, d) → (n,) float64 on the CPU."""
    return model.eval().log_prob(x, missing).double().cpu()


def stacking_weights(scores: Tensor, weights: Any = None, least: float = LEAST) -> Tensor:
    """The weights w on the simplex that maximise Σ_i v_i log Σ_m w_m e^{s_mi}: (M, n) → (M,).

    EM multiplies w_m by g_m = Σ_i v_i p_m(x_i) / Σ_k w_k p_k(x_i), Σ_i v_i = 1. The likelihood is concave in
    w, so it is at most log max_m g_m below its maximum, which is when the iteration may end.

    Args:
        scores: s, the log-likelihood of held-out row i under member m; −inf where it is impossible.
        weights: v of the rows, (n,); default equal.
        least: members below are left out and the others found anew.

    Example:
        >>> stacking_weights(torch.tensor([[0.9, 0.1, 0.9], [0.1, 0.9, 0.1]]).log())
        tensor([0.7083, 0.2917], dtype=torch.float64)
    """
    scores = _checked(scores)
    rows = _row_weights(weights, scores.shape[1])
    known = rows > 0
    scores, rows = scores[:, known], rows[known] / rows.sum()
    hopeless = torch.nonzero((scores == -torch.inf).all(dim=0)).flatten()
    if len(hopeless):
        raise DataError(
            f"stack: row {int(torch.nonzero(known)[hopeless[0]])} is impossible under every member. "
            "Fix: leave such rows out, or add a member with wider functions."
        )
    likelihoods = (scores - scores.amax(dim=0)).exp()  # (M, n), the largest of each row 1
    found = _maximised(likelihoods, rows, torch.ones(len(scores), dtype=torch.bool))
    return _maximised(likelihoods, rows, _needed(likelihoods, found, least))


def _needed(likelihoods: Tensor, shares: Tensor, least: float) -> Tensor:
    """Which members stay: those with some share, and those without which a row would be impossible."""
    kept = shares >= least
    lost = ~(likelihoods[kept] > 0).any(dim=0)
    return kept | (likelihoods[:, lost] * shares[:, None] > 0).any(dim=1)


def _maximised(likelihoods: Tensor, rows: Tensor, kept: Tensor) -> Tensor:
    """EM from equal weights of the members that are kept."""
    some = likelihoods[kept]
    shares = torch.full((len(some),), 1 / len(some), dtype=some.dtype)
    for _ in range(MOST_ITERATIONS):
        growth = some @ (rows / (shares @ some))
        shares = shares * growth
        if float(growth.max()) < 1 + GAP:
            break
    found = torch.zeros(len(likelihoods), dtype=some.dtype)
    found[kept] = shares / shares.sum()
    return found


def _checked(scores: Tensor) -> Tensor:
    scores = torch.as_tensor(scores).double()
    if scores.ndim != 2 or 0 in scores.shape:
        raise DataError(
            f"stack: scores of shape {tuple(scores.shape)}. Fix: pass at least one member and one row."
        )
    if bool(scores.isnan().any() | (scores == torch.inf).any()):
        member = int(torch.nonzero((scores.isnan() | (scores == torch.inf)).any(dim=1))[0])
        raise DataError(
            f"stack: member {member} gives a row no log-likelihood, NaN or infinity. Fix: leave it out."
        )
    return scores


def _row_weights(weights: Any, count: int) -> Tensor:
    if weights is None:
        return torch.full((count,), 1 / count, dtype=torch.float64)
    found = torch.as_tensor(weights, dtype=torch.float64)
    if found.shape != (count,) or not bool((found >= 0).all() & found.isfinite().all() & (found.sum() > 0)):
        raise ParameterError(
            f"stack: weights of shape {tuple(found.shape)} for {count} rows. Fix: pass a number ≥ 0 for each "
            "row, and some above 0."
        )
    return found
