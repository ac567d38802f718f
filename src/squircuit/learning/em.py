"""EM for mixtures of products of Gaussians and categories, with missing cells and weights of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from squircuit.data import Rows
from squircuit.errors import ParameterError, is_whole, suggestion
from squircuit.learning.gaussians import Moments, Prior
from squircuit.learning.mixture import Layout, MixtureFit, all_groups, mean_log_prob
from squircuit.learning.patterns import Group
from squircuit.learning.starts import COVARIANCES, Table, start_at


@final
@dataclass(frozen=True)
class EMStep:
    """One iteration.

    Args:
        iteration: from 0.
        bound: mean log-likelihood of the training rows and log-prior, nats a row, before the iteration's
            update. It never decreases, but where another set of rows begins.
        valid: mean log-likelihood of the validation rows, or NaN.
        rows: training rows that took part: fewer in the warm-up.
    """

    iteration: int
    bound: float
    valid: float
    rows: int


Callback = Callable[[EMStep], bool | None]


@final
@dataclass
class _Watch:
    """Tells a callback of each iteration, and remembers whether it said stop."""

    callback: Callback | None
    stopped: bool = False

    def saw(self, step: EMStep) -> bool:
        self.stopped = self.callback is not None and self.callback(step) is True
        return self.stopped


@final
@dataclass(frozen=True)
class _Options:
    iterations: int
    tolerance: float
    patience: int
    smoothing: float
    watch: _Watch


def fit_mixture(
    rows: Rows[Any] | Tensor,
    components: int,
    *,
    covariance: str = "full",
    rank: int | None = None,
    categories: Mapping[int, int] | None = None,
    weights: Tensor | None = None,
    valid: Rows[Any] | Tensor | None = None,
    prior: float = 1.0,
    independent: float = 0.0,
    floor: float = 1e-6,
    smoothing: float = 1.0,
    iterations: int = 100,
    tolerance: float = 1e-3,
    patience: int = 3,
    starts: int = 1,
    warm_up: int | None = None,
    spread: float = 1.0,
    start: MixtureFit | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    callback: Callback | None = None,
) -> MixtureFit:
    """A mixture Σ_k π_k N(x; μ_k, Σ_k) ∏_v P_v,k(x_v) by EM, exact also with missing cells.

    Each iteration computes the posterior of the component of each row, and of its missing cells given the
    component, and then maximises the expected log-likelihood plus log-prior in closed form. Such a mixture is
    a squared circuit, p = Σ_k π_k |f_k|². Everything is done in double precision, in time
    O(n K D²) an iteration.

    Args:
        rows: (n, d); NaN and masked cells are missing at random.
        components: K.
        covariance: "full", "diagonal", "tied" (one for all components) or "low-rank" (diag + U Uᵀ).
        rank: columns of U of a low rank.
        categories: column: its number of states, for columns that hold 0, 1, …; all others are numbers.
        weights: (n,) of the rows, not negative: a row of weight 2 counts as two.
        valid: rows to stop by: the mixture that is best on them is returned.
        prior: a covariance begins with so many rows of that of all rows, K^(2/D) times smaller. 0: none.
        independent: how far the prior takes columns to be independent: the share, from 0 to 1, by which its
            covariances are smaller. Of few rows and many columns they are mostly chance.
        floor: no variance in any direction is below it, in units of the variance of each column.
        smoothing: the states of a component begin with so many rows of the frequencies of all rows.
        iterations: at most, over the rows.
        tolerance: stop where an iteration gains less, nats a row.
        patience: with `valid`, stop after so many iterations without a gain on it.
        starts: so many different beginnings are tried for some iterations, the best one goes on.
        warm_up: the first iterations see so many rows, drawn at random; None: 50 for each component
            if these are fewer than half of all rows, 0: all rows always.
        spread: of the first means, which are rows: each is drawn with a probability that grows as its
            distance to the next of those before, to this power. 0: at random; 2: k-means++.
        start: a mixture to begin with instead.
        seed: of all that is random.
        device: to work on; default that of the rows.
        callback: called with the `EMStep` of each iteration; stops if it returns True.

    Raises:
        ParameterError: if an argument is out of its range.
        DataError: if rows, weights or states are.

    Example:
        >>> x = torch.cat([torch.randn(200, 2), torch.randn(200, 2) + 9])
        >>> x[::7, 1] = torch.nan
        >>> fit = fit_mixture(x, 2, prior=0.0)
        >>> [round(weight, 2) for weight in fit.log_weights.exp().tolist()]
        [0.5, 0.5]
        >>> fit.history[-1].bound > fit.history[0].bound
        True
    """
    layout = Layout.of((rows.x if isinstance(rows, Rows) else rows).shape[-1], categories or {})
    _require(components, covariance, rank, (prior, independent, floor, smoothing), starts, layout)
    table = Table.of(layout, rows, weights, device)
    table.require_rows(components if start is None else 1)
    units = (1 / table.scale, -table.shift / table.scale)  # columns with mean 0 and variance 1
    plain = table.standardised()
    held_out = None if valid is None else Table.of(layout, valid, None, table.x.device).moved(*units)
    options = _Options(iterations, tolerance, patience, smoothing, _Watch(callback))
    generator = torch.Generator(table.x.device).manual_seed(seed)
    wished = Prior(prior, plain.covariance(components, independent), floor)
    if start is not None:
        begun = replace(start.scaled(*units), history=())
        return _run(begun, plain, held_out, wished, options).scaled(table.scale, table.shift)
    few = plain.some(_warm_up_rows(warm_up, components, len(plain)), generator)
    tried = [
        start_at(few, components, COVARIANCES[covariance], rank, spread, wished, smoothing, generator)
        for _ in range(starts)
    ]
    if starts > 1 or len(few) < len(plain):
        short = replace(options, iterations=min(iterations, 30), tolerance=max(tolerance, 1e-2))
        tried = [_run(mixture, few, None, wished, short) for mixture in tried]
    best = max(tried, key=lambda mixture: mixture.history[-1].bound if mixture.history else 0.0)
    return _run(best, plain, held_out, wished, options).scaled(table.scale, table.shift)


def _warm_up_rows(asked: int | None, components: int, rows: int) -> int:
    if asked == 0:
        return rows
    wished = 50 * components if asked is None else asked
    return rows if asked is None and wished > rows / 2 else min(rows, max(wished, components))


def _run(
    mixture: MixtureFit, table: Table, valid: Table | None, prior: Prior, options: _Options
) -> MixtureFit:
    """Iterations on one set of rows."""
    groups = all_groups(mixture, table.x, table.states, table.weight)
    held_out = all_groups(mixture, valid.x, valid.states, valid.weight) if valid else []
    frequencies, history = table.frequencies(), list(mixture.history)
    before, best, best_score, waited = -math.inf, mixture, -math.inf, 0
    volumes = table.log_volume, valid.log_volume if valid else 0.0
    for _ in range(0 if options.watch.stopped else options.iterations):
        bound, updated = em_step(mixture, groups, prior, options.smoothing, frequencies)
        bound += volumes[0]
        score = mean_log_prob(mixture, held_out) + volumes[1] if held_out else math.nan
        history.append(EMStep(len(history), bound, score, len(table)))
        waited += 1 if score <= best_score else -waited
        if score > best_score:
            best, best_score = mixture, score
        if options.watch.saw(history[-1]) or bound - before < options.tolerance or waited >= options.patience:
            return replace(best if held_out else mixture, history=history)
        mixture, before = updated, bound
    if held_out and mean_log_prob(mixture, held_out) + volumes[1] <= best_score:
        mixture = best
    return replace(mixture, history=history)


def em_step(
    mixture: MixtureFit, groups: list[Group], prior: Prior, smoothing: float, frequencies: Tensor
) -> tuple[float, MixtureFit]:
    """The bound, nats a row, and the mixture after one iteration.

    Args:
        mixture: to be improved.
        groups: of the rows.
        prior: on covariances.
        smoothing: pseudo-rows of the states of each component.
        frequencies: of all states, (Σ states,).
    """
    total, moments, states = _expected(mixture, groups)
    mass = states[0].sum()
    penalty = mixture.gaussians.log_prior(prior) + smoothing * (mixture.log_tables * frequencies).sum()
    bound = float((total + penalty) / mass)
    return bound, MixtureFit(
        mixture.layout,
        (states[0] / mass).log(),
        mixture.gaussians.updated(moments, prior),
        _updated_tables(mixture.layout, states[1], smoothing, frequencies),
    )


def _expected(mixture: MixtureFit, groups: list[Group]) -> tuple[Tensor, Moments, tuple[Tensor, Tensor]]:
    """Σ log p, the moments of numbers, and the masses (K,) of components and (K, states) of states."""
    total = torch.zeros((), dtype=torch.double, device=mixture.means.device)
    moments: Moments | None = None
    components, states = torch.zeros_like(mixture.log_weights), torch.zeros_like(mixture.log_tables)
    for part in (part for group in groups for part in group.parts()):
        given = mixture.gaussians.given(part.x, part.seen)
        joint = mixture.joint(part, given)  # (B, K), turned into posteriors in its place
        largest = joint.amax(-1, keepdim=True)
        joint.sub_(largest).exp_()
        evidence = joint.sum(-1, keepdim=True)
        joint.mul_(part.weight[:, None] / evidence)
        total += (evidence.log() + largest)[:, 0] @ part.weight
        components += joint.sum(0)
        if mixture.layout.states:
            states += mixture.layout.counted(part.states, joint)
        found = given.moments(joint)
        if moments is None:
            moments = found
        else:
            moments.add(found)
    assert moments is not None
    return total, moments, (components, states)


def _updated_tables(layout: Layout, masses: Tensor, smoothing: float, frequencies: Tensor) -> Tensor:
    sizes = list(layout.categories.values())
    if not sizes:
        return masses
    smooth = torch.split(masses + smoothing * frequencies, sizes, 1)
    return torch.cat([(part / part.sum(1, keepdim=True)).log() for part in smooth], 1)


def _require(
    components: int,
    covariance: str,
    rank: int | None,
    priors: tuple[float, float, float, float],
    starts: int,
    layout: Layout,
) -> None:
    if not is_whole(components, least=1):
        raise ParameterError(f"components={components!r}. Fix: pass a whole number from 1.")
    if not is_whole(starts, least=1):
        raise ParameterError(f"starts={starts!r}. Fix: pass a whole number from 1.")
    if covariance not in COVARIANCES:
        raise ParameterError(
            f"covariance={covariance!r} is not known. Fix: {suggestion(covariance, COVARIANCES)}"
        )
    width = len(layout.numbers)
    if covariance == "low-rank" and not is_whole(rank, 1, max(width, 1)):
        raise ParameterError(f"rank={rank!r} of a low rank. Fix: pass a whole number from 1 to {width}.")
    prior, independent, floor, smoothing = priors
    if not prior >= 0 or not floor > 0 or not smoothing > 0:
        raise ParameterError(
            f"prior={prior}, floor={floor}, smoothing={smoothing}. Fix: prior is from 0, others above."
        )
    if not 0 <= independent <= 1:
        raise ParameterError(f"independent={independent!r}. Fix: pass a share, from 0 to 1.")
