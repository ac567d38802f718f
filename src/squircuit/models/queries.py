"""The questions that a model answers; each is a function of :mod:`squircuit.inference`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.errors import ParameterError
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.distribution import CircuitDistribution
from squircuit.inference.evidence import (
    Evidence,
    Variables,
    as_evidence,
    nothing_observed,
    require_data,
    require_disjoint,
    select,
)
from squircuit.inference.expectation import Functions, expectation, keeps_cross_terms_zero
from squircuit.inference.imputation import How, impute
from squircuit.inference.likelihood import log_conditional
from squircuit.inference.marginals import Marginals, marginals, moments
from squircuit.inference.sampling.sample import make_generator, require_count, sample


class Queries:
    """What can be asked of a model given any evidence; each is one line that hands a snapshot on.

    In every query ``given`` holds rows (n, d) of data and ``missing`` says which of their entries are not
    known: booleans, True = missing, of shape (d,) for all rows or (n, d); NaN in the column of a continuous
    variable means the same. Without evidence there is one row, which lacks everything.
    """

    structure: Circuit  #: without weights: variables and domains

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
        return as_evidence(self.structure, given, missing, self.device)

    def marginals(
        self, given: Any = None, missing: Any = None, grid: Mapping[int, Any] | None = None
    ) -> Marginals:
        """The distribution of every missing variable by itself, in two sweeps; not differentiable.

        Args:
            given: rows (n, d).
            missing: booleans (d,) or (n, d).
            grid: continuous variable → points at which its density is wanted.

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
            >>> model.marginals(given=[[1, 0, 0]], missing=[False, True, True]).values[1].sum().item()
            1.0
        """
        return marginals(self.snapshot(), self._evidence(given, missing), grid)

    def log_conditional(self, x: Any, of: Variables, given: Variables = None) -> Tensor:
        """log p(x_of | x_given) of every row, other variables marginalised: (n, d) → (n,).

        Args:
            x: rows of data; only the entries asked for and given are read. NaN there counts as missing, so it
                is left out of the question or of the condition.
            of, given: numbers of variables, e.g. [0, 2], or booleans (d,) or (n, d).

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
            >>> model.log_conditional([[0, 1, 0], [1, 1, 0]], of=[0], given=[1]).exp().sum().item()
            1.0...
        """
        require_data(self.structure, x)
        places = (len(x) if hasattr(x, "__len__") else 0, self.device)
        wanted, known = (select(self.structure, variables, *places) for variables in (of, given))
        require_disjoint(wanted, known)
        evidence = self._evidence(x, ~(wanted | known))
        return log_conditional(self.snapshot(), evidence, wanted, known)

    def given(self, x: Any, missing: Any = None) -> CircuitDistribution:
        """The distribution of what each row lacks, given what it shows: condition once, ask often.

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
            >>> rest = model.given([[1, 0, 0]], missing=[False, True, True])
            >>> rest.sample((4,), seed=0).shape, rest.log_prob([[1, 1, 0]]).shape
            (torch.Size([4, 1, 3]), torch.Size([1]))
        """
        require_data(self.structure, x)
        evidence = self._evidence(x, missing)
        kept = Evidence(evidence.x.clone(), evidence.missing.clone())  # the caller may use the rows again
        return CircuitDistribution(self.snapshot, kept, torch.Size([len(kept)]))

    def distribution(self) -> CircuitDistribution:
        """The model as a :class:`torch.distributions.Distribution` over rows."""
        return CircuitDistribution(self.snapshot, self._evidence(None, None), torch.Size())

    def impute(
        self,
        x: Any,
        missing: Any = None,
        how: How = "mode",
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Rows with their gaps filled: (n, d).

        Args:
            x: rows (n, d).
            missing: booleans (d,) or (n, d).
            how: "mode", the most probable state or the point of highest density of each gap by itself, which
                is always a value that can be; "mean", the mean of each by itself, which has the least squared
                error (of ordered states the nearest one, of others the most probable; on a circle the mean
                direction); "sample", all that a row lacks drawn jointly, which keeps the spread.
            seed, generator: of the samples.

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
            >>> model.impute([[1, 0, 0]], missing=[False, True, True], how="mode").shape
            torch.Size([1, 3])
        """
        require_data(self.structure, x)
        source = make_generator(seed, generator, self.device)
        return impute(self.snapshot(), self._evidence(x, missing), how, source)

    def sample(
        self,
        count: int,
        given: Any = None,
        missing: Any = None,
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Exact samples: (n, d), or with evidence (n, m, d) of what each of its m rows lacks.

        Observed entries come back as they are. The same seed gives the same samples on the same machine.

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
            >>> model.sample(5, seed=0).shape
            torch.Size([5, 3])
            >>> model.sample(5, given=[[1, 0, 0]], missing=[False, True, True], seed=0)[:, 0, 0]
            tensor([1, 1, 1, 1, 1])
        """
        require_count(count)
        source = make_generator(seed, generator, self.device)
        drawn = sample(self.snapshot(), self._evidence(given, missing), int(count), source)
        return drawn.squeeze(1) if given is None else drawn

    def mean(self, given: Any = None, missing: Any = None) -> Tensor:
        """E[x_v | observed] of every variable: (n, d)."""
        return self.marginals(given, missing).mean

    def variance(self, given: Any = None, missing: Any = None) -> Tensor:
        """Var[x_v | observed] of every variable: (n, d)."""
        return self.marginals(given, missing).variance

    def moments(self, order: int, given: Any = None, missing: Any = None) -> Tensor:
        """E[x_v^k | observed] for k = 1 … order of every variable: (order, n, d)."""
        evidence = self._evidence(given, missing)
        return moments(marginals(self.snapshot(), evidence), evidence, order)

    def expectation(self, functions: Functions, given: Any = None, missing: Any = None) -> Tensor:
        """E[∏_v f_v(x_v) | observed]: (n,); functions maps a variable v to f_v.

        Exact for functions of discrete variables. Those of continuous ones are integrated by Gauss's rule on
        the panels of the density: to rounding if they are smooth there, roughly if they jump or oscillate.

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Legendre(4), units=2))
            >>> model.expectation({0: torch.square, 2: torch.square}).shape
            torch.Size([1])
        """
        evidence = self._evidence(given, missing)
        joined = not keeps_cross_terms_zero(self.structure, evidence, functions)
        return expectation(self.snapshot(joined), evidence, functions)
