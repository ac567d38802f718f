"""Files of tensors and a JSON document: what is written is read again exactly, or refused.

What is larger than `PART` bytes is written in parts, see :mod:`squircuit.storage.parts`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from squircuit.errors import FormatError, ParameterError, SquircuitError, is_whole
from squircuit.storage.atomic import as_path, replace
from squircuit.storage.checks import A_FILE, refuse_other_formats, require_file, require_header
from squircuit.storage.documents import ContentError, parsed
from squircuit.storage.encoding import complex_of, decoded, digest, encoded, nbytes
from squircuit.storage.memory import require_memory
from squircuit.storage.parts import Part, PartsWriter, named_parts, remove_parts, write_index
from squircuit.storage.words import one_line, without_fix

FORMAT, VERSION = "squircuit", 2
"""Version 1 is a file without parts, and is written where one file is enough."""
PART = 4 * 10**9
"""Bytes of tensors that one file holds; more are written in parts."""
MOST_DOCUMENT = 2**26
"""Characters of a file's JSON document: names, schema and notes; 400,000 layers take 10 MB. A file cannot
raise it."""
DTYPES = {"F32": torch.float32, "F64": torch.float64, "U8": torch.uint8}
"""Those that forms are compared with; all others stay the names that safetensors has for them."""
CHANGED = "its content does not match its SHA-256"
CPU = torch.device("cpu")


class Stored(NamedTuple):
    """What a file holds."""

    tensors: dict[str, Tensor]
    document: dict[str, Any]


class Form(NamedTuple):
    """What is known of a tensor before it is read."""

    shape: tuple[int, ...]
    dtype: torch.dtype | str


@final
class Content:
    """A file that is open: its document and the forms of its tensors, before any of them is read.

    So a reader can compare what the document says with what is there, and refuse, before memory is used. The
    checksum is of all the file, or of each part; it is compared when tensors are read by `pieces`.

    Attributes:
        document: the JSON data.
        forms: shape and type of each tensor, by name; complex ones as they will be.
    """

    document: dict[str, Any]
    forms: dict[str, Form]

    def __init__(self, path: str | PathLike[str], kind: str) -> None:
        self.file = require_file(path)
        refuse_other_formats(self.file)
        with _whatever_is_wrong(self.file):
            content: Any = safe_open(str(self.file), framework="pt")
            self._content = content
            self._header = dict(require_header(self.file, content.metadata(), FORMAT, VERSION, kind))
            self._notes = {name: self._header.get(name, "") for name in ("complex", "document", "kind")}
            self._complex = _names(_parsed(self.file, self._notes["complex"]))
            self.document = _mapping(_parsed(self.file, self._notes["document"]))
            self._plain_forms = {name: _form(content, name) for name in content.keys()}  # noqa: SIM118
            self._parts = self._opened_parts()
            self.forms = {name: self._as_written(name, *form) for name, form in self._plain_forms.items()}

    def _opened_parts(self) -> list[Part]:
        """The parts that the file names, in their order; what they hold is among the plain forms then."""
        if "parts" not in self._header:
            return []
        self._notes["parts"] = self._header["parts"]
        named = list(named_parts(_parsed(self.file, self._header["parts"])))
        parts = [Part(self.file, name, sha256, number, len(named)) for number, (name, sha256) in named]
        for part in parts:
            for key, (name, first) in part.pieces.items():
                self._add_piece(name, first, *part.form(key))
        return parts

    def _add_piece(self, name: str, first: int, shape: tuple[int, ...], kind: str) -> None:
        """The form of a tensor, which pieces of it make up, one after the other."""
        held, other = self._plain_forms.get(name, ((0, *shape[1:]), kind))
        is_next = first == (held[0] if held else -1) and (held[1:], other) == (shape[1:], kind)
        if not (is_next if shape else (first == 0 and name not in self._plain_forms)):
            raise ContentError(f"the pieces of its tensor {name!r} do not follow one another")
        self._plain_forms[name] = ((first + shape[0], *shape[1:]) if shape else (), kind)

    def tensor(self, name: str) -> Tensor:
        """One tensor as it lies in the file, pairs of reals as pairs, and not yet checked."""
        with _whatever_is_wrong(self.file):
            if not self._parts:
                found: Tensor = self._content.get_tensor(name).clone()  # in memory of its own
                return found
            keys = [(part, key) for part in self._parts for key, (of, _) in part.pieces.items() if of == name]
            pieces = [part.tensor(key) for part, key in keys]
            return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def _require_memory(self, device: torch.device) -> None:
        """Refuse tensors that do not fit before the first of them is read: a file of holes has any size."""
        fix = "read it on a larger machine; if the model is small, the file is damaged"
        sizes = [part.file.stat().st_size for part in self._parts] or [self.file.stat().st_size]
        needed = sum(sizes) if device.type == "cpu" else max(sizes)
        require_memory(needed, f"{self.file}: its tensors", fix, FormatError)

    def pieces(self, device: torch.device = CPU) -> Iterator[tuple[str, int, Tensor]]:
        """All tensors, bit by bit as they were written, no more than a part of the file at a time.

        Args:
            device: where they are wanted; parts are read and checked on the CPU.

        Yields:
            name, the first entry of the tensor that this is, and these entries, on the CPU.
        """
        self._require_memory(device)
        if not self._parts:
            yield from ((name, 0, value) for name, value in self._whole().items())
            return
        if self._header.get("sha256") != digest(self._notes, {}):
            raise _damaged(self.file, CHANGED)
        for part in self._parts:
            with _whatever_is_wrong(self.file):
                found = decoded(
                    part.tensors(), [k for k, (n, _) in part.pieces.items() if n in self._complex]
                )
            for key in list(found):
                yield *part.pieces[key], found.pop(key)  # held by nobody here when the next part is read

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, bit by bit as they were written."""
        if not self._parts:
            return self._whole()
        found: dict[str, Tensor] = {}
        for name, first, piece in self.pieces():
            shape = self.forms[name].shape
            if piece.shape == shape:
                found[name] = piece
                continue
            whole = found.setdefault(name, piece.new_empty(shape))
            whole[first : first + len(piece)] = piece
        return found

    def _whole(self) -> dict[str, Tensor]:
        """The tensors of a file without parts, read once."""
        self._require_memory(CPU)
        plain = {name: self.tensor(name) for name in self.forms}
        with _whatever_is_wrong(self.file):
            if self._header.get("sha256") != digest(self._notes, plain):
                raise _damaged(self.file, CHANGED)
            return decoded(plain, self._complex)

    def _as_written(self, name: str, shape: tuple[int, ...], kind: str) -> Form:
        dtype = DTYPES.get(kind, kind)
        is_pair = name in self._complex and shape[-1:] == (2,) and isinstance(dtype, torch.dtype)
        return Form(shape[:-1], dtype.to_complex()) if is_pair else Form(shape, dtype)  # type: ignore[union-attr]


