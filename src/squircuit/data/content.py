"""The bytes of a table: those of a file, or those that came through a pipe, which can be read only once."""

from __future__ import annotations

import codecs
import io
from pathlib import Path
from typing import Any, BinaryIO, final

from squircuit.errors import DataError, ParameterError
from squircuit.storage.checks import require_readable
from squircuit.storage.words import one_line

GZIP = b"\x1f\x8b"
MARKS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".feather",
    b"FEA1": ".feather",
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
}
"""How files of some kinds begin; all else is taken for CSV."""
BOMS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
BOM = "\ufeff"


@final
class Content:
    """Some bytes, which can be opened again and again.

    Args:
        path: of the file; of what came through a pipe, what errors call it.
        held: the bytes that came through a pipe; None: they are in the file.

    Example:
        >>> piped = Content.of_stream(io.BytesIO(b"a,b\\n1,2\\n"), "standard input")
        >>> str(piped.path), piped.suffix, piped.open().readline(), piped.size
        ('standard input', '.csv', b'a,b\\n', 8)
    """

    def __init__(self, path: Path, held: bytes | None = None) -> None:
        self.path, self._held = path, held

    @staticmethod
    def of_stream(stream: Any, name: str) -> Content:
        """All that a stream of bytes gives."""
        try:
            held = stream.read()
        except (OSError, ValueError) as error:
            raise DataError(f"{name}: cannot be read ({one_line(error)}). Fix: pass a file.") from error
        if not isinstance(held, bytes):
            raise ParameterError(f"{name}: a stream of texts. Fix: open it for bytes, open(path, 'rb').")
        if not held:
            raise DataError(f"{name}: it is empty. Fix: pass data.")
        return Content(Path(name), held)

    @property
    def is_file(self) -> bool:
        """It lies in a file of that name."""
        return self._held is None

    @property
    def suffix(self) -> str:
        """What kind of file it is: the end of its name without .gz, or of a pipe what it begins with."""
        if self._held is None:
            stem = self.path.stem if self.path.suffix.lower() == ".gz" else self.path.name
            return Path(stem).suffix.lower()
        return next((suffix for mark, suffix in MARKS.items() if self._held.startswith(mark)), ".csv")

    @property
    def is_packed(self) -> bool:
        """It is compressed with gzip."""
        return self.path.suffix.lower() == ".gz" if self._held is None else self._held.startswith(GZIP)

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self._held is None else len(self._held)

    def open(self) -> BinaryIO:
        """A stream of the bytes from the first."""
        return self.path.open("rb") if self._held is None else io.BytesIO(self._held)

    def require_readable(self) -> None:
        """Refuse what is no ordinary file with content."""
        if self._held is None:
            require_readable(self.path, DataError)


def codec(start: bytes, encoding: str | None) -> str:
    """The encoding of a text: the one that is said, else UTF-16 where it begins so, else UTF-8.

    Example:
        >>> codec("a,b".encode("utf-16"), None), codec(b"a,b", "Latin-1"), codec(b"a,b", None)
        ('utf-16-le', 'iso8859-1', 'utf-8')
        >>> codec(b"a,b", "latin-99")
        Traceback (most recent call last):
        squircuit.errors.ParameterError: encoding='latin-99' is not known. Fix: pass one such as 'utf-8', ...
    """
    found = BOMS.get(start[:2])
    if encoding is None:
        return found or "utf-8"
    try:
        name = codecs.lookup(encoding).name
        "a".encode(name)  # some codecs are not of texts
    except (LookupError, TypeError, UnicodeError) as error:
        raise ParameterError(
            f"encoding={encoding!r} is not known. Fix: pass one such as 'utf-8', 'latin-1' or 'cp1252'."
        ) from error
    return {"utf-8-sig": "utf-8", "utf-16": found or "utf-16-le"}.get(name, name)
