"""cirkit, in its fastest setting: folded and optimised, complex log-space.

cirkit is under the GPL: it is imported, and no part of it is here. Unitary models need c(x) only and train
with the paper's LandingPC (cirkit itself has no optimiser for them); the others need log Z in every step,
from the integrated circuit c·c*, compiled once, and train with Adam.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from cirkit.pipeline import PipelineContext
from cirkit.symbolic import functional
from cirkit.symbolic.circuit import Circuit
from cirkit.symbolic.dtypes import DataType
from cirkit.symbolic.initializers import (
    ConstantTensorInitializer,
    NormalInitializer,
)
from cirkit.symbolic.layers import (
    EmbeddingLayer,
    HadamardLayer,
    KroneckerLayer,
    SumLayer,
)
from cirkit.symbolic.parameters import Parameter, TensorParameter
from cirkit.utils.scope import Scope
from torch import Tensor, nn
from torch.backends import opt_einsum

import squircuit as sq
from peers.landing_pc import LandingPC, orthonormalise
from peers.training import Training
from setups import Setup

Weights = Mapping[str, Tensor]

_SLOWER = "without opt_einsum, one of its requirements, cirkit contracts Kronecker layers in a worse order"


def make(setup: Setup) -> Training:
    log_prob, modules = build(setup)
    parameters = [p for p in modules.parameters() if p.requires_grad]
    if setup.is_unitary:
        for parameter in parameters:
            orthonormalise(parameter)
        optimiser: torch.optim.Optimizer = LandingPC(parameters, lr=0.05, capturable=setup.graph)
    else:
        optimiser = torch.optim.Adam(parameters, lr=0.01, capturable=setup.graph)
    return Training(lambda x: -log_prob(x).mean(), optimiser, "" if opt_einsum.is_available() else _SLOWER)


def build(setup: Setup, weights: Weights | None = None) -> tuple[Callable[[Tensor], Tensor], nn.ModuleList]:
    """log p of a batch, and the compiled circuits that hold the parameters; random weights unless given."""
    symbolic = translate(setup.circuit(), weights)
    context = PipelineContext(backend="torch", semiring="complex-lse-sum", fold=True, optimize=True)
    with context:
        circuit = context.compile(symbolic).to(setup.device)
        if setup.is_unitary:
            return (lambda x: 2 * circuit(x)[:, 0, 0].real), nn.ModuleList([circuit])
        square = functional.multiply(symbolic, functional.conjugate(symbolic))
        partition = context.compile(functional.integrate(square)).to(setup.device)

    def log_prob(x: Tensor) -> Tensor:
        log_p: Tensor = 2 * circuit(x)[:, 0, 0].real - partition()[0, 0].real
        return log_p

    return log_prob, nn.ModuleList([circuit, partition])


def translate(circuit: sq.Circuit, weights: Weights | None) -> Any:
    """Our circuit layer by layer in cirkit's terms: one structure, one order of factors in products."""
    made: dict[sq.Layer, Any] = {}
    for layer in circuit.layers:
        made[layer] = _layer(circuit, layer, weights)
    inputs = {
        made[layer]: [made[child] for child in layer.inputs] for layer in circuit.layers if layer.inputs
    }
    return Circuit(list(made.values()), inputs, [made[root] for root in circuit.roots])


def _layer(circuit: sq.Circuit, layer: sq.Layer, weights: Weights | None) -> Any:
    arity = len(layer.inputs)
    if isinstance(layer, sq.Input):
        weight = _fixed(layer.units) if layer.weight is None else _weight(circuit, layer.weight, weights)
        scope = Scope([layer.variable])
        return EmbeddingLayer(scope, layer.units, num_states=layer.family.size, weight=weight)
    width = layer.inputs[0].units
    if isinstance(layer, sq.Sum):
        return SumLayer(width, layer.units, arity, weight=_weight(circuit, layer.weight, weights))
    return (HadamardLayer if isinstance(layer, sq.Hadamard) else KroneckerLayer)(width, arity)


def _weight(circuit: sq.Circuit, parameter: sq.Parameter, weights: Weights | None) -> Any:
    initial = NormalInitializer()
    if weights is not None:
        value = weights[circuit.parameter_name(parameter)].to(torch.complex64)
        initial = ConstantTensorInitializer(value.detach().cpu().numpy())
    return Parameter.from_input(
        TensorParameter(*parameter.shape, dtype=DataType.COMPLEX, initializer=initial)
    )


def _fixed(units: int) -> Any:
    """The functions of the family themselves, not learnt."""
    identity = ConstantTensorInitializer(np.eye(units, dtype=np.complex64))
    return Parameter.from_input(
        TensorParameter(units, units, dtype=DataType.COMPLEX, initializer=identity, learnable=False)
    )
