"""Learning without gradients: mixtures by expectation maximisation."""

from squircuit.learning.em import EMStep, fit_mixture
from squircuit.learning.gaussians import Gaussians, Moments, Prior
from squircuit.learning.groups import Part
from squircuit.learning.mixture import Layout, MixtureFit

__all__ = ["EMStep", "Gaussians", "Layout", "MixtureFit", "Moments", "Part", "Prior", "fit_mixture"]
