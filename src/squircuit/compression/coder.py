"""Rows to words and back, a batch at a time: one range coder for all of its rows, variable by variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from squircuit.data.optional import need
from squircuit.inference.chain.chain import Chain, Conditionals, Swept
from squircuit.progress import steps
from squircuit.storage.documents import ContentError

Words: TypeAlias = NDArray[np.uint32]


def encoded(chain: Chain, part: Sequence[int], x: Tensor, missing: Tensor | None) -> Words:
    """The words of some rows.

    Args:
        chain: of the model.
        part: the circuits that are mixed.
        x: (B, d) of states.
        missing: (B, d), cells that are passed over; None: none.
    """
    coder = need_constriction().stream.queue.RangeEncoder()
    conditionals = chain.start(part, len(x))
    for variable, shown in _shown(chain, part, missing):
        column = x[:, variable]
        table = _table(conditionals, variable, len(x), shown)
        if table is not None:
            coder.encode(_taken(column, shown).to(torch.int32).cpu().numpy(), _family(), table)
        conditionals.fix(variable, column, shown)
    found: Words = coder.get_compressed()
    return found


def decoded(chain: Chain, part: Sequence[int], words: Words, rows: int, missing: Tensor | None) -> Tensor:
    """The rows of some words, (B, d) of int64; ValueError where they are not what `encoded` gave."""
    coder = need_constriction().stream.queue.RangeDecoder(words)
    conditionals = chain.start(part, rows)
    device, d = chain.snapshot.device, chain.snapshot.circuit.num_variables
    x = torch.zeros(rows, d, dtype=torch.int64, device=device)
    for variable, shown in _shown(chain, part, missing):
        table = _table(conditionals, variable, rows, shown)
        if table is not None:
            found = torch.from_numpy(coder.decode(_family(), table)).to(x)
            place: Any = slice(None) if shown is None else shown
            x[place, variable] = found
        conditionals.fix(variable, x[:, variable], shown)
    if not coder.maybe_exhausted():
        raise ContentError("words are left over")
    return x


def encoded_choices(choices: NDArray[np.int64], shares: NDArray[np.float64]) -> Words:
    """The words of the parts that rows are coded by, given how likely each part is; none of a single one."""
    coder = need_constriction().stream.queue.RangeEncoder()
    if len(shares) > 1 and len(choices):
        coder.encode(choices.astype(np.int32), _family(shares))
    found: Words = coder.get_compressed()
    return found


def decoded_choices(words: Words, shares: NDArray[np.float64], rows: int) -> NDArray[np.int64]:
    """What `encoded_choices` was given: (n,)."""
    if len(shares) < 2 or not rows:
        return np.zeros(rows, dtype=np.int64)
    found: NDArray[np.int32] = (
        need_constriction().stream.queue.RangeDecoder(words).decode(_family(shares), rows)
    )
    return found.astype(np.int64)


def need_constriction() -> Any:
    """The package of the coder."""
    return need("constriction", "compression", extra="compress")


def _family(*parameters: Any) -> Any:
    """Distributions given by probabilities, which become integers of 24 bits, none of them 0."""
    return need_constriction().stream.model.Categorical(*parameters, perfect=False)


def _shown(chain: Chain, part: Sequence[int], missing: Tensor | None) -> Any:
    """The variables in the order of the code, and which rows show them; None: all do."""
    order = chain.order(part)
    for variable in steps(order, [1.0] * len(order)):
        gaps = None if missing is None else missing[:, variable]
        yield variable, None if gaps is None or not bool(gaps.any()) else ~gaps


def _table(
    conditionals: Conditionals | Swept, variable: int, rows: int, shown: Tensor | None
) -> NDArray[np.float64] | None:
    """The probabilities of all states for the rows that show a variable; None: there is nothing to code."""
    table = conditionals.probabilities(variable)
    if table.shape[1] < 2 or (shown is not None and not bool(shown.any())):
        return None
    found: NDArray[np.float64] = _taken(table.expand(rows, -1), shown).contiguous().cpu().numpy()
    return found


def _taken(value: Tensor, shown: Tensor | None) -> Tensor:
    return value if shown is None else value[shown]
