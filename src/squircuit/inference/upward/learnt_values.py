"""The learnt numbers of the families of input layers."""

from __future__ import annotations

from torch import Tensor

from squircuit.execution.plan import InputGroup, Slots
from squircuit.inference.compile.compiled_circuit import Snapshot


def function_values(snapshot: Snapshot, group: InputGroup, folds: Slots) -> dict[str, Tensor]:
    """The learnt numbers of the families of some input layers, in double precision: (F, …) each."""
    return {name: value[place(folds)].double() for name, value in snapshot.family_values(group).items()}


def layer_values(snapshot: Snapshot, group: InputGroup, fold: int) -> dict[str, Tensor]:
    """The same of one input layer."""
    return {name: value[0] for name, value in function_values(snapshot, group, (fold,)).items()}


def place(folds: Slots) -> slice | list[int]:
    """Folds as an index."""
    return slice(folds.start, folds.stop) if isinstance(folds, range) else list(folds)
