"""Which circuits of a mixture code a row: all together, or one of some parts of them, which a row then names.

The conditionals of all circuits together give −log₂ p(x) bits. But circuits on different trees have different
orders of variables, and in a foreign order each step takes O(log D) layers in place of two. A row may as well
be coded by one part m of the mixture alone, after its name: −log₂ p(m) − log₂ p(x | m) bits, which is
−log₂ p(m | x) more. Of images one circuit mostly has nearly all of p(m | x), or the few bits are nothing
beside a thousand; so the least work is done that costs no more than `MORE` of the code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from squircuit.data import Rows
from squircuit.inference.chain.chain import Chain
from squircuit.models import SquaredCircuit

MORE = 0.003
"""The share of the code by which it may be longer than −log₂ p(x)."""
OF_A_PART = 160 * math.log(2)
"""Nats that a part takes in any case: a line of the header, and the end of a stream."""
BLOCK = 2**19
"""Cells whose density is computed at once."""

Parts = list[list[int]]


def divided(model: SquaredCircuit, chain: Chain, rows: Rows[Tensor]) -> tuple[Parts, Tensor]:
    """The parts of the mixture, and which of them codes each row: (n,).

    Args:
        model: that is the mixture.
        chain: its conditionals.
        rows: to be coded.
    """
    whole = [list(range(chain.parts))]
    if chain.parts == 1 or not chain.is_tree or not len(rows):
        return whole, torch.zeros(len(rows), dtype=torch.int64)
    log_p = _log_terms(model, rows)  # (n, M)
    for parts in ([[m] for m in whole[0]], _by_order(chain)):
        terms = torch.stack([torch.logsumexp(log_p[:, part], dim=1) for part in parts], dim=1)
        best, chosen = terms.max(dim=1)
        total = torch.logsumexp(terms, dim=1)
        more = torch.where(total > -torch.inf, total - best, 0.0).sum()
        more += OF_A_PART * (len(parts) - 1)
        if bool(more <= MORE * -total.clamp(min=-1e6).sum()):
            return parts, chosen
    return whole, torch.zeros(len(rows), dtype=torch.int64)


def log_shares(chain: Chain, parts: Sequence[Sequence[int]]) -> Tensor:
    """log p(part): float64."""
    found = chain.log_shares.cpu()
    return torch.stack([torch.logsumexp(found[list(part)], dim=0) for part in parts])


def _by_order(chain: Chain) -> Parts:
    """Circuits together whose trees keep the same variables together, so that one order suits them."""
    ordered = sorted(range(chain.parts), key=lambda m: -len(chain.trees[m].scopes))
    parts: Parts = []
    for number in ordered:
        scopes = chain.trees[number].scopes
        fitting = next((part for part in parts if scopes <= chain.trees[part[0]].scopes), None)
        if fitting is None:
            parts.append([number])
        else:
            fitting.append(number)
    return parts


@torch.no_grad()
def _log_terms(model: SquaredCircuit, rows: Rows[Tensor]) -> Tensor:
    """log p(m, x) of the observed cells: (n, M) float64 on the CPU."""
    step = max(1, BLOCK // max(1, rows.x.shape[1]))
    found = [rows.take(slice(start, start + step)) for start in range(0, len(rows), step)]
    gaps = [None if part.is_complete else part.missing for part in found]
    terms = [model.component_log_prob(part.x, gap) for part, gap in zip(found, gaps, strict=True)]
    return torch.cat(terms).double().cpu()
