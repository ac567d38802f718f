"""The command line: `squircuit`, one file a command."""

from squircuit.cli.program import app, main

__all__ = ["app", "main"]
