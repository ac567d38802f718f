"""Densities of other libraries on continuous tables, each chosen by validation rows.

Packages that are not installed are named by `PEERS` and left out by who asks.
"""

from __future__ import annotations

import contextlib
import copy
import io
import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Numbers = NDArray[np.float64]
Found = tuple[dict[str, float], int, dict[str, Any]]
"""Scores, the number of parameters, and what else is worth keeping."""
FEW = 4000
"""Rows, below which a mixture is chosen by folds."""
PATIENCE = 20
"""Epochs without a gain on validation rows after which gradients stop."""


class Parts(NamedTuple):
    """The rows of one table."""

    train: Numbers
    valid: Numbers
    test: Numbers


Run = Callable[[Parts, int], Found]


def gaussian_mixture(parts: Parts, seed: int) -> Found:
    """The best of scikit-learn's by held-out rows, which it learns from, too, once it is chosen.

    Fewer rows than `FEW` are held out in five folds. Gaps are filled by round-robin regression for learning,
    and left out of scores.
    """
    both = np.concatenate([parts.train, parts.valid])
    few = len(both) < FEW
    splits = _folds(both, seed) if few else [(parts.train, parts.valid)]
    tried: dict[tuple[int, float], float] = {}
    for count in (1, 2, 3, 5, 10, 20, 50, 100, 200):
        if count > 1 and count * 4 > min(len(kept) for kept, _ in splits):
            break
        for floor in (1e-6, 1e-3, 5e-2):
            with contextlib.suppress(ValueError):  # a covariance that is not positive
                scores = [_scores(_mixture(kept, count, floor, seed), held) for kept, held in splits]
                tried[count, floor] = float(np.concatenate(scores).mean())
    count, floor = max(tried, key=lambda key: tried[key])
    model = _mixture(both, count, floor, seed)
    scores_of = {"valid_ll": tried[count, floor], "test_ll": float(_scores(model, parts.test).mean())}
    chosen = {"components": count, "floor": floor, "held out": "5 folds" if few else "given rows"}
    return scores_of, int(model._n_parameters()), chosen


def _folds(rows: Numbers, seed: int) -> list[tuple[Numbers, Numbers]]:
    """Rows to learn from and rows held out."""
    places = np.random.default_rng(seed).permutation(len(rows))
    parts = np.array_split(places, min(5, len(rows)))
    return [(np.delete(rows, part, axis=0), rows[part]) for part in parts]


