"""Several processes of the program, as torchrun starts them: they meet, and one of them speaks."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from datetime import timedelta
from types import FrameType, TracebackType
from typing import Any, Self, final
from uuid import uuid4

import torch
import typer
from torch import distributed

from squircuit.cli.machine import chosen_device
from squircuit.cli.torchrun import Terminated
from squircuit.errors import ParameterError, ProcessError
from squircuit.training import Distributed
from squircuit.training.distributed import is_joined

SAID = "squircuit said"
"""The entry of the store that the process makes which says what went wrong."""
MEETING = timedelta(minutes=5)
"""How long processes wait for one another at the start."""
ANSWER = timedelta(minutes=30)
"""How long they wait in training, such as for process 0 to save; one that has ended is noticed at once."""
FIRST = timedelta(seconds=0.5)
"""How long others leave it to process 0 to say what is wrong."""
CAUSE = timedelta(seconds=2)
"""How long those that only notice that another has ended leave it to that one to say why."""

LOOK = 0.05
"""Seconds between two looks for such a word."""


@final
class Launched:
    """This process of the program, one of several that torchrun has started; a context while it runs.

    Process 0 shows results, progress and warnings. What goes wrong is said once, by process 0 where it knows
    of it, else by one that does; where a process ends without a word, each other one says that it is lost.

    Args:
        rank, size: the number of this process, and how many there are.
        local, locals: the same among those of this machine.
    """

    def __init__(self, rank: int, size: int, local: int, locals: int) -> None:
        self.rank, self.size, self.local, self.locals = rank, size, local, locals
        self._store: Any = None  # of torch.distributed: entries that all see
        self._start = ""
        self._held, self._is_ending = ExitStack(), False

    def __enter__(self) -> Self:
        signal.signal(signal.SIGTERM, self._terminate)
        if self.rank:
            nowhere = self._held.enter_context(open(os.devnull, "w"))
            self._held.enter_context(redirect_stdout(nowhere))
            self._held.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
        with self._answers_signals():
            store = _meeting_place(MEETING)
            self._start = self._start_of_all(store)
            self._store = _part_of(store, self._start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and is_joined():
            distributed.destroy_process_group()
        self._held.close()

    def _start_of_all(self, store: Any) -> str:
        """A name that process 0 gives to this start of all processes.

        torchrun starts processes again with the same store, in which those that have ended left their words.
        So each says that it is here by a new name, and process 0 answers with its own, until all know it.
        """
        here, end = uuid4().hex, time.monotonic() + MEETING.total_seconds()
        store.set(f"here {self.rank}", here)
        missing = set(range(1, self.size)) if self.rank == 0 else {0}
        while missing and time.monotonic() < end:
            if self.rank:
                name, _, start = _entry(store, f"start {self.rank}").partition(" ")
                if name == here:
                    store.set(f"{start} {self.rank}", "known")
                    return start
            for other in sorted(missing) if self.rank == 0 else ():
                store.set(f"start {other}", f"{_entry(store, f'here {other}')} {here}")
                if store.check([f"{here} {other}"]):
                    missing.remove(other)
            time.sleep(LOOK)
        if missing:
            raise ProcessError(
                f"process {self.rank} of {self.size} has not met process {min(missing)} in "
                f"{MEETING.total_seconds() / 60:g} minutes",
                fix="see whether it runs, and what it says",
            )
        return here

    def require(self, command: str | None) -> None:
        """Refuse all commands but the one that trains."""
        if command not in (None, "fit"):
            raise ParameterError(
                f"squircuit {command} works in one process, and torchrun has started {self.size}",
                value=command,
                fix="leave torchrun out; only squircuit fit trains in several",
            )

    def join(self, device: str) -> torch.device:
        """The device of this process, once all have met in a group of torch.distributed."""
        place = self._place(device)
        backend = "gloo" if place.type == "cpu" else "cpu:gloo,cuda:nccl"
        with self._answers_signals():
            store = _part_of(self._store, "group")
            distributed.init_process_group(
                backend, store=store, rank=self.rank, world_size=self.size, timeout=ANSWER
            )
            Distributed().require_alike({"kind of device": place.type})
        return place

    def _place(self, device: str) -> torch.device:
        place = chosen_device(device)
        if place.type == "cpu":
            return place
        if not distributed.is_nccl_available():
            raise ParameterError("several GPUs need NCCL, which this PyTorch lacks. Fix: --device cpu.")
        count = torch.cuda.device_count()
        if self.locals > count:
            raise ParameterError(
                f"torchrun has started {self.locals} processes on a machine with {count} GPU"
                f"{'' if count == 1 else 's'}. Fix: torchrun --nproc-per-node {count}, or --device cpu."
            )
        torch.cuda.set_device(self.local)
        return torch.device("cuda", self.local)

    def leave(self, code: int) -> None:
        """End at once where something went wrong: at an orderly end torch may wait for the others."""
        if code:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    # ------------------------------------------------------------------ who says what went wrong

    def speaks(self, error: BaseException) -> bool:
        """Whether this process is the one to say what has ended it; others may have to wait a moment."""
        self._is_ending = True
        if threading.current_thread() is threading.main_thread():  # only there it may be said
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun tells all to end when the first has
        if isinstance(error, SystemExit | KeyboardInterrupt):
            return self.rank == 0
        is_cause = not isinstance(error, ProcessError | Terminated)
        if self._store is None:  # no others have been met yet
            return self.rank == 0 or not is_cause
        try:
            if self.rank or not is_cause:
                self._wait_for_word(FIRST if is_cause else CAUSE)
            return int(self._store.add(SAID, int(is_cause))) == int(is_cause)
        except RuntimeError:  # the store is gone with torchrun
            return True

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        raise self._terminated()

    def _terminated(self) -> Terminated:
        return Terminated(
            f"process {self.rank} of {self.size} was told to end, as torchrun tells all when one has ended. "
            "Fix: see why one has, if it was not you; with --run FOLDER --resume training goes on."
        )

    @contextmanager
    def _answers_signals(self) -> Iterator[None]:
        """SIGTERM ends this process also while torch waits for the others, and Python with it."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        before = signal.set_wakeup_fd(writer)
        threading.Thread(target=self._watch, args=(reader,), daemon=True).start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            os.close(writer)

    def _watch(self, reader: int) -> None:
        numbers = os.read(reader, 1)  # b"" once nobody writes any more
        os.close(reader)
        if signal.SIGTERM not in numbers:
            return
        time.sleep(FIRST.total_seconds())
        if not self._is_ending:  # the main thread waits still
            error = self._terminated()
            if self._store is not None:  # one of its own: nobody else can use that by which a thread waits
                with suppress(RuntimeError):
                    self._store = _part_of(_meeting_place(CAUSE), self._start)
            if self.speaks(error):
                typer.echo(f"error: {error}", err=True)
            sys.stderr.flush()
            os._exit(128 + signal.SIGTERM)

    def _wait_for_word(self, most: timedelta) -> None:
        """Until another process has said what is wrong, or so long; `Store.wait` would warn of the time."""
        end = time.monotonic() + most.total_seconds()
        while time.monotonic() < end and not self._store.check([SAID]):
            time.sleep(LOOK)


def _meeting_place(time: timedelta) -> Any:
    """The store of torchrun, whose entries all processes see."""
    meet: Any = distributed.rendezvous  # type: ignore[attr-defined]
    store, _, _ = next(meet("env://", timeout=time))
    return store


def _part_of(store: Any, name: str) -> Any:
    """Entries of a store under names of their own."""
    return distributed.PrefixStore(name, store)  # type: ignore[attr-defined]


def _entry(store: Any, key: str) -> str:
    """An entry of a store, or nothing where there is none yet."""
    return store.get(key).decode() if store.check([key]) else ""
