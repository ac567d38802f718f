"""What every question to a model begins with: evidence, in numbers or in the words of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from squircuit.circuits import Circuit
from squircuit.data import Schema
from squircuit.data.given import rows_of
from squircuit.errors import ParameterError
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.evidence import Evidence, as_evidence, nothing_observed


class Asked:
    """A model that can be asked."""

    structure: Circuit  #: without weights: variables and domains
    schema: Schema | None  # the columns of the table that the model is of

    if TYPE_CHECKING:  # what the model has, see StackedWeights and SquaredCircuit

        @property
        def device(self) -> torch.device: ...

        def snapshot(self, joined: bool = False) -> Snapshot: ...

    def _evidence(self, given: Any, missing: Any) -> Evidence:
        """Checked evidence; none given: one row that lacks everything."""
        if given is None and missing is None:
            return nothing_observed(self.structure, self.device)
        if given is None:
            raise ParameterError("missing= says which entries of given= are missing. Fix: pass given=x, too")
        rows, gaps = rows_of(self.schema, given, missing)
        return as_evidence(self.structure, rows, gaps, self.device)
