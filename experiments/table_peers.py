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
PATIENCE = 20
"""Epochs without a gain on validation rows after which gradients stop."""


class Parts(NamedTuple):
    """The rows of one table."""

    train: Numbers
    valid: Numbers
    test: Numbers


Run = Callable[[Parts, int], Found]


def gaussian_mixture(parts: Parts, seed: int) -> Found:
    """The best of scikit-learn's by validation rows."""
    from sklearn.mixture import GaussianMixture

    tried = {}
    for count in (1, 2, 3, 5, 10, 20, 50, 100, 200):
        for floor in (1e-6, 1e-3, 5e-2):
            if count * 4 > len(parts.train):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found = GaussianMixture(count, reg_covar=floor, random_state=seed).fit(parts.train)
                except ValueError:  # a covariance that is not positive
                    continue
            tried[count, floor] = float(found.score(parts.valid)), found
    best = max(tried, key=lambda key: tried[key][0])
    valid, model = tried[best]
    scores = {"valid_ll": valid, "test_ll": float(model.score(parts.test))}
    return scores, int(model._n_parameters()), {"components": best[0], "floor": best[1]}


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
    for least in (20, 50, 200, 1000):
        if 2 * least <= len(train):
            torch.manual_seed(seed)
            leaf = Normal(scope=list(range(train.shape[1])))
            with contextlib.redirect_stdout(io.StringIO()):  # it speaks of every cluster
                net = spflow_learn_spn(train, leaf, min_instances_slice=least)
            tried[least] = net.log_likelihood(valid).mean().item(), net
    best = max(tried, key=lambda key: tried[key][0])
    reached, net = tried[best]
    scores = {"valid_ll": reached, "test_ll": net.log_likelihood(test).mean().item()}
    return scores, sum(p.numel() for p in net.parameters()), {"min_instances_slice": best}


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
