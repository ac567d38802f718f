"""Run the fuzzer: random circuits, every question, an oracle that shares no code with the library.

    python fuzz/run.py --seconds 60 --jobs 2

Exit code 1 where anything differs.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

CHUNK = 10  #: seeds that a process is given at a time
MEMORY = 8 << 30  #: bytes of address space that one process may have
LONGEST = 120  #: seconds of computing that one seed may take


def chunk(first: int, count: int) -> list[Any]:
    """Some seeds, in a process of its own."""
    import torch

    from fuzz.case import Failure, Result, raised, run
    from fuzz.questions import Problem

    torch.set_num_threads(1)
    _limit_memory()
    results = []
    for seed in range(first, first + count):
        try:
            with _Limit(LONGEST):
                results.append(run(seed))
        except TimeoutError:
            problem = Problem("time", f"more than {LONGEST} s", "an answer")
            results.append(Result(seed, failures=[Failure(seed, problem, [], "")]))
        except Exception as error:  # of the fuzzer itself, or raised by the library where nothing was asked
            results.append(Result(seed, failures=[Failure(seed, raised("fuzzer", error), [], "")]))
    return results


def _limit_memory() -> None:
    """Let what takes far too much memory fail by itself, and not by way of the machine."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))


class _Limit:
    """A limit of the time that is computed, where the system has signals: others may use the machine, too."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds if hasattr(signal, "SIGVTALRM") else 0

    def __enter__(self) -> None:
        if self.seconds:
            signal.signal(signal.SIGVTALRM, self._stop)
            signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds)

    def __exit__(self, *_: object) -> None:
        if self.seconds:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _stop(self, *_: object) -> None:
        raise TimeoutError


def results(first: int, seeds: int, seconds: float, jobs: int) -> Iterator[Any]:
    """The results of seeds one after the other, until they or the time are spent."""
    end = time.monotonic() + seconds
    starts = iter(range(first, first + seeds, CHUNK))
    if jobs == 1:
        for start in starts:
            yield from chunk(start, min(CHUNK, first + seeds - start))
            if time.monotonic() > end:
                return
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running: set[Future[list[Any]]] = set()
        while True:
            while len(running) < 2 * jobs and time.monotonic() < end:
                start = next(starts, None)
                if start is None:
                    break
                running.add(pool.submit(chunk, start, min(CHUNK, first + seeds - start)))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield from future.result()


def main() -> int:
    """Run, report, and say by the exit code whether all was well."""
    options = _options()
    start = shown = time.monotonic()
    circuits = compared = refused = count = new = 0
    kinds: dict[str, list[Any]] = {}
    for result in results(options.seed, options.seeds, options.seconds, options.jobs):
        circuits, compared, refused = circuits + 1, compared + result.compared, refused + result.refused
        new += result.new and result.compared > 0
        for failure in result.failures:
            count += 1
            kinds.setdefault(failure.problem.kind, []).append(failure)
            print(f"seed {failure.seed}: {failure.problem.kind}", flush=True)
        if time.monotonic() - shown > 5:
            shown = time.monotonic()
            rate = circuits / (shown - start)
            print(
                f"{circuits} circuits, {compared} comparisons, {rate:.1f} circuits/s, {count} failures",
                flush=True,
            )
    _report(kinds, options.show)
    rate = circuits / (time.monotonic() - start)
    print(f"{rate:.1f} circuits/s, {refused} of the circuits were refused by the library when they were made")
    print(f"{new} of the circuits that were compared have transformed columns, bins or blocks")
    print(f"{circuits} circuits, {compared} comparisons, {count} failures")
    return 1 if count else 0


def _report(kinds: dict[str, list[Any]], most: int) -> None:
    """The kinds of failures, the commonest first, each with its smallest program."""
    import torch

    from fuzz.shrink import shrunk

    torch.set_num_threads(1)
    for number, (kind, failures) in enumerate(sorted(kinds.items(), key=lambda item: -len(item[1]))):
        seeds = ", ".join(str(failure.seed) for failure in failures[:6])
        print(f"\n=== {len(failures)} × {kind} (seeds {seeds}{' …' if len(failures) > 6 else ''})")
        if number >= most:
            continue
        first = min(failures, key=lambda failure: sum(map(len, failure.lines)))
        print(shrunk(first).text(), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--seeds", type=int, default=None, help="how many seeds (default: as many as the time allows)"
    )
    parser.add_argument(
        "--seconds", type=float, default=None, help="how long (default 60, with --seeds no limit)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--show", type=int, default=20, help="kinds of failures that are shown with a program"
    )
    options = parser.parse_args()
    if options.seconds is None:
        options.seconds = 60.0 if options.seeds is None else float("inf")
    if options.seeds is None:
        options.seeds = 10**9
    return options


if __name__ == "__main__":
    sys.exit(main())
