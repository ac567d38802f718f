"""How many rows are computed together: as many as keep intermediate results bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor

from squircuit.compression.container import MOST_ROWS
from squircuit.errors import FormatError
from squircuit.families.domain import Finite
from squircuit.inference.chain.chain import Chain
from squircuit.inference.chain.tree import Node, Tree
from squircuit.storage.memory import require_memory

NUMBERS = {"cpu": 2**22, "cuda": 2**28}
"""The most numbers of all rows together, about; more do not make it faster."""
LEAST, MOST = 16, {"cpu": 1024, "cuda": MOST_ROWS}
"""Rows, whatever the numbers."""
NUMBER = 16
"""Bytes of a complex number in double precision."""


@final
class Batch(NamedTuple):
    """Rows that are computed together: by which part of the mixture, and their numbers, (B,)."""

    part: int
    rows: Tensor


def batches(chain: Chain, parts: Sequence[Sequence[int]], chosen: Tensor) -> list[Batch]:
    """All rows, those of one part after those of another.

    Args:
        chain: of the model.
        parts: of the mixture.
        chosen: the part that codes each row, (n,).
    """
    found = []
    for number, part in enumerate(parts):
        rows = torch.nonzero(chosen == number).flatten()
        if len(rows):
            found += [Batch(number, some) for some in torch.split(rows, _fitting(chain, part))]
    return found


def require_room(chain: Chain, part: Sequence[int], rows: int) -> None:
    """Refuse a block of more rows than the memory holds, whatever a file says."""
    needed = NUMBER * rows * _numbers(chain, part)
    require_memory(needed, f"a block of {rows:,} rows", "read it on a larger machine", FormatError)


def _fitting(chain: Chain, part: Sequence[int]) -> int:
    kind = "cuda" if chain.snapshot.device.type == "cuda" else "cpu"
    return max(LEAST, min(MOST[kind], NUMBERS[kind] // _numbers(chain, part)))


def _numbers(chain: Chain, part: Sequence[int]) -> int:
    """Numbers that a row needs, about: what is on the way down, and the largest intermediate result."""
    domains = chain.snapshot.circuit.domains.values()
    states = max(domain.size for domain in domains if isinstance(domain, Finite))
    if not chain.is_tree:
        return sum(chain.snapshot.plan.pools) ** 2 + states * len(domains)
    return sum(_of_tree(chain.trees[number]) + states for number in part)


def _of_tree(tree: Tree) -> int:
    columns = [node.key[0] * _columns(node) for node in tree.nodes.values()]
    some = tree.order[:: max(1, len(tree.order) // 8)]
    return max(columns) + max(sum(width**2 for width, _ in tree.path(v)[1:]) for v in some)


def _columns(node: Node) -> int:
    return 1 if node.weight is None else node.weight.shape[1]
