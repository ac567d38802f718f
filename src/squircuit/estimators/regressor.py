"""A regressor that knows the whole distribution of its target."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from squircuit.data import Rows
from squircuit.errors import ParameterError
from squircuit.estimators.base import (
    CircuitEstimator,
    blocks,
    named_cells,
    weighted_table,
    wished_types,
)
from squircuit.inference import Marginals

TARGET = "target"


class SquaredCircuitRegressor(RegressorMixin, CircuitEstimator):
    r"""The distribution of a number given the other columns, from the density of all,

    .. math:: p(y \mid x) = \frac{p(x, y)}{\int p(x, y)\, dy} .

    The joint density is what :func:`squircuit.learn` finds. One model gives the mean, quantiles, samples and
    log-likelihoods of y, also for rows with missing cells, which are integrated out exactly.

    Args:
        columns: types of columns, as for :class:`SquaredCircuitDensity`.
        minutes: of the search at most, about; None: by the size of the table.
        random_state: of all that is random.
        device: where the model learns and is asked.
        verbose: above 0: show progress.

    Attributes:
        model_: the joint density, a :class:`squircuit.SquaredCircuit`; y is its last column.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 1))
        >>> y = 2 * X[:, 0] + 0.1 * rng.normal(size=300)
        >>> regressor = SquaredCircuitRegressor(minutes=0.02, random_state=0).fit(X, y)
        >>> bool(abs(regressor.predict([[1.0]])[0] - 2.0) < 0.2)
        True
        >>> regressor.predict_quantiles([[1.0], [np.nan]], [0.1, 0.9]).shape
        (2, 2)
    """

    def __init__(
        self,
        columns: Any = None,
        minutes: float | None = None,
        random_state: Any = None,
        device: Any = "cpu",
        verbose: int = 0,
    ) -> None:
        super().__init__(
            columns=columns, minutes=minutes, random_state=random_state, device=device, verbose=verbose
        )

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the joint density of the columns and the target.

        Args:
            X: (n, d) array or data frame; NaN and None are missing cells.
            y: (n,) numbers.
            sample_weight: (n,), how much each row counts, from 0 upwards.
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None. Fix: call fit(X, y).")
        X = self._validated(X, reset=True)
        cells = named_cells(X)
        target = column_or_1d(y, warn=True).astype(np.float64)
        if len(target) != len(next(iter(cells.values()))):
            raise ValueError("X and y have different numbers of rows. Fix: pass one number for each row.")
        if not np.isfinite(target).all():
            raise ValueError("y contains NaN or infinity. Fix: leave these rows out.")
        name = TARGET
        while name in cells:
            name += "_"
        names = list(cells)
        wishes = wished_types(self.columns, names)
        types = {**({} if wishes is None else dict(wishes)), name: "continuous"}  # type: ignore[arg-type]
        rows = weighted_table({**cells, name: target}, types, sample_weight)
        self.model_ = self._learnt(rows, self._seed(self.random_state))
        self._remember(X, rows)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The mean of y given what each row shows, which has the least squared error: (n,)."""
        return np.concatenate([found.mean[:, -1].cpu().numpy() for found in self._conditionals(X)])

    def predict_std(self, X: Any) -> NDArray[np.float64]:
        """The standard deviation of y given what each row shows: (n,)."""
        found = [one.variance[:, -1].clamp_min(0).sqrt().cpu().numpy() for one in self._conditionals(X)]
        return np.concatenate(found)

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> NDArray[np.float64]:
        """Quantiles of y given what each row shows: (n, Q)."""
        levels = torch.as_tensor(np.atleast_1d(np.asarray(quantiles, dtype=np.float64)))
        if levels.ndim != 1 or not bool(((levels > 0) & (levels < 1)).all()):
            raise ParameterError(f"quantiles={quantiles!r}. Fix: pass numbers between 0 and 1, such as 0.9.")
        target = max(self.model_.structure.scope)
        parts = [found.quantiles(target, levels).cpu().numpy() for found in self._conditionals(X)]
        return np.concatenate(parts)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> NDArray[np.float64]:
        """Exact samples of y given what each row shows: (n, n_samples)."""
        check_is_fitted(self)
        seed, drawn = self._seed(random_state), []
        for number, part in enumerate(blocks(self._rows(X))):
            found = self.model_.sample(n_samples, given=part.x, missing=part.missing, seed=seed + number)
            drawn.append(found[:, :, -1].T.cpu().numpy())
        return np.concatenate(drawn)

    def score_samples(self, X: Any, y: Any) -> NDArray[np.float64]:
        """log p(y | x) of every row: (n,)."""
        check_is_fitted(self)
        found = []
        with torch.no_grad():
            for part in blocks(self._rows(X, column_or_1d(y).astype(np.float64))):
                hidden = part.missing.copy()
                hidden[:, -1] = True
                joint, known = (self.model_.log_prob(part.x, gaps) for gaps in (part.missing, hidden))
                found.append((joint - known).cpu().numpy())
        return np.concatenate(found)

    def _conditionals(self, X: Any) -> list[Marginals]:
        """p(y | x) of some rows at a time."""
        check_is_fitted(self)
        return [self.model_.marginals(part.x, part.missing) for part in blocks(self._rows(X))]

    def _rows(self, X: Any, y: NDArray[np.float64] | None = None) -> Rows[NDArray[Any]]:
        """Rows of the joint table, in which y is missing unless it is given."""
        X = self._validated(X, reset=False)
        target = np.full(X.shape[0], np.nan) if y is None else y
        return self._encoded({**self._cells(X), self._schema.names[-1]: target})[0]
