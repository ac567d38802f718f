"""A model, with or without evidence, as a distribution of torch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.distributions.constraints import Constraint
from torch.distributions.kl import register_kl

from squircuit.circuits import Circuit
from squircuit.data import Schema
from squircuit.data.given import numbers_of, rows_of
from squircuit.errors import DataError, ParameterError, SquircuitWarning
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.evidence import Evidence, as_evidence, require_positive
from squircuit.inference.information import joint_states
from squircuit.inference.likelihood import log_marginal, log_ratio
from squircuit.inference.marginals import Marginals, marginals, require_moments
from squircuit.inference.sampling.sample import make_generator, require_count, sample


@final
class CircuitDistribution(Distribution):
    """p(x | y): a distribution over rows x (d,), one for each row of evidence y.

    Observed entries of x are those of the evidence, whatever a value handed to :meth:`log_prob` holds there.
    The evidence is checked once; weights are read anew with each question.

    Args:
        snapshot: makes the model as queries see it.
        evidence: m rows of positive probability; one row that lacks everything gives the model itself.
        batch_shape: () for a single row, or (m,).
        schema: names of the columns, in which values may be given then.

    Shapes: ``event_shape`` (d,); samples are ``sample_shape + batch_shape + (d,)``.

    Example:
        >>> import squircuit as sq
        >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
        >>> half = model.given([[1, 0, 0], [0, 0, 0]], missing=[False, True, True])
        >>> half.batch_shape, half.event_shape, half.sample((5,)).shape
        (torch.Size([2]), torch.Size([3]), torch.Size([5, 2, 3]))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {}

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        evidence: Evidence,
        batch_shape: torch.Size,
        validate_args: bool | None = None,
        schema: Schema | None = None,
    ) -> None:
        self._snapshot, self._evidence, self._schema = snapshot, evidence, schema
        self._circuit = snapshot().circuit
        with torch.no_grad():
            require_positive(log_marginal(snapshot(), evidence), torch.arange(len(evidence)))
        super().__init__(batch_shape, torch.Size([self._circuit.num_variables]), validate_args=validate_args)

    @property
    def support(self) -> Constraint:
        """Every variable in its domain."""
        return InDomains(self._circuit)

    def __repr__(self) -> str:
        batch, event = tuple(self.batch_shape), tuple(self.event_shape)
        return f"CircuitDistribution(batch_shape={batch}, event_shape={event})"

    def expand(self, batch_shape: Any, _instance: Any = None) -> CircuitDistribution:
        """The same distributions, repeated along new dimensions of the batch."""
        shape = torch.Size(batch_shape)
        rows = torch.arange(len(self._evidence), device=self._evidence.x.device)
        index = rows.reshape(self.batch_shape).expand(shape).flatten()
        evidence = self._evidence.take(index)
        return CircuitDistribution(self._snapshot, evidence, shape, self._validate_args, self._schema)

    def log_prob(self, value: Any) -> Tensor:
        """log p(x | y): ``(…) + batch_shape + (d,)`` → ``(…) + batch_shape``; NaN is marginalised.

        Values may be a data frame or a mapping, n rows, where the model has names of columns; those that are
        not there are marginalised.
        """
        value, missing = rows_of(self._schema, value)
        value = torch.as_tensor(value, device=self._evidence.x.device)
        if value.shape[-1:] != self.event_shape:
            raise DataError(
                f"values must have shape (…, {self.event_shape[0]}); got {tuple(value.shape)}"
                ". Fix: pass one number for each variable."
            )
        shape = torch.Size(np.broadcast_shapes(value.shape[:-1], self.batch_shape))
        rows = value.expand(*shape, value.shape[-1]).reshape(-1, *self.event_shape)
        snapshot = self._snapshot()
        repeated = self._repeated(len(rows))
        dtype = torch.promote_types(rows.dtype, repeated.x.dtype)
        filled = torch.where(repeated.missing, rows.to(dtype), repeated.x.to(dtype))
        if missing is not None:  # of values with names, which have no other axes
            missing = torch.as_tensor(missing, device=filled.device).expand(*shape, -1).reshape(filled.shape)
            missing = missing & repeated.missing
        joint = as_evidence(self._circuit, filled, missing, filled.device)
        return log_ratio(snapshot, joint, self._evidence).reshape(shape)

    def sample(
        self, sample_shape: Any = (), seed: int | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """Exact samples, ``sample_shape + batch_shape + (d,)``; an integer n stands for (n,)."""
        shape = torch.Size([sample_shape] if isinstance(sample_shape, int) else sample_shape)
        for count in shape:
            require_count(count)
        source = make_generator(seed, generator, self._evidence.x.device)
        drawn = sample(self._snapshot(), self._evidence, math.prod(shape), source)
        return drawn.reshape(self._extended_shape(shape))

    def marginals(self, grid: Mapping[Any, Any] | None = None) -> Marginals:
        """The distribution of every missing variable by itself, for each row of evidence."""
        found = marginals(self._snapshot(), self._evidence, numbers_of(self._schema, grid, "grid"))
        return found if self._schema is None else found.named(self._schema.names)

    @property
    def mean(self) -> Tensor:
        """E[x | y]: batch_shape + (d,)."""
        found = self.marginals()
        return require_moments(found, found.mean, "mean").reshape(self._extended_shape())

    @property
    def variance(self) -> Tensor:
        """Var[x_v | y] of every variable: batch_shape + (d,)."""
        found = self.marginals()
        return require_moments(found, found.variance, "variance").reshape(self._extended_shape())

    def _repeated(self, count: int) -> Evidence:
        """The evidence for so many rows, those of the batch running fastest."""
        times = count // len(self._evidence) if len(self._evidence) else 0
        return Evidence(self._evidence.x.repeat(times, 1), self._evidence.missing.repeat(times, 1))


@final
class InDomains(Constraint):
    """Rows all of whose entries lie in the domains of their variables."""

    event_dim = 1

    def __init__(self, circuit: Circuit) -> None:
        self.domains = circuit.column_domains
        self.is_discrete = self.domains.is_discrete
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Which rows do: (…, d) → (…)."""
        return self.domains.contain(value).all(dim=-1)


SAMPLES = 1000
"""From which a divergence is estimated that cannot be summed."""


@register_kl(CircuitDistribution, CircuitDistribution)  # type: ignore[no-untyped-call,untyped-decorator]
def _kl(p: CircuitDistribution, q: CircuitDistribution) -> Tensor:
    """KL(p ‖ q) of each pair of the batch, over what the evidence of both lacks: batch_shape.

    Exact where that has at most 2¹⁶ joint states; else estimated from samples, with a warning.
    """
    if p.event_shape != q.event_shape:
        raise ParameterError(
            f"rows of {p.event_shape[0]} and of {q.event_shape[0]} variables. "
            "Fix: compare models of one table."
        )
    shape = torch.Size(np.broadcast_shapes(p.batch_shape, q.batch_shape))
    first, second = (
        one._evidence if one.batch_shape == shape else one.expand(shape)._evidence for one in (p, q)
    )
    if bool((first.missing != second.missing).any()):
        raise ParameterError(
            "the two distributions are over different variables, as their evidence shows others. "
            "Fix: let both show the same variables."
        )
    pairs = [
        _kl_of_rows(p, q, first.take(slice(i, i + 1)), second.take(slice(i, i + 1)))
        for i in range(len(first))
    ]
    return torch.stack(pairs).reshape(shape)


def _kl_of_rows(p: CircuitDistribution, q: CircuitDistribution, first: Evidence, second: Evidence) -> Tensor:
    """KL of what is missing given one row of evidence each."""
    one, other = (
        CircuitDistribution(each._snapshot, row, torch.Size(), False)
        for each, row in ((p, first), (q, second))
    )
    hidden = [v for v in torch.nonzero(first.missing[0]).flatten().tolist() if v in p._circuit.scope]
    states = joint_states(p._circuit, hidden) if hidden else first.x[:, :0]
    if states is None:
        said = f"kl_divergence: estimated from {SAMPLES} samples, as it has no closed form. "
        warnings.warn(
            SquircuitWarning(said + "Fix: sq.kl_divergence(p, q) gives an interval, too."), stacklevel=4
        )
        x = one.sample((SAMPLES,))
        return (one.log_prob(x) - other.log_prob(x)).mean()
    x = first.x.expand(len(states), -1).clone()
    x[:, hidden] = states.to(x)
    log_p, log_q = one.log_prob(x), other.log_prob(x)
    return torch.where(log_p > -torch.inf, log_p.exp() * (log_p - log_q), 0.0).sum()
