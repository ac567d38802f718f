"""What several GPUs would take: a prediction from kernels measured on one, and published bandwidths.

    python benchmarks/scale.py --predict

A step is the network's time, the optimiser's time and the time to send, one after the other (nothing is
hidden behind anything else). The network reads weights and gradients three times, whatever the rows, and the
rest of its time is in proportion to the rows of a process. The optimiser's time is that of all matrices, or
1/N of it where they are shared. W bytes go at the bandwidth of NVLink within a machine of 8 GPUs, and between
machines each GPU sends its eighth by its own network card; each collective begins with a latency that grows
with log N. Nothing of this has been measured on several GPUs.

The way "folds" is not built: each GPU would have the sums over one part of the image, for all rows, and only
what the roots of the parts find, and its gradient, would travel; the sums above the parts are computed by one
GPU for all rows. It needs that nothing is tied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MEMORY = 141e9
"""Bytes of an H200 (published)."""
HBM = 3.0e12
"""Bytes a second that kernels reach on an H200 (measured: 2.7 to 3.2, docs/performance.md; published 4.8)."""
NVLINK = 450e9
"""Bytes a second that a GPU sends to those of its machine (published: 900 both ways)."""
NETWORK = 50e9
"""Bytes a second that a GPU sends to other machines (published: 400 Gbit/s of InfiniBand NDR a card)."""
LATENCY = 10e-6
"""Seconds that a collective takes however little it sends, for each doubling of the GPUs (assumed)."""
MACHINE = 8
SUMS = 261
"""Sums of a quad-tree over 28×28 pixels."""
WAYS = ("none", "optimiser", "weights")
SIZES = (1, 8, 16, 64, 256, 1024)


@dataclass(frozen=True)
class Kernels:
    """One training step as it was measured on one H200 (docs/performance.md, batch 256, 28×28).

    Args:
        weights: complex numbers of eight bytes.
        network, optimiser: seconds.
        activations: bytes for 256 rows: the peak that was measured, less four times the weights.
        units: K.
        stacks: of weights that are sent apart.
    """

    name: str
    weights: float
    network: float
    optimiser: float
    activations: float
    units: int
    stacks: int = 6

    @property
    def bytes(self) -> float:
        return 8 * self.weights

    def larger(self, factor: float) -> Kernels:
        """A model of so many times the weights at the same rates, and activations that grow by the root."""
        name, root = f"{self.name} × {factor:g}", math.sqrt(factor)
        grown = (self.weights * factor, self.network * factor, self.optimiser * factor)
        return Kernels(name, *grown, self.activations * root, self.units, self.stacks)


MEASURED = (
    Kernels("unitary Kronecker K = 8", 10.1e6, 1.12e-3, 0.54e-3, 0.68e9, 8),
    Kernels("unitary Kronecker K = 16", 273.8e6, 9.2e-3, 5.8e-3, 2.2e9, 16),
    Kernels("unitary Hadamard K = 256", 68.7e6, 4.3e-3, 11.0e-3, 1.2e9, 256),
)


def sending(amount: float, size: int) -> float:
    """Seconds in which every GPU gets all parts of so many bytes, or the sum of its part of them."""
    if size == 1:
        return 0.0
    local = min(size, MACHINE)
    machines = size // local
    within = amount * (local - 1) / local / NVLINK
    return within + amount / local * (machines - 1) / machines / NETWORK + LATENCY * math.log2(size)


def step(kernels: Kernels, size: int, way: str, rows: float) -> float:
    """Seconds of a step in which each GPU has so many rows."""
    fixed = min(3 * kernels.bytes / HBM, kernels.network)
    network = fixed + (kernels.network - fixed) * rows / 256
    optimiser = kernels.optimiser / (1 if way == "none" else size)
    begin = LATENCY * math.log2(size)
    if way == "none":  # one collective in place of two
        return network + optimiser + 2 * sending(kernels.bytes, size) - begin
    if way == "optimiser":
        return network + optimiser + 2 * sending(kernels.bytes, size)
    pieces = kernels.stacks * min(size, MACHINE)  # each begins with its latency
    return network + optimiser + 3 * sending(kernels.bytes, size) + 3 * pieces * begin


def step_of_folds(kernels: Kernels, size: int, rows: float) -> float:
    """Seconds of a step in which each GPU has a part of the image, quarters of quarters, of all rows."""
    fixed = min(3 * kernels.bytes / HBM, kernels.network)
    for_rows = (kernels.network - fixed) * rows / 256
    above = for_rows * size * (size - 1) / 3 / SUMS
    travels = 2 * 8 * kernels.units * rows * size
    bandwidth = NVLINK if size <= MACHINE else NETWORK
    begin = 2 * LATENCY * math.log2(size)
    return fixed / size + for_rows + above + kernels.optimiser / size + travels / bandwidth + begin


def memory(kernels: Kernels, size: int, way: str, rows: float) -> float:
    """Bytes of a GPU: weights, gradients, the optimiser's state, the best weights; and activations."""
    held = {"none": 4.0, "optimiser": 3 + 1 / size, "weights": 4 / size + 2 * 0.5 / size}[way]
    return held * kernels.bytes + kernels.activations * rows / 256


