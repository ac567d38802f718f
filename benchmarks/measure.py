"""One peer on one model: measured here, or in a process of its own so that memory and failures stay apart.

echo '{"peer": "ours", "setup": {"units": 4}, "plan": {"repeats": 5}}' | python benchmarks/measure.py
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

import peers
from setups import Setup
from squircuit.execution.cuda_graph import CapturedStep
from timing import peak_gib, reset_peak, time_calls


@dataclass(frozen=True)
class Plan:
    """How to measure: warm-up steps, measured steps, where peers that are not installed lie, for how long."""

    repeats: int = 20
    warm_up: int = 5
    folders: dict[str, str] = field(default_factory=dict)
    isolate: bool = True
    limit: float = 180.0  #: seconds of a process of its own
    busy: bool = False  #: on a CPU, milliseconds of work of the process in place of those that pass


@dataclass
class Row:
    """What came out: milliseconds of every step, of the optimiser alone, peak memory; or why nothing did."""

    peer: str
    setup: Setup
    times: list[float] = field(default_factory=list)
    optimiser_times: list[float] = field(default_factory=list)
    gib: float = float("nan")
    loss: float = float("nan")
    problem: str = ""
    note: str = ""

    @property
    def ms(self) -> float:
        return statistics.median(self.times) if self.times else float("nan")

    @property
    def optimiser_ms(self) -> float:
        return statistics.median(self.optimiser_times) if self.optimiser_times else float("nan")

    @property
    def least(self) -> float:
        return min(self.times, default=float("nan"))

    @property
    def optimiser_least(self) -> float:
        return min(self.optimiser_times, default=float("nan"))

    @property
    def quartiles(self) -> tuple[float, float]:
        if len(self.times) < 2:
            return self.ms, self.ms
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return low, high

    def as_dict(self) -> dict[str, Any]:
        low, high = self.quartiles
        summary = {"ms": self.ms, "ms_quartiles": [low, high], "ms_optimiser": self.optimiser_ms}
        return {**asdict(self), **summary}


def measure(peer: str, setup: Setup, plan: Plan) -> Row:
    """One row; a peer that cannot be imported, lacks the model or fails says so in it."""
    peers.check_name(peer)
    setup = setup.with_(graph="graph" in peer.partition("=")[0].split("-"))
    return _in_own_process(peer, setup, plan) if plan.isolate else _guarded(peer, setup, plan)


def _measure(peer: str, setup: Setup, plan: Plan) -> Row:
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = setup.tf32
    reset_peak(setup.device)
    training = peers.load(peer, plan.folders)(setup)
    x = setup.data()
    step = CapturedStep(training.step, x) if setup.graph else training.step
    cuda = x.is_cuda
    for _ in range(plan.warm_up):
        loss = step(x)
    times = time_calls(lambda: step(x), plan.repeats, cuda, plan.busy)
    gib, alone = peak_gib(setup.device), []
    if not setup.graph:
        alone = time_calls(training.optimiser.step, plan.repeats, cuda, plan.busy)
    return Row(peer.partition("=")[0], setup, times, alone, gib, float(loss), note=training.note)


def _guarded(peer: str, setup: Setup, plan: Plan) -> Row:
    label = peer.partition("=")[0]
    try:
        return _measure(peer, setup, plan)
    except ImportError as error:
        base = label.split("-")[0]
        advice = f"give --{base} PATH" if base in ("cirkit", "prototype") else "install it"
        return Row(label, setup, problem=f"not importable: {advice} ({error})")
    except peers.UnsupportedError as error:
        return Row(label, setup, problem=f"not offered: {error}")
    except Exception as error:  # one peer's failure must not stop the others
        return Row(label, setup, problem=f"{type(error).__name__}: {_first_line(error)}")
    finally:
        gc.collect()


def _in_own_process(peer: str, setup: Setup, plan: Plan) -> Row:
    request = {"peer": peer, "setup": setup.as_dict(), "plan": asdict(plan)}
    source = str(Path(sys.modules["squircuit"].__file__ or "").parents[1])
    base = peer.split("-")[0]  # its folder comes first: torch looks for opt_einsum when it is imported
    folders = [plan.folders.get(base), source, os.environ.get("PYTHONPATH")]
    path = os.pathsep.join(filter(None, folders))
    try:
        done = subprocess.run(
            [sys.executable, __file__],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            timeout=plan.limit,
        )
    except subprocess.TimeoutExpired:
        return Row(peer.partition("=")[0], setup, problem=f"no result in {plan.limit:g} s")
    if done.returncode or not done.stdout.strip():
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return Row(peer.partition("=")[0], setup, problem=f"process ended with {done.returncode}: {reason}")
    answer = json.loads(done.stdout.splitlines()[-1])
    return Row(**{**answer, "setup": Setup(**answer["setup"])})


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:160]


def main() -> None:
    request = json.load(sys.stdin)
    row = _guarded(request["peer"], Setup(**request["setup"]), Plan(**request["plan"]))
    print(json.dumps(asdict(row)))


if __name__ == "__main__":
    main()
