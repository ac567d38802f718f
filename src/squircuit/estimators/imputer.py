"""An imputer: missing cells from the exact conditional distribution given the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from squircuit.data import Column, Rows
from squircuit.data.cells import Cells, numbers
from squircuit.data.frames import cells_of_frame, names_of
from squircuit.data.layout import Layout
from squircuit.estimators.base import CircuitEstimator, decoded, frame_kind
from squircuit.estimators.means import means
from squircuit.inference.imputation import require_how
from squircuit.models.mixture import unmixed
from squircuit.progress import shown, steps

BLOCK = 512  #: rows whose marginals are in memory at once


class SquaredCircuitImputer(OneToOneFeatureMixin, TransformerMixin, CircuitEstimator):
    """Fills missing cells given the known ones of their row, by the exact conditional distribution.

    Where the model is a mixture of models that learnt apart, p = Σ_m w_m p_m, as the search makes it, means
    are those of Σ_m w_m p_m(x_v | y): each member fills the gaps by itself, and their answers are averaged by
    their shares. (p(x_v | y) weighs them by w_m p_m(y), which in most rows is nearly all for one member, and
    not always for the one that fills gaps best.) Modes and samples are those of p.

    Observed cells are never changed. A value that a discrete column did not have in training stays, and the
    other cells of its row are filled as if it were missing.

    Args:
        strategy: "mean", the conditional mean of each cell (of counts and of columns with a ``step``, too, so
            it is seldom a value that the column has; of periodic columns the mean direction; of texts the
            most probable category); "mode", the most probable state, or the point of highest density, of each
            cell by itself; "sample", one sample of all that a row lacks, jointly. Modes and samples have the
            resolution of the column, its ``step``. These are the words of ``model.impute``, whose mean of a
            count is the nearest state.
        units, roots, size, components, members, columns: as for :class:`SquaredCircuitDensity`; columns that
            are dropped are passed through.
        epochs, lr, batch, valid_fraction, patience, device, verbose, minutes: likewise.
        random_state: as for :class:`SquaredCircuitDensity`, and of the samples.

    Attributes:
        model_, history_, n_features_in_, feature_names_in_: as of :class:`SquaredCircuitDensity`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 1)) + 0.3 * rng.normal(size=(200, 2))
        >>> imputer = SquaredCircuitImputer(epochs=15, random_state=0).fit(X)
        >>> filled = imputer.transform([[1.0, np.nan], [np.nan, -0.5]])
        >>> bool(abs(filled[0, 1] - 1.0) < 0.3), bool(abs(filled[1, 0] + 0.5) < 0.3)
        (True, True)
    """

    def __init__(
        self,
        strategy: str = "mean",
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
    ) -> None:
        super().__init__(
            units, roots, size, components, members, columns, epochs, lr, batch, valid_fraction, patience,
            random_state, device, verbose, minutes,
        )  # fmt: skip
        self.strategy = strategy

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the density of the rows; missing cells are marginalised.

        Args:
            X: (n, d) array or data frame, n ≥ 2; NaN and None are missing cells.
            y: ignored.
            sample_weight: (n,), how much each row counts, from 0 upwards.
        """
        self._require_strategy()
        return super().fit(X, sample_weight=sample_weight)

    def transform(self, X: Any) -> Any:
        """The rows with their missing cells filled.

        Returns:
            Of an array (n, d) floats. Of a data frame the same frame with its gaps filled: library, types of
            columns, index and observed cells are its own; what is filled into a column of whole numbers is
            whole. ``set_output(transform="pandas")`` or ``"polars"``
            chooses the library.
        """
        check_is_fitted(self)
        self._require_strategy()
        X = self._validated(X, reset=False)
        cells = self._cells(X)
        rows, unknown = self._encoded(cells)
        values, gaps = self._values(rows), rows.missing & ~unknown
        if frame_kind(X):
            return self._filled_frame(X, values, gaps)
        filled = list(X.T)
        for v, column in enumerate(self._schema.columns):
            position = self._columns.index(column.name)
            filled[position] = _filled(column, cells[column.name], gaps[:, v], values[v])
        return np.stack(filled, axis=1)

    def _values(self, rows: Rows[NDArray[Any]]) -> list[NDArray[Any]]:
        """What the missing cells of each column of the model become, (n,) each; elsewhere anything."""
        columns = self._schema.columns
        kinds = [object if column.is_text else np.float64 for column in columns]
        values = [np.empty(len(rows), dtype=kind) for kind in kinds]
        gaps = np.flatnonzero(rows.missing.any(axis=1))
        parts = [gaps[start : start + BLOCK] for start in range(0, len(gaps), BLOCK)]
        block = self._filler()
        with shown("filling"):
            for places in steps(parts, [len(part) for part in parts]):
                for v, found in block(rows.take(places)).items():
                    values[v][places] = found
        return values

    def _filler(self) -> Callable[[Rows[NDArray[Any]]], dict[int, NDArray[Any]]]:
        """What maps rows to column → what its missing cells become."""
        columns, how = self._schema.columns, self.strategy
        if how == "mean":
            members, schema = unmixed(self.model_), self._schema
            parts = frozenset(v for one in schema.calendars for v in schema.variables(one.name))
            return lambda rows: means(members, rows, columns, parts)
        generator = torch.Generator(self.model_.device).manual_seed(self._seed(self.random_state))

        def drawn(rows: Rows[NDArray[Any]]) -> dict[int, NDArray[Any]]:
            filled = self.model_.impute(rows.x, rows.missing, how, generator=generator).cpu().numpy()  # type: ignore[arg-type]
            return {v: decoded(column, filled[:, v]) for v, column in enumerate(columns)}

        return drawn

    def _filled_frame(self, X: Any, values: list[NDArray[Any]], gaps: NDArray[np.bool_]) -> Any:
        """A frame with cells in its gaps, of the library that is wished; see ``set_output``."""
        there, changed, schema = names_of(X), {}, self._schema
        for own in schema.table_names:
            variables = schema.variables(own)
            places = np.flatnonzero(schema.lacking(own, gaps))
            if len(places):
                name = there[self._columns.index(own)]
                cells = cells_of_frame(X, name)
                found = [values[v][places].tolist() for v in variables]
                for row, value in zip(places.tolist(), schema.whole(own, found), strict=True):
                    cells[row] = value
                changed[str(name)] = cells
        made = Layout.of(X).filled(X, changed)
        kind = _get_output_config("transform", self)["dense"]
        if kind in ("default", frame_kind(X)):
            return made
        return Layout.wished(kind).table(
            [str(name) for name in there], [cells_of_frame(made, name) for name in there]
        )

    def _require_strategy(self) -> None:
        require_how(self.strategy, "strategy")


def _filled(column: Column, cells: Cells, gaps: NDArray[np.bool_], values: NDArray[Any]) -> Cells:
    """The cells with the gaps filled; numbers that were read as objects become floats."""
    return np.where(gaps, values, cells if column.is_text else numbers(cells)[0])
