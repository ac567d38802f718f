"""The parts of a file that is too large for one: safetensors files beside it, which it names.

A file of 10 GB, ``model.safetensors``, holds the document and names its parts with their checksums; the parts
are ``model-1f2e3d4c-00001-of-00003.safetensors`` and so on. The number in their names is drawn anew for every
write, so that no part of an older file is ever changed: until the new file has its name the old one is whole,
and only then the older parts are deleted. ``model.safetensors.index.json`` says for other programs, in the
form that is usual for safetensors, which part holds which tensor; nothing here reads it.

Tensors are cut along their first axis where a part is full. Parts are written and read one at a time.
"""

from __future__ import annotations

import glob
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, final

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from squircuit.errors import FormatError
from squircuit.storage.atomic import POSIX, cannot, replace
from squircuit.storage.documents import ContentError, parsed
from squircuit.storage.encoding import digest, encoded, nbytes
from squircuit.storage.locks import is_locked_by_us
from squircuit.storage.words import one_line

KIND = "part"
NAME = re.compile(r"-[0-9a-f]{8}-\d{5}-of-\d{5}(\.safetensors)?$")
"""How the name of a part ends."""
MOST = 99_999
"""Parts of a file."""


class Piece(NamedTuple):
    """Some entries of a tensor, from number ``first`` to before ``last``; None: all there is."""

    name: str
    first: int = 0
    last: int | None = None

    @property
    def key(self) -> str:
        """Its name in a part."""
        return self.name if self.last is None else f"{self.name}[{self.first}:{self.last}]"


