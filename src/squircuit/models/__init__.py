"""Circuits as models: a torch module that is trained, and asked."""

from squircuit.models.loading import load
from squircuit.models.mixture import mixture
from squircuit.models.recipes import image_model, model_for, table_model
from squircuit.models.squared_circuit import SquaredCircuit

__all__ = ["SquaredCircuit", "image_model", "load", "mixture", "model_for", "table_model"]
