"""Circuits as fast torch modules: plan (pure data), network (forward and backward by hand), module."""

from squircuit.execution.module import SquaredCircuit
from squircuit.execution.plan import Plan, make_plan

__all__ = ["Plan", "SquaredCircuit", "make_plan"]
