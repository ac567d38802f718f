"""A circuit's arithmetic made fast: plan (pure data), network (forward and backward by hand), kernels."""

from squircuit.execution.plan import Plan, make_plan

__all__ = ["Plan", "make_plan"]
