"""Ctrl-C and kill between two steps in place of anywhere."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, final


@final
class Interrupts:
    """While it lasts, the first signal is only noted; a second Ctrl-C is a plain KeyboardInterrupt.

    SIGTERM is noted as well where ``terminates``; `pass_on` then ends the process as it was told. Signals
    reach the main thread alone; in others nothing is noted.
    """

    def __init__(self, terminates: bool) -> None:
        self.received: int | None = None
        self._signals = [signal.SIGINT, *([signal.SIGTERM] if terminates else [])]
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in self._signals}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def pass_on(self) -> None:
        """End the process if it was told to."""
        if self.received == signal.SIGTERM:
            signal.raise_signal(signal.SIGTERM)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = number
