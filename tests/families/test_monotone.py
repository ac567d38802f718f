"""Monotone maps: smooth, invertible, and fitted to samples of all kinds."""
