"""log |c_r(x)|² of circuits without sums, unit by unit: mixtures p = Σ_r π_r |c_r|² of products of functions.

A unit of a product is the product of units, so that logarithms add, and each unit has a scale of its own:
nothing is lost however far a row is from some of the components. Gaussian mixtures are such circuits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import torch
from torch import Tensor

from squircuit.execution.inputs import FamilyValues, lookup, points
from squircuit.execution.log_scales import log_or_nothing
from squircuit.execution.network import Network
from squircuit.execution.plan import Branch, InputGroup, Plan, SumGroup
from squircuit.execution.precision import double
from squircuit.families import BlockFamily, Categorical


def has_no_sums(plan: Plan) -> bool:
    """Units are products of input functions or of entries of tables, and never sums of functions.

    Example:
        >>> from squircuit.circuits import Circuit, Input, Sum
        >>> from squircuit.execution import make_plan
        >>> from squircuit.families import MultivariateGaussian
        >>> gaussians = Input((0, 1), MultivariateGaussian(3, 2))
        >>> has_no_sums(make_plan(Circuit(gaussians))), has_no_sums(make_plan(Circuit(Sum(gaussians))))
        (True, False)
    """
    return not any(
        isinstance(group, SumGroup) or (isinstance(group, InputGroup) and _is_mixed(group))
        for group in plan.groups
    )


def _is_mixed(group: InputGroup) -> bool:
    return group.weight is not None and not isinstance(group.family, Categorical)


def log_unit_squares(
    network: Network, x: Tensor, stacks: list[Tensor], family_values: FamilyValues
) -> Tensor:
    """log |c_r(x)|² of the root units: (B, R), in double precision; −inf where c_r is 0.

    Args:
        network: of a plan without sums.
        x: rows, (B, d).
        stacks: the weights, in the order of the plan.
        family_values: of the learnable parameters of a group's families.
    """
    logs: dict[tuple[int, int], Tensor] = {}  # layer → (B, K)
    for group in network.plan.groups:
        if isinstance(group, InputGroup):
            found = _input_squares(network, group, x, stacks, family_values).unbind()
        else:
            assert not isinstance(group, SumGroup)
            found = tuple(_product(group.branch, fold, logs) for fold in range(group.folds))
        logs.update(zip(((group.units, place) for place in group.writes), found, strict=True))
    roots = [logs[root] for root in network.plan.roots]
    return roots[0] if len(roots) == 1 else torch.cat(roots, dim=1)


def _input_squares(
    network: Network, group: InputGroup, x: Tensor, stacks: list[Tensor], family_values: FamilyValues
) -> Tensor:
    """log |ℓ_k(x)|² of the layers of a group: (F, B, K)."""
    columns = points(group, x, network.index(group.columns, x.device))
    if group.weight is not None:
        rows = network.weight(stacks, group.weight)[:, group.first_row : group.first_row + group.units]
        if not rows.is_cuda:
            return log_squares_of_tables(rows, columns.long())
        found = lookup(rows, columns.long())  # (F, K, 2 or 1, B)
        return log_or_nothing(found.double().square().sum(dim=2)).mT
    values = {name: value.double() for name, value in family_values(group).items()}
    if not values:
        return _log_squares(group, columns, None)
    if group.folds == 1:
        return _log_squares(group, columns[0], {name: value[0] for name, value in values.items()})[None]
    squares: Tensor = torch.func.vmap(lambda at, given: _log_squares(group, at, given))(columns, values)
    return squares


def log_squares_of_tables(tables: Tensor, x: Tensor) -> Tensor:
    """log |t_kx|² of the entries of tables: (F or 1, K, V) and (F, B) → (F, B, K), in double precision.

    Logarithms are taken of the tables and then looked up, all units of a row side by side: of thousands of
    units that is many times as fast as the logarithms of what is looked up.

    Example:
        >>> log_squares_of_tables(torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]), torch.tensor([[1, 0]])).exp()
        tensor([[[4., 1.],
                 [1., 0.]]], dtype=torch.float64)
    """
    exact = double(tables)
    logs = log_or_nothing((exact * exact.conj()).real).mT.contiguous()  # (F or 1, V, K)
    fold = torch.arange(len(x), device=x.device).clamp(max=len(logs) - 1)
    return logs[fold[:, None], x]


def _log_squares(group: InputGroup, columns: Tensor, values: Mapping[str, Tensor] | None) -> Tensor:
    family = group.family
    if isinstance(family, BlockFamily):
        return family.log_squares(columns, (True,) * family.dimension, values)
    functions, scale = family.evaluate_separately(columns, values)
    return log_or_nothing((functions * functions.conj()).real) + 2 * scale


def _product(branch: Branch, fold: int, logs: Mapping[tuple[int, int], Tensor]) -> Tensor:
    """The logarithms of the factors of a product, added: (B, K)."""
    factors = [logs[width, slots[fold]] for width, slots in branch.factors]
    if branch.kind == "kronecker":
        return reduce(lambda a, b: (a.unsqueeze(2) + b.unsqueeze(1)).flatten(1), factors)
    return reduce(torch.add, factors)
