"""A classifier that knows the density of every class."""

from __future__ import annotations

from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor

from squircuit.data import Rows, Table
from squircuit.data.weights import as_weights
from squircuit.errors import ParameterError
from squircuit.estimators.base import (
    CircuitEstimator,
    blocks,
    names_in,
    weighted_table,
    wished_types,
)
from squircuit.learning.members import part_of
from squircuit.models import SquaredCircuit, mixture

FEWEST = 2
"""Rows of a class."""
HELD_OUT = 5
"""One of so many rows is held out for the discriminative step."""
STEPS = 200
LARGEST = 20.0
"""|log| of the temperature and of the biases of classes."""


class SquaredCircuitClassifier(ClassifierMixin, CircuitEstimator):
    r"""Bayes' rule with an exact density of each class,

    .. math:: p(c \mid x) = \frac{\pi_c\, p_c(x)}{\sum_k \pi_k\, p_k(x)} .

    The density of a class is what :func:`squircuit.learn` finds for its rows, and π are the shares of the
    classes. A row with missing cells is classified by the marginals of what it shows, exactly: nothing is
    imputed. All classes together are one model, the density p(x) = Σ_c π_c p_c(x) of the rows.

    Args:
        discriminative: a last step: p(c | x) ∝ exp(b_c + a log π_c p_c(x)) with the a > 0 and b that have the
            highest conditional likelihood on held-out rows. It helps where columns are many and densities too
            sure of themselves; learning takes twice as long.
        columns: types of columns, as for :class:`SquaredCircuitDensity`.
        minutes: of the search at most, about, all classes together; None: by the size of the table.
        random_state: of all that is random.
        device: where models learn and are asked.
        verbose: above 0: show progress.

    Attributes:
        classes_: the labels, sorted: (C,).
        model_: the density of the rows, a :class:`squircuit.SquaredCircuit`; its components are those of the
            classes one after the other.
        temperature_, bias_: a, and b (C,); 1 and 0 without the last step.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = np.repeat([0, 1], 100)
        >>> X = rng.normal(size=(200, 2)) + 3 * y[:, None]
        >>> classifier = SquaredCircuitClassifier(minutes=0.02, random_state=0).fit(X, y)
        >>> classifier.predict([[0.0, 0.0], [3.0, np.nan]])
        array([0, 1])
    """

    def __init__(
        self,
        discriminative: bool = False,
        columns: Any = None,
        minutes: float | None = None,
        random_state: Any = None,
        device: Any = "cpu",
        verbose: int = 0,
    ) -> None:
        super().__init__(
            columns=columns, minutes=minutes, random_state=random_state, device=device, verbose=verbose
        )
        self.discriminative = discriminative

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the density of each class.

        Args:
            X: (n, d) array or data frame; NaN and None are missing cells.
            y: (n,) labels, each of two rows at least.
            sample_weight: (n,), how much each row counts, from 0 upwards.
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None. Fix: call fit(X, y).")
        X = self._validated(X, reset=True)
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        names = names_in(X)
        rows = weighted_table(X, wished_types(self.columns, names), sample_weight)
        if sample_weight is not None:
            labels = labels[as_weights(sample_weight, len(labels), "sample_weight") > 0]
        if len(labels) != len(rows):
            raise ValueError(f"{len(rows)} rows in X, {len(labels)} labels in y. Fix: pass one for each row.")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        seed = self._seed(self.random_state)
        self._remember(X, rows)
        self.temperature_, self.bias_ = 1.0, np.zeros(len(self.classes_))
        if self.discriminative:
            self._calibrate(rows, codes, seed)
        self.model_, self._owners = self._densities(rows, codes, seed)
        return self

    def _densities(
        self, rows: Table, codes: NDArray[np.int64], seed: int
    ) -> tuple[SquaredCircuit, NDArray[np.int64]]:
        """The model of some rows, and the class of each of its components."""
        counts = np.ones(len(rows)) if rows.cells.weights is None else rows.cells.weights
        shares = np.bincount(codes, counts, len(self.classes_))
        models = []
        for c, label in enumerate(self.classes_):
            own = np.flatnonzero(codes == c)
            if len(own) < FEWEST:
                raise ValueError(
                    f"class {label} has {len(own)} row. Fix: give each class {FEWEST} rows at least."
                )
            models.append(self._learnt(part_of(rows, own), seed + c, 1 / len(self.classes_)))
        owners = np.repeat(np.arange(len(models)), [len(model.structure.roots) for model in models])
        made = models[0] if len(models) == 1 else mixture(models, (shares / shares.sum()).tolist())
        return made, owners

    # ------------------------------------------------------------------ prediction

    def predict_joint_log_proba(self, X: Any) -> NDArray[np.float64]:
        """log p(c, x) of the known cells of every row: (n, C)."""
        check_is_fitted(self)
        rows, _ = self._encoded(self._cells(self._validated(X, reset=False)))
        return cast(NDArray[np.float64], _joint(self.model_, self._owners, rows, len(self.classes_)).numpy())

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """log p(c | x): (n, C). A category that was not there in training counts as missing."""
        joint = torch.from_numpy(self.predict_joint_log_proba(X))
        return cast(NDArray[np.float64], self._posterior(joint).numpy())

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """p(c | x): (n, C)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every row: (n,)."""
        found: NDArray[Any] = self.classes_[self.predict_log_proba(X).argmax(axis=1)]
        return found

    def _posterior(self, joint: Tensor) -> Tensor:
        return (self.temperature_ * joint + torch.from_numpy(self.bias_)).log_softmax(dim=1)

    # ------------------------------------------------------------------ the discriminative step

    def _calibrate(self, rows: Table, codes: NDArray[np.int64], seed: int) -> None:
        """Find a and b on rows that densities of the others have not seen."""
        order = np.random.default_rng(seed).permutation(len(rows))
        owned = [order[codes[order] == c] for c in range(len(self.classes_))]
        held = np.sort(np.concatenate([own[: len(own) // HELD_OUT] for own in owned]))
        if not len(held):
            raise ParameterError(
                f"discriminative=True: no class has {HELD_OUT} rows to hold one out. Fix: pass False."
            )
        kept = np.setdiff1d(order, held)
        model, owners = self._densities(part_of(rows, kept), codes[kept], seed)
        out = rows.cells.take(held)
        joint = _joint(model, owners, out, len(self.classes_))
        counts = np.ones(len(held)) if out.weights is None else out.weights
        self.temperature_, self.bias_ = _calibrated(
            joint, torch.from_numpy(codes[held]), torch.from_numpy(counts)
        )


def _joint(model: SquaredCircuit, owners: NDArray[np.int64], rows: Rows[Any], classes: int) -> Tensor:
    """log p(c, x) as the sum over the components of each class: (n, C) float64."""
    with torch.no_grad():
        terms = [model.component_log_prob(part.x, part.missing).double().cpu() for part in blocks(rows)]
    found = torch.cat(terms)
    members = [torch.from_numpy(np.flatnonzero(owners == c)) for c in range(classes)]
    return torch.stack([found[:, own].logsumexp(dim=1) for own in members], dim=1)


def _calibrated(joint: Tensor, codes: Tensor, weights: Tensor) -> tuple[float, NDArray[np.float64]]:
    """The a > 0 and b, with mean 0, that maximise Σ_i w_i log softmax(a·joint + b)[c_i], by L-BFGS."""
    numbers = torch.zeros(1 + joint.shape[1], dtype=torch.float64, requires_grad=True)
    finite = joint.clamp_min(joint[joint.isfinite()].min() - LARGEST)
    optimiser = torch.optim.LBFGS([numbers], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        scores = numbers[0].clamp(-LARGEST, LARGEST).exp() * finite + numbers[1:]
        value = -(weights * scores.log_softmax(dim=1).gather(1, codes[:, None]).squeeze(1)).sum()
        value = value / weights.sum() + 1e-3 * numbers.square().sum()  # a little towards Bayes' rule
        torch.autograd.backward(value)
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    found = numbers.detach()
    return float(found[0].clamp(-LARGEST, LARGEST).exp()), (found[1:] - found[1:].mean()).numpy()
