"""A density estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from squircuit.data.layout import Layout
from squircuit.estimators.base import CircuitEstimator, decoded
from squircuit.storage.memory import require_memory

CELL = 40  #: bytes that a sampled number needs until it is in the array


class SquaredCircuitDensity(DensityMixin, CircuitEstimator):
    r"""The density of a table as a squared circuit,

    .. math:: p(x) = \sum_r \pi_r |c_r(x)|^2, \qquad \int p = 1,

    exact and normalised, also of rows with missing cells, which are marginalised: in training and in scores.

    By default it is what :func:`squircuit.learn` finds: the best mixture of many densities, weighed by rows
    that they have not seen. Where an option of a circuit or of its training is given (from ``units`` to
    ``patience`` below), one circuit on the Chow–Liu tree is trained instead.

    Columns of texts are categories. A column of integers that span at most 256 is discrete, too (two
    different ones: binary), in arrays of floats as well; all other numbers are continuous. ``columns`` says
    otherwise, and does so for every fold of a cross-validation: the range of a count, for example, is else
    that of the training rows. A value that a discrete column did not have in n training rows has the
    probability 1/(2n + 2), so the values that it had share the rest.

    Args:
        units: K, the width of the circuit; None: by the number of rows, as :func:`squircuit.table_model`.
        roots: number of squares that are mixed; None: 4, or as many as fit.
        size: number of functions of columns that are not discrete; None: 8 below 300 rows, 12 below 2000, 16
            below 4000, else 24.
        components: circuits above the same inputs that are mixed with learnt weights.
        members: models that are trained apart and mixed, from other weights, with other rows held out, and
            on other trees (the first on that of the rows, others on those of rows drawn with replacement):
            the density is better than theirs, and training takes so many times as long.
        columns: types that replace the inferred ones: a text for all columns, such as ``"continuous"`` or
            ``"count:0:16"``, or a mapping from names (of arrays: numbers) to such texts. "drop" leaves a
            column out. See :func:`squircuit.data.table`.
        epochs, lr, batch: of training; "auto": by the number of rows, see :class:`squircuit.TrainingConfig`.
        valid_fraction: share of the rows that is held out to stop early; 0: none.
        patience: epochs without a better validation after which training stops; 0: it never stops early.
        random_state: of the first weights, of the order of rows and of those held out.
        device: where the model is trained and asked, such as "cuda".
        verbose: above 0: show the progress of training.
        minutes: of the search at most, about; None: by the size of the table. See :func:`squircuit.learn`.

    Attributes:
        model_: the trained :class:`squircuit.SquaredCircuit`, which answers all other questions; its
            ``schema`` says which types the columns have.
        history_: of training, see :class:`squircuit.History`, where one circuit is trained; of several
            members that of the first.
        n_features_in_, feature_names_in_: of ``fit``; the names where all are texts.

    Pickles (joblib's, too) hold the model as its file format does, and load it on the CPU.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 1)) + 0.3 * rng.normal(size=(200, 2))
        >>> density = SquaredCircuitDensity(epochs=15, random_state=0).fit(X)
        >>> density.score_samples([[1.0, 1.0], [1.0, -1.0], [np.nan, np.nan]]).round().shape
        (3,)
        >>> density.sample(3, random_state=0).shape
        (3, 2)
    """

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """log p of every row, in nats: (n,). Missing cells are marginalised; a row without cells has 0."""
        return self._log_density(X)

    def score(self, X: Any, y: Any = None) -> float:
        """The total log-likelihood of the rows, Σ_i log p(x_i), as of scikit-learn's ``KernelDensity``."""
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Exact samples, in the values of the training data, and to the resolution of its columns.

        Returns:
            (n_samples, d) array of floats (of objects where columns hold texts), or where ``fit`` was given a
            data frame one like that, with its types of columns; without columns that were dropped.
        """
        check_is_fitted(self)
        require_memory(
            CELL * n_samples * len(self._schema.names) if isinstance(n_samples, int) else 0,
            f"n_samples={n_samples}",
            "fewer samples at a time",
        )
        drawn = self.model_.sample(n_samples, seed=self._seed(random_state)).cpu().numpy()
        if self._layout is not None:
            return Layout.from_dict(self._layout).table(
                self._schema.table_names, list(zip(*self._schema.decode(drawn), strict=True))
            )
        return np.stack(
            [decoded(column, drawn[:, v]) for v, column in enumerate(self._schema.columns)], axis=1
        )
