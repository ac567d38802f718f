"""Train on the embedded digits, compare honestly, and write a page.

Run by ``make demo``; then open demo/index.html.
"""

from __future__ import annotations

import argparse
import itertools
import math
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import squircuit as sq
from baselines import DequantisedGaussians, IndependentPixels, MixtureOfPixels, best_on
from demo_page import write_page

SHAPE, LEVELS = (8, 8), 17
# Of some twenty settings that were tried, the best on the validation rows; lr=1.6 is as good, and slower.
UNITS, ROOTS = 6, 4
TRAINING = {"lr": 0.8, "average": 0.99, "epochs": 60}
# Of baselines: components and smoothing; components and ridge; draws of the noise for the final score.
MIXTURES = list(itertools.product((5, 10, 20, 40), (0.05, 0.3, 1.0)))
GAUSSIANS = list(itertools.product((5, 10, 15), (0.02, 0.1)))
DRAWS = 256

Array = NDArray[Any]


@dataclass(frozen=True)
class Score:
    """The test rows under one model: mean log-likelihood in nats, its standard error, and what to know."""

    name: str
    nats: float
    error: float
    note: str

    @staticmethod
    def of(name: str, log_p: Array, note: str) -> Score:
        return Score(name, float(log_p.mean()), float(log_p.std(ddof=1) / math.sqrt(len(log_p))), note)

    @property
    def bits(self) -> float:
        """Bits per pixel; fewer are better."""
        return -self.nats / (math.prod(SHAPE) * math.log(2))


def digits_model(train: Array) -> sq.SquaredCircuit:
    """Pixels that depend on each other meet low in the tree; all share one matrix of input functions."""
    regions = sq.regions.chow_liu(train)
    circuit = sq.build(regions, sq.Categorical(LEVELS, ordered=True), UNITS, roots=ROOTS, tie="inputs")
    model = sq.SquaredCircuit(circuit)
    model.shape = SHAPE
    return model


@threadpool_limits.wrap(limits=1)
def baseline_scores(digits: sq.data.Dataset) -> list[Score]:
    """Each fitted to the training rows; where there is a choice, by the validation rows."""
    train, valid, test = (part.astype(np.int64) for part in (digits.train, digits.valid, digits.test))
    independent = IndependentPixels.fit(train, LEVELS)
    mixture = best_on(valid, [partial(MixtureOfPixels.fit, train, LEVELS, *choice) for choice in MIXTURES])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 50 steps are enough to choose by
        gaussians = best_on(
            valid, [partial(DequantisedGaussians.fit, train, *choice) for choice in GAUSSIANS]
        )
    tighter = DequantisedGaussians(gaussians.mixture, DRAWS, gaussians.seed)
    components = len(mixture.weights), gaussians.mixture.n_components
    return [
        Score.of(
            f"mixture of {components[0]} × independent pixels",
            mixture.log_prob(test),
            "expectation-maximisation; number and smoothing chosen on validation rows",
        ),
        Score.of("independent pixels", independent.log_prob(test), "counts with Laplace smoothing"),
        Score.of(
            f"mixture of {components[1]} Gaussians",
            tighter.log_prob(test),
            "scikit-learn's, full covariances, on pixels with uniform noise u in [0, 1) added: its density "
            "of x + u bounds the probability of x from below (the mean over draws of u), so it may be a "
            "little better",
        ),
    ]


def model_score(model: sq.SquaredCircuit, test: torch.Tensor) -> Score:
    with torch.no_grad():
        log_p = model.log_prob(test).double().numpy()
    return Score.of("squircuit", log_p, f"exact; log Z = {model.log_partition().item():.1e}, computed")


def scores_as_text(scores: list[Score]) -> str:
    width = max(len(score.name) for score in scores)
    header = f"{'test rows':{width}}  log-likelihood, nats   bits per pixel"
    lines = [f"{s.name:{width}}    {s.nats:9.2f} ± {s.error:.2f}           {s.bits:6.3f}" for s in scores]
    return "\n".join([header, *lines])


def half_erased(digits: sq.data.Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    """Six test digits: of three the lower half is erased, of three the right half."""
    originals = torch.from_numpy(digits.test[:6].astype(np.int64))
    row, column = torch.arange(64) // 8, torch.arange(64) % 8
    return originals, torch.stack([row >= 4] * 3 + [column >= 4] * 3)


def main(folder: Path = Path("demo"), **changes: Any) -> Path:
    """Train, print the scores, write the page; ``changes`` are options of training."""
    torch.set_num_threads(1)  # the matrices are so small that threads would wait for each other
    digits = sq.data.load("digits")
    model = digits_model(digits.train)
    print(f"{model} of 8×8 digits, {len(digits.train)} training rows")
    history = sq.fit(model, digits, **{**TRAINING, **changes})
    print(f"kept: epoch {history.best_epoch} of {len(history.rows)}, {history.rows[-1].seconds:.0f} s\n")
    test = torch.from_numpy(digits.test.astype(np.int64))
    scores = [model_score(model, test), *baseline_scores(digits)]
    print(
        f"{scores_as_text(scores)}\n\nlog Z of the trained model, exact: {model.log_partition().item():.1e}"
    )
    originals, missing = half_erased(digits)
    pictures = {
        "curves": sq.plots.curves(history),
        "real": sq.plots.images(digits.test[:32], SHAPE, levels=LEVELS),
        "samples": sq.plots.images(model.sample(32, seed=0), SHAPE, levels=LEVELS),
        "completions": sq.plots.completions(
            originals,
            missing,
            model.sample(6, given=originals, missing=missing, seed=0),
            SHAPE,
            levels=LEVELS,
        ),
    }
    settings = {"units": UNITS, "roots": ROOTS, **TRAINING, **changes}
    page = write_page(folder, model, digits, history, scores, pictures, settings)
    print(f"\nThe page with samples, completions and curves: {page}")
    return page


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="where index.html goes")
    parser.add_argument("--epochs", type=int, default=TRAINING["epochs"], help="at most")
    arguments = parser.parse_args()
    main(arguments.folder, epochs=arguments.epochs)
