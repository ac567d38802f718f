"""Damaged and crafted files of every kind that squircuit reads: the right answer, or one clear error.

    python fuzz/files.py --mutations 10000 --seed 0 --jobs 2

Models, checkpoints, options and data are damaged byte by byte, changed entry by entry with their checksum
made right again, or hostile from the start (bombs, nests, nonsense). Each mutation has a seed, and a seed
gives the same file each time. The laws: what is read is the original bit by bit, or of a valid change what
the change says; or it is refused by one of the library's own errors, in one line. It takes at most some
seconds and some hundred megabytes. To look at the file of a failure:

    python fuzz/files.py --mutations 1 --seed 1234 --keep broken-files
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import torch
from broken import commands, models, runs, tables
from broken.judge import Case, Failure, judged, write
from broken.workers import judged_apart

SHARES = ((50, models.CASES), (32, tables.CASES), (12, runs.CASES), (4, commands.CASES))
"""How often files of models, of data and of runs, and commands are tried."""
STEP = 500
"""Mutations between two lines of progress."""


def _weighted() -> tuple[list[float], list[Callable[[Random], Case]]]:
    weights, makers = [], []
    for share, cases in SHARES:
        total = sum(weight for weight, _ in cases)
        weights += [share * weight / total for weight, _ in cases]
        makers += [maker for _, maker in cases]
    return weights, makers


WEIGHTS, MAKERS = _weighted()


def case_of(seed: int) -> Case:
    """The mutation of a seed."""
    rng = Random(seed)
    return rng.choices(MAKERS, WEIGHTS)[0](rng)


def prepare() -> None:
    """Make the good files, and read them all once: what libraries keep is not held against a bad file."""
    torch.set_num_threads(1)
    models.originals()
    runs.runs()
    for number, (path, contents) in enumerate(tables.good_files()):
        found = judged(
            number, Case(f"good: {path}", contents, lambda folder, path=path: tables.read(folder / path))
        )
        assert not found, found


def check(seed: int, keep: Path | None = None) -> list[Failure]:
    """The laws that the mutation of a seed breaks.

    Args:
        seed: of the mutation.
        keep: folder into which the files are written where one is broken.
    """
    torch.set_num_threads(1)
    return judged(seed, case_of(seed), keep)


def hunt(seeds: Sequence[int], jobs: int = 1, keep: Path | None = None, quiet: bool = False) -> list[Failure]:
    """One failure of each cause among some mutations, judged in processes of their own."""
    started, first, count = time.monotonic(), {}, Counter()
    for done, (_, found) in enumerate(judged_apart(check, seeds, jobs, keep, prepare), start=1):
        for failure in (_explained(failure, keep) for failure in found):
            count[failure.cause] += 1
            if failure.cause not in first:
                first[failure.cause] = failure
                _say(str(failure), quiet)
        if done % STEP == 0:
            rate = done / (time.monotonic() - started)
            _say(f"{done} of {len(seeds)}, {rate:.0f} a second, {len(first)} failures", quiet)
    for failure in first.values():
        _say(f"{count[failure.cause]:5} × {failure}", quiet)
    return list(first.values())


def _explained(failure: Failure, keep: Path | None) -> Failure:
    """A death with the kind of its file, which the process that died could not keep."""
    if failure.error != "death":
        return failure
    case = case_of(failure.seed)
    if keep is not None:
        write(keep / f"{failure.seed}", case.files)
    return replace(failure, kind=case.kind, where="–")


def _say(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; 1 where something failed."""
    parser = argparse.ArgumentParser(description="Damaged and crafted files: no traceback, no wrong answer.")
    parser.add_argument("--mutations", type=int, default=10_000, help="how many files are tried")
    parser.add_argument("--seed", type=int, default=0, help="of the first one; the others follow")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, help="folder for the files that fail, by seed")
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.seed, chosen.seed + chosen.mutations)
    found = hunt(seeds, chosen.jobs, chosen.keep)
    if found and chosen.keep is None:
        print("to see a file: python fuzz/files.py --mutations 1 --keep FOLDER --seed SEED")
    print(f"{chosen.mutations} mutations, {len(found)} failures")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