def _form(content: Any, name: str) -> tuple[tuple[int, ...], str]:
    part = content.get_slice(name)
    return tuple(part.get_shape()), str(part.get_dtype())


def write(
    path: str | PathLike[str],
    tensors: Mapping[str, Tensor],
    document: Mapping[str, Any],
    kind: str,
    part_bytes: int = PART,
) -> None:
    """Write tensors and a document to one file, which is there completely or not at all.

    A temporary file in the same folder is written, brought to disk and renamed, so that a crash or a full
    disk leaves the old file as it was. The file is safetensors; complex tensors are pairs of reals in it.
    Tensors of more than ``part_bytes`` go to files of their own beside it, of about that size each, which are
    written before it and which it names; all belong together.

    Args:
        path: of the file, which is replaced if it is there.
        tensors: of any shape, dtype and device, by name.
        document: JSON data.
        kind: what the file is, such as "model" or "checkpoint"; `read` asks for it.
        part_bytes: of tensors that one file holds at most.

    Raises:
        FormatError: if the file cannot be written there.
        ParameterError: if something is no tensor, or the document no JSON data.

    Example:
        >>> import tempfile, torch
        >>> file = Path(tempfile.mkdtemp()) / "numbers.safetensors"
        >>> write(file, {"z": torch.tensor([1 + 2j])}, {"why": "an example"}, kind="example")
        >>> read(file, kind="example")
        Stored(tensors={'z': tensor([1.+2.j])}, document={'why': 'an example'})
        >>> read(file, kind="model")
        Traceback (most recent call last):
        squircuit.errors.FormatError: ...numbers.safetensors: ...kind 'example', not 'model'. Fix: ...
    """
    text, file = _json(document), as_path(path)
    if not is_whole(part_bytes, 1):
        raise ParameterError(f"part_bytes={part_bytes!r}. Fix: pass a number of bytes, at least 1.")
    complex_names = complex_of(tensors)
    notes = {"complex": json.dumps(complex_names), "document": text, "kind": kind}
    if sum(map(nbytes, tensors.values())) <= part_bytes:
        plain, _ = encoded(tensors)
        header = {"format": FORMAT, "version": "1", **notes, "sha256": digest(notes, plain)}
        replace(file, save(plain, header))
        remove_parts(file)
        return
    with PartsWriter(file, tensors, part_bytes, {"format": FORMAT, "version": str(VERSION)}) as parts:
        notes["parts"] = json.dumps(parts.names)
        header = {"format": FORMAT, "version": str(VERSION), **notes, "sha256": digest(notes, {})}
        replace(file, save({}, header))
        parts.keep()
    write_index(file, parts.places, sum(map(nbytes, tensors.values())))
    remove_parts(file, keep=[name for name, _ in parts.names])


