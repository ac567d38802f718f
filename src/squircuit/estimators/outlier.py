"""A detector of outliers: rows of low density."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from squircuit.data import Rows
from squircuit.data.weights import as_weights
from squircuit.errors import ParameterError
from squircuit.estimators.base import CircuitEstimator

MOST_PAIRS = 256
"""Of columns, about, that rows are scored by."""


class SquaredCircuitOutlier(OutlierMixin, CircuitEstimator):
    r"""Rows whose log density is below that of a share ``contamination`` of the training rows.

    Densities of rows with missing cells are of the cells that are known, so they are larger; such rows are
    seldom outliers beside complete ones.

    With ``pairs`` rows are scored by the mean of the log densities of pairs of columns, exact marginals of
    the same model,

    .. math:: s(x) = \frac{1}{|P|} \sum_{\{u, v\} \in P} \log p(x_u, x_v).

    Where rows are few, pairs are known better than rows, whose density is mostly that of the directions in
    which the training rows hardly differ.

    Args:
        contamination: share of the training rows that is beyond the threshold, in (0, 0.5].
        pairs: score by pairs of columns, of all where they are few, else of some 256 in which every column
            is as often.
        units, roots, size, components, members, columns: as for :class:`SquaredCircuitDensity`.
        epochs, lr, batch, valid_fraction, patience, random_state, device, verbose, minutes: likewise.

    Attributes:
        offset_: the threshold of ``score_samples``.
        model_, history_, n_features_in_, feature_names_in_: as of :class:`SquaredCircuitDensity`.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> detector = SquaredCircuitOutlier(contamination=0.05, epochs=15, random_state=0).fit(X)
        >>> detector.predict([[0.0, 0.0], [9.0, -9.0]]).tolist()
        [1, -1]
    """

    offset_: float

    def __init__(
        self,
        contamination: float = 0.1,
        units: int | None = None,
        roots: int | None = None,
        size: int | None = None,
        components: int = 1,
        members: int = 1,
        columns: Any = None,
        epochs: Any = "auto",
        lr: Any = "auto",
        batch: Any = "auto",
        valid_fraction: float = 0.1,
        patience: int = 10,
        random_state: Any = None,
        device: Any = "cpu",
        verbose: int = 0,
        minutes: float | None = None,
        pairs: bool = False,
    ) -> None:
        super().__init__(
            units, roots, size, components, members, columns, epochs, lr, batch, valid_fraction, patience,
            random_state, device, verbose, minutes,
        )  # fmt: skip
        self.contamination = contamination
        self.pairs = pairs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the density of the rows, and the threshold.

        Args:
            X: (n, d) array or data frame, n ≥ 2; NaN and None are missing cells.
            y: ignored.
            sample_weight: (n,), how much each row counts, from 0 upwards; outliers are then a share of the
                weight.
        """
        if not isinstance(self.contamination, int | float) or not 0 < self.contamination <= 0.5:
            raise ParameterError(
                f"contamination={self.contamination!r}. Fix: pass the share of outliers, in (0, 0.5]."
            )
        super().fit(X, sample_weight=sample_weight)
        self.offset_ = _quantile(self.score_samples(X), self.contamination, sample_weight)
        return self

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """log p of every row, in nats, or its mean over pairs: (n,); the lower, the more abnormal."""
        if not self.pairs:
            return self._log_density(X)
        rows, unknown = self._asked(X)
        chosen = _pairs(rows.x.shape[1])
        total = np.zeros(len(rows))
        for pair in chosen:
            hidden = np.ones(rows.x.shape[1], dtype=bool)
            hidden[list(pair)] = False
            total += self._log_densities(Rows(rows.x, rows.missing | hidden), unknown & ~hidden)
        return total / len(chosen)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """``score_samples(X) - offset_``: (n,), negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """−1 for outliers, 1 for other rows: (n,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)


def _pairs(count: int) -> list[tuple[int, int]]:
    """Different pairs of columns, all where they are few; every column is in as many. One column is alone.

    Example:
        >>> _pairs(4), _pairs(1), len(_pairs(100))
        ([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], [(0, 0)], 250)
    """
    widest = count // 2
    steps = np.unique(np.linspace(1, widest, min(widest, math.ceil(MOST_PAIRS / count))).round().astype(int))
    found = {
        (min(v, u), max(v, u)) for step in steps.tolist() for v in range(count) for u in [(v + step) % count]
    }
    return sorted(found) or [(0, 0)]


def _quantile(scores: NDArray[np.float64], share: float, weights: Any) -> float:
    """What so much of the rows, or of their weight, is below.

    Example:
        >>> _quantile(np.array([1.0, 2.0, 3.0]), 0.5, [2, 0, 1])
        1.0
    """
    if weights is None:
        return float(np.quantile(scores, share))
    order = np.argsort(scores)
    mass = np.cumsum(as_weights(weights, len(scores), "sample_weight")[order])
    return float(scores[order][np.searchsorted(mass, share * mass[-1])])
