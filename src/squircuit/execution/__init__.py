"""A circuit's arithmetic made fast: plan (pure data), network (the sweep), algebras, kernels."""

from squircuit.execution.plan import Plan
from squircuit.execution.planner import make_plan

__all__ = ["Plan", "make_plan"]
