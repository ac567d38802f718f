"""What "auto" means: options that the model and the number of rows decide."""

from __future__ import annotations

import math

from squircuit.errors import ParameterError
from squircuit.models import SquaredCircuit
from squircuit.optim import Adam, Polar, named
from squircuit.optim.manifold import is_constrained
from squircuit.training.config import TrainingConfig
from squircuit.training.feed import Feed, Stream

STEPS = 1500
"""Steps of a training run by default, if early stopping does not end it before."""
EPOCHS = (10, 200)
"""The least and the most epochs by default."""
BATCHES = ((10_000, 256), (3_000, 128), (500, 64), (0, 32))
"""The size of a batch, where there are more rows than this."""
LEAST_PATIENCE = 10
"""The least patience, where a quarter of all epochs is less: at large rates, validations are noisy."""


def resolve(config: TrainingConfig, model: SquaredCircuit, train: Feed) -> TrainingConfig:
    """The options with every "auto" replaced."""
    optimiser = _optimiser(config, model)
    batch = _batch(config, train)
    epochs = _epochs(train.steps(batch)) if config.epochs == "auto" else config.epochs
    patience = max(LEAST_PATIENCE, epochs // 4) if config.patience == "auto" else config.patience
    lr = named(optimiser).rate if config.lr == "auto" else config.lr
    unit = _unit(model) if config.unit == "auto" else config.unit
    chosen = {"batch": batch, "epochs": epochs, "patience": patience, "lr": lr}
    return config.replace(optimiser=optimiser, unit=unit, **chosen)


def _epochs(steps: int) -> int:
    """The number of epochs, by how many steps an epoch has."""
    least, most = EPOCHS
    return min(most, max(least, math.ceil(STEPS / steps)))


def _optimiser(config: TrainingConfig, model: SquaredCircuit) -> str:
    if config.optimiser == "auto":
        return Polar.name if any(is_constrained(p) for p in model.parameters()) else Adam.name
    if model.is_unitary and not named(config.optimiser).takes_semi_unitary:
        raise ParameterError(
            f"optimiser={config.optimiser!r} leaves the manifold of a unitary model, so its loss would "
            "flatter it. Fix: 'polar', or a model of free weights, build(…, unitary=False)."
        )
    return config.optimiser


def _batch(config: TrainingConfig, train: Feed) -> int:
    if isinstance(train, Stream):
        if config.batch not in ("auto", train.batch):
            raise ParameterError(
                f"batch={config.batch}, but the stream has batches of {train.batch}. "
                f"Fix: leave batch out, or make the stream with batches of {config.batch}."
            )
        return train.batch
    fitting = next(batch for least, batch in BATCHES if train.count > least)
    return min(fitting if config.batch == "auto" else config.batch, train.count)


def _unit(model: SquaredCircuit) -> str:
    """Bits per dimension of images, whose variables are discrete and are all pixels."""
    domains, shape = model.structure.column_domains, getattr(model, "shape", None)
    is_image = shape is not None and len(shape) > 1 and math.prod(shape) == model.structure.num_variables
    return "bits" if is_image and domains.is_discrete else "nats"
