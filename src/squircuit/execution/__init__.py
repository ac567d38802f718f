"""A circuit's arithmetic made fast: plan (pure data), network (the sweep), algebras, kernels."""

from squircuit.execution.plan import Plan, make_plan

__all__ = ["Plan", "make_plan"]
