"""Kill training at random moments, resume it, and compare the end with that of a run left alone.

    OMP_NUM_THREADS=1 python fuzz/kills.py --kills 100 --seed 0

A small table is fitted by `squircuit fit … --run FOLDER --resume` in a process of its own, which is ended by
SIGKILL: while it starts, between steps, and while a checkpoint is being written. It is started again until it
has finished; then another run begins, until there were as many kills as asked for. Every finished run must
have the same weights, bit for bit, the same history but for its times, and no temporary file may be left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import torch._dynamo  # which an optimiser would import in every copy

from squircuit import storage
from squircuit.cli import app

SRC = Path(storage.__file__).resolve().parents[2]
FILES = ["best.safetensors", "checkpoint.safetensors", "config.json", "history.jsonl"]
OPTIONS = ("--units", "2", "--batch", "16", "--set", "size=6", "--set", "average=0.9", "--set", "jitter=0.05",
           "--set", "progress=false", "--set", "checkpoint_minutes=0")  # fmt: skip
LONGEST = 0.8
"""Seconds of training before a kill, at most."""
OFTEN = 0.002
"""Seconds between two looks for a file that is being written."""


def main() -> None:
    """Kill as often as asked for, and print what happened; exit code 1 if an end differs."""
    parser = argparse.ArgumentParser(description="Kill and resume training; the end must be the same.")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--fork",
        action="store_true",
        help="copies of this process in place of new ones: faster",
    )
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = run(Path(place), wanted.kills, wanted.epochs, wanted.seed, wanted.fork)
    print(json.dumps(found, indent=2))
    sys.exit(1 if found["faults"] else 0)


def run(place: Path, kills: int, epochs: int, seed: int, fork: bool = False) -> dict[str, Any]:
    """Runs in a folder, killed so many times in all; what happened, with a list of faults."""
    rng = random.Random(seed)
    (place / "table.csv").write_text(table(seed), encoding="utf-8")
    started = time.monotonic()
    whole = start(place / "whole", epochs, fork)
    assert whole.wait() == 0, "the run that is left alone failed"
    expected, faults, moments, runs = outcome(place / "whole"), [], Counter[str](), 0
    while sum(moments.values()) < kills:
        runs += 1
        folder = place / f"run{runs}"
        before = sum(moments.values())
        code = finish(folder, epochs, rng, fork, kills, moments)
        print(
            f"run {runs}: {sum(moments.values()) - before} kills, {sum(moments.values())} in all",
            file=sys.stderr,
        )
        if code != 0:
            faults.append(f"run {runs}: exit code {code}: {(folder / 'errors').read_text()[-500:]}")
        else:
            faults += [f"run {runs}: {fault}" for fault in differences(folder, expected)]
    return {"kills": sum(moments.values()), "runs": runs, "moments": dict(moments), "faults": faults,
            "seconds": round(time.monotonic() - started, 1)}  # fmt: skip


def table(seed: int, rows: int = 200) -> str:
    """A table of a category, a count, a number and an angle, with gaps, as CSV."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=rows)
    columns = [
        np.array(["a", "b", "c"])[group], rng.poisson(2, rows).astype(str),
        np.round(rng.normal(group, 1.0), 3).astype(str), np.round(rng.uniform(0, 360, rows), 1).astype(str),
    ]  # fmt: skip
    cells = np.where(rng.random((rows, 4)) < 0.1, "", np.stack(columns, axis=1))
    return "\n".join(",".join(row) for row in [["group", "count", "size", "wind"], *cells.tolist()]) + "\n"


class Process(Protocol):
    """What is needed of a process: that of `subprocess`, or a copy of this one."""

    def poll(self) -> int | None: ...
    def wait(self) -> int: ...
    def kill(self) -> None: ...


class Copy:
    """The program in a copy of this process, which has torch already: it begins at once.

    Args:
        words: of the command.
        folder: where it runs.
        errors: the file there of what it says on standard error.
        env: variables that it has besides.
    """

    def __init__(
        self, words: Sequence[str], folder: Path, errors: str = "errors", env: Mapping[str, str] | None = None
    ) -> None:
        self._code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.environ.update(env or {})
            self._become(words, folder, errors)

    def _become(self, words: Sequence[str], folder: Path, file: str) -> None:
        os.chdir(folder)
        with open(file, "wb") as errors, open(os.devnull, "wb") as nowhere:
            os.dup2(errors.fileno(), 2)
            os.dup2(nowhere.fileno(), 1)
        try:
            app(list(words), prog_name="squircuit")
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else 1)
        finally:
            os._exit(1)

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self) -> int:
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def kill(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)


