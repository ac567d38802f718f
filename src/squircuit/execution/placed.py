"""Input functions that differ in place only, evaluated together.

A table of d continuous columns has d families, each placed by mean and spread of its column, so d groups of
one layer. Their functions are those of one family at (x − μ)/σ: one recurrence for all columns instead of d.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from squircuit.execution.plan import InputGroup
from squircuit.families import Family
from squircuit.families.recurrence import FARTHEST, standardise


@final
class Placed:
    """The groups whose families have one standard form, see :attr:`squircuit.families.Family.place`.

    Args:
        groups: the input groups of a plan.
    """

    def __init__(self, groups: Sequence[InputGroup]) -> None:
        alike: dict[Family, list[int]] = defaultdict(list)
        self._at: dict[int, tuple[float, float]] = {}  # group → μ, σ
        for number, group in enumerate(groups):
            if group.family.place is not None:
                standard, loc, scale = group.family.place
                self._at[number] = loc, scale
                alike[standard].append(number)
        self._alike = {family: numbers for family, numbers in alike.items() if len(numbers) > 1}
        self._tensors: dict[tuple[Family, torch.dtype, torch.device], Tensor] = {}

    def functions(self, columns: Sequence[Tensor], dtype: torch.dtype) -> dict[int, tuple[Tensor, Tensor]]:
        """Group → φ(x) as v e^s, (F, B, n) in a precision and (F, B); only of groups with company.

        Args:
            columns: of every group, (F, B), in the precision in which μ is to be subtracted.
            dtype: of v.
        """
        found: dict[int, tuple[Tensor, Tensor]] = {}
        for family, numbers in self._alike.items():
            folds = [len(columns[number]) for number in numbers]
            x = torch.cat([columns[number] for number in numbers])
            x = x if x.is_floating_point() else x.double()
            loc, scale = self._places(family, folds, x)  # (ΣF, 1) each
            t = standardise(x, loc, scale, FARTHEST[x.dtype])
            values, log_scales = family.evaluate_scaled(t, dtype=dtype)
            parts = torch.split(values, folds), torch.split(log_scales - scale.log() / 2, folds)
            found |= dict(zip(numbers, zip(*parts, strict=True), strict=True))
        return found

    def _places(self, family: Family, folds: Sequence[int], like: Tensor) -> Tensor:
        """μ and σ of every fold in the type and on the device of the data: (2, ΣF, 1)."""
        key = family, like.dtype, like.device
        if key not in self._tensors:
            numbers = zip(self._alike[family], folds, strict=True)
            places = [self._at[number] for number, count in numbers for _ in range(count)]
            with torch.inference_mode(mode=False):  # the tensor outlives the caller's mode
                self._tensors[key] = torch.tensor(places, dtype=like.dtype, device=like.device).T[..., None]
        return self._tensors[key]