def _mixture(rows: Numbers, count: int, floor: float, seed: int) -> Any:
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer
    from sklearn.mixture import GaussianMixture

    if np.isnan(rows).any():
        rows = IterativeImputer(random_state=seed).fit_transform(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GaussianMixture(count, reg_covar=floor, random_state=seed).fit(rows)


def _scores(model: Any, rows: Numbers) -> Numbers:
    """log p of what is known of each row, (n,)."""
    from scipy.stats import multivariate_normal

    known, found = ~np.isnan(rows), np.zeros(len(rows))
    for pattern in np.unique(known, axis=0):
        same = (known == pattern).all(axis=1)
        if pattern.all():
            found[same] = model.score_samples(rows[same])
        elif pattern.any():
            block = np.ix_(pattern, pattern)
            logs = [
                np.log(share) + multivariate_normal(mean[pattern], cov[block]).logpdf(rows[same][:, pattern])
                for share, mean, cov in zip(model.weights_, model.means_, model.covariances_, strict=True)
            ]
            found[same] = np.logaddexp.reduce([np.atleast_1d(log) for log in logs], axis=0)
    return found


def spline_flow(parts: Parts, seed: int) -> Found:
    """zuko's neural spline flow, 5 transforms of 2×256, 16 bins."""
    import zuko

    torch.manual_seed(seed)
    columns = parts.train.shape[1]
    flow = zuko.flows.NSF(columns, transforms=5, bins=16, hidden_features=(256, 256))
    return _by_gradients(flow, lambda rows: flow().log_prob(rows), parts, minutes=10.0)


def einsum_network(parts: Parts, seed: int) -> Found:
    """SPFlow's Einet, 10 random trees of 20 sums over 20 Gaussians a column, as deep as the columns allow."""
    from spflow.modules.leaves import Normal
    from spflow.zoo.einet import Einet

    torch.manual_seed(seed)
    columns, repeats = parts.train.shape[1], 10
    leaf = Normal(scope=list(range(columns)), out_channels=20, num_repetitions=repeats)
    depth = int(math.log2(columns))
    net = Einet([leaf], num_sums=20, num_leaves=20, depth=depth, num_repetitions=repeats)
    return _by_gradients(net, lambda rows: net.log_likelihood(rows).flatten(), parts, minutes=5.0, lr=1e-2)


def learn_spn(parts: Parts, seed: int) -> Found:
    """SPFlow's LearnSPN over Gaussians, with the best of several sizes of its smallest clusters."""
    from spflow.learn import learn_spn as spflow_learn_spn
    from spflow.modules.leaves import Normal

    train, valid, test = (torch.tensor(rows, dtype=torch.float32) for rows in parts)
    tried: dict[int, tuple[float, Any]] = {}
    for least in (1000, 200, 50, 20):
        if 2 * least <= len(train):
            torch.manual_seed(seed)
            leaf = Normal(scope=list(range(train.shape[1])))
            with contextlib.redirect_stdout(io.StringIO()):  # it speaks of every cluster
                net = spflow_learn_spn(
                    train, leaf, min_instances_slice=least, partitioning_method=_independent
                )
            tried[least] = net.log_likelihood(valid).mean().item(), net
    best = max(tried, key=lambda key: tried[key][0])
    reached, net = tried[best]
    scores = {"valid_ll": reached, "test_ll": net.log_likelihood(test).mean().item()}
    return scores, sum(p.numel() for p in net.parameters()), {"min_instances_slice": best}


def _independent(rows: Tensor) -> Tensor:
    """Groups of independent columns by SPFlow's test; one group where that ends with an error of its own."""
    from spflow.learn.learn_spn import partition_by_rdc

    try:
        return torch.as_tensor(partition_by_rdc(rows))
    except RuntimeError:  # no canonical correlation is left of columns that are nearly constant
        return torch.ones(rows.shape[1], dtype=torch.int)


def _by_gradients(
    module: torch.nn.Module,
    log_prob: Callable[[Tensor], Tensor],
    parts: Parts,
    minutes: float,
    lr: float = 1e-3,
) -> Found:
    """Adam until validation rows no longer gain, on a GPU if there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    module.to(device)
    train, valid, test = (torch.tensor(rows, dtype=torch.float32, device=device) for rows in parts)
    optimiser = torch.optim.Adam(module.parameters(), lr=lr)
    best, kept, waited, epochs = -np.inf, copy.deepcopy(module.state_dict()), 0, 0
    started = time.monotonic()
    while waited < PATIENCE and time.monotonic() - started < 60 * minutes:
        for batch in torch.split(torch.randperm(len(train), device=device), 512):
            loss = -log_prob(train[batch]).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(module.parameters(), 5.0)
            optimiser.step()
        with torch.no_grad():
            reached = log_prob(valid).mean().item()
        epochs, waited = epochs + 1, waited + 1
        if reached > best:
            best, kept, waited = reached, copy.deepcopy(module.state_dict()), 0
    module.load_state_dict(kept)
    with torch.no_grad():
        found = log_prob(test).mean().item()
    count = sum(p.numel() for p in module.parameters())
    return {"valid_ll": best, "test_ll": found}, count, {"epochs": epochs, "converged": waited >= PATIENCE}


PEERS: dict[str, tuple[str, str, Run]] = {
    "gmm": ("sklearn", "best Gaussian mixture", gaussian_mixture),
    "nsf": ("zuko", "neural spline flow", spline_flow),
    "learn-spn": ("spflow", "LearnSPN of SPFlow", learn_spn),
    "einet": ("spflow", "Einet of SPFlow", einsum_network),
}
"""Peer → the package it needs, its name, and how it is run."""
