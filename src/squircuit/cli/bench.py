"""`squircuit bench`: time a training step; the program is benchmarks/step.py."""

from __future__ import annotations

import typer

from squircuit.cli.programs import folder, run


def bench(context: typer.Context) -> None:
    """Time a whole training step on this machine: forward, backward, optimiser.

    All arguments are those of benchmarks/step.py; squircuit bench --help lists them.

    Examples:

    - squircuit bench --kind unitary-kronecker --units 8
    - squircuit bench --suite cpu --device cpu --json times.json
    """
    run(folder("benchmarks") / "step.py", context.args)
