"""Kill one of several processes that train together; the others must say so and end, and nothing be lost.

    OMP_NUM_THREADS=1 python fuzz/kill_one.py --kills 20 --processes 4 --seed 0

As `kills.py` does, but several processes train under torchrun, and SIGKILL ends one of them. Within seconds
all others must have ended, torchrun with another code than 0, and, where training had begun, each of them has
said so in one line of its own. Started again until it has finished, a run must have the weights and the
history of one that was left alone, bit for bit.

With --fork copies of this process are trained in place of new ones, and this process does what torchrun does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from kills import LONGEST, OFTEN, OPTIONS, SRC, Copy, differences, modified, outcome, pause, table
from torch import distributed

from squircuit import storage

SECONDS = 30.0
"""After a kill, until all others must have ended; on a machine that does nothing else it is about three."""
LINE = re.compile(
    rb"^error: process (\d+) of \d+ (has lost the others|was told to end).* Fix: .*$", re.MULTILINE
)


class Together(Protocol):
    """Processes that train together."""

    def poll(self) -> int | None: ...
    def wait(self) -> int: ...
    def pids(self) -> list[int]: ...
    def errors(self) -> bytes: ...


class Torchrun:
    """The program under torchrun."""

    def __init__(self, words: list[str], folder: Path, size: int) -> None:
        self._errors = folder / "errors"
        env = os.environ | {"PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size), "-m"]
        command = [sys.executable, *torchrun, "--", "squircuit", *words]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=errors
            )

    def poll(self) -> int | None:
        return self._process.poll()

    def wait(self) -> int:
        return self._process.wait()

    def pids(self) -> list[int]:
        """The processes that torchrun has started."""
        pid = self._process.pid
        try:
            found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
            return [
                int(child) for child in found if b"squircuit" in Path(f"/proc/{child}/cmdline").read_bytes()
            ]
        except OSError:
            return []

    def errors(self) -> bytes:
        return self._errors.read_bytes()


class Copies:
    """Copies of this process, and one more that holds the store in which they meet, as torchrun's does."""

    def __init__(self, words: list[str], folder: Path, size: int) -> None:
        self._folder, self._size = folder, size
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._store = os.fork()
        if self._store == 0:
            held = distributed.TCPStore("127.0.0.1", port, None, True, wait_for_workers=False)
            while held:
                time.sleep(3600)
        common = {
            "TORCHELASTIC_RUN_ID": "kills", "TORCHELASTIC_USE_AGENT_STORE": "True",
            "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size),
        }  # fmt: skip
        self._copies = [
            Copy(words, folder, f"errors{rank}", common | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(size)
        ]

    def poll(self) -> int | None:
        """The code of the first that has failed, once all have ended; they are told to, as torchrun does."""
        codes = [copy.poll() for copy in self._copies]
        if any(codes):
            for copy, code in zip(self._copies, codes, strict=True):
                if code is None:
                    os.kill(copy.pid, signal.SIGTERM)
            self._wait_or_kill()
            codes = [copy.wait() for copy in self._copies]
        if None in codes:
            return None
        if self._store:
            os.kill(self._store, signal.SIGKILL)
            os.waitpid(self._store, 0)
            self._store = 0
        return next((code for code in codes if code), 0)

    def _wait_or_kill(self) -> None:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and any(copy.poll() is None for copy in self._copies):
            time.sleep(OFTEN)
        for copy in self._copies:
            copy.kill()

    def wait(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(0.1)  # as often as torchrun looks
        return code

    def pids(self) -> list[int]:
        return [copy.pid for copy in self._copies]

    def errors(self) -> bytes:
        files = [self._folder / f"errors{rank}" for rank in range(self._size)]
        return b"".join(file.read_bytes() for file in files if file.exists())  # one may not have begun


class Kills:
    """Runs of so many processes, and what happens to them.

    Args:
        wanted: the options of the command.
        place: a folder.
    """

    def __init__(self, wanted: argparse.Namespace, place: Path) -> None:
        self.wanted, self.place, self.rng = wanted, place, random.Random(wanted.seed)
        self.moments: Counter[str] = Counter()
        self.faults: list[str] = []
        self.seconds: list[float] = []
        self.lines = 0
        (place / "table.csv").write_text(table(wanted.seed), encoding="utf-8")

    @property
    def count(self) -> int:
        return sum(self.moments.values())

    def start(self, name: str) -> Together:
        folder = self.place / name
        folder.mkdir(exist_ok=True)
        words = ["fit", "../table.csv", "--out", "model.safetensors", "--run", "run", "--resume", *OPTIONS]
        words += ["--epochs", str(self.wanted.epochs), "--set", f"shard={self.wanted.shard}"]
        made = Copies if self.wanted.fork else Torchrun
        return made(words, folder, self.wanted.processes)

    def run(self) -> dict[str, Any]:
        """Kill as often as asked for; what happened, with a list of faults."""
        whole = self.start("whole")
        assert whole.wait() == 0, whole.errors().decode()
        expected, runs = outcome(self.place / "whole"), 0
        while self.count < self.wanted.kills:
            runs += 1
            code = self.finish(f"run{runs}")
            self.faults += [] if code == 0 else [f"run{runs}: exit code {code}"]
            self.faults += differences(self.place / f"run{runs}", expected) if code == 0 else []
        return {
            "processes": self.wanted.processes, "kills": self.count, "runs": runs,
            "moments": dict(self.moments), "lines": self.lines,
            "longest until all had ended": round(max(self.seconds), 1), "faults": self.faults,
        }  # fmt: skip

    def finish(self, name: str) -> int:
        """Start a run again until it ends by itself, or has been killed often enough."""
        while True:
            processes = self.start(name)
            if self.count >= self.wanted.kills:
                return self.ended(processes)
            moment = self.wait(processes, self.place / name / "run")
            pids = processes.pids()
            if processes.poll() is not None or len(pids) < self.wanted.processes:
                return self.ended(processes)
            with suppress(ProcessLookupError):
                os.kill(self.rng.choice(pids), signal.SIGKILL)
            self.mourn(processes, name, moment)

    def ended(self, processes: Together) -> int:
        code = processes.wait()
        if code:
            self.faults.append(processes.errors().decode()[-2000:])
        return code

    def wait(self, processes: Together, folder: Path) -> str:
        """Wait for a moment to kill: which kind it is."""
        kind = self.rng.choices(["at the start", "between", "while writing"], [1, 4, 3])[0]
        known = modified(folder)
        while processes.poll() is None and len(processes.pids()) < self.wanted.processes:
            time.sleep(OFTEN)
        if kind == "at the start":
            pause(processes, self.rng.uniform(0, 0.5 if self.wanted.fork else 8.0))
            return kind if modified(folder) == known else "between"
        while processes.poll() is None and modified(folder) == known:  # until it has begun to train
            time.sleep(OFTEN)
        pause(processes, self.rng.uniform(0, LONGEST))
        while kind == "while writing" and processes.poll() is None and not any(folder.glob(".*.tmp")):
            time.sleep(OFTEN / 10)
        return kind

    def mourn(self, processes: Together, name: str, moment: str) -> None:
        """All others end soon, and say so."""
        killed = time.monotonic()
        code = processes.wait()
        self.seconds.append(time.monotonic() - killed)
        said = processes.errors()
        ranks = [int(line[0]) for line in LINE.findall(said)]
        self.moments[moment] += 1
        self.lines += len(ranks)
        if code == 0 and b"finished" not in said:
            self.faults.append(f"{name}: exit code 0")
        if self.seconds[-1] > SECONDS:
            self.faults.append(f"{name}: {self.seconds[-1]:.0f} s until all had ended")
        is_silent = moment == "at the start" or code == 0 or is_over(self.place / name / "run")
        least = 0 if is_silent else self.wanted.processes - 1
        if len(set(ranks)) != len(ranks) or not least <= len(ranks) < self.wanted.processes:
            self.faults.append(f"{name}, {moment}: {len(ranks)} lines: {said.decode()[-3000:]}")
        print(f"{name}: {moment}, code {code}, {len(ranks)} lines, {self.seconds[-1]:.1f} s", file=sys.stderr)


def is_over(folder: Path) -> bool:
    """The run has finished, so that the others had nothing left to lose."""
    path = folder / "checkpoint.safetensors"
    return path.exists() and storage.read(path, "checkpoint").document["stopped"] == "finished"


def main() -> None:
    """Kill as often as asked for, and print what happened; exit code 1 if something was not as it must be."""
    parser = argparse.ArgumentParser(
        description="Kill one of several processes; the others end, nothing is lost."
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shard", default="optimiser")
    parser.add_argument("--fork", action="store_true", help="copies of this process: faster")
    with tempfile.TemporaryDirectory() as place:
        found = Kills(parser.parse_args(), Path(place)).run()
    print(json.dumps(found, indent=2))
    sys.exit(1 if found["faults"] else 0)


if __name__ == "__main__":
    main()
