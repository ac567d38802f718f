"""Tensors and a JSON document in one file: safetensors, written in one step and checked when read."""

from squircuit.storage.files import Stored, read, write

__all__ = ["Stored", "read", "write"]
