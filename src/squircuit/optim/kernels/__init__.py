"""Triton kernels of the optimisers, each with a twin in plain torch."""
