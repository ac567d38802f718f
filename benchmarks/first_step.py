"""How long a user waits for the first step of a preset, and what each part of it takes.

    python benchmarks/first_step.py --data mnist --folder FOLDER
    TRITON_CACHE_DIR=$(mktemp -d) python benchmarks/first_step.py --data mnist   # as on the first run ever

Seconds for importing, reading, drawing the weights, moving them to the device, everything between that and
the first step, and the first step, in which kernels are compiled and a CUDA graph is captured; then the
median of later steps. With ``--queries`` also 1,000 samples and 100 half images completed, three times each.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

STARTED = time.perf_counter()

import torch  # noqa: E402 - the import is part of what is measured

import squircuit as sq  # noqa: E402
from squircuit import presets  # noqa: E402
from squircuit.training.callbacks import Callback, Event  # noqa: E402

IMPORTED = time.perf_counter()
STEPS = 100


class Enough(Exception):  # noqa: N818  (no error)
    """Some steps have been taken."""


class Steps(Callback):
    """Notes the time of every step and ends the training after `STEPS` more than the first."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def step(self, event: Event) -> None:
        self.times.append(now())
        if len(self.times) > STEPS:
            raise Enough


def now() -> float:
    """Seconds, when the device has done what it was asked."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="mnist", help="a data set that has the preset")
    parser.add_argument("--folder", help="of the data")
    parser.add_argument("--preset", default="best")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--queries", action="store_true", help="samples and completions, too")
    options = parser.parse_args()
    shown("imports", STARTED)
    data = timed("data", lambda: sq.data.load(options.data, options.folder))
    chosen = presets.load(options.preset, options.data)
    model = timed("weights", lambda: sq.model_for(data, seed=0, **chosen["model"]))
    model = timed(f"to {options.device}", lambda: model.to(options.device))
    steps, started = Steps(), now()
    with suppress(Enough):
        sq.fit(model, data, seed=0, progress=False, callbacks=[steps], **chosen["training"])
    print(f"{'first step':24} {steps.times[0] - started:7.2f} s")
    print(f"{'all, without imports':24} {steps.times[0] - IMPORTED:7.2f} s")
    later = [after - before for before, after in pairwise(steps.times)]
    print(f"{'later steps, median':24} {1000 * statistics.median(later):7.2f} ms")
    if options.queries:
        queries(model.eval(), torch.as_tensor(data.test[:100]).reshape(100, -1).to(options.device))


def queries(model: sq.SquaredCircuit, rows: torch.Tensor) -> None:
    """Samples, and the lower halves of images, each three times."""
    lower = torch.arange(rows.shape[1]) >= rows.shape[1] // 2
    for seed in range(3):
        timed("1,000 samples", partial(model.sample, 1000, seed=seed))
    for seed in range(3):
        timed("100 half images", partial(model.impute, rows, missing=lower, how="sample", seed=seed))


def timed(what: str, work: Callable[[], Any]) -> Any:
    """What some work gives; its time is shown."""
    started = now()
    found = work()
    shown(what, started)
    return found


def shown(what: str, started: float) -> None:
    print(f"{what:24} {now() - started:7.2f} s", flush=True)


if __name__ == "__main__":
    main()
