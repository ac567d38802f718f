"""Questions to a circuit: partition functions, marginals, conditionals, samples of its square.

On symbolic circuits the three algorithms of the paper (``orthogonal``, ``unitary``, ``squared``);
on models, whose methods call them, one file a question (``likelihood``, ``marginals``, ``expectation``,
``imputation``, ``most_probable``, ``information``), by three steps: ``compile`` for a mask, send messages
``upward``, and for samples walk down again (``sampling``).
"""

from squircuit.inference import orthogonal, unitary
from squircuit.inference.comparison import Estimate, fidelity, kl_divergence, overlap, total_variation
from squircuit.inference.distribution import CircuitDistribution
from squircuit.inference.marginals import Marginals
from squircuit.inference.most_probable import MostProbable
from squircuit.inference.squared import marginal, partition

__all__ = [
    "CircuitDistribution",
    "Estimate",
    "Marginals",
    "MostProbable",
    "fidelity",
    "kl_divergence",
    "marginal",
    "orthogonal",
    "overlap",
    "partition",
    "total_variation",
    "unitary",
]
