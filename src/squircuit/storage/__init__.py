"""Tensors and a JSON document in one file: safetensors, written in one step and checked when read."""

from squircuit.storage.files import Content, Form, Stored, read, write

__all__ = ["Content", "Form", "Stored", "read", "write"]