def read(path: str | PathLike[str], kind: str) -> Stored:
    """What `write` wrote, on the CPU, bit by bit as it was.

    Raises:
        FormatError: that names the file, what is wrong and the fix: no such file, damaged, of another
            program, of another kind, of a newer version.
    """
    content = Content(path, kind)
    return Stored(content.tensors(), content.document)


def _json(document: Mapping[str, Any]) -> str:
    if not isinstance(document, Mapping):
        raise ParameterError(f"the document must be a mapping, got {document!r}. Fix: pass a dict.")
    try:
        text = json.dumps(dict(document))
        json.loads(text)  # what is nested too deeply is written and not read again
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(
            f"the document is no JSON data ({one_line(error)}). "
            "Fix: use texts, numbers, lists and dicts of them."
        ) from error
    if len(text) > MOST_DOCUMENT:
        raise ParameterError(
            f"the document has {len(text):,} characters, {MOST_DOCUMENT:,} are the most. "
            "Fix: keep shorter notes, and large data in files of its own."
        )
    return text


def _parsed(file: Path, text: str) -> Any:
    if len(text) > MOST_DOCUMENT:
        raise _damaged(file, f"a document of {len(text):,} characters, {MOST_DOCUMENT:,} are the most")
    return parsed(text, "its document", "save it again")


def _names(found: Any) -> frozenset[str]:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ContentError("the names of its complex tensors are no list of texts")
    return frozenset(found)


def _mapping(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ContentError("its document is no JSON object")
    return found


@contextmanager
def _whatever_is_wrong(file: Path) -> Iterator[None]:
    """One clear error for all that a library may raise of bytes that anybody may have written."""
    try:
        yield
    except SquircuitError as error:
        if str(file) in str(error):
            raise
        raise _damaged(file, without_fix(error)) from error
    except Exception as error:  # safetensors, torch and JSON each have errors of their own
        raise _damaged(file, one_line(error)) from error


def _damaged(file: Path, reason: str) -> FormatError:
    return FormatError(
        f"truncated, damaged or no safetensors file ({reason})",
        where=str(file),
        fix=A_FILE + "; if this is one, copy or save it again",
    )
