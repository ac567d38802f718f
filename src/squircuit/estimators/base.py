"""What all estimators share: reading rows, training, log densities, plain pickles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from squircuit.data import Rows, Schema, Table, table
from squircuit.errors import ParameterError, is_whole
from squircuit.estimators.rows import (
    cells_of,
    encoded,
    frame_kind,
    names_of,
    require_no_texts,
    wishes,
)
from squircuit.models import SquaredCircuit, load, mixture, table_model
from squircuit.models.training_table import chow_liu_trees, training_table
from squircuit.regions import RegionGraph
from squircuit.training import History, fit
from squircuit.training.config import shown

BLOCK = 4096  #: rows that are asked about at once
MOST_MEMBERS = 1024


class CircuitEstimator(BaseEstimator, ABC):
    """A squared circuit of a table, trained by ``fit``; all computations are in double precision.

    Subclasses name all parameters in ``__init__``, as scikit-learn wants it; :class:`SquaredCircuitDensity`
    documents them.
    """

    model_: SquaredCircuit
    history_: History
    n_features_in_: int

    @abstractmethod
    def __init__(self) -> None: ...

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the density of the rows.

        Args:
            X: (n, d) array or data frame, n ≥ 2; NaN and None are missing cells, which need not be filled.
            y: ignored.
        """
        X = self._validated(X, reset=True)
        names = names_of(X)
        seed = self._seed(self.random_state)
        rows = table(X, wishes(self.columns, names))
        trees = chow_liu_trees(training_table(rows), self._count_members())
        trained = [self._member(rows, tree, seed + number) for number, tree in enumerate(trees)]
        self.model_, self.history_ = trained[0]
        if len(trained) > 1:
            self.model_ = mixture([model for model, _ in trained])
        self._positions = [names.index(name) for name in rows.schema.names]
        self._frame = frame_kind(X)
        return self

    def _count_members(self) -> int:
        members = _plain(self.members)
        if not is_whole(members, 1, MOST_MEMBERS):
            raise ParameterError(
                f"members={shown(members)}. Fix: pass a number of models, from 1 to {MOST_MEMBERS}."
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
        if frame_kind(X):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        least = 2 if reset else 1
        checks = {"dtype": "numeric", "ensure_all_finite": "allow-nan", "ensure_min_samples": least}
        try:
            return validate_data(self, X, reset=reset, **checks)
        except ValueError as error:
            require_no_texts(X, error)
            raise

    @property
    def _schema(self) -> Schema:
        return cast(Schema, self.model_.schema)

    def _log_density(self, X: Any) -> NDArray[np.float64]:
        """log p of the known cells of every row; −inf where a discrete column has a value it never had."""
        check_is_fitted(self)
        cells = cells_of(self._validated(X, reset=False))
        rows, unknown = encoded(self._schema, [cells[position] for position in self._positions])
        with torch.no_grad():
            parts = [self.model_.log_prob(*part).cpu().numpy() for part in blocks(rows)]
        return np.where(unknown.any(axis=1), -np.inf, np.concatenate(parts))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Plain data: the model as the bytes of its file, the history as a mapping."""
        state = dict(super().__getstate__())
        if "model_" in state:
            state |= {"model_": _to_bytes(self.model_), "history_": self.history_.to_dict()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The model is on the CPU then, wherever it was."""
        if "model_" in state:
            model, history = _from_bytes(state["model_"]), History.from_dict(state["history_"])
            state = state | {"model_": model, "history_": history}
        super().__setstate__(state)


def blocks(rows: Rows[NDArray[Any]], size: int = BLOCK) -> Iterator[Rows[NDArray[Any]]]:
    """Some rows at a time."""
    for start in range(0, len(rows), size):
        yield rows.take(slice(start, start + size))


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
