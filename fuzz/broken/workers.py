"""Processes that judge mutations under a limit of memory, and are started again when they die."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from broken.judge import Failure

Check = Callable[[int, Path | None], list[Failure]]
Prepare = Callable[[], None]
ROOM = 3 * 2**29
"""Bytes of address space that a worker may take on top of what it has when it is ready."""
BLOCK = 50
"""Mutations that a worker is given at a time."""
SILENCE = 600
"""Seconds without a word after which a worker is ended: code in C cannot be broken off. On a busy machine the
first word may take minutes."""


@dataclass
class Worker:
    """A process and what it has still to do, in order."""

    process: Any
    connection: Connection
    seeds: list[int]


def judged_apart(
    check: Check, seeds: Sequence[int], jobs: int, keep: Path | None = None, prepare: Prepare | None = None
) -> Iterator[tuple[int, list[Failure]]]:
    """What `check` finds for every seed, in the order in which workers are ready.

    Args:
        check: a function of a module, from a seed and a folder to failures.
        seeds: of the mutations.
        jobs: number of processes.
        keep: folder for files that fail.
        prepare: makes in each process what is made once, before its memory is limited.
    """
    waiting = [list(seeds[start : start + BLOCK]) for start in range(0, len(seeds), BLOCK)][::-1]
    workers: list[Worker] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(_started(check, waiting.pop(), keep, prepare))
            ready = wait([worker.connection for worker in workers], timeout=SILENCE)
            for worker in [w for w in workers if not ready or w.connection in ready]:
                yield from _heard(worker, waiting)
                if not worker.seeds:
                    workers.remove(worker)
                    _ended(worker)
    finally:
        for worker in workers:
            _ended(worker)


def _heard(worker: Worker, waiting: list[list[int]]) -> Iterator[tuple[int, list[Failure]]]:
    """The next word of a worker; its next block, or what is left of its block where it has died."""
    seed = worker.seeds[0]
    try:
        found = worker.connection.recv() if worker.connection.poll() else None
    except (EOFError, OSError):
        found = None
    if found is None:
        worker.process.join(1)
        code = worker.process.exitcode
        how = "says nothing any more" if code is None else f"died with exit code {code}"
        rest, worker.seeds = worker.seeds[1:], []
        if rest:
            waiting.append(rest)
        yield seed, [Failure(seed, "process", "death", f"the process {how}", f"seed {seed}")]
        return
    del worker.seeds[0]
    yield seed, found
    if not worker.seeds and waiting:
        worker.seeds = waiting.pop()
        worker.connection.send(worker.seeds)


def _started(check: Check, seeds: list[int], keep: Path | None, prepare: Prepare | None) -> Worker:
    context = multiprocessing.get_context("spawn")
    mine, other = context.Pipe()
    process = context.Process(target=_work, args=(check, other, keep, prepare), daemon=True)
    process.start()
    other.close()
    mine.send(seeds)
    return Worker(process, mine, seeds)


def _ended(worker: Worker) -> None:
    with suppress(OSError):
        worker.connection.send(None)
    worker.connection.close()
    worker.process.join(2)
    if worker.process.is_alive():
        worker.process.kill()


def _work(check: Check, connection: Connection, keep: Path | None, prepare: Prepare | None) -> None:
    """The life of a worker: it gets lists of seeds, and answers for each seed."""
    if prepare is not None:
        prepare()
    limit_memory()
    with suppress(EOFError, KeyboardInterrupt):
        while (seeds := connection.recv()) is not None:
            for seed in seeds:
                connection.send(check(seed, keep))


def limit_memory() -> None:
    """Let allocations fail that go far beyond what this process has now; only POSIX systems can."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
