"""Questions whose answers sum up a distribution: the most probable row, quantiles, entropies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from squircuit.data.given import numbers_of, require_one_week
from squircuit.errors import ParameterError
from squircuit.inference.comparison import Estimate
from squircuit.inference.evidence import Evidence
from squircuit.inference.information import entropy, mutual_information
from squircuit.inference.marginals import marginals
from squircuit.inference.most_probable import MostProbable, most_probable
from squircuit.inference.sampling.sample import make_generator
from squircuit.models.asked import Asked
from squircuit.reference.data import as_variables


class Summaries(Asked):
    """Questions that take several passes; ``given`` and ``missing`` are as for all others."""

    def most_probable(
        self, given: Any = None, missing: Any = None, budget: int = 2000, seed: int | None = 0
    ) -> MostProbable:
        """The most probable completion of each row, all that it lacks together: argmax p(x | observed).

        Where a row lacks only discrete variables, branch and bound by exact marginals finds it and proves
        that nothing is more probable; where the proof takes more than ``budget`` partial completions, the
        best found comes with a bound. Where it lacks continuous ones, it is the best of several searches:
        no change of one variable makes it more probable, and no bound is known. The answer says which.

        Args:
            given: rows (n, d).
            missing: booleans (d,) or (n, d).
            budget: partial completions that are looked at for each row, at most.
            seed: of the samples from which searches begin.

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
            >>> best = model.most_probable([[1, 0, 0]], missing=[False, True, True])
            >>> best.x.shape, best.is_exact.tolist(), bool(best.log_bound == best.log_prob)
            (torch.Size([1, 3]), [True], True)
            >>> print(best)
            the most probable completions of all 1 rows
        """
        source = make_generator(seed, None, self.device)
        return most_probable(self.snapshot(), self._evidence(given, missing), budget, source)

    def quantiles(
        self, of: int | str, levels: Sequence[float] | Tensor, given: Any = None, missing: Any = None
    ) -> Tensor:
        """The smallest x with P(x_v ≤ x | observed) ≥ level, of one variable given the others: (n, L).

        The variable counts as missing in all rows. See :meth:`squircuit.Marginals.quantiles`.

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(2), sq.Hermite(3), units=2))
            >>> low, high = model.quantiles(0, [0.05, 0.95], given=[[0.0, 1.0]])[0].tolist()
            >>> low < high
            True
        """
        (variable,) = as_variables(self.structure, numbers_of(self.schema, {of: None}, "of"))
        evidence = self._without(self._evidence(given, missing), [variable])
        return marginals(self.snapshot(), evidence).quantiles(variable, levels)

    def entropy(
        self,
        of: Any,
        given: Any = None,
        missing: Any = None,
        samples: int = 1000,
        confidence: float = 0.95,
        seed: int | None = None,
    ) -> Estimate:
        """−E[log p(x_of | observed)] in nats of some variables given one row: exact or with an interval.

        Exact where the joint states of the variables are at most 2¹⁶: then the interval has no length and
        its ``confidence`` is 1. Else it is estimated from exact samples.

        Args:
            of: variables, by number or name, or one of them; others that are missing are marginalised.
            given, missing: the row; none: nothing is observed.
            samples, confidence, seed: of the estimate.

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
            >>> found = model.entropy([0, 2])
            >>> found.low == found.value == found.high, 0 <= found.value <= 2 * 0.6932
            (True, True)
        """
        asked = self._variables(of, "of")
        evidence = self._without(self._evidence(given, missing), asked)
        return entropy(self.snapshot(), evidence, asked, samples, confidence, seed)

    def mutual_information(
        self,
        first: Any,
        second: Any,
        given: Any = None,
        missing: Any = None,
        samples: int = 1000,
        confidence: float = 0.95,
        seed: int | None = None,
    ) -> Estimate:
        """How much some variables tell of others, in nats, given one row: exact or with an interval.

        I = E[log p(a, b | y) − log p(a | y) − log p(b | y)] ≥ 0; exact and estimated as :meth:`entropy`.

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
            >>> model.mutual_information([0], [1, 2]).value >= 0
            True
        """
        sides = [self._variables(names, what) for names, what in ((first, "first"), (second, "second"))]
        if shared := set(sides[0]) & set(sides[1]):
            name = self.schema.names[min(shared)] if self.schema else min(shared)
            raise ParameterError(
                f"mutual_information: {name!r} is on both sides. Fix: take it out of one of them."
            )
        evidence = self._without(self._evidence(given, missing), [*sides[0], *sides[1]])
        left, right = sides
        return mutual_information(self.snapshot(), evidence, left, right, samples, confidence, seed)

    def _variables(self, names: Any, what: str) -> list[int]:
        """Variables by number or name, or one of them: some at least, each once."""
        some = [names] if isinstance(names, str | int) else names
        found = sorted(as_variables(self.structure, numbers_of(self.schema, some, what)))
        if self.schema is not None:
            require_one_week(self.schema, found, what)
        if not found:
            raise ParameterError(f"{what} names no variable. Fix: pass one at least.")
        return found

    def _without(self, evidence: Evidence, variables: Sequence[int]) -> Evidence:
        """The evidence without what it shows of some variables."""
        missing = evidence.missing.clone()
        missing[:, torch.as_tensor(variables, device=missing.device)] = True
        return Evidence(evidence.x, missing)
