"""Region graphs: which variables are split how. The skeleton that every circuit is built on."""

from __future__ import annotations

from squircuit.regions.chow_liu import chow_liu
from squircuit.regions.quad_tree import patch_splits, quad_tree
from squircuit.regions.region_graph import RegionGraph
from squircuit.regions.scope import Region, Scope
from squircuit.regions.trees import balanced_tree, linear, random_tree

__all__ = [
    "Region",
    "RegionGraph",
    "Scope",
    "quad_tree",
    "patch_splits",
    "linear",
    "balanced_tree",
    "random_tree",
    "chow_liu",
]
