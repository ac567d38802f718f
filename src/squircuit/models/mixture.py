"""Several models as one: the mixture of their densities."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from squircuit.circuits import Circuit, Constraint, Input, Layer, Parameter
from squircuit.circuits.root_layers import independent, mixed
from squircuit.errors import ParameterError, Wording
from squircuit.execution.precision import double
from squircuit.inference.normalisation import polished
from squircuit.models.squared_circuit import SquaredCircuit

LARGEST = 300.0
"""|log Z| of models that weights π / Z can mix in double precision."""


def mixture(models: Sequence[SquaredCircuit], weights: Sequence[float] | None = None) -> SquaredCircuit:
    """p(x) = Σ_m w_m p_m(x) of trained models, as one model with the roots of all.

    Models that were trained apart (from other seeds, on other trees) err in different places: by Jensen's
    inequality their mixture never scores below the mean of their scores, and where they are about equally
    good it mostly scores above the best of them. It is a model like others: normalised, with exact
    marginals, conditionals and samples, saved to one file. Trained on with :func:`squircuit.fit`, each goes
    on as if it were alone; with ``apart=False`` they are one model, and the w_m are learnt as well.

    Args:
        models: over the same variables; their weights are copied, those of squared circuits divided so that
            Z = 1.
        weights: w, above 0, divided by their sum; default equal.

    Example:
        >>> import squircuit as sq
        >>> circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2)
        >>> first, second = (SquaredCircuit(circuit, seed=seed) for seed in (0, 1))
        >>> both, x = mixture([first, second]), [[0, 1, 1, 0]]
        >>> mean = (first.log_prob(x).exp() + second.log_prob(x).exp()) / 2
        >>> both, bool(torch.isclose(both.log_prob(x).exp(), mean))
        (SquaredCircuit(unitary, 4 variables, 146 parameters), True)
    """
    models = _checked(models)
    shares = _shares(weights, len(models))
    precision = torch.float64 if any(m.precision is torch.float64 for m in models) else torch.float32
    circuits, norms = zip(*(_normalised(model, precision) for model in models), strict=True)
    logs = [
        model.root_shares().detach().double().cpu().log() + share.log() - log_z
        for model, share, log_z in zip(models, shares, norms, strict=True)
    ]
    circuit = mixed(circuits, torch.cat(logs).softmax(dim=0))
    made = SquaredCircuit(circuit, dtype=precision).to(models[0].device).eval()
    made.schema, made.shape = models[0].schema, models[0].shape
    return made


def unmixed(model: SquaredCircuit) -> list[tuple[float, SquaredCircuit]]:
    """The models that a mixture mixes, and their shares w: root layers that have no parameter in common.

    Example:
        >>> import squircuit as sq
        >>> circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2)
        >>> pair = [SquaredCircuit(circuit, seed=seed) for seed in (0, 1)]
        >>> [round(share, 6) for share, _ in unmixed(mixture(pair, [1.0, 3.0]))]
        [0.25, 0.75]
    """
    groups = independent(model.circuit())
    if len(groups) == 1:
        return [(1.0, model)]
    logs = model.component_log_weights().detach().double().cpu()
    return [(float(logs[group].exp().sum()), model.component(*group)) for group in groups]


def _normalised(model: SquaredCircuit, precision: torch.dtype) -> tuple[Circuit, float]:
    """The circuit of a model and its log Z, which is 0 where it could be divided by Z.

    Free weights of inputs are multiplied by Z^(−D/2d), D being how many of the d variables the layer is over:
    every product in c has one of them for each variable, or block of them. Z itself may be e^4000, and
    weights π_m / Z_m of several models would vanish beside each other.
    That is done where these weights serve nowhere else, and where Z is so far from 1 that it has to be.
    """
    circuit = model.circuit()
    if model.is_normalised():
        return (_in_double(circuit) if precision == torch.float64 else circuit), 0.0
    log_z = model.log_partition().item()
    if not math.isfinite(log_z):
        raise ParameterError(
            f"mixture: log Z of a model is {log_z}, so it has no density. Fix: leave it out, or train it."
        )
    sizes = {(layer.weight, len(layer.scope)) for layer in circuit.inputs}
    weights = {weight for weight, _ in sizes}
    elsewhere = {p for layer in circuit.layers for p in _other_parameters(layer)}
    is_free = all(w is not None and w.constraint is Constraint.FREE for w in weights)
    if weights & elsewhere or not is_free or len(sizes) > len(weights):
        return _moderate(circuit, log_z), log_z
    factor = -log_z / (2 * len(circuit.scope))
    scaled = {  # in double: single precision may not hold the factor
        circuit.parameter_name(w): double(circuit.value(w)) * math.exp(size * factor)
        for w, size in sizes
        if w is not None
    }
    return circuit.with_weights(scaled), 0.0


def _in_double(circuit: Circuit) -> Circuit:
    """Semi-unitary weights put right where single precision has rounded them."""
    parameters = {n: p for n, p in circuit.parameters.items() if p.constraint is Constraint.SEMI_UNITARY}
    return circuit.with_weights({n: polished(circuit.value(p)) for n, p in parameters.items()})


def _other_parameters(layer: Layer) -> list[Parameter]:
    """What a layer holds beside the weight of an input."""
    held = layer.named_parameters()
    return [p for role, p in held.items() if not (isinstance(layer, Input) and role == "weight")]


def _moderate(circuit: Circuit, log_z: float) -> Circuit:
    """The circuit itself, if weights π / Z are numbers."""
    if abs(log_z) > LARGEST:
        raise ParameterError(
            f"mixture: log Z of a model is {log_z:.4g}, and it cannot be divided by Z: weights of its inputs "
            "serve in other layers, or are not free. Fix: divide its weights by Z^(1/2d) before mixing."
        )
    return circuit


def _checked(models: Sequence[SquaredCircuit]) -> list[SquaredCircuit]:
    found = list(models) if isinstance(models, Sequence) else []
    if not found or not all(isinstance(model, SquaredCircuit) for model in found):
        raise ParameterError(f"mixture: models={models!r}. Fix: pass a list of one SquaredCircuit or more.")
    for number, model in enumerate(found):
        if model.structure.domains != found[0].structure.domains:
            raise ParameterError(
                f"mixture: model {number} is over other variables or domains than model 0. "
                "Fix: mix models of the same data."
            )
        if model.schema != found[0].schema:
            raise ParameterError(
                f"mixture: the columns of model {number} are not those of model 0, so its numbers may mean "
                "something else",
                fix="mix models of the same table" + Wording(", or set their schema to None", ""),
            )
    return found


def _shares(weights: Sequence[float] | None, count: int) -> Tensor:
    shares = torch.as_tensor([1.0] * count if weights is None else weights, dtype=torch.float64)
    if shares.shape != (count,) or not bool((shares > 0).all() and shares.isfinite().all()):
        raise ParameterError(
            f"mixture: weights={weights!r} for {count} models. Fix: pass a number above 0 for each."
        )
    return shares
