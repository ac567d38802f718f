"""Models with defaults that work: of images, of tables, or of whatever the data is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import torch

from squircuit.circuits import Circuit, build
from squircuit.circuits.build import Product, Tie, Units
from squircuit.data import Schema, Table
from squircuit.data.registry import pixels
from squircuit.errors import ParameterError, is_whole
from squircuit.families import Categorical, Family
from squircuit.models.mixture import mixture
from squircuit.models.squared_circuit import SquaredCircuit
from squircuit.models.training_table import chow_liu_trees, training_table
from squircuit.regions import RegionGraph, quad_tree
from squircuit.regions.quad_tree import CHANNELS
from squircuit.storage.memory import require_memory

Parts: TypeAlias = Literal[2, 4]

UNITS = (8, 4)
"""Units by default: the first with no more real parameters than there are cells, else the last."""
IMAGE_UNITS = {2: (32, 16, 8, 4), 4: UNITS}
"""The same choice for images, by the number of parts that a block is merged of."""
FEW_ROWS = 2000
"""Tables with fewer get the last of these in any case."""
FUNCTIONS = ((4000, 24), (FEW_ROWS, 16), (300, 12), (0, 8))
"""How many functions a column that is not discrete has, for this many rows or more."""
TRANSFORMED = ((FEW_ROWS, 16), (300, 6), (0, 4))
"""The same after a map that is fitted to the column, whose shape is then known without them."""
ROOTS = 4
"""Root units where none are given: a mixture of squares fits better than one (docs/models.md)."""
COPIES = 2
"""Copies of the weights in double precision that are in memory at once when a model is made."""
MOST_TREES = 1024


def image_model(
    shape: Sequence[int],
    units: Units = 8,
    levels: int | Sequence[int] = 256,
    product: Product = "kronecker",
    roots: int = 1,
    tie: Tie = None,
    seed: int = 0,
    dtype: torch.dtype = torch.complex64,
    parts: Parts = 4,
    order: str | Sequence[str] = "hv",
) -> SquaredCircuit:
    """A unitary squared circuit over the pixels of an image, on a quad-tree.

    Args:
        shape: (H, W), or (H, W, C) with C ≤ 4 channels, which are joined before pixels are. A row of data is
            the image flattened: variable (i·W + j)·C + c.
        units: K, or K by level as for :func:`squircuit.build`. A layer has K·K⁴ weights, or K·K² with two
            parts: 8 is much, or 64; 2 to 4, or 8, suit small data.
        levels: of a pixel, 0 to levels − 1; or one number for each channel, such as (256, 511, 511) of the
            colours of :func:`squircuit.data.to_ycocg`. Channels of one size share weights that are tied.
        product, roots, tie: as for :func:`squircuit.build`.
        seed: of the initial weights.
        dtype: complex64, complex128, or float32, float64 for real weights (which fit worse).
        parts: 4 merges blocks of 2×2 at once, as in the paper; 2 in halves, which fits better at the same
            cost, with many more units.
        order: of halves, as for :func:`squircuit.regions.quad_tree`. Several, as a list or with commas, are
            as many circuits that are mixed, with equal weights: trees suit images differently.

    Example:
        >>> model = image_model((8, 8), units=4, levels=17)
        >>> model.shape, model.sample(2, seed=0).shape
        ((8, 8), torch.Size([2, 64]))
    """
    sides = _image_shape(shape)
    sizes = _levels(levels, sides)

    def model(graph: RegionGraph, seed: int) -> SquaredCircuit:
        of_pixels = sizes * (graph.num_variables // len(sizes))
        families = [Categorical(size, ordered=True) for size in of_pixels]
        circuit = build(graph, families, units, product, roots, tie, is_complex=_is_complex(dtype))
        return _model(circuit, seed, dtype, Schema(pixels(graph.num_variables, of_pixels)), sides)

    return _mixed_over([quad_tree(sides, parts, each) for each in _orders(order)], model, seed)


def table_model(
    data: Any,
    units: Units | None = None,
    roots: int | None = None,
    size: int | None = None,
    continuous: Any = "transformed",
    regions: RegionGraph | None = None,
    product: Product = "kronecker",
    tie: Tie = None,
    components: int = 1,
    trees: int = 1,
    seed: int = 0,
    dtype: torch.dtype = torch.complex64,
) -> SquaredCircuit:
    """A unitary squared circuit over the columns of a table, on its Chow–Liu tree.

    Args:
        data: a Table, a Dataset (its training rows are used), or what :func:`squircuit.data.table` takes: an
            array, a tensor, a data frame. Missing cells (NaN) are left out of the tree.
        units: K; default 8, or 4 below 2000 rows or where 8 makes more real parameters than there are cells.
        roots: number of squares that are mixed; default 4, or as many as fit, and 1 of each component.
        size: number of functions of columns that are not discrete; default 16, fewer below 2000 rows, and 24
            where ``continuous`` is not "transformed".
        continuous: their kind, as for :meth:`squircuit.data.Schema.families`.
        regions: another region graph, such as ``sq.regions.balanced_tree(d)``.
        product, tie: as for :func:`squircuit.build`.
        components: circuits that are mixed, with weights that are learnt: a few of few units each, such as
            16 of 2, often fit better than one of many (docs/models.md).
        trees: models that are mixed, with equal weights: the first on the Chow–Liu tree of the rows, others
            on those of rows drawn from them with replacement. `fit` trains each as if it were alone.
        seed: of the initial weights.
        dtype: complex64, complex128, or float32, float64 for real weights (which fit worse).

    Example:
        >>> import numpy as np
        >>> model = table_model({"sex": ["f", "m", "m"], "height": [1.7, 1.8, np.nan]}, size=8)
        >>> print(model.schema)
        column  type        states  values                          missing
        sex     binary      2       f, m                            –
        height  continuous  –       1.7 … 1.8, mean 1.75 ± 0.05     1
        >>> model.log_prob([[1, 1.75]]).shape
        torch.Size([1])
    """
    observed = training_table(data)
    graphs = _chow_liu_trees(observed, trees) if regions is None else [regions]
    if len(graphs) != trees:
        raise ParameterError(f"trees={trees} besides regions. Fix: pass regions, or a number of trees.")
    size = _functions(len(observed.rows), continuous) if size is None else size
    families = observed.families(size, continuous)
    offered = UNITS if len(observed.rows) >= FEW_ROWS else UNITS[-1:]

    def model(graph: RegionGraph, seed: int) -> SquaredCircuit:
        circuit = _circuit(observed, graph, families, units, roots, product, tie, dtype, components, offered)
        return _model(circuit, seed, dtype, observed.schema, None)

    return _mixed_over(graphs, model, seed)


def model_for(
    data: Any,
    units: Units | None = None,
    roots: int | None = None,
    size: int | None = None,
    product: Product = "kronecker",
    tie: Tie | Literal["auto"] = "auto",
    components: int = 1,
    trees: int = 1,
    seed: int = 0,
    dtype: torch.dtype = torch.complex64,
    parts: Parts = 2,
    order: str | Sequence[str] = "hv",
) -> SquaredCircuit:
    """The model that suits the data: images get a quad-tree, all else a Chow–Liu tree.

    Data is images where a row of it has a shape of two or three axes: the sets of images of
    :func:`squircuit.data.load`, folders of images, arrays (n, H, W) and (n, H, W, C).

    Args:
        data, units, roots, size, product, components, trees, seed, dtype: as for :func:`table_model`; images
            have ``order`` in place of trees.
        tie: as for :func:`squircuit.build`; "auto" shares one input matrix among all pixels of images, which
            fit better so (docs/models.md), and ties nothing in tables.
        parts: of images, as for :func:`image_model`. Their units are by default the most of 32, 16, 8 and 4
            (8 and 4 with four parts) with no more real parameters than there are cells.
        order: of the halves of images, one or several that are mixed, as for :func:`image_model`.

    Example:
        >>> import numpy as np
        >>> model_for(np.zeros((50, 8, 8), dtype=np.uint8)).shape
        (8, 8)
        >>> model_for(np.random.default_rng(0).normal(size=(100, 3)))
        SquaredCircuit(unitary, 3 variables, ... parameters)
    """
    observed = training_table(data)
    is_image = len(observed.shape) > 1
    tie = ("inputs" if is_image else None) if tie == "auto" else tie
    if not is_image:
        wishes: dict[str, Any] = {"product": product, "tie": tie, "components": components, "trees": trees}
        return table_model(observed, units, roots, size, **wishes, seed=seed, dtype=dtype)
    shape = _image_shape(observed.shape)
    if trees != 1:
        raise ParameterError(f"trees={trees!r} of images. Fix: pass several orders, such as 'vvhh,hhvv'.")
    families = observed.schema.families(_functions(len(observed.rows), "hermite") if size is None else size)
    graphs = [quad_tree(shape, parts, each) for each in _orders(order)]
    offered = IMAGE_UNITS[parts]

    def model(graph: RegionGraph, seed: int) -> SquaredCircuit:
        circuit = _circuit(observed, graph, families, units, roots, product, tie, dtype, components, offered)
        return _model(circuit, seed, dtype, observed.schema, shape)

    return _mixed_over(graphs, model, seed)


def _chow_liu_trees(observed: Table, count: object) -> list[RegionGraph]:
    if not is_whole(count, 1):
        raise ParameterError(f"trees must be an integer ≥ 1, got {count!r}. Fix: pass a few, such as 8.")
    if count > MOST_TREES:
        raise ParameterError(f"trees={count} are too many. Fix: pass at most {MOST_TREES}.")
    return chow_liu_trees(observed, count)


def _orders(order: str | Sequence[str]) -> list[str]:
    if isinstance(order, str):
        return [each.strip() for each in order.split(",")]
    if order in ([], ()):
        raise ParameterError("order is empty. Fix: pass one such as 'hv', or several to be mixed")
    return list(order) if isinstance(order, Sequence) else [order]  # which quad_tree refuses


def _mixed_over(
    graphs: Sequence[RegionGraph], model: Callable[[RegionGraph, int], SquaredCircuit], seed: int
) -> SquaredCircuit:
    """The model of one region graph, or the mixture of those of several, from seeds in a row."""
    models = [model(graph, seed + number) for number, graph in enumerate(graphs)]
    return models[0] if len(models) == 1 else mixture(models).train()


def _functions(rows: int, continuous: Any) -> int:
    """How many functions that many rows determine."""
    sizes = TRANSFORMED if continuous == "transformed" else FUNCTIONS
    return next(size for least, size in sizes if rows >= least)


def _circuit(
    observed: Table,
    graph: RegionGraph,
    families: Sequence[Family],
    units: Units | None,
    roots: int | None,
    product: Product,
    tie: Tie,
    dtype: torch.dtype,
    components: int,
    offered: Sequence[int],
) -> Circuit:
    """The circuit, with units and roots chosen where they are not given."""
    mixed: dict[str, Any] = {} if components == 1 else {"components": components, "root_weights": "learnable"}

    def built(units: Units, roots: int = 1) -> Circuit:
        return build(graph, families, units, product, roots, tie, is_complex=_is_complex(dtype), **mixed)

    if units is None:
        most = min(family.size for family in families) if product == "hadamard" else max(offered)
        choices = [min(choice, most) for choice in offered]
        few = (k for k in choices if built(k).num_parameters() <= int((~observed.missing).sum()))
        units = next(few, choices[-1])
    if roots is None:
        most = built(units).sums[-1].weight.shape[1]  # no more than the root has inputs
        roots = min(ROOTS, most) if components == 1 else 1
    return built(units, roots)


def _model(
    circuit: Circuit, seed: int, dtype: torch.dtype, schema: Schema, shape: tuple[int, ...] | None
) -> SquaredCircuit:
    needed = COPIES * 8 * circuit.num_parameters()
    require_memory(needed, f"a model of {circuit.num_parameters()} parameters", "fewer units or components")
    model = SquaredCircuit(circuit, seed, dtype)
    model.schema, model.shape = schema, shape
    return model


def _is_complex(dtype: torch.dtype) -> bool:
    return isinstance(dtype, torch.dtype) and dtype.is_complex  # what is no precision, the model refuses


def _image_shape(shape: Sequence[int]) -> tuple[int, ...]:
    sides = tuple(shape) if isinstance(shape, Sequence) else shape
    if not isinstance(sides, tuple) or len(sides) not in (2, 3) or (len(sides) == 3 and sides[2] > CHANNELS):
        raise ParameterError(
            f"images of shape {shape!r}: expected (height, width), or (height, width, channels) with at most "
            f"{CHANNELS} channels. Fix: bring the axes into this order, or use table_model for other data."
        )
    return sides


def _levels(levels: int | Sequence[int], sides: tuple[int, ...]) -> list[int]:
    """The levels of each channel, or one number for all."""
    if isinstance(levels, int | str) or not isinstance(levels, Sequence):
        _require_positive("levels", levels)
        return [levels]
    channels = sides[2] if len(sides) == 3 else 1
    if len(levels) != channels:
        raise ParameterError(
            f"image_model: levels={levels!r} for images of shape {sides}, which have {channels} channels. "
            "Fix: pass one number for each channel, or one for all."
        )
    for size in levels:
        _require_positive("levels", size)
    return list(levels)


def _require_positive(name: str, value: object) -> None:
    if not is_whole(value, 1) or not isinstance(value, int):
        raise ParameterError(
            f"image_model: {name} must be an integer ≥ 1, got {value!r}. Fix: pass a whole number from 1."
        )
