"""The paper's figure of 2-D densities (appendix "Continuous Input Features"), with the exact KL it lacks.

Spinner and spiral, a thousand steps on fresh batches of 1,024 points with noise N(0, 0.1²): a squared circuit
with Gaussian inputs, and {squared, unitary} × {Hadamard, Kronecker} with Fourier inputs, trained as in the
paper (Adam at 0.001, LandingPC at 0.01), and once more with what this library trains with by default.

KL(p ‖ q) = ∫ p log p/q is exact: the density p of the noisy points is known (an integral over one variable),
q is the model's, and the trapezoidal rule on a periodic domain converges faster than any power.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import ive

import squircuit as sq
from record import Row, arguments_of, parameters, save_figure, write
from record import run as as_program
from squircuit.circuits.build import Product

NOISE, BATCH = 0.1, 1024
PERIODS = {"spinner": 6.0, "spiral": 12.0}
REACH = {"spinner": 5.5, "spiral": 9.7}
"""Further from the origin than this, eight standard deviations out, there is nothing."""
SAMPLES = {"spinner": sq.data.spinner, "spiral": sq.data.spiral}
Points = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """One panel of the figure."""

    name: str
    inputs: str  # "gaussian" or "fourier"
    product: Product
    unitary: bool
    units: int
    optimiser: str
    lr: float

    def build(self, period: float, seed: int) -> sq.SquaredCircuit:
        """Over two variables on [−P/2, P/2)."""
        family: sq.Family = sq.Fourier(self.units, period=period, learnable=True)
        if self.inputs == "gaussian":
            spots = tuple(np.linspace(-period / 3, period / 3, self.units).tolist())
            family = sq.Gaussian(self.units, loc=spots, scale=period / self.units)
        circuit = sq.build(
            sq.regions.balanced_tree(2), family, self.units, self.product, unitary=self.unitary
        )
        return sq.SquaredCircuit(circuit, seed=seed)


PAPER = [
    Model("± Hadamard, Gaussian", "gaussian", "hadamard", False, 7, "adam", 0.001),
    Model("± Hadamard, Fourier", "fourier", "hadamard", False, 7, "adam", 0.001),
    Model("± Kronecker, Fourier", "fourier", "kronecker", False, 21, "adam", 0.001),
    Model("⊥ Hadamard, Fourier", "fourier", "hadamard", True, 21, "landing-pc", 0.01),
    Model("⊥ Kronecker, Fourier", "fourier", "kronecker", True, 21, "landing-pc", 0.01),
]
OURS = [
    Model("± Hadamard, Gaussian, tuned", "gaussian", "hadamard", False, 21, "adam", 0.02),
    Model("± Kronecker, Fourier, tuned", "fourier", "kronecker", False, 21, "adam", 0.02),
    Model("⊥ Hadamard, Fourier, Polar", "fourier", "hadamard", True, 21, "polar", 0.1),
    Model("⊥ Kronecker, Fourier, Polar", "fourier", "kronecker", True, 21, "polar", 0.1),
]


# ---------------------------------------------------------------------- the truth


def spinner_density(points: Points) -> Points:
    """p of the noisy spinner: three rings, each ∫ N(r; 1, 0.26²) · (mean of N(x; r e^{iθ}, σ²) over θ) dr."""
    centres = sq.data.synthetic.SHIFT * np.array([[-1.0, -1.0], [1.0, -1.0], [0.0, 1.0]])
    rings: Points = np.mean([_ring_density(points - centre) for centre in centres], axis=0)
    return rings


def _ring_density(points: Points) -> Points:
    distance = np.linalg.norm(points, axis=1)[:, None]
    r, weights = _panel(1 - 8 * 0.26, 1 + 8 * 0.26, 160)
    radial = np.exp(-(((r - 1) / 0.26) ** 2) / 2) / (0.26 * math.sqrt(2 * math.pi))
    variance = NOISE**2
    bessel = ive(0, distance * np.abs(r) / variance)  # I₀ · exp(−|…|)
    kernel = np.exp(-((distance - np.abs(r)) ** 2) / (2 * variance)) * bessel / (2 * math.pi * variance)
    return np.asarray((kernel * radial) @ weights)


def spiral_density(points: Points) -> Points:
    """p of the noisy spiral: normal distributions along three arms, integrated over u in [0, 1]."""
    u, weights = _panel(0.0, 1.0, 160)
    total = np.zeros(len(points))
    for start in (0.0, 2 * math.pi / 3, 4 * math.pi / 3):
        angle, radius = math.pi * u + start, 1.5 * math.pi * u
        variance = (0.5 * u + 0.1) ** 2 + NOISE**2
        x, y = radius * np.cos(angle), radius * np.sin(angle)
        square = (points[:, :1] - x) ** 2 + (points[:, 1:] - y) ** 2
        total += (np.exp(-square / (2 * variance)) / (2 * math.pi * variance)) @ weights / 3
    return total


def _panel(low: float, high: float, count: int) -> tuple[Points, Points]:
    """Gauss–Legendre points and weights on [low, high]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (high + low) / 2 + (high - low) / 2 * nodes, (high - low) / 2 * weights


