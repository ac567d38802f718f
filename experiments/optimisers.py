"""The paper's comparison of optimisers, with what it does not show: the likelihood after projection.

A unitary Kronecker circuit trained by each method with the same steps. Landing iterates are near the
manifold, not on it, so the loss they print is that of an unnormalised model: *claimed* is −log |c(x)|² as
the method sees it, *true* divides by the exact Z, *projected* replaces every matrix by the nearest
semi-unitary one first. SGD and Adam train the unconstrained squared circuit, whose loss contains log Z.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

import squircuit as sq
from record import Row, arguments_of, parameters, save_figure, write
from record import run as as_program
from squircuit.optim import project

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 100  # of a curve

Step = Callable[[torch.nn.Module], torch.optim.Optimizer]
METHODS: dict[str, tuple[bool, Step]] = {
    "Adam (±)": (False, lambda m: torch.optim.Adam(m.parameters(), lr=0.01)),
    "SGD (±)": (False, lambda m: torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9)),
    "LandingSGD": (True, lambda m: sq.optim.LandingSGD(sq.optim.groups(m), lr=0.01)),
    "LandingSGD*": (True, lambda m: sq.optim.LandingSGD(sq.optim.groups(m), lr=0.01, project=True)),
    "LandingPC": (True, lambda m: sq.optim.LandingPC(sq.optim.groups(m), lr=0.05)),
    "POGO": (True, lambda m: sq.optim.POGO(sq.optim.groups(m), lr=0.1)),
    "Polar": (True, lambda m: sq.optim.Polar(sq.optim.groups(m), lr=0.1)),
}
"""Name → whether the model is unitary, and the optimiser."""


def data_of(
    name: str, folder: str | None, rows: int | None
) -> tuple[torch.Tensor, torch.Tensor, tuple[int, ...], int]:
    """Training and test rows, the shape of the images, and the grey levels."""
    found = sq.data.load(name, folder)
    levels = 17 if name == "digits" else 256
    train, test = (torch.as_tensor(part[:rows]).long() for part in (found.train, found.test))
    return train, test, found.shape, levels


def train(model: sq.SquaredCircuit, step: Step, rows: torch.Tensor, steps: int, seed: int) -> torch.Tensor:
    """Losses of every step as the method sees them, in nats: cosine schedule, batches of 128."""
    optimiser = step(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    generator, losses = torch.Generator().manual_seed(seed), []
    for _ in range(steps):
        x = rows[torch.randint(len(rows), (128,), generator=generator)].to(model.device)
        optimiser.zero_grad()
        with model.training_step():
            loss = -model.log_prob(x).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        losses.append(loss.detach())  # the device is not waited for
    return torch.stack(losses).cpu()


def curve(losses: torch.Tensor, variables: int) -> list[list[float]]:
    """(step, mean loss of the steps since the point before) in bits per dimension."""
    each = max(1, math.ceil(len(losses) / POINTS))
    means = [
        (start, part.mean().item())
        for start, part in zip(range(0, len(losses), each), torch.split(losses, each), strict=True)
    ]
    return [[start + each / 2, round(mean / (variables * math.log(2)), 4)] for start, mean in means]


@torch.no_grad()
def scores(model: sq.SquaredCircuit, test: torch.Tensor) -> dict[str, float]:
    """Claimed, true and projected bits per dimension of the test rows, and the exact log Z."""
    bit = test.shape[1] * math.log(2)
    test, log_z = test.to(model.device), model.log_partition().item()
    density = model.log_density(test).double().mean().item()
    claimed = density if model.is_unitary else density - log_z
    found = {"claimed_bpd": -claimed / bit, "true_bpd": (log_z - density) / bit, "log_z": log_z}
    if model.is_unitary:
        for stack in model.stacks():
            stack.copy_(project(stack))
        found["log_z_projected"] = model.log_partition().item()
    density = model.log_density(test).double().mean().item()
    return found | {"projected_bpd": (model.log_partition().item() - density) / bit}


def draw(rows: list[Row]) -> Figure:
    """Losses in training as the methods claim them, and the true ones on test data at the end."""
    from matplotlib.figure import Figure  # rows can be made without it

    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    for row in rows:
        steps, bits = zip(*row.options["curve"], strict=True)
        (line,) = axis.plot(steps, bits, label=row.model, linewidth=1.2)
        axis.plot(row.options["steps"], row.scores["true_bpd"], "o", color=line.get_color(), markersize=4)
    axis.set_xlabel("step")
    axis.set_ylabel("claimed bits per dimension; dots: true, test")
    axis.legend(fontsize=8)
    return figure


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--data", default="digits", choices=("digits", "mnist", "fashion-mnist"))
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--folder", help="of the data")
    options = parser.parse_args(arguments)
    rows, test, shape, levels = data_of(options.data, options.folder, options.rows)
    made: list[Row] = []
    for name, (unitary, step) in METHODS.items():
        circuit = sq.build(
            sq.regions.quad_tree(shape), sq.Categorical(levels), options.units, unitary=unitary
        )
        model = sq.SquaredCircuit(circuit, seed=options.seed).to(options.device)
        started = time.monotonic()
        losses = train(model, step, rows, options.steps, options.seed)
        minutes = (time.monotonic() - started) / 60
        found = scores(model, test)
        detail = {"steps": options.steps, "units": options.units, "curve": curve(losses, len(rows[0]))}
        title = f"optimisers-{options.data}"
        numbers = parameters(model)
        row = Row(title, options.data, name, numbers, options.seed, found, minutes, {}, detail)
        made.append(row)
        print(f"{name:12} " + ", ".join(f"{k} {v:.4f}" for k, v in found.items()), flush=True)
        write(made, options.out)
    save_figure(draw(made), options.out / f"optimisers-{options.data}.png")
    return made


if __name__ == "__main__":
    as_program(main)
