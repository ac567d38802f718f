"""Files of data sets: where they lie, their checksums, and how they get there."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import sys
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from squircuit.data.idx import plain_bytes, unzipped
from squircuit.errors import DataError
from squircuit.storage.atomic import replace

Progress = Callable[[str, int, int], None]
"""Called with the file's name, the bytes done, and the bytes in all (0: unknown)."""

CHUNK = 1 << 18
TIMEOUT = 30.0
"""Seconds without a byte before a mirror is given up."""


@dataclass(frozen=True)
class RemoteFile:
    """One gzip file of a data set.

    Args:
        path: below the data folder.
        sha256: of the decompressed content, because mirrors compress the same content differently.
        urls: public mirrors, tried in order; plain files are compressed after the download.
    """

    path: str
    sha256: str
    urls: tuple[str, ...]


def data_folder(folder: str | Path | None = None) -> Path:
    """Where data sets lie: the argument, else ``$SQUIRCUIT_DATA``, else ``~/.cache/squircuit``.

    Example:
        >>> data_folder("somewhere").name
        'somewhere'
    """
    chosen = folder or os.environ.get("SQUIRCUIT_DATA") or Path.home() / ".cache" / "squircuit"
    return Path(chosen).expanduser()


def fetch(files: Sequence[RemoteFile], folder: Path, progress: Progress | None = None) -> list[bytes]:
    """The verified, decompressed content of every file, downloading those that are missing.

    Raises:
        DataError: if a file does not match its checksum, or cannot be downloaded.
    """
    missing = [file for file in files if not (folder / file.path).exists()]
    for position, file in enumerate(missing):
        _download(file, folder, missing[position:], progress or print_progress)
    return [verified(file, folder) for file in files]


def verified(file: RemoteFile, folder: Path) -> bytes:
    """The decompressed content of a file that is there, after a look at its SHA-256."""
    path = folder / file.path
    content = plain_bytes(path)
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise DataError(
            f"{path}: the SHA-256 of its decompressed content is {digest}, expected {file.sha256}. "
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
            if hashlib.sha256(unzipped(content, url)).hexdigest() == file.sha256:
                return _write(folder / file.path, content)
            reasons.append(f"{url}: wrong checksum")
        except (OSError, http.client.HTTPException, DataError) as error:  # URLError and timeouts are OSErrors
            reasons.append(f"{url}: {error}")
    raise DataError(_what_to_put_where(folder, missing, reasons))


def _received(url: str, name: str, progress: Progress) -> bytes:
    request = urllib.request.Request(url, headers={"User-Agent": "squircuit"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        total, content = int(response.headers.get("Content-Length") or 0), bytearray()
        while chunk := response.read(CHUNK):
            content += chunk
            progress(name, len(content), total)
    return bytes(content)


def _write(path: Path, content: bytes) -> None:
    """As a gzip file."""
    packed = content if content[:2] == b"\x1f\x8b" else gzip.compress(content, mtime=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, packed)


def _what_to_put_where(folder: Path, missing: Sequence[RemoteFile], reasons: Sequence[str]) -> str:
    wanted = "\n".join(f"  {folder / file.path}   from {file.urls[0]}" for file in missing)
    why = "; ".join(reasons)
    return (
        f"cannot download {Path(missing[0].path).name} ({why}). Fix: with a network, try again; without one, "
        f"put these files there (as they are, or gzip-compressed under these names), or pass folder= or set "
        f"SQUIRCUIT_DATA to where they are:\n{wanted}"
    )
