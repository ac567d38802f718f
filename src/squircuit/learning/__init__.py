"""Densities of tables by one call: mixtures by expectation maximisation, and the best mixture of many."""

from squircuit.learning.classes import accuracy, fit_classes
from squircuit.learning.em import EMStep, fit_mixture
from squircuit.learning.learn import learn
from squircuit.learning.mixture import MixtureFit
from squircuit.learning.stacking import stack

__all__ = ["EMStep", "MixtureFit", "accuracy", "fit_classes", "fit_mixture", "learn", "stack"]
