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
MOST_ROWS = 32  # of a matrix whose square ones cost next to nothing
FUNCTIONS = {
    "weigh": "iiaannnnaai",
    "factor_gradients": "iiaannnnaaai",
    "weight_gradient": "iiaannnnaaii",
    "normalise": "annniaaaai",
    "gather": "aannnnnai",
    "scatter": "aannnnnai",
    "polar_step": "nnnaaadaiddii",
    "look": "nnnaaai",
}
"""The arguments of each: i an int, n an int64_t, d a double, a an address."""
TYPES: dict[str, Any] = {"i": ctypes.c_int, "n": ctypes.c_int64, "d": ctypes.c_double, "a": ctypes.c_void_p}


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


def usable(planes: int, *tensors: Tensor) -> bool:
    """There are kernels for such reals, or planes of complex numbers, and all lie contiguously on the CPU."""
    dtype = tensors[0].dtype
    if dtype not in NUMBERS:
        return False
    for tensor in tensors:
        if not (tensor.is_cpu and tensor.dtype == dtype and tensor.is_contiguous()) or tensor.is_neg():
            return False
    try:
        _library(dtype, planes)
    except NoKernelsError:
        return False
    return True


def weighs(weight: Tensor, factors: Sequence[Tensor], *others: Tensor) -> bool:
    """The kernels can serve W times a product of these factors."""
    return len(factors) <= MOST_FACTORS and usable(factors[0].shape[2], weight, *factors, *others)


def serves(*tensors: Tensor) -> bool:
    """The kernels can serve these tensors of numbers, all real or all complex, stored as they are."""
    complex_ = [t for t in tensors if t.is_complex() and not t.is_conj()]
    return len(complex_) in (0, len(tensors)) and usable(
        1 + bool(complex_), *(torch.view_as_real(t) if complex_ else t for t in tensors)
    )


def weigh(kind: str, weight: Tensor, factors: Sequence[Tensor]) -> Tensor:
    """W times the product of the factors: (F, K, 2 or 1, B). See ``weighted_product.forward``."""
    folds, _, planes, batch = factors[0].shape
    out = weight.new_empty(folds, weight.shape[1], planes, batch)
    _call(out, "weigh", *_product(kind, weight, factors), weight.data_ptr(), out.data_ptr())
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
    product, g = _product(kind, weight, factors), gradient.data_ptr()
    _call(gradient, "factor_gradients", *product, weight.data_ptr(), g, _places(targets))
    _call(gradient, "weight_gradient", *product, g, total.data_ptr(), fresh)


def normalise(out: Tensor, scales: Sequence[Tensor], values: Tensor, scale: Tensor) -> Tensor:
    """v/‖v‖ → ``values``, log‖v‖ + Σ s_i → ``scale``; returns 1/‖v‖. See ``log_scales.normalise``."""
    folds, units, _, batch = out.shape
    inverse = out.new_empty(folds, 1, 1, batch)
    ends = values.data_ptr(), scale.data_ptr(), inverse.data_ptr()
    _call(out, "normalise", out.data_ptr(), folds, units, batch, len(scales), _places(scales), *ends)
    return inverse


def gather(table: Tensor, x: Tensor) -> Tensor:
    """(F or 1, K, V) tables, (F, B) columns → planes (F, K, 2 or 1, B)."""
    (tables, units, values), (folds, batch), x = table.shape, x.shape, x.contiguous()
    out = x.new_empty(folds, units, 1 + table.is_complex(), batch, dtype=table.dtype.to_real())
    sizes = tables < folds, folds, units, values, batch
    _call(out, "gather", table.data_ptr(), x.data_ptr(), *sizes, out.data_ptr())
    return out


def scatter(gradient: Tensor, x: Tensor, tables: int, values: int) -> Tensor:
    """Σ_b g_b [x_b = v]: planes (F, K, 2 or 1, B), (F, B) → (F or 1, K, V), complex or real."""
    (folds, units, planes, batch), x = gradient.shape, x.contiguous()
    out = gradient.new_empty(tables, units, values, planes)
    sizes = tables < folds, folds, units, values, batch
    _call(gradient, "scatter", gradient.data_ptr(), x.data_ptr(), *sizes, out.data_ptr())
    return torch.view_as_complex(out) if planes == 2 else out.squeeze(3)


def polar_step(
    x: Tensor, g: Tensor, m: Tensor, factor: float, scale: Tensor, rate: float, trust: float, steps: int
) -> None:
    """One step of ``Polar`` on matrices (S, K1, K2), in place; scale (S, K1 or 1, 1) in double precision."""
    rows = scale.expand(-1, x.shape[1], 1).contiguous()
    numbers = x.data_ptr(), g.data_ptr(), m.data_ptr(), factor, rows.data_ptr()
    step = _library(x.dtype.to_real(), 1 + x.is_complex()).polar_step
    step(*x.shape, *numbers, scale.shape[1] > 1, rate, trust, steps, torch.get_num_threads())


def look(weight: Tensor, z: Tensor) -> Tensor:
    """max |W (Wᴴ z) − z| over two real vectors z, (2, K1), of each matrix: (S, K1, K2) → (S,) float64."""
    found = torch.empty(len(weight), dtype=torch.float64)
    numbers = weight.data_ptr(), z.data_ptr(), found.data_ptr()
    _library(z.dtype, 1 + weight.is_complex()).look(*weight.shape, *numbers, torch.get_num_threads())
    return found


def _product(kind: str, weight: Tensor, factors: Sequence[Tensor]) -> tuple[Any, ...]:
    """The arguments that say what is multiplied."""
    (folds, _, _, batch), (matrices, units, _) = factors[0].shape, weight.shape
    widths = (ctypes.c_int64 * len(factors))(*(factor.shape[1] for factor in factors))
    tied = matrices < folds
    return kind == "kronecker", len(factors), widths, _places(factors), tied, folds, units, batch


def _places(tensors: Sequence[Tensor]) -> Any:
    """Where tensors lie in memory."""
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


def _call(like: Tensor, name: str, *arguments: Any) -> None:
    """One function of the library for the type of a tensor of planes, with as many threads as torch has."""
    getattr(_library(like.dtype, like.shape[2]), name)(*arguments, torch.get_num_threads())


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
            return _opened(file)
        return _built(command, file)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        raise NoKernelsError(_reason(error)) from error


def _opened(file: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(file))
    for name, arguments in FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = [TYPES[argument] for argument in arguments], None
    return library


def _hash(command: Sequence[str]) -> str:
    """Of all that a library depends on; a compiler's macros name its version and the processor's features."""
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
                library = _opened(made)
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