def best(kernels: Kernels, size: int, rows: float) -> str:
    """The fastest way that fits, or "–"."""
    fitting = [way for way in WAYS if memory(kernels, size, way, rows) < MEMORY]
    return min(fitting, key=lambda way: step(kernels, size, way, rows), default="–")


def predict() -> None:
    """Print the prediction."""
    print("A prediction, from kernels measured on one H200 and published bandwidths; see prediction.py.")
    for kernels in MEASURED:
        print(f"\n{kernels.name}, {kernels.bytes / 1e9:.2f} GB of weights, 256 rows on each GPU")
        print(
            "  GPUs  "
            + "  ".join(f"{way:>9} ms  times" for way in WAYS)
            + "   GB sent  fastest    (folds ms)"
        )
        for size in SIZES:
            shown = []
            for way in WAYS:
                seconds = step(kernels, size, way, 256)
                shown.append(f"{1e3 * seconds:12.2f}  {size * step(kernels, 1, 'none', 256) / seconds:5.0f}")
            sent, folds = 2 * (size - 1) / size * kernels.bytes / 1e9, step_of_folds(kernels, size, 256)
            shown += [f"{sent:7.2f}  {best(kernels, size, 256):9}  {1e3 * folds:10.2f}"]
            print(f"  {size:4}  " + "  ".join(shown))
    print("\nThe largest model that fits, in 10⁹ weights, and from which size on each way is the fastest one")
    print("(models larger than unitary Kronecker K = 16 at its rates, 256 rows on each GPU)")
    print("  GPUs  " + "  ".join(f"{way:>9}" for way in WAYS) + "   fastest from 10⁹ weights on")
    for size in SIZES[1:]:
        largest = "  ".join(f"{limit(size, way):9.1f}" for way in WAYS)
        print(f"  {size:4}  {largest}   {', '.join(f'{way} {start:.3g}' for way, start in wins(size))}")


def limit(size: int, way: str) -> float:
    """The largest model that fits in this way, in 10⁹ weights."""
    factors = [1.02**n / 1000 for n in range(1000)]
    fitting = [f for f in factors if memory(MEASURED[1].larger(f), size, way, 256) < MEMORY]
    return max(fitting) * MEASURED[1].weights / 1e9


def wins(size: int) -> list[tuple[str, float]]:
    """The fastest way that fits, and the size in 10⁹ weights from which on it is that."""
    found: list[tuple[str, float]] = []
    for factor in (1.02**n / 1000 for n in range(1000)):
        kernels = MEASURED[1].larger(factor)
        way = best(kernels, size, 256)
        if not found or found[-1][0] != way:
            found.append((way, kernels.weights / 1e9))
    return [(way, start) for way, start in found if way != "–"]