DENSITIES: dict[str, Callable[[Points], Points]] = {"spinner": spinner_density, "spiral": spiral_density}


def grid(period: float, side: int) -> Points:
    """side² points of the periodic square."""
    axis = -period / 2 + period / side * np.arange(side)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)


def wrapped_density(data: str, points: Points) -> Points:
    """p on the torus: the few points beyond the square come in on the other side."""
    period, total = PERIODS[data], np.zeros(len(points))
    for shift in ((a * period, b * period) for a in (-1, 0, 1) for b in (-1, 0, 1)):
        moved = points + np.array(shift)
        near = np.linalg.norm(moved, axis=1) < REACH[data]
        total[near] += DENSITIES[data](moved[near])
    return total


def divergence(truth: Points, log_q: Points, area: float) -> float:
    """KL(p ‖ q) in nats on a grid with cells of one area."""
    inside = truth > 0
    return float((truth[inside] * (np.log(truth[inside]) - log_q[inside])).sum() * area)


# ---------------------------------------------------------------------- the experiment


def wrapped(points: Points, period: float) -> Points:
    return (points + period / 2) % period - period / 2


def train(model: sq.SquaredCircuit, spec: Model, data: str, steps: int, seed: int) -> float:
    """A thousand fresh batches: one epoch of that many points. Returns minutes."""
    period = PERIODS[data]
    points = wrapped(SAMPLES[data](steps * BATCH, seed=seed + 1, noise=NOISE), period)
    valid = wrapped(SAMPLES[data](2000, seed=seed + 2, noise=NOISE), period)
    started = time.monotonic()
    sq.fit(
        model, points, valid, epochs=1, batch=BATCH, optimiser=spec.optimiser, lr=spec.lr, lr_free=0.01,
        warm_up=0.0, final_lr=0.0, seed=seed, progress=False,
    )  # fmt: skip
    return (time.monotonic() - started) / 60


def run(spec: Model, data: str, steps: int, seed: int, side: int) -> tuple[Row, Points]:
    """Train and score one model; also its density on the grid, (side, side)."""
    period = PERIODS[data]
    model = spec.build(period, seed)
    minutes = train(model, spec, data, steps, seed)
    points = grid(period, side)
    with torch.no_grad():
        log_q = (
            torch.cat([model.log_prob(p) for p in torch.split(torch.from_numpy(points), 20000)])
            .double()
            .numpy()
        )
        test = torch.from_numpy(wrapped(SAMPLES[data](20000, seed=seed + 3, noise=NOISE), period))
        scores = {
            "kl": divergence(wrapped_density(data, points), log_q, (period / side) ** 2),
            "test_ll": model.log_prob(test).double().mean().item(),
            "log_z": model.log_partition().item(),
        }
    options = {"optimiser": spec.optimiser, "lr": spec.lr, "units": spec.units, "steps": steps}
    row = Row("densities", data, spec.name, parameters(model), seed, scores, minutes, {}, options)
    return row, np.exp(log_q).reshape(side, side)


def draw(panels: dict[tuple[str, str], Points], rows: list[Row], columns: int = 5) -> Figure:
    """The figure: for each data set the truth and the models, with the exact KL of each."""
    figure = Figure(figsize=(1.9 * columns, 2.1 * math.ceil(len(panels) / columns)), layout="constrained")
    axes = figure.subplots(math.ceil(len(panels) / columns), columns, squeeze=False).flatten()
    found = {(row.data, row.model): row.scores["kl"] for row in rows}
    for axis in axes:
        axis.set_axis_off()
    for axis, ((data, name), density) in zip(axes, panels.items(), strict=False):
        axis.imshow(density.T, origin="lower", cmap="magma", vmin=0, vmax=panels[data, "truth"].max())
        words = data if name == "truth" else f"{name}\nKL {found[data, name]:.4f}"
        axis.set_title(words, fontsize=8)
    return figure


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--side", type=int, default=160, help="of the grid of the quadrature and the picture")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    panels: dict[tuple[str, str], Points] = {}
    for data, period in PERIODS.items():
        points = grid(period, options.side)
        panels[data, "truth"] = wrapped_density(data, points).reshape(options.side, -1)
        for spec in [*PAPER, *OURS]:
            row, panels[data, spec.name] = run(spec, data, options.steps, options.seed, options.side)
            rows.append(row)
            shown = ", ".join(f"{k} {v:.5f}" for k, v in row.scores.items())
            print(
                f"{data:8} {spec.name:32} {row.params:6} parameters: {shown}, {row.minutes:.1f} min",
                flush=True,
            )
    print(f"wrote {write(rows, options.out)}")
    save_figure(draw(panels, rows), options.out / "densities.png", dpi=75)
    return rows


if __name__ == "__main__":
    as_program(main)
