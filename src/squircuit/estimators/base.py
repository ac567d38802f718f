"""What all estimators share: reading rows, training, log densities, plain pickles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from squircuit.data import Column, Rows, Schema, Table, table
from squircuit.data.cells import Cells, Mask, as_cells
from squircuit.data.frames import named_columns, names_of
from squircuit.data.given import encoded
from squircuit.data.layout import Layout
from squircuit.data.tabular import Wishes
from squircuit.data.weights import as_weights
from squircuit.errors import DataError, ParameterError, is_whole, require_unmasked
from squircuit.learning import learn
from squircuit.models import SquaredCircuit, load, mixture, table_model
from squircuit.models.training_table import chow_liu_trees, training_table
from squircuit.regions import RegionGraph
from squircuit.storage.words import quoted
from squircuit.training import History, fit

BLOCK = 4096  #: rows that are asked about at once
CIRCUIT: dict[str, Any] = {
    "units": None,
    "roots": None,
    "size": None,
    "components": 1,
    "members": 1,
    "epochs": "auto",
    "lr": "auto",
    "batch": "auto",
    "valid_fraction": 0.1,
    "patience": 10,
}
"""Options of one circuit and of its training: their defaults."""
MOST_MEMBERS = 1024
TINY = 1e-300


class CircuitEstimator(BaseEstimator):
    """A squared circuit of a table, trained by ``fit``; all computations are in double precision.

    :class:`SquaredCircuitDensity` documents the parameters; subclasses that have more name all of them in
    their ``__init__``, as scikit-learn wants it.
    """

    model_: SquaredCircuit
    history_: History
    n_features_in_: int

    def __init__(
        self,
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
        self.units = units
        self.roots = roots
        self.size = size
        self.components = components
        self.members = members
        self.columns = columns
        self.epochs = epochs
        self.lr = lr
        self.batch = batch
        self.valid_fraction = valid_fraction
        self.patience = patience
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.minutes = minutes

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the density of the rows.

        Args:
            X: (n, d) array or data frame, n ≥ 2; NaN and None are missing cells, which need not be filled.
            y: ignored.
            sample_weight: (n,), how much each row counts, from 0 upwards; a row of weight 0 is as absent. The
                tree and the types of the columns are those of the rows that count, whatever their weights.
        """
        X = self._validated(X, reset=True)
        names = names_in(X)
        seed = self._seed(self.random_state)
        rows = weighted_table(X, wished_types(self.columns, names), sample_weight)
        if self._wants_circuit:
            self._train(rows, seed)
        else:
            self.model_ = self._learnt(rows, seed)
        self._remember(X, rows)
        return self

    def _remember(self, X: Any, rows: Table) -> None:
        """The names of all columns, how many rows count, and what frames of them look like."""
        self._columns, self._count = names_in(X), len(rows)
        self._layout = Layout.of(X).to_dict() if frame_kind(X) else None

    @property
    def _wants_circuit(self) -> bool:
        """Some option of a circuit or of its training is not the default."""
        wished = any(_differs(getattr(self, name), default) for name, default in CIRCUIT.items())
        if wished and self.minutes is not None:
            raise ParameterError(
                f"minutes={self.minutes!r} besides options of one circuit, such as units or epochs. Fix: "
                "pass one or the other: minutes is for the search that the defaults stand for."
            )
        return wished

    def _learnt(self, rows: Table, seed: int, share: float = 1.0) -> SquaredCircuit:
        """What the search finds, in a share of its time."""
        minutes = None if self.minutes is None else self.minutes * share
        return learn(rows, minutes=minutes, seed=seed, device=self.device, progress=bool(self.verbose))

    def _train(self, rows: Table, seed: int) -> None:
        """One circuit, or some that are mixed, instead of the search."""
        trees = chow_liu_trees(training_table(rows), self._count_members())
        trained = [self._member(rows, tree, seed + number) for number, tree in enumerate(trees)]
        self.model_, self.history_ = trained[0]
        if len(trained) > 1:
            self.model_ = mixture([model for model, _ in trained])

    def _count_members(self) -> int:
        members = _plain(self.members)
        if not is_whole(members, 1, MOST_MEMBERS):
            raise ParameterError(
                f"members={quoted(members)}. Fix: pass a number of models, from 1 to {MOST_MEMBERS}."
            )
        return members

    def _member(self, rows: Table, tree: RegionGraph, seed: int) -> tuple[SquaredCircuit, History]:
        """One trained model."""
        names = ("units", "roots", "size", "components")
        options = {name: _plain(getattr(self, name)) for name in names}
        model = table_model(rows, **options, regions=tree, seed=seed, dtype=torch.complex128)
        history = fit(model.to(self.device), rows, seed=seed, **self._options())
        return model.eval(), history

    def _options(self) -> dict[str, Any]:
        """The parameters that are options of training."""
        names = ("epochs", "lr", "batch", "valid_fraction", "patience")
        options = {name: _plain(getattr(self, name)) for name in names}
        return options | {"progress": bool(self.verbose)}

    @staticmethod
    def _seed(random_state: Any) -> int:
        return int(check_random_state(random_state).randint(2**31 - 1))

    def _validated(self, X: Any, reset: bool) -> Any:
        """Checked as scikit-learn does: an array of numbers, or a data frame as it is."""
        require_unmasked(X)
        if frame_kind(X):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        least = 2 if reset else 1
        checks = {"dtype": "numeric", "ensure_all_finite": "allow-nan", "ensure_min_samples": least}
        try:
            return validate_data(self, X, reset=reset, **checks)
        except ValueError as error:
            _require_no_texts(X, error)
            raise

    @property
    def _schema(self) -> Schema:
        return cast(Schema, self.model_.schema)

    def _cells(self, X: Any) -> dict[str, Cells]:
        """The columns that are modelled, by the names that they had in `fit`; frames, too, by position."""
        known = self._schema.table_names
        wanted = {position: name for position, name in enumerate(self._columns) if name in known}
        if not frame_kind(X):
            return {name: as_cells(X[:, position]) for position, name in wanted.items()}
        there = names_of(X)
        found = named_columns(X, [there[position] for position in wanted])
        return dict(zip(wanted.values(), found.values(), strict=True))

    def _encoded(self, cells: Mapping[str, Cells]) -> tuple[Rows[NDArray[Any]], Mask]:
        """Rows as the model takes them, and which cells hold a value that their discrete column never had.

        In the rows those count as missing; how likely they are says :meth:`_log_density`.
        """
        unknown = np.zeros((len(next(iter(cells.values()))), len(self._schema.names)), dtype=bool)
        return encoded(self._schema, cells, unknown), unknown

    def _log_density(self, X: Any) -> NDArray[np.float64]:
        r"""log p of the known cells of every row, also of those with values that were never seen: (n,).

        A discrete column that n rows show has a new value with probability :math:`\epsilon = 1/(2n + 2)`,
        independently of all else, so that the density of the model counts for the share 1 − ε of each. A
        column whose rare values are pooled has a state for new ones, which the model has learnt.
        """
        return self._log_densities(*self._asked(X))

    def _asked(self, X: Any) -> tuple[Rows[NDArray[Any]], NDArray[np.bool_]]:
        """Rows that a fitted estimator is asked about, as :meth:`_encoded` gives them."""
        check_is_fitted(self)
        return self._encoded(self._cells(self._validated(X, reset=False)))

    def _log_densities(self, rows: Rows[NDArray[Any]], unknown: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The same of encoded rows."""
        with torch.no_grad():
            parts = [self.model_.log_prob(*part).cpu().numpy() for part in blocks(rows)]
        new = np.array([_share_of_new(column, self._count) for column in self._schema.columns])
        known = ~rows.missing & ~unknown
        beside: NDArray[np.float64] = known @ np.log1p(-new) + unknown @ np.log(np.maximum(new, TINY))
        return np.concatenate(parts) + beside

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Plain data: the model as the bytes of its file, the history as a mapping."""
        state = dict(super().__getstate__())
        if "model_" in state:
            state["model_"] = _to_bytes(self.model_)
        if "history_" in state:
            state["history_"] = self.history_.to_dict()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The model is on the CPU then, wherever it was."""
        if "model_" in state:
            state = state | {"model_": _from_bytes(state["model_"])}
        if "history_" in state:
            state = state | {"history_": History.from_dict(state["history_"])}
        super().__setstate__(state)


def blocks(rows: Rows[NDArray[Any]], size: int = BLOCK) -> Iterator[Rows[NDArray[Any]]]:
    """Some rows at a time."""
    for start in range(0, len(rows), size):
        yield rows.take(slice(start, start + size))


def _share_of_new(column: Column, rows: int) -> float:
    """How likely a column has a value that none of the training rows has."""
    is_open = not column.is_discrete or column.pooled is not None
    return 0.0 if is_open else 0.5 / (rows - column.missing + 1)


def _differs(value: Any, default: Any) -> bool:
    """Whether an option was given another value than its default."""
    return value is not default and not (type(value) is type(default) and value == default)


def _plain(value: Any) -> Any:
    """NumPy's numbers, as searches of parameters draw them, as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _to_bytes(model: SquaredCircuit) -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        model.save(file)
        return file.read_bytes()


def _from_bytes(content: bytes) -> SquaredCircuit:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        file.write_bytes(content)
        return load(file).eval()


def frame_kind(X: Any) -> str | None:
    """The package of a data frame, such as "pandas" or "polars"; None for arrays.

    Example:
        >>> frame_kind([[1.0]]) is None
        True
    """
    is_frame = (hasattr(X, "columns") and hasattr(X, "dtypes")) or hasattr(X, "column_names")
    return type(X).__module__.partition(".")[0] if is_frame else None


def _require_no_texts(X: Any, cause: Exception) -> None:
    """Refuse arrays of texts: only frames may hold them."""
    text = next((cell for cell in np.asarray(X).flat if isinstance(cell, str)), None)
    if text is not None:
        raise DataError(
            f"an array with texts, such as {str(text)!r}. Fix: pass a data frame, pandas.DataFrame(X)."
        ) from cause


def names_in(X: Any) -> list[str]:
    """The names of the columns that errors and ``columns=`` have: "0", "1", … of arrays."""
    return [str(name) for name in (names_of(X) if frame_kind(X) else range(X.shape[1]))]


def named_cells(X: Any) -> dict[str, Cells]:
    """The columns by those names."""
    if frame_kind(X):
        return named_columns(X)
    return {str(v): as_cells(column) for v, column in enumerate(X.T)}


def weighted_table(X: Any, wishes: Wishes, sample_weight: Any) -> Table:
    """The rows that count, with their weights where there are some."""
    if sample_weight is None:
        return table(X, wishes)
    cells = named_cells(X)
    weights = as_weights(sample_weight, len(next(iter(cells.values()))), "sample_weight")
    counts = weights > 0
    found = table(X if counts.all() else {name: column[counts] for name, column in cells.items()}, wishes)
    return replace(found, cells=replace(found.cells, weights=weights[counts]))


def wished_types(columns: Any, names: Sequence[str]) -> Wishes:
    """Types of columns as :func:`squircuit.data.table` takes them.

    Example:
        >>> wished_types("continuous", ["a", "b"]), wished_types({0: "drop"}, ["0", "1"])
        ({'a': 'continuous', 'b': 'continuous'}, {'0': 'drop'})
    """
    if isinstance(columns, str):
        return dict.fromkeys(names, columns)
    if isinstance(columns, Mapping):
        return {str(name): wish for name, wish in columns.items()}
    return None if columns is None else [str(name) for name in columns]


def levels(column: Column) -> NDArray[Any]:
    """What the states of a discrete column stand for: numbers, or texts (then of dtype object)."""
    if column.kind == "count":
        return np.arange(column.low, column.high + 1)
    return np.array(column.states, dtype=object if column.is_text else np.float64)


def decoded(column: Column, values: NDArray[Any], exact: bool = False) -> NDArray[Any]:
    """Samples of a column in the values of the data; ``exact``: numbers are not rounded."""
    if column.is_discrete:
        return levels(column)[values.astype(np.int64)]
    return values if exact else cast(NDArray[Any], column.rounded(values))
