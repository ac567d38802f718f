"""Times and memory of queries: marginals beside likelihoods and beside the general recursion, exact samples.

    python benchmarks/queries.py marginals --sides 8 16 32 64 --units 8
    python benchmarks/queries.py worst --side 16 --units 2 4 8
    python benchmarks/queries.py samples --side 28 --units 8 --count 64
    python benchmarks/queries.py masks --side 28 --units 8
    python benchmarks/queries.py roots --units 16 64 256
    python benchmarks/queries.py blocks --units 100

``marginals``: half of an image is marginalised. Beside it the likelihood of whole images, and the same
marginal with a matrix at every layer, as a recursion that squares the circuit has it; with --peer PATH also
that of cirkit's integrate on its squared Hadamard circuit, imported from there. ``worst``: every other pixel
is marginalised. ``samples``: beside drawing pixel by pixel with one marginal each, measured at some pixels
and multiplied. ``masks``: many rows of one mask, and as many masks as rows. ``roots``: a mixture of products,
whose root has as many units as it has components, beside the same with a matrix at every layer.
``blocks``: a mixture of Gaussians over one block of ten variables, with random masks. All in one process; the
median of --repeats runs; memory is the peak of tensors beyond what was there before the run.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import squircuit as sq
from squircuit.inference.compile.compiled_circuit import Snapshot
from squircuit.inference.compile.schedule import Form
from squircuit.inference.evidence import Evidence, as_evidence
from squircuit.inference.marginals import sweeps
from squircuit.inference.sampling.draws import Points
from squircuit.inference.upward.batches import blocks
from squircuit.inference.upward.inputs import InputMessages
from squircuit.inference.upward.messages import Messages, log_total


def image_model(side: int, units: int, product: str, device: str) -> sq.SquaredCircuit:
    """The unitary circuit of the paper's images."""
    circuit = sq.build(sq.regions.quad_tree((side, side)), sq.Categorical(256), units, product)  # type: ignore[arg-type]
    return sq.SquaredCircuit(circuit).to(device)


def images(count: int, side: int, device: str) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, side * side), generator=generator).to(device)


def half_mask(side: int) -> Tensor:
    """The lower half of an image."""
    return torch.arange(side * side) >= side * side // 2


def checkerboard(side: int) -> Tensor:
    """Every other pixel."""
    pixels = torch.arange(side * side)
    return (pixels // side + pixels % side) % 2 == 0


def measure(run: Callable[[], object], device: str, repeats: int) -> tuple[float, float]:
    """Median seconds, and peak memory of tensors in MiB beyond what was there before."""
    run()  # warm-up: schedules, kernels
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times), (peak_on_cuda if device == "cuda" else peak_on_cpu)(run) / 2**20


def peak_on_cuda(run: Callable[[], object]) -> int:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    return torch.cuda.max_memory_allocated() - before


