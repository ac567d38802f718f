"""Optimisers for semi-unitary weights: ordinary torch.optim classes on one Gram core."""

from squircuit.circuits.semi_unitary import distance
from squircuit.optim.base import StiefelOptimizer, groups
from squircuit.optim.gram import project
from squircuit.optim.landing import LandingPC, LandingSGD
from squircuit.optim.polar import POGO, Polar
from squircuit.optim.retraction import retract

__all__ = [
    "POGO",
    "LandingPC",
    "LandingSGD",
    "Polar",
    "StiefelOptimizer",
    "distance",
    "groups",
    "project",
    "retract",
]