def start(folder: Path, epochs: int, fork: bool) -> Process:
    """The program in a folder of its own, so that its command is the same in every run."""
    folder.mkdir(exist_ok=True)
    out = ("--out", "model.safetensors", "--run", "run", "--resume")
    words = ["fit", "../table.csv", *out, *OPTIONS, "--epochs", str(epochs)]
    if fork:
        return Copy(words, folder)
    env = os.environ | {"PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    with (folder / "errors").open("wb") as errors:
        command = [sys.executable, "-m", "squircuit", *words]
        return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=errors)


def finish(
    folder: Path, epochs: int, rng: random.Random, fork: bool, kills: int, moments: Counter[str]
) -> int:
    """Kill a run and start it again until it ends by itself, or has been killed often enough."""
    while True:
        process = start(folder, epochs, fork)
        if sum(moments.values()) >= kills:
            return process.wait()
        moment = wait(process, folder / "run", rng, 0.5 if fork else 4.0)
        code = process.poll()
        if code is not None:
            return code
        process.kill()
        process.wait()
        moments[moment] += 1


def wait(process: Process, folder: Path, rng: random.Random, start: float) -> str:
    """Wait for a moment to kill, or for the end of the process; which kind of moment it is.

    Args:
        process: that trains, and may begin to.
        folder: of its run.
        rng: draws the moment.
        start: seconds that it needs until it trains, about.
    """
    kind = rng.choices(["at the start", "between", "while writing"], [1, 4, 3])[0]
    if kind == "at the start":
        pause(process, rng.uniform(0, start))
        return kind
    known = modified(folder)
    while process.poll() is None and modified(folder) == known:  # until it has begun to train
        time.sleep(OFTEN)
    pause(process, rng.uniform(0, LONGEST))
    while kind == "while writing" and process.poll() is None and not any(folder.glob(".*.tmp")):
        time.sleep(OFTEN / 10)
    return kind


def pause(process: Process, seconds: float) -> None:
    """Sleep, or until the process ends."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        time.sleep(OFTEN)


def modified(folder: Path) -> float:
    """When the checkpoint was written last."""
    try:
        return (folder / "checkpoint.safetensors").stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def outcome(folder: Path) -> dict[str, Any]:
    """All that must not depend on kills: tensors bit for bit, and documents without times."""
    found: dict[str, Any] = {}
    for name, kind in (("model", "model"), ("run/best", "model"), ("run/checkpoint", "checkpoint")):
        stored = storage.read(folder / f"{name}.safetensors", kind)
        found[name] = (stored.tensors, timeless(stored.document))
    lines = (folder / "run" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    found["history"] = ({}, timeless([json.loads(line) for line in lines]))
    found["config"] = ({}, json.loads((folder / "run" / "config.json").read_text(encoding="utf-8")))
    return found


def timeless(value: Any) -> Any:
    """A document without its seconds."""
    if isinstance(value, dict):
        return {name: timeless(entry) for name, entry in value.items() if name != "seconds"}
    return [timeless(entry) for entry in value] if isinstance(value, list) else value


def differences(folder: Path, expected: dict[str, Any]) -> list[str]:
    """What is not as in the run that was left alone, and what is left of killed processes."""
    faults = []
    for name, (tensors, document) in outcome(folder).items():
        if document != expected[name][1]:
            faults.append(f"{name}: another document")
        if tensors.keys() != expected[name][0].keys():
            faults.append(f"{name}: other tensors")
            continue
        faults += [
            f"{name}: {key} differs" for key in tensors if not same(tensors[key], expected[name][0][key])
        ]
    left = sorted(path.name for path in (folder / "run").iterdir() if path.name not in FILES)
    left += sorted(path.name for path in folder.iterdir() if path.name.endswith(".tmp"))
    return faults + [f"left behind: {name}" for name in left]


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bit for bit."""
    return one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()


if __name__ == "__main__":
    main()
