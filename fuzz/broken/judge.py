"""What is asked of every file: the right answer or one clear error, in bounded time and memory."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import tempfile
import threading
import time
import traceback
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from squircuit.errors import SquircuitError

SECONDS = 5.0
"""Of processor time that one file may take."""
HANGS = 10
"""Seconds of processor time after which reading is broken off."""
MEMORY = 300 * 2**20
"""Bytes by which the peak of the resident memory may grow."""
TOO_SLOW = "too slow"
LONGEST = 2000
"""Characters of a message that somebody reads."""


class LawBrokenError(Exception):
    """A file was read without an error, and the answer is wrong."""


class HangsError(BaseException):
    """Reading was broken off; no handler of ordinary exceptions keeps it."""


@dataclass(frozen=True)
class Case:
    """Files to be read.

    Args:
        kind: what was done to what, such as "model: bytes".
        files: contents by names within a folder.
        read: reads the folder; it raises LawBrokenError where the answer is wrong.
    """

    kind: str
    files: Mapping[str, bytes]
    read: Callable[[Path], None]


@dataclass(frozen=True)
class Failure:
    """A law that a file breaks.

    Args:
        seed: of the mutation.
        kind: of the case.
        error: type of the exception, or the law.
        message: its message.
        where: the innermost line of the library, such as "data/cells.py:47 number".
    """

    seed: int
    kind: str
    error: str
    message: str
    where: str

    @property
    def cause(self) -> tuple[str, str, str]:
        """What failures of one cause have in common; slow code is broken off anywhere."""
        slow = self.error in (HangsError.__name__, TOO_SLOW)
        return (self.kind, TOO_SLOW, "") if slow else (self.kind, self.error, self.where)

    def __str__(self) -> str:
        shown = self.message if len(self.message) <= 300 else self.message[:300] + " …"
        return f"seed {self.seed}: {self.kind}: {self.error} at {self.where}: {shown!r}"


def judged(seed: int, case: Case, keep: Path | None = None) -> list[Failure]:
    """The laws that a case breaks; its files are then written to the folder ``keep``."""
    folder = Path(tempfile.mkdtemp(prefix="squircuit-fuzz-"))
    try:
        write(folder, case.files)
        found = [
            Failure(seed, case.kind, error, message.replace(str(folder), "…"), where)
            for error, message, where in _watched(case.read, folder)
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if found and keep is not None:
        write(keep / f"{seed}", case.files)
    return found


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Contents as files of a folder."""
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def _watched(read: Callable[[Path], None], folder: Path) -> list[tuple[str, str, str]]:
    """Type, message and place of all that is wrong with one reading."""
    before, started = _reset_peak(), time.process_time()
    found = _outcome(read, folder)
    seconds, grown = time.process_time() - started, _peak() - before
    if seconds > SECONDS:
        found.append((TOO_SLOW, f"{seconds:.1f} s of processor time", _last_place(found)))
    if grown > MEMORY:
        found.append(("too much memory", f"{grown / 2**20:.0f} MiB more", _last_place(found)))
    return found


def _last_place(found: list[tuple[str, str, str]]) -> str:
    return found[-1][2] if found else "–"


def _outcome(read: Callable[[Path], None], folder: Path) -> list[tuple[str, str, str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with _broken_off(HANGS):
                read(folder)
        except SquircuitError as error:
            return unclear(str(error), place(error))
        except LawBrokenError as error:
            return [(f"wrong answer: {error.args[0]}", str(error.args[1]), "–")]
        except (Exception, HangsError) as error:
            return [(type(error).__name__, str(error), place(error))]
    return []


def unclear(message: str, where: str) -> list[tuple[str, str, str]]:
    """What is wrong with the message of one of the library's own errors."""
    if not message.strip():
        return [("empty message", message, where)]
    if len(message.splitlines()) > 1:
        return [("message of several lines", message, where)]
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in message):
        return [("message that cannot be printed", message, where)]
    if len(message) > LONGEST:
        return [("endless message", message, where)]
    return []


def place(error: BaseException) -> str:
    """The innermost line of the library that an exception went through."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if "/squircuit/" in frame.filename.replace(os.sep, "/")]
    if not inside:
        return "outside of the library"
    last = inside[-1]
    return f"{last.filename.replace(os.sep, '/').rpartition('/squircuit/')[2]}:{last.lineno} {last.name}"


def require(holds: Any, law: str, detail: object = "") -> None:
    """Raise LawBrokenError where something does not hold; the law is the same for all of one cause."""
    if not holds:
        raise LawBrokenError(law, detail)


@contextmanager
def _broken_off(seconds: int) -> Iterator[None]:
    """Raise HangsError after some processor time; only the main thread of a POSIX system can."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise HangsError(f"broken off after {seconds} s")

    old = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)


def _reset_peak() -> int:
    """Let the peak of the resident memory begin anew, and return the memory now; 0 where Linux is not.

    Memory that was freed but kept by the allocator would hide what is taken next: it is given back first.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return 0
    return _peak()


def _peak() -> int:
    """The peak of the resident memory in bytes; 0 where it cannot begin anew."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if "VmHWM" in line), 0)
