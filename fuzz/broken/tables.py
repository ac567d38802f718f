"""Files of data: damaged ones, and hostile ones of every format that is read."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from broken.bombs import deflated_zeros, gzip_bomb, npz_bomb, png, png_bomb, zipped
from broken.judge import Case, require
from broken.mutate import mutated_bytes

import squircuit as sq

Files = Mapping[str, bytes]
WIDE = 2000
"""Columns above which a table is only read, once."""


# ---------------------------------------------------------------------- good files


@lru_cache(maxsize=1)
def people() -> bytes:
    """A table with gaps, of a category, a count, a number and an angle."""
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=24)
    columns = [
        np.array(["a", "b", "ç"])[group],
        rng.integers(4, size=24).astype(str),
        np.round(1.6 + 0.1 * group + 0.05 * rng.normal(size=24), 3).astype(str),
        np.round(rng.uniform(0, 360, size=24), 1).astype(str),
    ]
    cells = np.where(rng.random((24, 4)) < 0.1, "", np.stack(columns, axis=1))
    lines = [",".join(row) for row in [("group", "children", "height", "wind"), *cells]]
    return ("\n".join(lines) + "\n").encode()


@lru_cache(maxsize=1)
def good_files() -> tuple[tuple[str, Files], ...]:
    """A file or folder of every format: the path that is read, and the contents."""
    rng = np.random.default_rng(1)
    counts, pixels, floats = (
        rng.integers(5, size=(9, 3)),
        rng.integers(256, size=(6, 2, 2)),
        rng.normal(size=(9, 3)),
    )
    texts = np.array([["a", "1"], ["b", "2"], ["a", "3"]])
    arrays = {"int": counts, "float": floats.astype(np.float32), "text": texts, "bool": counts > 2}
    arrays |= {"order": np.asfortranarray(floats), "big": counts.astype(">i4")}
    single = [(f"{name}.npy", {f"{name}.npy": npy(array)}) for name, array in arrays.items()]
    return (
        ("people.csv", {"people.csv": people()}),
        ("people.tsv", {"people.tsv": people().replace(b",", b"\t")}),
        ("people.csv.gz", {"people.csv.gz": gzip.compress(people(), mtime=0)}),
        ("plain.data", {"plain.data": "\n".join(",".join(map(str, row)) for row in counts).encode()}),
        ("people.parquet", {"people.parquet": _parquet()}),
        *single,
        ("pixels.npy", {"pixels.npy": npy(pixels.astype(np.uint8))}),
        ("one.npz", {"one.npz": _npz(rows=floats)}),
        ("columns.npz", {"columns.npz": _npz(a=counts[:, 0], b=floats[:, 0])}),
        ("grey", {f"grey/{i}.png": _png(image) for i, image in enumerate(pixels.astype(np.uint8))}),
        ("colour", {f"colour/{i}.png": _png(rng.integers(256, size=(2, 2, 3))) for i in range(2)}),
        ("images.idx", {"images.idx": _idx(pixels)}),
        ("images.idx.gz", {"images.idx.gz": gzip.compress(_idx(pixels), mtime=0)}),
    )


def npy(array: Any, **options: Any) -> bytes:
    """An array as a .npy file."""
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def _npz(**arrays: Any) -> bytes:
    """Arrays as a .npz file; that of NumPy holds the time."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), npy(array), zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def _png(levels: Any) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.asarray(levels, dtype=np.uint8)).save(stream, format="png")
    return stream.getvalue()


def _idx(values: Any) -> bytes:
    return (
        bytes([0, 0, 8, values.ndim])
        + struct.pack(f">{values.ndim}I", *values.shape)
        + values.astype("u1").tobytes()
    )


def _parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "group": pa.array(["a", "b", None, "a"] * 3).dictionary_encode(),
        "name": pa.array(["x", "y", "y", "x"] * 3),
        "n": pa.array([1, 2, 3, None] * 3, pa.int32()),
        "height": pa.array(np.linspace(0, 1, 12)),
        "flag": pa.array([True, False] * 6),
    }
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, row_group_size=6)
    return stream.getvalue()


