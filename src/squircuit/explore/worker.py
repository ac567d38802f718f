"""One thread that has the model and answers one question after the other; a newer one replaces an older."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, final

from squircuit.errors import SquircuitError
from squircuit.execution.threads import fitting_threads
from squircuit.progress import heard

MOST_WAITING = 200
Slot = tuple[str, str] | None
"""A page and the kind of its question, of which it wants one answer; None: every answer is wanted."""


class Replaced(BaseException):
    """Nobody waits for the answer any more. No error: loops that survive errors of their parts end, too."""


class BusyError(SquircuitError):
    """Too many questions wait."""


@final
class Job:
    """A question that waits or is being answered.

    Attributes:
        share: how far its answer is, from 0 to 1; None: it waits.
        answer: to be; has an exception where it was replaced.
    """

    def __init__(self, slot: Slot, work: Callable[[], Any]) -> None:
        self.slot, self._work = slot, work
        self.share: float | None = None
        self.answer: Future[Any] = Future()
        self._lock = threading.Lock()

    def run(self) -> None:
        """Answer, unless it was replaced before."""
        try:
            self._tell(0.0)
            with heard(self._tell):
                self._end(result=self._work())
        except BaseException as error:
            self._end(error=error)

    def replace(self) -> None:
        """Answer those who wait at once, and end the work at its next step."""
        self._end(error=Replaced())

    def _tell(self, share: float) -> None:
        self.share = share
        if self.answer.done():
            raise Replaced

    def _end(self, result: Any = None, error: BaseException | None = None) -> None:
        with self._lock:  # of two ends the first one counts
            if self.answer.done():
                return
            if error is None:
                self.answer.set_result(result)
            else:
                self.answer.set_exception(error)


@final
class Worker:
    """The thread, and what waits for it.

    Example:
        >>> worker = Worker()
        >>> worker.ask(None, lambda: 6 * 7).result()
        42
        >>> worker.close()
    """

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._running: Job | None = None
        self._changed = threading.Condition()
        self._is_open = True
        # a daemon: work that does not look up does not keep the program from ending
        threading.Thread(target=self._answer_all, name="model", daemon=True).start()

    def ask(self, slot: Slot, work: Callable[[], Any]) -> Future[Any]:
        """The answer to be; older questions of the same slot are replaced."""
        job = Job(slot, work)
        with self._changed:
            if len(self._jobs) >= MOST_WAITING:
                raise BusyError(f"{MOST_WAITING} questions wait already. Fix: ask again in a moment.")
            if slot is not None:
                self._replace(lambda older: older == slot)
            self._jobs.append(job)
            self._changed.notify()
        return job.answer

    def cancel(self, page: str, kind: str | None = None) -> None:
        """Nobody waits for the answers to the questions of a page any more, or to those of one kind."""
        with self._changed:
            self._replace(lambda slot: slot is not None and slot[0] == page and kind in (None, slot[1]))

    def progress(self, page: str) -> dict[str, float | None]:
        """How far the answers to a page are, by the kind of question; None: it waits."""
        with self._changed:
            jobs = [*self._jobs, *([] if self._running is None else [self._running])]
            return {job.slot[1]: job.share for job in jobs if job.slot is not None and job.slot[0] == page}

    def close(self) -> None:
        """End the thread; what waits is replaced."""
        with self._changed:
            self._is_open = False
            self._replace(lambda slot: True)
            self._changed.notify()

    def _replace(self, chosen: Callable[[Slot], bool]) -> None:
        for job in [*self._jobs, *([] if self._running is None else [self._running])]:
            if chosen(job.slot):
                job.replace()
        self._jobs = deque(job for job in self._jobs if not chosen(job.slot))

    def _answer_all(self) -> None:
        while True:
            with self._changed:
                self._running = None
                self._changed.wait_for(lambda: self._jobs or not self._is_open)
                if not self._is_open:
                    return
                self._running = job = self._jobs.popleft()
            with fitting_threads():  # one row at a time: its operations are small
                job.run()