def cut(tensors: Mapping[str, Tensor], part_bytes: int) -> list[list[Piece]]:
    """What each part holds: so many bytes, and less than one entry of a tensor more.

    Example:
        >>> import torch
        >>> parts = cut({"a": torch.zeros(5, 2), "b": torch.tensor(1.0)}, part_bytes=24)
        >>> [[piece.key for piece in part] for part in parts]
        [['a[0:3]'], ['a[3:5]', 'b']]
    """
    parts: list[list[Piece]] = [[]]
    room = part_bytes
    for name, value in tensors.items():
        first, count = 0, len(value) if value.ndim else 1
        entry = nbytes(value) // max(1, count)
        while first < count or not count:
            if room < entry and parts[-1]:
                parts.append([])
                room = part_bytes
            last = min(count, first + max(1, room // max(1, entry)))
            whole = (first, last) == (0, count)
            parts[-1].append(Piece(name) if whole else Piece(name, first, last))
            room -= entry * (last - first)
            first = last
            if not count:
                break
    return parts


@final
class PartsWriter:
    """Writes the parts of a file; where it is left before :meth:`keep` was called, they are deleted.

    They are locked for so long, so that nobody takes them for what a killed process has left.

    Args:
        file: that will name them.
        tensors: to be held.
        part_bytes: of a part.
        header: metadata of each.

    Attributes:
        names: of the parts, each with its SHA-256.
        places: the name of the part of each piece.
    """

    def __init__(
        self, file: Path, tensors: Mapping[str, Tensor], part_bytes: int, header: Mapping[str, str]
    ) -> None:
        self.names: list[tuple[str, str]] = []
        self.places: dict[str, str] = {}
        self._file, self._tensors, self._header = file, tensors, header
        self._parts, self._open, self._kept = cut(tensors, part_bytes), dict[Path, IO[bytes]](), False
        if len(self._parts) > MOST:
            raise FormatError(
                f"{file}: {len(self._parts):,} parts, {MOST:,} are the most. Fix: a larger part_bytes."
            )

    def __enter__(self) -> PartsWriter:
        tag = secrets.token_hex(4)
        try:
            for number, pieces in enumerate(self._parts, start=1):
                self._write(
                    f"{_stem(self._file)}-{tag}-{number:05}-of-{len(self._parts):05}{_suffix(self._file)}",
                    pieces,
                )
        except BaseException as error:
            self.__exit__(None, None, None)
            if isinstance(error, OSError | ValueError) and not isinstance(error, FormatError):
                raise cannot(self._file, error) from error
            raise
        return self

    def _write(self, name: str, pieces: Sequence[Piece]) -> None:
        chosen = {
            p.key: self._tensors[p.name] if p.last is None else self._tensors[p.name][p.first : p.last]
            for p in pieces
        }
        plain, _ = encoded(chosen)
        notes = {"kind": KIND, "pieces": json.dumps({p.key: [p.name, p.first] for p in pieces})}
        sha256 = digest(notes, plain)
        path = self._file.with_name(name)
        stream = path.open("xb")
        self._open[path] = stream
        is_locked_by_us(stream.fileno())
        stream.write(save(plain, {**self._header, **notes, "sha256": sha256}))
        stream.flush()
        os.fsync(stream.fileno())
        self.names.append((name, sha256))
        self.places |= dict.fromkeys(chosen, name)

    def keep(self) -> None:
        """The file that names the parts is there."""
        self._kept = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path, stream in self._open.items():
            stream.close()
            if not self._kept:
                with suppress(OSError):
                    path.unlink()


@final
class Part:
    """A part that is open, and belongs to its file.

    Args:
        whole: the file that names it.
        name, sha256: that it says it has.
        number, count: of this part among all.

    Attributes:
        pieces: name and first entry of each tensor that it holds some of, by their keys.
    """

    def __init__(self, whole: Path, name: str, sha256: str, number: int, count: int) -> None:
        self.file, self._which, self._sha256 = whole.with_name(name), f"part {number} of {count}", sha256
        if not self.file.is_file():
            raise FormatError(
                f"{whole}: {self._which}, {name}, is missing. Fix: copy it to the same folder; a file "
                "and all of its parts belong together."
            )
        try:
            content: Any = safe_open(str(self.file), framework="pt")
            header = content.metadata() or {}
        except Exception as error:  # safetensors has errors of its own
            raise self._damaged(whole, one_line(error)) from error
        self._content = content
        self._notes = {key: str(header.get(key, "")) for key in ("kind", "pieces")}
        if header.get("sha256") != sha256 or self._notes["kind"] != KIND:
            raise FormatError(
                f"{whole}: {self._which}, {name}, belongs to another file. Fix: copy the right one there."
            )
        self._whole = whole
        self.pieces = _pieces(parsed(self._notes["pieces"], "its pieces", "save it again"))
        if self.pieces.keys() != set(content.keys()):
            raise ContentError(f"{self._which} does not hold the pieces that it names")

    def form(self, key: str) -> tuple[tuple[int, ...], str]:
        """Shape and type of a piece."""
        found = self._content.get_slice(key)
        return tuple(found.get_shape()), str(found.get_dtype())

    def tensor(self, key: str) -> Tensor:
        """A piece, not yet checked."""
        found: Tensor = self._content.get_tensor(key).clone()  # in memory of its own
        return found

    def tensors(self) -> dict[str, Tensor]:
        """All pieces, checked."""
        try:
            plain = {key: self.tensor(key) for key in self.pieces}
        except Exception as error:
            raise self._damaged(self._whole, one_line(error)) from error
        if digest(self._notes, plain) != self._sha256:
            raise self._damaged(self._whole, "its content does not match its SHA-256")
        return plain

    def _damaged(self, whole: Path, reason: str) -> FormatError:
        return FormatError(
            f"{whole}: {self._which}, {self.file.name}, is truncated or damaged ({reason}). "
            "Fix: copy it again, or save the model again."
        )


def named_parts(found: Any) -> Iterator[tuple[int, tuple[str, str]]]:
    """Number, name and checksum of the parts of a file, as it says; a name is no path to elsewhere."""
    if not isinstance(found, list) or not 0 < len(found) <= MOST:
        raise ContentError("its parts are no list of names")
    for number, entry in enumerate(found, start=1):
        is_pair = isinstance(entry, list) and len(entry) == 2 and all(isinstance(each, str) for each in entry)
        if not is_pair or Path(entry[0]).name != entry[0] or not NAME.search(entry[0]):
            raise ContentError(f"its part {number} has no name")
        yield number, (entry[0], entry[1])


def _pieces(found: Any) -> dict[str, tuple[str, int]]:
    if not isinstance(found, dict):
        raise ContentError("a part names no pieces")
    for place in found.values():
        is_pair = isinstance(place, list) and len(place) == 2
        if not is_pair or not isinstance(place[0], str) or type(place[1]) is not int or place[1] < 0:
            raise ContentError("a part has pieces without a place")
    return {key: (name, first) for key, (name, first) in found.items()}


def write_index(file: Path, places: Mapping[str, str], total: int) -> None:
    """For other programs: the part of each tensor, or piece of one."""
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
    replace(_index(file), (json.dumps(index, indent=2) + "\n").encode())


def remove_parts(file: Path, keep: Sequence[str] = ()) -> None:
    """Delete the parts of older files of this name; those that somebody is writing stay."""
    for path in file.parent.glob(f"{glob.escape(_stem(file))}-*{glob.escape(_suffix(file))}"):
        name = path.name.removesuffix(_suffix(file))
        if path.name in keep or not NAME.fullmatch(name.removeprefix(_stem(file))):
            continue
        with suppress(OSError):
            with path.open("rb+") as stream:
                is_left = is_locked_by_us(stream.fileno()) is True
                if is_left and POSIX:
                    path.unlink()
            if is_left and not POSIX:
                path.unlink()
    if not keep:
        with suppress(OSError):
            _index(file).unlink(missing_ok=True)


def _index(file: Path) -> Path:
    return file.with_name(f"{file.name}.index.json")


def _stem(file: Path) -> str:
    return file.name.removesuffix(_suffix(file))


def _suffix(file: Path) -> str:
    return ".safetensors" if file.name.endswith(".safetensors") else ""
