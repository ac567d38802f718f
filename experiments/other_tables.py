"""Tables that the defaults were not chosen on: five of scikit-learn, and made ones, odd in one way each.

All columns are numbers, with mean 0 and variance 1 in the training rows; NaN is a gap.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from table_peers import Numbers, Parts

Rng = np.random.Generator


def _rings(rng: Rng, count: int) -> Numbers:
    angle, radius = 2 * np.pi * rng.random(count), rng.integers(1, 3, count) + 0.08 * rng.normal(size=count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _tilted(rng: Rng, count: int, columns: int) -> Numbers:
    """Normal numbers that depend on each other through three others."""
    loads = np.random.default_rng(columns).normal(size=(3, columns))
    found: Numbers = rng.normal(size=(count, 3)) @ loads + 0.5 * rng.normal(size=(count, columns))
    return found


def _with_constant(rng: Rng, count: int) -> Numbers:
    return np.concatenate([_tilted(rng, count, 3), np.full((count, 1), 7.0)], axis=1)


def _collinear(rng: Rng, count: int) -> Numbers:
    rows = _tilted(rng, count, 3)
    return np.concatenate([rows, rows[:, :1] + rows[:, 1:2], 2 * rows[:, 2:]], axis=1)


def _duplicates(rng: Rng, count: int) -> Numbers:
    """Rows of which there are 200 different ones."""
    found: Numbers = _tilted(np.random.default_rng(1), 200, 4)[rng.integers(200, size=count)]
    return found


def _integers(rng: Rng, count: int) -> Numbers:
    means = np.exp(_tilted(rng, count, 4) / 2)
    return rng.poisson(means).astype(np.float64)


def _gaps(rng: Rng, count: int) -> Numbers:
    rows = _tilted(rng, count, 5)
    return np.where(rng.random(rows.shape) < 0.3, np.nan, rows)


def _mixture(rng: Rng, count: int) -> Numbers:
    """One column: three normal numbers of different widths."""
    which = rng.integers(3, size=count)
    widths = np.array([0.1, 0.5, 1.0])[which]
    return (np.array([-2.0, 0.0, 3.0])[which] + widths * rng.normal(size=count))[:, None]


def _spirals(rng: Rng, count: int) -> Numbers:
    """Two of them, one and a half turns each."""
    radius, arm = 3 * np.pi * np.sqrt(rng.random(count)), np.pi * rng.integers(2, size=count)
    points = np.stack([radius * np.cos(radius + arm), radius * np.sin(radius + arm)], axis=1)
    found: Numbers = points + 0.3 * rng.normal(size=points.shape)
    return found


def _checkers(rng: Rng, count: int) -> Numbers:
    """The white squares of a board."""
    points: Numbers = 4 * rng.random((count, 2))
    points[:, 0] -= np.floor(points).sum(axis=1) % 2
    return points


def _copies(rng: Rng, count: int, noise: float = 0.0) -> Numbers:
    rows = _tilted(rng, count, 3)
    return np.concatenate([rows, rows[:, :2] + noise * rng.normal(size=(count, 2))], axis=1)


def _zeros(rng: Rng, count: int) -> Numbers:
    found: Numbers = np.where(rng.random((count, 4)) < 0.6, 0.0, np.exp(_tilted(rng, count, 4)))
    return found


def _skewed(rng: Rng, count: int) -> Numbers:
    return np.concatenate([_tilted(rng, count, 3), np.exp(_tilted(rng, count, 3))], axis=1)


MADE: dict[str, tuple[int, Callable[[Rng, int], Numbers]]] = {
    "rings": (2000, _rings),
    "heavy-tails": (2000, lambda rng, count: rng.standard_t(1.5, (count, 3))),
    "lognormals": (2000, lambda rng, count: np.exp(_tilted(rng, count, 4))),
    "normal": (1000, lambda rng, count: _tilted(rng, count, 6)),
    "even": (1000, lambda rng, count: rng.random((count, 3))),
    "constant-column": (1000, _with_constant),
    "collinear": (1000, _collinear),
    "duplicates": (1000, _duplicates),
    "50-rows": (40, lambda rng, count: _tilted(rng, count, 20)),
    "3-rows": (2, lambda rng, count: _tilted(rng, count, 2)),
    "integers": (2000, _integers),
    "gaps": (1000, _gaps),
    "one-column": (1000, _mixture),
    "spirals": (2000, _spirals),
    "checkers": (3000, _checkers),
    "copies": (1000, _copies),
    "near-copies": (1000, lambda rng, count: _copies(rng, count, 1e-4)),
    "tenths": (1000, lambda rng, count: rng.integers(10, size=(count, 3)) / 10),
    "zeros": (2000, _zeros),
    "cauchy": (1000, lambda rng, count: rng.standard_cauchy((count, 4))),
    "20-rows": (16, lambda rng, count: _tilted(rng, count, 5)),
    "300-columns": (80, lambda rng, count: _tilted(rng, count, 300)),
    "many-rings": (8000, _rings),
    "many-spirals": (6000, _spirals),
    "many-copies": (6000, _copies),
    "many-integers": (6000, _integers),
    "many-skewed": (6000, _skewed),
}
"""Name → the number of training rows, and what draws rows. A quarter as many, one at least, are for
selection, and 2,000 for scores."""
OF_SKLEARN = ("wine", "iris", "breast_cancer", "linnerud", "digits")
NAMES = (*OF_SKLEARN, *MADE)


def other_table(name: str, seed: int) -> Parts:
    """The rows of one of `NAMES`; those of scikit-learn are split 60 : 15 : 25."""
    rng = np.random.default_rng([seed, NAMES.index(name)])
    if name in MADE:
        count, draw = MADE[name]
        return _standardised(*(draw(rng, n) for n in (count, max(1, count // 4), 2000)))
    from sklearn import datasets

    rows = np.asarray(getattr(datasets, f"load_{name}")().data, dtype=np.float64)
    rows = rows[rng.permutation(len(rows))]
    first, second = int(0.6 * len(rows)), int(0.75 * len(rows))
    return _standardised(rows[:first], rows[first:second], rows[second:])


def _standardised(*parts: NDArray[np.float64]) -> Parts:
    mean, spread = np.nanmean(parts[0], axis=0), np.nanstd(parts[0], axis=0)
    spread[spread < 1e-9] = 1.0
    return Parts(*((rows - mean) / spread for rows in parts))
