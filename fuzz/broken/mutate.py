"""Mutations of bytes and of JSON documents, by a random generator."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Path = tuple[str | int, ...]


def raw(text: str) -> str:
    """A text that `dumps` writes as it is, for numbers and nests that Python does not write."""
    return f"<<raw:{text}>>"


HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, -(2**31), 2**31, 2**63, -(2**63), 2**64, 10**12, 10**30, 0.0, -0.0,
    0.5, 1.5, -1.5, 1e-320, 1e308, -1e308, "", " ", "a", "0", "-1", "1e999", "nan", "\0", "\ud800", "a\nb",
    "é" * 50, "x" * 5000, "../../etc/passwd", "__class__", "float16", "int64", "complex64", "Tensor", "load",
    [], {}, [[]], [None], [0], [-1], [1, 2], [1.5], ["a"], [True], {"a": 1}, {"": None}, list(range(300)),
    raw("9" * 5000), raw("-" + "9" * 5000), raw("1e999"), raw("-1e999"), raw("NaN"), raw("Infinity"),
    raw("-Infinity"), raw("[" * 900 + "]" * 900), raw("[" * 100_000 + "]" * 100_000),
    raw('{"a":' * 3000 + "1" + "}" * 3000), raw("0." + "3" * 5000), raw("1E400"), raw('{"a":1,"a":2}'),
)  # fmt: skip
"""Values that a document may hold in place of another."""


def dumps(document: Any) -> str:
    """JSON text in which raw texts are as they are."""
    return re.sub(r'"<<raw:(.*?)>>"', lambda found: found[1].replace('\\"', '"'), json.dumps(document))


def mutated_document(document: Any, rng: Random, times: int | None = None) -> Any:
    """A copy of a JSON document with one or a few entries changed."""
    changed = copy.deepcopy(document)
    for _ in range(times or rng.choice((1, 1, 1, 1, 2, 3))):
        changed = _changed(changed, rng)
    return changed


def _changed(document: Any, rng: Random) -> Any:
    paths = [path for path in _paths(document) if path]
    if not paths or rng.random() < 0.01:
        return rng.choice(HOSTILE)
    *above, last = rng.choice(paths)
    parent = document
    for step in above:
        parent = parent[step]
    rng.choice(CHANGES)(parent, last, rng)
    return document


def _paths(document: Any, path: Path = ()) -> Iterator[Path]:
    """Where the entries of a document are; of long lists only the first ones."""
    yield path
    if isinstance(document, dict):
        for name in document:
            yield from _paths(document[name], (*path, name))
    elif isinstance(document, list):
        for position in range(min(len(document), 40)):
            yield from _paths(document[position], (*path, position))


def _replace(parent: Any, last: Any, rng: Random) -> None:
    parent[last] = copy.deepcopy(rng.choice(HOSTILE))


def _nudge(parent: Any, last: Any, rng: Random) -> None:
    """A value of the same type nearby."""
    value = parent[last]
    if isinstance(value, bool):
        parent[last] = not value
    elif isinstance(value, int):
        parent[last] = rng.choice(
            (value + 1, value - 1, -value, value * 2, value * 10**9, float(value), str(value))
        )
    elif isinstance(value, float):
        parent[last] = rng.choice(
            (-value, value * 2, value * 1e200, value * 1e-200, int(min(abs(value), 9e18)))
        )
    elif isinstance(value, str):
        parent[last] = rng.choice((value + "x", value[:-1], value.upper(), value * 2, value + "\n"))
    else:
        _replace(parent, last, rng)


def _delete(parent: Any, last: Any, rng: Random) -> None:
    del parent[last]


def _add(parent: Any, last: Any, rng: Random) -> None:
    """One more entry, a copy of this one or a hostile one."""
    value = copy.deepcopy(rng.choice((parent[last], rng.choice(HOSTILE))))
    if isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), value)
    else:
        parent[rng.choice(("extra", f"{last}2", "", "\0", "self", "name"))] = value


def _rename(parent: Any, last: Any, rng: Random) -> None:
    """Another name, or in a list another place."""
    value = parent[last]
    del parent[last]
    if isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), value)
    else:
        parent[rng.choice((f"{last}x", str(last).upper(), str(last)[:-1]))] = value


def _swap(parent: Any, last: Any, rng: Random) -> None:
    """Two entries change places."""
    places = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
    other = rng.choice(places)
    parent[last], parent[other] = parent[other], parent[last]


CHANGES: tuple[Callable[[Any, Any, Random], None], ...] = (
    _replace, _replace, _replace, _replace, _nudge, _nudge, _nudge, _delete, _add, _rename, _swap,
)  # fmt: skip


def mutated_bytes(content: bytes, rng: Random) -> bytes:
    """Bytes that were damaged once or a few times."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choice(DAMAGES)(changed, rng)
    return bytes(changed)


def _span(content: bytearray, rng: Random) -> slice:
    start = rng.randrange(len(content) + 1)
    return slice(start, min(len(content), start + rng.choice((1, 2, 4, 8, 16, 64, 256))))


def _flip(content: bytearray, rng: Random) -> None:
    if content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def _set(content: bytearray, rng: Random) -> None:
    if content:
        content[rng.randrange(len(content))] = rng.choice(
            (0, 1, 10, 13, 34, 44, 127, 128, 255, rng.randrange(256))
        )


def _early(content: bytearray, rng: Random) -> None:
    """The first bytes, where headers are."""
    if content:
        content[rng.randrange(min(len(content), 32))] = rng.randrange(256)


def _truncate(content: bytearray, rng: Random) -> None:
    del content[rng.randrange(len(content) + 1) :]


def _cut(content: bytearray, rng: Random) -> None:
    del content[_span(content, rng)]


def _insert(content: bytearray, rng: Random) -> None:
    start = rng.randrange(len(content) + 1)
    content[start:start] = rng.choice((rng.randbytes(rng.choice((1, 2, 8, 100))), *TEXTS))


def _duplicate(content: bytearray, rng: Random) -> None:
    span = _span(content, rng)
    content[span.stop : span.stop] = content[span]


def _exchange(content: bytearray, rng: Random) -> None:
    """Two blocks change places."""
    one, other = sorted((_span(content, rng), _span(content, rng)), key=lambda span: span.start)
    if one.stop <= other.start:
        first, second = content[one], content[other]
        content[other], content[one] = first, second


def _append(content: bytearray, rng: Random) -> None:
    content += rng.choice((b"\0" * 7, b"\n", rng.randbytes(20), bytes(content[: 10**5])))


TEXTS = (
    b"\0",
    b'"',
    b"\n",
    b"\r",
    b",",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"1e999",
    b"9" * 400,
    b"nan",
    b"-inf",
    b"1_0",
)
DAMAGES: tuple[Callable[[bytearray, Random], None], ...] = (
    _flip, _flip, _flip, _set, _early, _truncate, _cut, _insert, _duplicate, _exchange, _append,
)  # fmt: skip
