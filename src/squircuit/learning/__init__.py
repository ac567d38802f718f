"""Learning without gradients: mixtures by expectation maximisation."""

from squircuit.learning.em import EMStep, fit_mixture
from squircuit.learning.mixture import MixtureFit

__all__ = ["EMStep", "MixtureFit", "fit_mixture"]