def peak_on_cpu(run: Callable[[], object]) -> int:
    with LiveBytes() as live:
        run()
    most: int = live.most
    return most


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of tensors that operations have made and that are still alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now, self.most, self.known = 0, 0, set[int]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in given | self.known:
                    self._add(storage)
        return out

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        self.known.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._drop, key, size)

    def _drop(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def all_matrices(model: sq.SquaredCircuit, evidence: Evidence) -> Tensor:
    """The marginal by the general recursion: a matrix at every layer, whatever is observed below it."""
    snapshot = model.snapshot()
    schedule = snapshot.schedules((Form.MATRIX,) * evidence.x.shape[1])
    rows = torch.arange(len(evidence), device=evidence.x.device)
    parts = []
    for block in blocks(rows, schedule):
        part = evidence.take(block)
        parts.append(log_total(Messages(InputMessages(snapshot, part.x, part.missing), schedule)))
    return torch.cat(parts)


def peer_marginal(path: str, side: int, units: int, mask: Tensor, device: str) -> Callable[[Tensor], Tensor]:
    """cirkit's squared Hadamard circuit over a quad-tree, integrated over the mask and compiled."""
    sys.path[:0] = [folder for folder in path.split(":") if folder not in sys.path]
    import cirkit.symbolic.functional as functional
    from cirkit.pipeline import PipelineContext, compile
    from cirkit.templates import data_modalities, utils
    from cirkit.utils.scope import Scope

    normal = utils.Parameterization(initialization="normal", dtype="complex")
    with PipelineContext(backend="torch", semiring="complex-lse-sum", fold=True, optimize=True):
        circuit = data_modalities.image_data(
            (1, side, side),
            "quad-tree-4",
            input_layer="embedding",
            num_input_units=units,
            sum_product_layer="cp-t",
            num_sum_units=units,
            input_params={"weight": normal},
            sum_weight_param=normal,
        )
        square = functional.multiply(circuit, functional.conjugate(circuit))
        hidden = Scope(torch.nonzero(mask).flatten().tolist())
        return compile(functional.integrate(square, hidden)).to(device)  # type: ignore[no-any-return]


def line(*cells: object) -> None:
    print(
        "  ".join(f"{cell:>12.4g}" if isinstance(cell, float) else f"{cell!s:>12}" for cell in cells),
        flush=True,
    )


def marginals(options: argparse.Namespace) -> None:
    line(
        "product",
        "side",
        "likelihood s",
        "MiB",
        "half s",
        "MiB",
        "ratio",
        "matrices s",
        "MiB",
        "times",
        "peer s",
        "times",
    )
    for product in options.products:
        for side in options.sides:
            model = image_model(side, options.units[0], product, options.device)
            x, mask = images(options.batch, side, options.device), half_mask(side)
            whole = measure(partial(model.log_density, x), options.device, options.repeats)
            half = measure(partial(model.log_prob, x, mask), options.device, options.repeats)
            evidence = as_evidence(model.structure, x, mask, model.device)
            general = (math.nan, math.nan)
            if side <= options.largest_general:
                general = measure(partial(all_matrices, model, evidence), options.device, 1)
            peer = math.nan
            if options.peer and product == "hadamard":
                run = peer_marginal(options.peer, side, options.units[0], mask, options.device)
                peer, _ = measure(partial(run, x), options.device, options.repeats)
            ratios = half[0] / whole[0], general[0] / half[0], peer / half[0]
            line(product, side, *whole, *half, ratios[0], *general, ratios[1], peer, ratios[2])


def worst(options: argparse.Namespace) -> None:
    """The exponent is that of K in the time from the line before: a likelihood has 5, a matrix a layer 6."""
    line("units", "likelihood s", "exponent", "worst s", "exponent", "ratio", "MiB")
    before: tuple[int, float, float] | None = None
    for units in options.units:
        model = image_model(options.sides[0], units, "kronecker", options.device)
        x, mask = images(options.batch, options.sides[0], options.device), checkerboard(options.sides[0])
        whole, _ = measure(partial(model.log_density, x), options.device, options.repeats)
        found, memory = measure(partial(model.log_prob, x, mask), options.device, options.repeats)
        exponents = [math.nan, math.nan]
        if before is not None:
            step = math.log(units / before[0])
            exponents = [math.log(whole / before[1]) / step, math.log(found / before[2]) / step]
        line(units, whole, exponents[0], found, exponents[1], found / whole, memory)
        before = (units, whole, found)


def samples(options: argparse.Namespace) -> None:
    line("samples", "walk s", "MiB", "pixelwise s", "times", "given half s", "MiB")
    side, device = options.sides[0], options.device
    model = image_model(side, options.units[0], "kronecker", device)
    for count in options.count:
        walk = measure(partial(model.sample, count, seed=0), device, options.repeats)
        drawn = model.sample(count, seed=0)
        pixelwise = side**2 * one_pixel(model, drawn, options)
        given = measure(
            partial(model.sample, count, drawn[:1], half_mask(side), seed=0), device, options.repeats
        )
        line(count, *walk, pixelwise, pixelwise / walk[0], *given)


def one_pixel(model: sq.SquaredCircuit, drawn: Tensor, options: argparse.Namespace) -> float:
    """Mean seconds to draw one pixel from its marginal given those before it, over some pixels."""
    d, times = drawn.shape[1], []
    for v in range(d // (2 * options.pixels), d, d // options.pixels):
        evidence = as_evidence(model.structure, drawn, torch.arange(d) >= v, model.device)
        times.append(measure(partial(draw_pixel, model.snapshot(), evidence, v), options.device, 1)[0])
    return statistics.mean(times)


def draw_pixel(snapshot: Snapshot, evidence: Evidence, variable: int) -> Tensor:
    """One variable of every row from its marginal."""
    points = Points.of(snapshot, variable)
    nodes = points.nodes(variable)
    found = sweeps(snapshot, evidence, nodes, frozenset())
    parts = [sweep.tables[variable][1] for sweep in found]
    return points.draw(torch.cat(parts), torch.rand(len(evidence), device=evidence.x.device).double())


def masks(options: argparse.Namespace) -> None:
    line("rows", "masks", "seconds", "MiB")
    side = options.sides[0]
    model = image_model(side, options.units[0], "kronecker", options.device)
    x = images(options.batch, side, options.device)
    random = torch.rand(options.batch, side * side, generator=torch.Generator().manual_seed(0)) < 0.5
    for number, mask in ((1, half_mask(side)), (options.batch, random)):
        line(
            options.batch, number, *measure(partial(model.log_prob, x, mask), options.device, options.repeats)
        )


def mixture_of_products(units: int, variables: int = 8, states: int = 8) -> sq.SquaredCircuit:
    """Root units that are products of one function of each variable, mixed by root weights."""
    inputs = [
        sq.Input(v, sq.Categorical(states), weight=sq.Parameter((units, states), sq.Constraint.FREE, False))
        for v in range(variables)
    ]
    circuit = sq.Circuit(
        sq.Hadamard(inputs), root_weights=sq.Parameter((units,), sq.Constraint.SIMPLEX, False)
    )
    return sq.SquaredCircuit(circuit.initialise(seed=0)).eval()


def with_matrices(model: sq.SquaredCircuit) -> sq.SquaredCircuit:
    """The same model, whose queries ask for inner products of units everywhere."""
    vars(model.plan)["squares_suffice"] = frozenset()
    return model


def roots(options: argparse.Namespace) -> None:
    """The exponent is that of the number of root units in the time from the line before."""
    line(
        "roots",
        "marginal s",
        "exponent",
        "matrices s",
        "times",
        "tables s",
        "matrices s",
        "times",
        "samples s",
    )
    before: tuple[int, float] | None = None
    for units in options.units:
        model, general = mixture_of_products(units), with_matrices(mixture_of_products(units))
        x, mask = (
            torch.randint(8, (options.batch, 8), generator=torch.Generator().manual_seed(0)),
            torch.arange(8) < 4,
        )
        found = [
            measure(partial(question, x, mask), "cpu", options.repeats)[0]
            for question in (model.log_prob, general.log_prob, model.marginals, general.marginals)
        ]
        drawn, _ = measure(partial(model.sample, options.batch, seed=0), "cpu", options.repeats)
        exponent = (
            math.nan if before is None else math.log(found[0] / before[1]) / math.log(units / before[0])
        )
        line(units, found[0], exponent, found[1], found[1] / found[0], *found[2:], found[3] / found[2], drawn)
        before = (units, found[0])


def gaussian_mixture(units: int, variables: int = 10) -> sq.SquaredCircuit:
    """A mixture of Gaussians with full covariances."""
    generator = torch.Generator().manual_seed(0)
    roots = 0.3 * torch.randn(units, variables, variables, generator=generator, dtype=torch.float64)
    covariances = roots @ roots.mT + 0.1 * torch.eye(variables, dtype=torch.float64)
    means = 2 * torch.randn(units, variables, generator=generator, dtype=torch.float64)
    family = sq.MultivariateGaussian.of(means.tolist(), covariances.tolist(), learnable=True)
    pi = sq.Parameter((units,), sq.Constraint.SIMPLEX, False)
    circuit = sq.Circuit(sq.Input(tuple(range(variables)), family), root_weights=pi)
    return sq.SquaredCircuit(circuit.initialise(seed=0)).eval()


def blocks_of_variables(options: argparse.Namespace) -> None:
    """10,000 rows; means of 5,000 rows with a tenth missing; half of the cells missing elsewhere."""
    line("components", "samples s", "log_prob s", "masked s", "means s", "given s")
    for units in options.units:
        model, generator = gaussian_mixture(units), torch.Generator().manual_seed(0)
        x = model.sample(10_000, seed=0)
        half, tenth = (torch.rand(x.shape, generator=generator) < share for share in (0.5, 0.1))
        questions: list[Callable[[], object]] = [
            partial(model.sample, len(x), seed=0),
            partial(model.log_prob, x),
            partial(model.log_prob, x, half),
            partial(model.impute, x[:5000], tenth[:5000], how="mean"),
            partial(model.sample, 1, x[:2000], half[:2000], seed=0),
        ]
        line(units, *(measure(question, "cpu", options.repeats)[0] for question in questions))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("marginals", "worst", "samples", "masks", "roots", "blocks"))
    parser.add_argument("--sides", "--side", type=int, nargs="+", default=[28])
    parser.add_argument("--units", type=int, nargs="+", default=[8])
    parser.add_argument("--products", nargs="+", default=["kronecker", "hadamard"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--count", type=int, nargs="+", default=[64])
    parser.add_argument("--pixels", type=int, default=8, help="pixels at which a pixelwise draw is timed")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--largest-general", type=int, default=32, help="largest side with matrices everywhere"
    )
    parser.add_argument("--peer", help="folders with cirkit and what it imports, separated by colons")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    where = (
        torch.cuda.get_device_name()
        if options.device == "cuda"
        else f"CPU, {torch.get_num_threads()} threads"
    )
    print(f"{options.what}, batch {options.batch}, units {options.units}, {where}, torch {torch.__version__}")
    with torch.no_grad():
        questions = {
            "marginals": marginals,
            "worst": worst,
            "samples": samples,
            "masks": masks,
            "roots": roots,
        }
        questions["blocks"] = blocks_of_variables
        questions[options.what](options)


if __name__ == "__main__":
    main()
