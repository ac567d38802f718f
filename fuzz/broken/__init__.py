"""Damaged and crafted files, and the laws that reading them obeys; `fuzz/files.py` is the program."""
