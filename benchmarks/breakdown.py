"""Where the time of one training step goes: kernels by part of the step, from ``torch.profiler``.

    python benchmarks/breakdown.py --suite squared --top 8
    OMP_NUM_THREADS=2 python benchmarks/breakdown.py --suite cpu --device cpu

On a CUDA device the times are those of kernels, so that launches do not count; on a CPU of operators
without what they call. The step is not captured in a graph: a graph runs the same kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

import peers
from peers import Training
from report import machine
from setups import Setup
from step import checked, parser_of


@dataclass(frozen=True)
class Spent:
    """What one kernel or operator took in one part of the step."""

    part: str
    name: str
    calls: int
    ms: float


def parts(training: Training, x: torch.Tensor) -> Iterator[tuple[str, Callable[[], object]]]:
    """The step cut in three, to be called in this order."""
    training.optimiser.zero_grad(set_to_none=True)
    losses: list[torch.Tensor] = []
    yield "forward", lambda: losses.append(training.loss(x))
    yield "backward", lambda: losses[-1].backward()  # type: ignore[no-untyped-call]
    yield "optimiser", training.optimiser.step


def spent(training: Training, x: torch.Tensor, repeats: int) -> list[Spent]:
    """Every kernel (on a CPU: operator) of every part, the mean of several steps, longest first."""
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for _ in range(repeats):
        for part, call in parts(training, x):
            for name, calls, ms in _profiled(call, x.is_cuda):
                before = found.get((part, name), (0, 0.0))
                found[part, name] = before[0] + calls, before[1] + ms
    rows = [Spent(*key, calls // repeats, ms / repeats) for key, (calls, ms) in found.items()]
    return sorted(rows, key=lambda row: -row.ms)


def _profiled(call: Callable[[], object], cuda: bool) -> list[tuple[str, int, float]]:
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as seen:
        call()
        if cuda:
            torch.cuda.synchronize()
    events = list(seen.key_averages())
    times = [event.self_device_time_total if cuda else event.self_cpu_time_total for event in events]
    return [(event.key, event.count, 1e-3 * us) for event, us in zip(events, times, strict=True) if us > 0]


def table(rows: Sequence[Spent], top: int) -> str:
    """The longest kernels of each part under the part's sum."""
    lines = [f"  together {_sums(rows)}"]
    for part in ("forward", "backward", "optimiser"):
        mine = [row for row in rows if row.part == part]
        lines.append(f"  {part} {_sums(mine)}")
        lines += [f"  {row.ms:10.3f} ms {row.calls:5d} × {_short(row.name)}" for row in mine[:top]]
    return "\n".join(lines)


def _sums(rows: Sequence[Spent]) -> str:
    return f"{sum(row.ms for row in rows):.2f} ms, {sum(row.calls for row in rows)} calls"


def _short(name: str, length: int = 110) -> str:
    name = name.removeprefix("void ").replace("at::native::", "")
    return name if len(name) <= length else name[: length - 1] + "…"


def measure(peer: str, setup: Setup, repeats: int, warm_up: int, folders: dict[str, str]) -> list[Spent]:
    """Warm-up steps, then the profile of the next."""
    torch.manual_seed(0)
    training, x = peers.load(peer, folders)(setup), setup.data()
    for _ in range(warm_up):
        training.step(x)
    return spent(training, x, repeats)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.set_defaults(repeats=3)
    parser.add_argument("--top", type=int, default=8, help="kernels shown of each part")
    options = checked(parser, arguments)
    folders = {"cirkit": options.cirkit, "prototype": options.prototype}
    print(machine(options.device))
    for setup in options.setups:
        for peer in options.peer or ["ours"]:
            rows = measure(peer, setup, options.repeats, options.warm_up, folders)
            print(f"\n{setup.describe()}, {peer}\n{table(rows, options.top)}", flush=True)


if __name__ == "__main__":
    main()