# ---------------------------------------------------------------------- laws


def read_table(path: Path) -> sq.data.Table:
    """The table of a file, which obeys the laws of tables."""
    table = sq.data.read(path)
    require_table(table)
    if len(table.columns) > WIDE:
        return table
    require(sq.data.scan(path) == table.schema, "scan and read infer different columns")
    again = sq.data.read(path, like=table)
    same = np.array_equal(again.rows, table.rows, equal_nan=True) and np.array_equal(
        again.missing, table.missing
    )
    require(same, "read with its own types gives another table")
    if path.suffix in (".npy", ".parquet") and path.is_file():
        _require_stream(path, table)
    return table


def require_table(table: sq.data.Table, own: bool = True) -> None:
    """Rows, gaps and types fit each other; types of another table may know fewer decimals than its rows."""
    rows, columns = table.rows, table.columns
    require(rows.shape == table.missing.shape == (len(table), len(columns)), "shapes differ", rows.shape)
    require(len(table) > 0 and len(columns) > 0, "nothing in it", rows.shape)
    require(len(set(table.schema.names)) == len(columns), "two columns have one name")
    for number, column in enumerate(columns[:300]):
        _require_column(column, rows[:, number], table.missing[:, number])
    if rows.size <= 10_000:
        require(sq.data.Schema.from_dict(table.schema.to_dict()) == table.schema, "the schema is not kept")
        table.families(size=4)
        str(table)
        _require_decoded(table, own)


def _require_column(column: sq.data.Column, values: Any, missing: Any) -> None:
    known = values[~missing]
    if column.is_discrete:
        inside = (known >= 0) & (known < column.size) & (known == np.floor(known))
        require(inside.all(), "states out of range", column)
        require((values[missing] == 0).all(), "missing states are not 0", column)
        return
    require(np.isfinite(known).all(), "numbers that are not finite", column)
    require(np.isnan(values[missing]).all(), "missing numbers are not NaN", column)
    facts = (column.low, column.high, column.loc, column.scale)
    require(np.isfinite(facts).all() and column.scale > 0, "a column without mean or deviation", column)
    ordered = (
        column.kind == "periodic" or column.low <= column.loc * (1 + 1e-9 * np.sign(column.loc)) + 1e-300
    )
    require(ordered, "the mean is below all values", column)


def _require_decoded(table: sq.data.Table, own: bool) -> None:
    """Original values are encoded as they were; where they are rounded, once is enough."""
    first = table.cells if own else table.encode(table.decode(table.rows, table.missing))
    again = table.encode(table.decode(first.x, first.missing))
    require(np.array_equal(first.missing, table.missing), "decoded rows have other gaps")
    same = np.array_equal(again.x, first.x, equal_nan=True) and np.array_equal(again.missing, first.missing)
    require(same, "decoded rows are encoded differently")


def _require_stream(path: Path, table: sq.data.Table) -> None:
    """Batches have the rows of the table, in another order."""
    parts = [part.x for part in sq.data.Batches(path, batch=4, like=table.schema)]
    require(sum(len(part) for part in parts) == len(table), "a stream of another length")
    sort = np.lexsort(np.concatenate(parts).T), np.lexsort(table.rows.T)
    same = np.array_equal(np.concatenate(parts)[sort[0]], table.rows[sort[1]], equal_nan=True)
    require(same, "a stream of other rows")


def same_tables(one: sq.data.Table, other: sq.data.Table) -> bool:
    """Whether two tables have the same columns, cells and gaps."""
    return (
        one.schema == other.schema
        and np.array_equal(one.rows, other.rows, equal_nan=True)
        and np.array_equal(one.missing, other.missing)
    )


