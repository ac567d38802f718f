"""Locks on open files, which the system ends with the process that has them: none is ever left behind."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import final

from squircuit.errors import ParameterError

if sys.platform == "win32":
    import msvcrt

    FAR = 2**30
    """The byte that is locked: others may not read what is locked there, and the number is at the start."""

    def is_locked_by_us(handle: int) -> bool | None:
        """Take the lock of an open file; False: another has it."""
        os.lseek(handle, FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(handle, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def is_locked_by_us(handle: int) -> bool | None:
        """Take the lock of an open file; False: another has it; None: this file system has no locks."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True


@final
class FolderLock:
    """A lock by which one process, and in it one thread, works in a folder at a time.

    Args:
        folder: that is there; while the lock lasts it holds the file .lock with the number of the process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._file, self._handle = folder, folder / ".lock", -1

    def __enter__(self) -> FolderLock:
        while self._handle < 0:
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o644)
            if is_locked_by_us(handle) is False:  # where there are no locks nobody is kept out
                raise self._taken(handle)
            if _is_still(handle, self._file):
                self._handle = handle
            else:  # whoever had the lock has just deleted the file
                os.close(handle)
        os.ftruncate(self._handle, 0)
        os.write(self._handle, f"{os.getpid()}\n".encode())
        return self

    def __exit__(self, *_: object) -> None:
        if sys.platform != "win32":  # before the lock ends, so that none is deleted that another has taken
            with suppress(OSError):
                self._file.unlink()
        os.close(self._handle)
        self._handle = -1
        if sys.platform == "win32":  # where an open file cannot be deleted
            with suppress(OSError):
                self._file.unlink()

    def require_free(self) -> None:
        """Refuse, before any work is done, a folder in which another process works now."""
        if self._file.exists():
            with self:
                pass

    def _taken(self, handle: int) -> ParameterError:
        number = os.read(handle, 32).decode(errors="replace").strip()
        os.close(handle)
        who = f"process {number}" if number.isdecimal() else "another process"
        return ParameterError(
            f"{self._folder}: {who} is training there. Fix: wait for its end, or pass another folder."
        )


def _is_still(handle: int, file: Path) -> bool:
    """The open file is the one that has this name."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), os.stat(file))
    return False
