"""Initial weights: which scheme each parameter of a circuit is drawn by, and the schemes."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from squircuit.circuits.layers import Sum, is_product
from squircuit.circuits.parameter import Constraint, Parameter
from squircuit.circuits.structure import Structure
from squircuit.families.categorical import Categorical

MANY = 1 << 23
"""Numbers that one generator draws in about half a second."""
Scheme = Callable[[Tensor], Tensor]
"""Independent Gaussian numbers of variance 1, (K1, K2), real or complex → a first value of a weight."""


def haar(gaussian: Tensor) -> Tensor:
    """Rows orthonormalised; the unique QR (positive diagonal of R) makes the distribution uniform.

    Rᴴ is the Cholesky factor of XXᴴ, and that is several times faster to find where X is wide enough for
    XXᴴ to be well-conditioned: from twice as many columns as rows on, cond(XXᴴ) is about 34.

    Example:
        >>> w = haar(torch.randn(2, 5, dtype=torch.float64))
        >>> torch.allclose(w @ w.mH, torch.eye(2, dtype=torch.float64))
        True
    """
    rows, columns = gaussian.shape
    if columns >= 2 * rows:
        factor = torch.linalg.cholesky(gaussian @ gaussian.mH)
        whitened: Tensor = torch.linalg.solve_triangular(factor, gaussian, upper=False)
        return whitened
    q, r = torch.linalg.qr(gaussian.mH)
    orthonormal: Tensor = (q * r.diagonal().sgn()).mH
    return orthonormal


def scaled_gaussian(gaussian: Tensor) -> Tensor:
    """Entries of variance 1/K2, so that units have the size of their inputs."""
    return gaussian / math.sqrt(gaussian.shape[-1])


def positive(gaussian: Tensor) -> Tensor:
    """The same with absolute values of real and imaginary parts.

    Terms then add up rather than cancel: deep circuits with free weights learn better from there.
    """
    return scaled_gaussian(_complex_like(_parts(gaussian).abs(), gaussian))


def around_half(gaussian: Tensor) -> Tensor:
    """Parts of mean ½ and variance 1/12, as numbers that are uniform in (0, 1) have.

    A step of Adam moves small weights by much of their size, and those of rare states are left with noise.
    """
    size = math.sqrt((1 + gaussian.is_complex()) / 12)  # complex parts have variance ½
    return _complex_like(_parts(gaussian) * size + 0.5, gaussian)


def schemes(circuit: Structure) -> dict[Parameter, Scheme]:
    """Which free weights begin otherwise than :func:`scaled_gaussian`, and how.

    Those of inner sums over products are positive, and those that belong to states are around ½.
    """
    roots = {root.weight for root in circuit.roots if isinstance(root, Sum)}
    over_products = [layer for layer in circuit.sums if all(is_product(part) for part in layer.inputs)]
    inner = {layer.weight for layer in over_products} - roots
    of_states = {layer.weight for layer in circuit.inputs if isinstance(layer.family, Categorical)}
    free = [p for p in circuit.parameters.values() if p.constraint is Constraint.FREE]
    return {p: around_half if p in of_states else positive for p in free if p in of_states | inner}


def initial_weights(circuit: Structure, generator: torch.Generator, dtype: torch.dtype) -> dict[str, Tensor]:
    """A first value of every parameter: its own where it has one, otherwise drawn, in the order of names.

    Of more than `MANY` numbers every parameter is drawn by a generator of its own, whose seed comes from the
    given one: then all cores draw at once, and the weights are the same however many there are.

    Args:
        circuit: whose parameters.
        generator: of the numbers.
        dtype: gives the precision; whether a parameter is complex is its own affair.
    """
    smoothing = {layer.weight: layer.family.smoothing(layer.units) for layer in circuit.inputs}
    by = schemes(circuit)
    drawn = {name: p for name, p in circuit.parameters.items() if p.value is None}

    def one(parameter: Parameter, source: torch.Generator) -> Tensor:
        return draw(parameter, source, dtype, by.get(parameter), smoothing.get(parameter))

    if sum(math.prod(p.shape) for p in drawn.values()) <= MANY:
        made = [one(p, generator) for p in drawn.values()]
    else:
        first = int(torch.randint(2**62, (1,), generator=generator))
        made = _at_once(one, list(drawn.values()), [first + i for i in range(len(drawn))])
    found = dict(zip(drawn, made, strict=True))
    return {name: found[name] if p.value is None else p.value for name, p in circuit.parameters.items()}


def _at_once(
    one: Callable[[Parameter, torch.Generator], Tensor], parameters: list[Parameter], seeds: list[int]
) -> list[Tensor]:
    """``one`` of each parameter, on as many threads as torch has, each of which computes alone."""
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            sources = (torch.Generator().manual_seed(seed) for seed in seeds)
            return list(pool.map(one, parameters, sources))
    finally:
        torch.set_num_threads(threads)  # threads that start later would have what was set last


def draw(
    parameter: Parameter,
    generator: torch.Generator,
    dtype: torch.dtype,
    scheme: Scheme | None = None,
    smoothing: Tensor | None = None,
) -> Tensor:
    """A random value of a parameter; on the simplex all entries are equal.

    Args:
        parameter: its shape and kind.
        generator: of the numbers.
        dtype: gives the precision.
        scheme: makes a value of Gaussian numbers; default :func:`haar`, of free weights
            :func:`scaled_gaussian`.
        smoothing: (K2, K2), multiplies the Gaussian rows that the value is made of.

    Example:
        >>> w = draw(Parameter((2, 4)), torch.Generator().manual_seed(0), torch.complex128)
        >>> torch.allclose(w @ w.mH, torch.eye(2, dtype=w.dtype))
        True
    """
    dtype = dtype.to_complex() if parameter.is_complex else dtype.to_real()
    if parameter.constraint is Constraint.SIMPLEX:
        return torch.full(parameter.shape, 1 / math.prod(parameter.shape), dtype=dtype.to_real())
    # drawn in double precision, so that one seed gives one circuit whatever the dtype
    wide = torch.complex128 if parameter.is_complex else torch.float64
    gaussian = torch.randn(parameter.shape, generator=generator, dtype=wide)
    if smoothing is not None:
        gaussian = gaussian @ smoothing.to(wide)
    usual = scaled_gaussian if parameter.constraint is Constraint.FREE else haar
    return (scheme or usual)(gaussian).to(dtype)


def _parts(value: Tensor) -> Tensor:
    return torch.view_as_real(value) if value.is_complex() else value


def _complex_like(parts: Tensor, value: Tensor) -> Tensor:
    return torch.view_as_complex(parts) if value.is_complex() else parts
