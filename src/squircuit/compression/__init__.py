"""Lossless compression of rows by the exact conditionals of a discrete model and a range coder."""

from squircuit.compression.codec import compress, decompress

__all__ = ["compress", "decompress"]