def read(path: Path) -> None:
    """Read a file by its ending, and compare with another way of reading it."""
    if ".idx" in path.name:
        _read_idx(path)
        return
    table = read_table(path)
    if path.name.endswith(".csv.gz"):
        _require_same_unpacked(path, table)
    elif path.suffix == ".npz":
        _require_whole_archive(path)
    elif path.is_dir():
        _require_whole_images(path)


def _require_same_unpacked(path: Path, table: sq.data.Table) -> None:
    plain = path.with_name("unpacked.csv")
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    require(same_tables(table, sq.data.read(plain)), "packed and plain files differ")


def _require_whole_archive(path: Path) -> None:
    """The checksums of a zip archive are right; a .npy file with another ending is read as well."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            require(archive.testzip() is None, "a wrong checksum is passed over")


def _require_whole_images(folder: Path) -> None:
    """The checksum of every chunk of a PNG file is right, up to its end."""
    for file in folder.glob("*.png"):
        content, position, name = file.read_bytes(), 8, b""
        while name != b"IEND":
            head = content[position : position + 8]
            require(len(head) == 8, "an image that is cut off is read")
            size, name = struct.unpack(">I4s", head)
            data = content[position + 4 : position + 8 + size]
            checksum = content[position + 8 + size : position + 12 + size]
            right = checksum == struct.pack(">I", zlib.crc32(data))
            critical = name[:1].isupper()
            require(right or not critical, "a wrong checksum of an image is passed over")
            position += 12 + size


def _read_idx(path: Path) -> None:
    array = sq.data.read_idx(path)
    content = path.read_bytes()
    plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    require(
        plain.endswith(array.astype(array.dtype.newbyteorder(">")).tobytes()),
        "other numbers than in the file",
    )
    require(plain[3] == array.ndim, "another number of axes")


# ---------------------------------------------------------------------- hostile files


def _hostile_csv(rng: Random) -> bytes:
    return rng.choice(CSV if rng.random() < 0.95 else WIDE_CSV)()


CSV: tuple[Callable[[], bytes], ...] = (
    lambda: b"",
    lambda: b"\n\n\n",
    lambda: b"a,b\n",
    lambda: b"a,b\n1,2\n3\n",
    lambda: b"a,a\n1,2\n3,4\n",
    lambda: b"a,\n1,2\n",
    lambda: b'a,b\n"1,2\n3,4\n5,6\n',
    lambda: b'a,b\n1,"' + b"x\n" * 20_000,
    lambda: b"\xef\xbb\xbfa,b\n1,2\n3,4\n",
    lambda: b"\xff\xfea\0,\0b\0\n\0001\0,\0002\0\n\0",
    lambda: "a,b\n1,é\n2,ü\n".encode("latin-1"),
    lambda: "a,b\n1,é\n2,ü\n".encode("utf-16"),
    lambda: b"a,b\n1,\0\n2,\0\n3,x\n",
    lambda: b"a,b\n1,1e999\n2,3\n3,-1e999\n",
    lambda: b"a,b\n1," + b"9" * 5000 + b"\n2,3\n3,4\n",
    lambda: b"a,b\n1," + b"x" * 100_000 + b"\n2,y\n3,z\n",
    lambda: b"a,b\n1," + b"x" * 200_000 + b"\n2,y\n3,z\n",
    lambda: b"x" * 100_000 + b",b\n1,2\n2,3\n3,z\n",
    lambda: b"x" * 100_000 + b"\n" + b"x" * 90_000 + b"\n",
    lambda: b"a,b\n1.7e308,1\n-1.7e308,2\n1e308,3\n",
    lambda: b"a,b\n1e-320,1\n2e-320,2\n5e-324,3\n",
    lambda: b"a,b\n9007199254740993,1\n9007199254740992,2\n9007199254740995,3\n",
    lambda: b"a,b\n0x10,1_0\n0b1,2\n\xd9\xa1,3\n",
    lambda: b"a,b\n1,2\r3,4\r\n5,6\n",
    lambda: b"a,b\n" + b"1,2\n" * 3000 + b"3",
    lambda: b"\n".join([b"1,2"] * 3 + [b"," * 300_000]),
    lambda: b"a\n" + b"\n".join(b"name%d" % i for i in range(20_000)),
    lambda: b"a;b\t c|d,e\n1;2\t3|4,5\n",
    lambda: b"a,b\ninf,nan\n-inf,NaN\n1,2\n",
    lambda: b"a,b\n\x1b[31mred,1\n\x1b[2Jx,2\nz,3\n",
    lambda: b"\x1b[31mred,b\nx,1\nx,2\n",
    lambda: "a\u2028b,c\nx,1\ny,2\n".encode(),
    lambda: b'"a\nb",c\nx,1\ny,2\n5,inf\n',
    lambda: b'a,b\n"x\ny",1\n1,2\n2,3\n3,4\n',
    lambda: b"a,b\n" + b"\n".join(b"%d.5,%d" % (i, i % 3) for i in range(40_000)),
)  # fmt: skip


WIDE_CSV: tuple[Callable[[], bytes], ...] = (
    lambda: b",".join(b"c%d" % i for i in range(50_000)) + b"\n" + (b"1.5," * 49_999 + b"2\n") * 2,
    lambda: b"," * 50_000 + b"\n",
    lambda: b",".join(b"c%d" % i for i in range(50_000)) + b"\n" + b"x," * 49_999 + b"2\n",
)
"""Files of many columns, which take time."""


def _hostile_gzip(rng: Random) -> bytes:
    good = gzip.compress(people(), mtime=0)
    choices: tuple[Callable[[], bytes], ...] = (
        lambda: gzip_bomb(60, b"\0"),
        lambda: gzip_bomb(60, b"x"),
        lambda: gzip_bomb(60, b"\n"),
        lambda: good[:-1],
        lambda: good[:-8] + b"\0" * 8,
        lambda: good + b"tail",
        lambda: good + good,
        lambda: people(),
        lambda: gzip.compress(good, mtime=0),
        lambda: gzip.compress(_hostile_csv(rng), mtime=0),
        lambda: b"\x1f\x8b",
    )
    return rng.choice(choices)()


def _header(text: str, data: bytes = b"\0" * 64, version: int = 1) -> bytes:
    """A .npy file with any text as its header."""
    head = text.encode("latin-1", "replace") + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(head))
    return b"\x93NUMPY" + bytes([version, 0]) + length + head + data


def _hostile_npy(rng: Random) -> bytes:
    descr = rng.choice(DESCRIPTIONS)
    order = rng.choice(("False", "True", "0", "None", "'x'"))
    shape = rng.choice(SHAPES)
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    choices: tuple[Callable[[], bytes], ...] = (
        *[lambda: _header(text, version=rng.choice((1, 2, 3)))] * 6,
        lambda: _header(
            rng.choice(("", "{", "[" * 3000, "1", "{}", "None", "'x'", "__import__('os')", "\0" * 50))
        ),
        lambda: npy(np.array([{"a": 1}, None], dtype=object), allow_pickle=True),
        lambda: npy(rng.choice(ARRAYS)()),
        lambda: _header(
            "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 2), }" + " " * 60_000, version=2
        ),
    )
    return rng.choice(choices)()


DESCRIPTIONS = (
    "'<f8'", "'|u1'", "'<i8'", "'|O'", "'<U0'", "'<U4'", "'|S3'", "'<c16'", "'<M8[s]'", "'|V8'", "'<f2'",
    "'<f16'", "'x'", "''", "5", "None", "[('a', '<f8'), ('b', '<i4')]", "[('a', '<f8', (2,))]",
    "'<U1000000000'", "[]", "'|b1'", "'<f8,<f8'", "[('a', '|O')]", "('<f8', (2, 2))", "'>f8'", "'float'",
    "{}",
)  # fmt: skip
SHAPES = (
    "(4, 2)", "(8,)", "()", "(0,)", "(0, 3)", "(3, 0)", "(-1, 2)", "(-1,)", "(2, 2, 2)", "(1000000000000, 1)",
    "(9223372036854775807, 3)", "(4294967296, 4294967296)", "(2.0, 2)", "'x'", "(True, 2)", "8", "[4, 2]",
    "None", "(" + "1, " * 40 + ")", "(" + "9" * 5000 + ",)", "(1, 8)", "(4, 2, 1, 1)",
)  # fmt: skip
ARRAYS: tuple[Callable[[], Any], ...] = (
    lambda: np.zeros((0, 3)),
    lambda: np.zeros((3, 0)),
    lambda: np.float64(3),
    lambda: np.full((4, 2), np.nan),
    lambda: np.array([[np.inf, 1.0], [2.0, -np.inf]]),
    lambda: np.array([[1.7e308, 1.0], [-1.7e308, 2.0]]),
    lambda: np.array([[2**63 - 1, 1], [2**63 - 2, 2]]),
    lambda: np.array([[2**64 - 1, 1], [2**64 - 2, 2]], dtype=np.uint64),
    lambda: np.array([["", "a"], ["nan", "b"]]),
    lambda: np.array([["\0", "a\nb"], ["x", "\x1b[0m"]]),
    lambda: np.arange(12).reshape(2, 3, 2).T,
    lambda: np.ones((4, 2), dtype=bool),
    lambda: np.random.default_rng(0).normal(size=(3, 20_000)),
    lambda: np.array([["2020-01-01"], ["2020-01-02"]], dtype="M8[D]"),
    lambda: np.array([[1, 2], [3, 4]], dtype=np.float16),
    lambda: np.array([[1e-320, 2.0], [2e-320, 4.0], [0.0, 5.0]]),
    lambda: np.array([[-0.0, 1.5], [0.0, 2.5]]),
)


def _hostile_npz(rng: Random) -> bytes:
    array, other = np.arange(6.0).reshape(3, 2), np.arange(4)
    body, size = zlib.compress(npy(array))[2:-4], len(npy(array))
    checksum = zlib.crc32(npy(array))
    choices: tuple[Callable[[], bytes], ...] = (
        lambda: npz_bomb(60),
        lambda: _npz(),
        lambda: _npz(a=array, b=other),
        lambda: _npz(a=np.array([{"a": 1}], dtype=object)),
        lambda: _npz(**{"": other, "x\ny": other}),
        lambda: _npz(**{f"c{i}": other for i in range(300)}),
        lambda: _npz(a=np.array(["x", "y"]), b=np.array([1, 2])),
        lambda: _npz(a=rng.choice(ARRAYS)()),
        lambda: _npz(a=np.arange(3), b=np.array([True, False, True]), c=np.zeros(3, dtype="M8[s]")),
        lambda: zipped(b"a.npy", body, checksum ^ 1, size),
        lambda: zipped(b"a.npy", body, checksum, size + 1),
        lambda: zipped(b"a.npy", body, checksum, 2**32 - 2),
        lambda: zipped(b"a.txt", body, checksum, size),
        lambda: zipped(b"../a.npy", body, checksum, size),
        lambda: zipped(b"a.npy", deflated_zeros(60, -15), 0, 60 * 10 * 2**20),
        lambda: _encrypted(zipped(b"a.npy", body, checksum, size)),
        lambda: _method(zipped(b"a.npy", body, checksum, size), rng.choice((1, 9, 12, 14, 93, 99))),
        lambda: npy(array),
    )
    return rng.choice(choices)()


def _encrypted(archive: bytes) -> bytes:
    """The flag of an encrypted file set."""
    start = archive.rindex(b"PK\1\2")
    return archive[:6] + b"\1" + archive[7 : start + 8] + b"\1" + archive[start + 9 :]


def _method(archive: bytes, method: int) -> bytes:
    """Another method of compression claimed."""
    start = archive.rindex(b"PK\1\2")
    return archive[:8] + bytes([method]) + archive[9 : start + 10] + bytes([method]) + archive[start + 11 :]


def _hostile_images(rng: Random) -> Files:
    good = _png(np.arange(4).reshape(2, 2))
    small = zlib.compress(b"\0\1\2\0\3\4")
    choices: tuple[Callable[[], Files], ...] = (
        lambda: {"i/a.png": png_bomb(60_000, rng.choice((1, 8)))},
        lambda: {"i/a.png": good, "i/b.png": png_bomb(9_000)},
        lambda: {"i/a.png": png_bomb(9_000)},
        lambda: {"i/a.png": png_bomb(rng.choice((500, 1000)))},
        lambda: {"i/a.png": png(2**31 - 1, 2**31 - 1, 8, small)},
        lambda: {"i/a.png": png(0, 0, 8, small)},
        lambda: {"i/a.png": png(2, 2, rng.choice((0, 1, 3, 16, 255)), small, rng.choice((0, 2, 3, 4, 6, 9)))},
        lambda: {"i/a.png": png(2, 2, 8, small[:-5])},
        lambda: {"i/a.png": b""},
        lambda: {"i/a.png": b"not an image"},
        lambda: {"i/a.txt": good},
        lambda: {"i/a.png": good, "i/b.jpg": good, "i/c.gif": b"GIF89a"},
        lambda: {"i/a.tif": b"II*\0" + b"\xff" * 200},
        lambda: {
            "i/a.bmp": b"BM"
            + struct.pack("<IHHIIiiHH", 60, 0, 0, 54, 40, 2**30, -(2**30), 1, 24)
            + b"\0" * 30
        },
        lambda: {"i/a.png": good, "i/b.png": good, "i/c.png": good},
        lambda: {f"i/{name}.png": good for name in ("a\nb", "\x1b[0m", "é")} | {"i/z\ny.png": b"x"},
        lambda: {f"i/a.{rng.choice(('webp', 'gif', 'jpg', 'tiff', 'bmp'))}": mutated_bytes(good, rng)},
        lambda: {f"i/a.{kind}": _picture(kind, rng) for kind in (rng.choice(PICTURES),)},
    )
    return rng.choice(choices)()


PICTURES = ("bmp", "gif", "jpeg", "tiff", "webp", "png")


def _picture(kind: str, rng: Random) -> bytes:
    """A damaged picture of any format."""
    from PIL import Image

    stream = io.BytesIO()
    mode = rng.choice(("L", "RGB", "1", "P") if kind != "webp" else ("RGB",))
    Image.new(mode, (3, 2), 1).convert("RGB" if kind == "jpeg" else mode).save(stream, format=kind)
    return mutated_bytes(stream.getvalue(), rng)


def _hostile_idx(rng: Random) -> bytes:
    content = (
        bytes([0, 0, rng.choice((8, 9, 11, 12, 13, 14, 10, 0, 255)), rng.choice((0, 1, 2, 3, 33, 65, 255))])
        + b"".join(
            struct.pack(">I", rng.choice((0, 1, 2, 2**16, 2**31, 2**32 - 1))) for _ in range(rng.randrange(6))
        )
        + rng.randbytes(rng.choice((0, 1, 4, 8, 16)))
    )
    ones = bytes([0, 0, 8, 70]) + struct.pack(">I", 1) * 70 + b"\7"
    choices = (
        content,
        content,
        content,
        ones,
        gzip.compress(content, mtime=0),
        gzip_bomb(60, b"\0\0\x08\x01"),
        b"",
        b"\x1f\x8b",
    )
    return rng.choice(choices)


def _hostile_parquet(rng: Random) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: {"a": pa.array([], pa.int32())},
        lambda: {"a": pa.nulls(3)},
        lambda: {"a": pa.array([[1], [2, 3]])},
        lambda: {"a": pa.array([{"x": 1}, {"x": 2}])},
        lambda: {"a": pa.array([b"x", b"y"])},
        lambda: {"a": pa.array([1, 2], pa.timestamp("s"))},
        lambda: {"a": pa.array([float("inf"), 1.0, float("nan")])},
        lambda: {"a": pa.array([2**63 - 1, 1, -(2**63)])},
        lambda: {"": pa.array([1, 2]), "b": pa.array(["x", "y"])},
        lambda: {"x\ny": pa.array(["a\nb", "c", "1"])},
        lambda: {f"c{i}": pa.array([i, 1.5]) for i in range(1500)},
        lambda: {"a": pa.array(["x" * 10**6, "y"])},
        lambda: {"a": pa.array([1, 2], pa.decimal128(38, 2))},
        lambda: {"a": pa.array(["u", None, "v"], pa.large_string())},
        lambda: {"a": pa.array(["u", None, "v"], pa.string_view())},
        lambda: {"a": pa.array([1.0, 2.0], pa.float16())},
        lambda: {"a": pa.array([1.7e308, -1.7e308, 1.0])},
        lambda: {"a": pa.array([0, 1, 2], pa.duration("s"))},
        lambda: {"a": pa.array([None, None], pa.dictionary(pa.int8(), pa.string()))},
        lambda: {"a": pa.array(np.zeros(500_000)), "b": pa.array(np.zeros(500_000, np.int8))},
    )
    chosen = rng.choice(columns)()
    table = pa.table(chosen)
    if rng.random() < 0.1:
        table = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=rng.choice((1, 2, 10**6)) if len(table) < 100 else 10**6)
    return stream.getvalue()


# ---------------------------------------------------------------------- cases


def _bytes_case(rng: Random) -> Case:
    """One file of a good table damaged."""
    path, files = rng.choice(good_files())
    name = rng.choice(sorted(files))
    changed = {**files, name: mutated_bytes(files[name], rng)}
    return Case(f"data: bytes of {_ending(path)}", changed, lambda folder: read(folder / path))


def _ending(path: str) -> str:
    return "." + path.partition(".")[2] if "." in path else "images"


def _hostile(name: str, make: Callable[[Random], bytes]) -> Callable[[Random], Case]:
    def case(rng: Random) -> Case:
        return Case(f"data: hostile {_ending(name)}", {name: make(rng)}, lambda folder: read(folder / name))

    return case


def _images_case(rng: Random) -> Case:
    return Case("data: hostile images", _hostile_images(rng), lambda folder: _only_read(folder / "i"))


def _only_read(path: Path) -> None:
    read_table(path)


def _like_case(rng: Random) -> Case:
    """New rows for the types of a good table."""
    content = mutated_bytes(people(), rng) if rng.random() < 0.7 else _hostile_csv(rng)

    def read(folder: Path) -> None:
        (folder / "good.csv").write_bytes(people())
        schema = sq.data.scan(folder / "good.csv")
        table = sq.data.read(folder / "people.csv", like=schema)
        require(table.schema == schema, "other types than asked for")
        require_table(table, own=False)

    return Case("data: like another", {"people.csv": content}, read)


def some_table(rng: Random) -> bytes:
    """A damaged or hostile CSV file, for the command line."""
    return mutated_bytes(people(), rng) if rng.random() < 0.8 else _hostile_csv(rng)


CASES: tuple[tuple[float, Callable[[Random], Case]], ...] = (
    (24, _bytes_case),
    (2, _like_case),
    (2.5, _hostile("hostile.csv", _hostile_csv)),
    (1, _hostile("hostile.tsv", _hostile_csv)),
    (0.5, _hostile("hostile.csv.gz", _hostile_gzip)),
    (4, _hostile("hostile.npy", _hostile_npy)),
    (1, _hostile("hostile.npz", _hostile_npz)),
    (1, _images_case),
    (1, _hostile("hostile.idx", _hostile_idx)),
    (1, _hostile("hostile.parquet", _hostile_parquet)),
)
"""How often, and what."""
