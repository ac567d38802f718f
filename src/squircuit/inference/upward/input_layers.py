"""Input layers with the weights of a snapshot: their learnt numbers, weights, and values at points."""

from __future__ import annotations

import torch
from torch import Tensor

from squircuit.execution.inputs import evaluate_inputs
from squircuit.execution.plan import InputGroup, Slots, Use
from squircuit.families import BlockFamily, Categorical
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.upward.scaled_message import Message


def function_values(snapshot: Snapshot, group: InputGroup, folds: Slots) -> dict[str, Tensor]:
    """The learnt numbers of the families of some input layers, in double precision: (F, …) each."""
    return {name: value[place(folds)].double() for name, value in snapshot.family_values(group).items()}


def layer_values(snapshot: Snapshot, group: InputGroup, fold: int) -> dict[str, Tensor]:
    """The learnt numbers of the family of one input layer."""
    return {name: value[0] for name, value in function_values(snapshot, group, (fold,)).items()}


def place(folds: Slots) -> slice | list[int]:
    """Folds as an index."""
    return slice(folds.start, folds.stop) if isinstance(folds, range) else list(folds)


def block_family(group: InputGroup) -> BlockFamily:
    """The functions of a group over blocks of variables."""
    assert isinstance(group.family, BlockFamily)
    return group.family


def evaluate_group(snapshot: Snapshot, group: InputGroup, folds: Slots, x: Tensor) -> Message:
    """W φ(x) of some input layers: (F, B) → (F, K, B) in the circuit's dtype, and log-scales (F, B)."""
    weight = None if group.weight is None else group_weight(snapshot, group, folds)
    values = function_values(snapshot, group, folds)
    x = x.double() if x.is_floating_point() else x  # until locations have been subtracted
    planes, scale = evaluate_inputs(group, x, weight, values, snapshot.dtype, exact_scale=True)
    complete = planes.shape[2] == 2
    value = torch.complex(planes[:, :, 0], planes[:, :, 1]) if complete else planes.squeeze(2)
    return Message(
        value, snapshot.root_shares.new_zeros(value.shape[0], value.shape[2]) if scale is None else scale
    )


def evaluate_units(snapshot: Snapshot, group: InputGroup, folds: Slots, x: Tensor) -> tuple[Tensor, Tensor]:
    """φ(x) of input layers without weight, a scale for each function: (F, B) → (F, K, B) twice, double."""
    values = function_values(snapshot, group, folds)
    if values:
        found = torch.func.vmap(group.family.evaluate_separately)(x, values)
    else:
        found = group.family.evaluate_separately(x)
    return found[0].mT, found[1].mT


def plain(message: Message) -> Tensor:
    """Vectors without a scale, (F, K, B), for points that are not far from where the density is."""
    return message.value * message.scale.exp().to(message.value.real.dtype).unsqueeze(1)


def state_table(snapshot: Snapshot, group: InputGroup, fold: int) -> Tensor | None:
    """W of an input layer whose functions are the deltas of its states, (K, states): its values there."""
    if not isinstance(group.family, Categorical):
        return None
    if group.weight is None:
        return torch.eye(group.units, dtype=snapshot.dtype, device=snapshot.device)
    return layer_weight(snapshot, group.weight, fold)[group.first_row : group.first_row + group.units]


def group_weight(snapshot: Snapshot, group: InputGroup, folds: Slots) -> Tensor:
    """The stacked weights of some input layers, all rows: (F or 1, rows, n)."""
    assert group.weight is not None
    weight = snapshot.network.weight(snapshot.stacks, group.weight)
    return weight if group.weight.is_tied else weight[place(folds)]


def input_weight(snapshot: Snapshot, group: InputGroup, folds: Slots) -> Tensor | None:
    """W of some input layers: (F or 1, K, n), or None where they are the functions themselves."""
    if group.weight is None:
        return None
    return group_weight(snapshot, group, folds)[:, group.first_row : group.first_row + group.units]


def layer_weight(snapshot: Snapshot, use: Use, fold: int) -> Tensor:
    """The whole weight that one layer of a group uses: (K, columns)."""
    place = 0 if use.is_tied else fold if use.index is None else use.index[fold]
    return snapshot.stacks[use.stack][place]
