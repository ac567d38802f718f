"""What it costs to look at the weights with every call, beside what is asked.

    python benchmarks/look.py [--device cuda]

Times are medians of one run, so their ratios tell. A look reads all weights twice: it is bound by memory, and
beside a batch of a few hundred rows it should not show. A training step is timed with the look that a loop of
your own has, and as `sq.fit` takes it, whose optimisers see to the manifold themselves.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

import squircuit as sq
from squircuit.circuits.summary import table

ROWS = 256


def models() -> dict[str, sq.Circuit]:
    """Unitary circuits over images, small and large."""
    small, large = sq.regions.quad_tree((8, 8)), sq.regions.quad_tree((28, 28))
    return {
        "8×8, Kronecker, K = 4": sq.build(small, sq.Categorical(17), units=4),
        "28×28, Kronecker, K = 4": sq.build(large, sq.Categorical(256), units=4),
        "28×28, Hadamard, K = 64": sq.build(large, sq.Categorical(256), units=64, product="hadamard"),
    }


def milliseconds(run: Callable[[], object], device: torch.device, repeats: int = 15) -> float:
    """The median of some runs after two others; on a CPU of processor time, whatever else it does."""
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    times = []
    for number in range(repeats + 2):
        start = clock()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if number > 1:
            times.append(clock() - start)
    return 1000 * statistics.median(times)


def row(name: str, circuit: sq.Circuit, device: torch.device) -> tuple[str, ...]:
    """One line of the table."""
    model = sq.SquaredCircuit(circuit, seed=0).to(device)
    states = circuit.inputs[0].family.size
    x = torch.randint(0, states, (ROWS, circuit.num_variables)).to(device)
    optimiser = sq.optim.Polar(model.parameters(), lr=0.1)

    def step() -> Tensor:
        optimiser.zero_grad()
        loss: Tensor = -model.log_prob(x).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        return loss

    def trusted() -> Tensor:
        with model.training_step(on_manifold=True):
            return step()

    looking, plain = milliseconds(step, device), milliseconds(trusted, device)
    model.eval()
    with torch.no_grad():
        look = milliseconds(model.is_normalised, device)
        asked = milliseconds(lambda: model.log_prob(x), device)
    figures = (look, asked, look / asked, plain, looking / plain)
    return name, *(f"{figure:.2f}" for figure in figures)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    device = torch.device(parser.parse_args().device)
    rows = [row(name, circuit, device) for name, circuit in models().items()]
    heads = ("circuit", "look, ms", f"log_prob of {ROWS}, ms", "share", "step, ms", "step that looks / step")
    print(table(heads, rows, right=set(range(1, 6))))


if __name__ == "__main__":
    main()
