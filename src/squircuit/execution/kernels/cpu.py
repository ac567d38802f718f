"""Builds and calls ``cpu.c``, the kernels for CPUs: by the system's C compiler, when one is first asked for.

Plain C through ``cc`` and ctypes takes two seconds and no headers of torch. One library for each type of
numbers is kept in ``~/.cache/squircuit/kernels``, under a name with the hash of source, compiler and features
of the processor. Where there is no compiler, callers take the twins in plain torch; ``SQUIRCUIT_KERNELS=off``
wants that, and any other value is another folder. :func:`status` says which serve, and why.

Contract: the same as the twins up to rounding, whatever the number of threads.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from squircuit.errors import FormatError
from squircuit.storage.atomic import replace

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-O3", "-march=native", "-fPIC", "-fno-math-errno")
NUMBERS = {torch.float32: "float", torch.float64: "double"}
MOST_FACTORS = 16


class NoKernelsError(Exception):
    """Why there are none here."""


def status() -> str:
    """Which kernels serve on this machine's CPU, in words.

    Example:
        >>> status().partition(":")[0]
        'CPU kernels'
    """
    try:
        _library(torch.float32, 2)
    except NoKernelsError as error:
        return f"CPU kernels: off, plain torch serves ({error})"
    return "CPU kernels: on"


def usable(dtype: torch.dtype, planes: int, *tensors: Tensor) -> bool:
    """There are kernels for this type, real or complex, and all tensors lie contiguously in memory."""
    if dtype not in NUMBERS or not all(
        t.device.type == "cpu" and t.dtype == dtype and t.is_contiguous() for t in tensors
    ):
        return False
    try:
        _library(dtype, planes)
    except NoKernelsError:
        return False
    return True


def weighs(weight: Tensor, factors: Sequence[Tensor], *others: Tensor) -> bool:
    """The kernels can serve W times a product of these factors."""
    first = factors[0]
    return len(factors) <= MOST_FACTORS and usable(first.dtype, first.shape[2], weight, *factors, *others)


def weigh(kind: str, weight: Tensor, factors: Sequence[Tensor]) -> Tensor:
    """W times the product of the factors: (F, K, 2 or 1, B). See ``weighted_product.forward``."""
    folds, _, planes, batch = factors[0].shape
    out = weight.new_empty(folds, weight.shape[1], planes, batch)
    _call(out, "weigh", *_product(kind, factors), _at(weight), *_sizes(weight, factors), _at(out))
    return out


def gradients(
    kind: str,
    weight: Tensor,
    factors: Sequence[Tensor],
    gradient: Tensor,
    targets: Sequence[Tensor],
    total: Tensor,
    fresh: bool,
) -> None:
    """The gradients of the factors and of W. See ``weighted_product.backward``."""
    product, sizes, g = _product(kind, factors), _sizes(weight, factors), _at(gradient)
    _call(gradient, "factor_gradients", *product, _at(weight), *sizes, g, _all_at(targets))
    _call(gradient, "weight_gradient", *product, *sizes, g, _at(total), ctypes.c_int(fresh))


def _product(kind: str, factors: Sequence[Tensor]) -> tuple[Any, ...]:
    widths = (ctypes.c_int64 * len(factors))(*(factor.shape[1] for factor in factors))
    return ctypes.c_int(kind == "kronecker"), ctypes.c_int(len(factors)), widths, _all_at(factors)


def _sizes(weight: Tensor, factors: Sequence[Tensor]) -> tuple[Any, ...]:
    folds, _, _, batch = factors[0].shape
    tied = len(weight) == 1 and folds > 1
    return tuple(ctypes.c_int64(each) for each in (tied, folds, weight.shape[1], batch))


def _at(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _all_at(tensors: Sequence[Tensor]) -> Any:
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


def _call(like: Tensor, name: str, *arguments: Any) -> None:
    """One function of the library for the type of a tensor of planes, with as many threads as torch has."""
    library = _library(like.dtype, like.shape[2])
    getattr(library, name)(*arguments, ctypes.c_int(torch.get_num_threads()))


# ------------------------------------------------------------------ building


@cache
def _library(dtype: torch.dtype, planes: int) -> ctypes.CDLL:
    """The functions for one type of numbers, built if they are not there."""
    wanted = os.environ.get("SQUIRCUIT_KERNELS", "~/.cache/squircuit/kernels")
    if wanted == "off":
        raise NoKernelsError("SQUIRCUIT_KERNELS=off")
    number = NUMBERS[dtype]
    command = (os.environ.get("CC", "cc"), *FLAGS, f"-DNUMBER={number}", f"-DPLANES={planes}")
    try:
        file = Path(wanted).expanduser() / f"{number}-{planes}-{_hash(command)}.so"
        with suppress(OSError):
            return ctypes.CDLL(str(file))
        return _built(command, file)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        raise NoKernelsError(_reason(error)) from error


def _hash(command: Sequence[str]) -> str:
    """Of all that a library depends on; the macros of a compiler name its version and the processor's features."""
    macros = _run([*command, "-E", "-dM", "-x", "c", os.devnull])
    return hashlib.sha256(b"\0".join([repr(command).encode(), macros, SOURCE.read_bytes()])).hexdigest()[:24]


def _built(command: Sequence[str], file: Path) -> ctypes.CDLL:
    """With several threads where torch's OpenMP is the compiler's; two of them would fight for the cores."""
    with TemporaryDirectory() as folder:
        made, parts = Path(folder) / file.name, str(Path(folder) / "cpu.o")
        for threads in (["-fopenmp"], []):
            _run([*command, *threads, "-c", str(SOURCE), "-o", parts])
            _run([command[0], "-shared", parts, "-lm", "-o", str(made)])  # OpenMP is torch's, in memory
            with suppress(OSError):
                library = ctypes.CDLL(str(made))
                break
        else:
            raise OSError(f"{made} cannot be loaded")
        with suppress(OSError, FormatError):  # where the folder cannot be written, the next process builds
            file.parent.mkdir(parents=True, exist_ok=True)
            replace(file, made.read_bytes())
        return library


def _run(command: Sequence[str]) -> bytes:
    return subprocess.run(command, capture_output=True, check=True, timeout=300).stdout


def _reason(error: Exception) -> str:
    said = getattr(error, "stderr", None)
    return " ".join((said or str(error).encode()).decode(errors="replace").split())[:200]
