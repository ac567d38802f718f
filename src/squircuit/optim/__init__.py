"""Optimisers for semi-unitary weights: torch.optim classes on one Gram core, known by their names."""

from squircuit.circuits.semi_unitary import distance
from squircuit.optim.adam import Adam
from squircuit.optim.base import StiefelOptimizer, groups, named, names
from squircuit.optim.landing import LandingPC, LandingSGD
from squircuit.optim.manifold import project, retract
from squircuit.optim.pogo import POGO
from squircuit.optim.polar import Polar

__all__ = [
    "POGO",
    "Adam",
    "LandingPC",
    "LandingSGD",
    "Polar",
    "StiefelOptimizer",
    "distance",
    "groups",
    "named",
    "names",
    "project",
    "retract",
]
