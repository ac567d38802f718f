"""Conditionals and completions of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.errors import ParameterError
from squircuit.inference.centres import means, modes
from squircuit.inference.evidence import Evidence
from squircuit.inference.likelihood import log_ratio
from squircuit.inference.sampling import sample
from squircuit.inference.snapshot import Snapshot
from squircuit.reference.data import as_variables
from squircuit.regions.scope import describe

How: TypeAlias = Literal["mean", "mode", "sample"]  #: what a gap is filled with
HOW = ("mean", "mode", "sample")
Variables: TypeAlias = Iterable[int] | Tensor | None  #: numbers of variables, or booleans (d,) or (n, d)


def log_conditional(snapshot: Snapshot, evidence: Evidence, of: Tensor, given: Tensor) -> Tensor:
    """log p(x_of | x_given) = log p(x_of, x_given) − log p(x_given), all other variables marginalised.

    Args:
        snapshot: of the model.
        evidence: n rows; what they lack is neither in ``of`` nor in ``given``.
        of, given: booleans (n, d), disjoint.

    Returns:
        (n,).
    """
    shown, known = (Evidence(evidence.x, evidence.missing | ~which) for which in (of | given, given))
    return log_ratio(snapshot, shown, known)


def select(circuit: Circuit, variables: Variables, rows: int, device: torch.device) -> Tensor:
    """Variables as booleans (n, d); None is none of them."""
    shape = (rows, circuit.num_variables)
    if isinstance(variables, (list, tuple, np.ndarray)) and np.asarray(variables).dtype == bool:
        variables = torch.as_tensor(np.asarray(variables))
    if isinstance(variables, Tensor) and variables.dtype == torch.int64:
        variables = variables.tolist()
    if isinstance(variables, Tensor) and variables.dtype == torch.bool:
        if variables.shape not in (shape, shape[1:]):
            raise ParameterError(
                f"a mask of variables has shape {tuple(variables.shape)}. Fix: pass {shape[1:]} or {shape}."
            )
        return variables.to(device).expand(shape)
    chosen = as_variables(circuit, () if variables is None else variables)
    mask = torch.tensor([v in chosen for v in range(circuit.num_variables)], device=device)
    return mask.expand(shape)


def require_disjoint(of: Tensor, given: Tensor) -> None:
    """No variable is asked for and given at once."""
    both = (of & given).any(dim=0)
    if bool(both.any()):
        shared = frozenset(torch.nonzero(both).flatten().tolist())
        raise ParameterError(
            f"log_conditional: {describe(shared)} are both in of= and in given=. Fix: take them out of one."
        )


def impute(
    snapshot: Snapshot,
    evidence: Evidence,
    how: How = "mode",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Rows with their gaps filled: (n, d).

    Args:
        snapshot: of the model.
        evidence: n rows of positive probability.
        how: "mode", of each missing variable by itself the most probable state or the point of highest
            density; "mean", of each by itself the mean (of ordered states the nearest one, of others the most
            probable; on a circle the mean direction); "sample", all that a row lacks drawn jointly.
        generator: of the samples.
    """
    require_how(how, "impute: how")
    if how == "sample":
        return sample(snapshot, evidence, 1, generator)[0]
    found = (means if how == "mean" else modes)(snapshot, evidence)
    filled = evidence.x.clone()
    for v, values in found.items():
        filled[:, v] = torch.where(evidence.missing[:, v], values.to(filled), filled[:, v])
    return filled


def require_how(how: object, name: str) -> None:
    """Refuse what is none of the ways to fill a gap."""
    if isinstance(how, str) and how in HOW:
        return
    known = ", ".join(map(repr, HOW[:-1]))
    meant = ' What "likely" meant is now "mode" (before, the mean of continuous variables).'
    raise ParameterError(
        f"{name}={how!r} is not known. Fix: pass one of {known} or {HOW[-1]!r}." + meant * (how == "likely")
    )
