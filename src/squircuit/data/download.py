"""Files of data sets: where they lie, their checksums, and how they get there."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from squircuit.data.idx import file_bytes, plain_bytes, unzipped
from squircuit.errors import DataError, ParameterError, Wording
from squircuit.storage.atomic import replace
from squircuit.storage.words import one_line, without_fix

Progress = Callable[[str, int, int], None]
"""Called with the file's name, the bytes done, and the bytes in all (0: unknown)."""

ELSEWHERE = Wording("pass folder= or set SQUIRCUIT_DATA", "set SQUIRCUIT_DATA")
CHUNK = 1 << 18
TIMEOUT = 30.0
"""Seconds without a byte before a mirror is given up."""
MOST_SECONDS = 900.0
"""The longest that one file from one mirror may take, however steadily its bytes drip."""
MOST_BYTES = 2**28
"""The size of the largest file that is taken; the largest here has 170 MB, decompressed 184 MB."""


@dataclass(frozen=True)
class RemoteFile:
    """One gzip file of a data set.

    Args:
        path: below the data folder.
        sha256: of the decompressed content, because mirrors compress the same content differently.
        urls: public mirrors, tried in order; plain files are compressed after the download.
        is_archive: there is one such file, which stays as it is published; the checksum is of it.
    """

    path: str
    sha256: str
    urls: tuple[str, ...]
    is_archive: bool = False

    def content(self, received: bytes, where: str) -> bytes:
        """What the checksum is of."""
        return received if self.is_archive else unzipped(received, where)


def data_folder(folder: str | Path | None = None) -> Path:
    """The folder of data sets: the argument, else ``$SQUIRCUIT_DATA``, else ``~/.cache/squircuit``.

    Example:
        >>> data_folder("somewhere").name
        'somewhere'
    """
    chosen = folder or os.environ.get("SQUIRCUIT_DATA") or "~/.cache/squircuit"
    try:
        return Path(chosen).expanduser()
    except (TypeError, RuntimeError) as error:  # a user who has no home
        raise ParameterError(f"{chosen!r} is no folder ({one_line(error)})", fix=ELSEWHERE) from error


def fetch(files: Sequence[RemoteFile], folder: Path, progress: Progress | None = None) -> list[bytes]:
    """The verified, decompressed content of every file, downloading those that are missing.

    Raises:
        DataError: if a file does not match its checksum, or cannot be downloaded.
    """
    missing = [file for file in files if not is_there(folder / file.path)]
    for position, file in enumerate(missing):
        _download(file, folder, missing[position:], progress or print_progress)
    return [verified(file, folder) for file in files]


def is_there(path: Path) -> bool:
    """Whether there is a file; one clear error where nobody may look."""
    try:
        return path.exists()
    except (OSError, ValueError) as error:
        raise DataError(f"cannot be opened ({one_line(error)})", where=str(path), fix=ELSEWHERE) from error


def verified(file: RemoteFile, folder: Path) -> bytes:
    """The decompressed content of a file that is there, after a look at its SHA-256."""
    path = folder / file.path
    content = file_bytes(path) if file.is_archive else plain_bytes(path)
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        what = "it" if file.is_archive else "its decompressed content"
        raise DataError(
            f"{path}: the SHA-256 of {what} is {digest}, expected {file.sha256}. "
            "Fix: delete the file, it is then downloaded again."
        )
    return content


def print_progress(name: str, done: int, total: int) -> None:
    """One line on standard error, rewritten as the download goes on; silent where it is no terminal."""
    if not sys.stderr.isatty():
        return
    share = f"{100 * done // total:3d} %" if total else f"{done >> 10} KiB"
    end = "\n" if total and done >= total else ""
    print(f"\r{name}: {share}", end=end, file=sys.stderr, flush=True)


def _download(file: RemoteFile, folder: Path, missing: Sequence[RemoteFile], progress: Progress) -> None:
    reasons = []
    for url in file.urls:
        try:
            content = _received(url, Path(file.path).name, progress)
            if hashlib.sha256(file.content(content, url)).hexdigest() == file.sha256:
                break
            reasons.append(f"{url}: wrong checksum")
        except (OSError, http.client.HTTPException, ValueError) as error:
            # URLError and timeouts are OSErrors; addresses, also those a mirror sends us to, ValueErrors
            reasons.append(f"{url}: {without_fix(error)}")
    else:
        raise _not_received(folder, missing, reasons)
    _write(folder / file.path, content)


def _received(url: str, name: str, progress: Progress) -> bytes:
    """The bytes of an address, no more and no longer than the limits."""
    request = urllib.request.Request(url, headers={"User-Agent": "squircuit"})
    end = time.monotonic() + MOST_SECONDS
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        total, content = _length(response.headers.get("Content-Length")), bytearray()
        read = getattr(response, "read1", response.read)  # what is there, and not all that was asked for
        while chunk := read(CHUNK):
            content += chunk
            _require_limits(len(content), total, end)
            progress(name, len(content), total)
    if len(content) < total:
        raise OSError(f"it ended after {len(content):,} of {total:,} bytes")
    return bytes(content)


def _require_limits(done: int, total: int, end: float) -> None:
    if max(done, total) > MOST_BYTES:
        raise OSError(f"{max(done, total):,} bytes, {MOST_BYTES:,} are the most")
    if time.monotonic() > end:
        raise OSError(f"not done after {MOST_SECONDS:g} seconds")


def _length(header: str | None) -> int:
    """The number of bytes that a mirror announces; 0 (unknown) where it is no number.

    Example:
        >>> _length("1024"), _length("abc"), _length("-1"), _length(None)
        (1024, 0, 0, 0)
    """
    text = (header or "").strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else 0


def _write(path: Path, content: bytes) -> None:
    """Write the content as a gzip file, in one step."""
    packed = content if content[:2] == b"\x1f\x8b" else gzip.compress(content, mtime=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise DataError(
            f"the folder cannot be made ({one_line(error)})", where=str(path.parent), fix=ELSEWHERE
        ) from error
    replace(path, packed)


def _not_received(folder: Path, missing: Sequence[RemoteFile], reasons: Sequence[str]) -> DataError:
    """Says which files to put where."""
    wanted = "; ".join(f"{folder / file.path} from {file.urls[0]}" for file in missing if file.urls)
    why = " ".join("; ".join(reasons).split()) or "no mirror is known"
    return DataError(
        f"cannot download {Path(missing[0].path).name} ({why})",
        value=missing[0].path,
        fix="with a network, try again; without one, put these files there (as they are, or gzip-compressed "
        "under these names), or " + ELSEWHERE + f" to where they are: {' '.join(wanted.split())}",
    )
