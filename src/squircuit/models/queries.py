"""The questions that a model answers; each is a function of :mod:`squircuit.inference`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from squircuit.data.filling import filled_table
from squircuit.data.given import has_names, mask_of, numbers_of, require_columns, rows_of
from squircuit.errors import ParameterError
from squircuit.inference.distribution import CircuitDistribution
from squircuit.inference.evidence import (
    Evidence,
    Variables,
    require_data,
    require_disjoint,
    select,
)
from squircuit.inference.expectation import Functions, expectation, keeps_cross_terms_zero
from squircuit.inference.imputation import How, impute
from squircuit.inference.likelihood import log_conditional
from squircuit.inference.marginals import Marginals, marginals, moments, require_moments
from squircuit.inference.sampling.sample import make_generator, require_count, sample
from squircuit.models.summaries import Summaries


class Queries(Summaries):
    """What can be asked of a model given any evidence; each is one line that hands a snapshot on.

    In every query ``given`` holds rows (n, d) of data and ``missing`` says which of their entries are not
    known: booleans, True = missing, of shape (d,) for all rows or (n, d); NaN in the column of a continuous
    variable means the same. Without evidence there is one row, which lacks everything.

    A model that has a ``schema``, because it was made of a table, takes the words of the table, too: rows as
    a data frame, a `Table` or a mapping from names to cells, in the values of the table; columns that are not
    there are missing. Wherever variables are numbers, they may be names. Answers are tensors;
    :meth:`decode` makes tables of them.
    """

    def marginals(
        self, given: Any = None, missing: Any = None, grid: Mapping[Any, Any] | None = None
    ) -> Marginals:
        """The distribution of every missing variable by itself, in two sweeps; not differentiable.

        Args:
            given: rows (n, d).
            missing: booleans (d,) or (n, d).
            grid: continuous variable → points at which its density is wanted.

        Returns:
            Tables by variable; of a model with a ``schema`` by the names of columns as well.

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
            >>> model.marginals(given=[[1, 0, 0]], missing=[False, True, True]).values[1].sum().item()
            1.0
        """
        evidence = self._evidence(given, missing)
        found = marginals(self.snapshot(), evidence, numbers_of(self.schema, grid, "grid"))
        return found if self.schema is None else found.named(self.schema.names)

    def log_conditional(self, x: Any, of: Variables, given: Variables = None) -> Tensor:
        """log p(x_of | x_given) of every row, other variables marginalised: (n, d) → (n,).

        Args:
            x: rows of data; only the entries asked for and given are read. NaN there counts as missing, so it
                is left out of the question or of the condition.
            of, given: numbers of variables, e.g. [0, 2], names of columns, or booleans (d,) or (n, d).

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
            >>> model.log_conditional([[0, 1, 0], [1, 1, 0]], of=[0], given=[1]).exp().sum().item()
            1.0...
        """
        require_data(self.structure, x)
        of, given = (numbers_of(self.schema, names, what) for names, what in ((of, "of"), (given, "given")))
        require_columns(self.schema, x, of)
        x, gaps = rows_of(self.schema, x)
        places = (len(x) if hasattr(x, "__len__") else 0, self.device)
        wanted, known = (select(self.structure, variables, *places) for variables in (of, given))
        require_disjoint(wanted, known)
        unasked = ~(wanted | known)
        evidence = self._evidence(x, unasked if gaps is None else unasked | torch.as_tensor(gaps).to(unasked))
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
        return CircuitDistribution(self.snapshot, kept, torch.Size([len(kept)]), schema=self.schema)

    def distribution(self) -> CircuitDistribution:
        """The model as a :class:`torch.distributions.Distribution` over rows."""
        nothing = self._evidence(None, None)
        return CircuitDistribution(self.snapshot, nothing, torch.Size(), schema=self.schema)

    def impute(
        self,
        x: Any,
        missing: Any = None,
        how: How = "mode",
        seed: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Any:
        """Rows with their gaps filled: (n, d); of a data frame or a mapping the same with its gaps filled.

        What is observed stays as it is: of frames types of columns, names, order and index, too. Cells that
        are filled have the resolution of their column; of columns of whole numbers, they are whole.

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
        evidence = self._evidence(x, missing)
        filled = impute(self.snapshot(), evidence, how, source)
        if self.schema is None or not has_names(x):
            return filled
        return filled_table(self.schema, x, filled.cpu().numpy(), evidence.missing.cpu().numpy(), how)

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
        found = self.marginals(given, missing)
        return require_moments(found, found.mean, "mean")

    def variance(self, given: Any = None, missing: Any = None) -> Tensor:
        """Var[x_v | observed] of every variable: (n, d)."""
        found = self.marginals(given, missing)
        return require_moments(found, found.variance, "variance")

    def moments(self, order: int, given: Any = None, missing: Any = None) -> Tensor:
        """E[x_v^k | observed] for k = 1 … order of every variable: (order, n, d)."""
        evidence = self._evidence(given, missing)
        found = self.marginals(given, missing)
        return require_moments(found, moments(found, evidence, order), f"moments up to {order}")

    def expectation(self, functions: Functions, given: Any = None, missing: Any = None) -> Tensor:
        """E[∏_v f_v(x_v) | observed]: (n,); functions maps a variable v, or the name of a column, to f_v.

        The functions are of what the model knows of a cell: of categories their numbers, of counts how far
        they are from the least one.

        Exact for functions of discrete variables. Those of continuous ones are integrated by Gauss's rule on
        the panels of the density: to rounding if they are smooth there, roughly if they jump or oscillate.

        Example:
            >>> import squircuit as sq
            >>> model = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Legendre(4), units=2))
            >>> model.expectation({0: torch.square, 2: torch.square}).shape
            torch.Size([1])
        """
        evidence = self._evidence(given, missing)
        functions = numbers_of(self.schema, functions, "functions")
        joined = not keeps_cross_terms_zero(self.structure, evidence, functions)
        return expectation(self.snapshot(joined), evidence, functions)

    def decode(self, rows: Any, missing: Any = None, exact: Any = None, like: Any = None) -> Any:
        """Samples or completions as a table like that of which the model was made, in its values.

        Args:
            rows: numbers as the model gives them, (n, d) or (…, d).
            missing: cells that are empty in the table, a mask or names of columns.
            exact: cells that were observed, so that they are not rounded to the resolution of their column.
            like: a data frame to imitate, or "pandas", "polars", "pyarrow", "numpy" or "mapping"; default:
                the table of which the model was made, see :meth:`squircuit.data.Schema.frame`.

        Example:
            >>> import polars, squircuit as sq
            >>> frame = polars.DataFrame({"season": ["winter", "summer"] * 20, "warm": [False, True] * 20})
            >>> model = sq.table_model(frame, units=2)
            >>> cold = model.sample(2, given={"season": "winter"}, seed=0)
            >>> model.decode(cold).dtypes, model.decode(cold)["season"].to_list()
            ([String, Boolean], ['winter', 'winter'])
        """
        if self.schema is None:
            raise ParameterError(
                "the model has no names of columns. Fix: set model.schema = table.schema, as it is of models "
                "that sq.learn and sq.model_for make of a table."
            )
        return self.schema.frame(rows, mask_of(self.schema, missing), exact, like)
