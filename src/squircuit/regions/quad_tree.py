"""Region graphs of images: the quad-tree over the pixels, and patches that are halved both ways."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import cycle
from typing import Literal

from squircuit.errors import ParameterError, is_whole
from squircuit.regions._checks import check_integer
from squircuit.regions.region_graph import Builder, RegionGraph

Grid = Sequence[Sequence[int]]
"""A rectangle of variables or of region indices, row by row."""


CHANNELS = 4  # a split into more parts would have too many products
BLOCKS = {"h": (1, 2), "v": (2, 1)}  # heights and widths of what is joined


def quad_tree(shape: tuple[int, ...], parts: Literal[2, 4] = 4, order: str = "hv") -> RegionGraph:
    """Merge 2×2 blocks of pixels, then 2×2 blocks of these, up to the whole image.

    This is the structured-decomposable graph of the paper's image experiments (appendix "Image
    Distribution Estimation"). Where a side is odd, the last block has two parts, or a single one,
    which is passed on as it is: sides shrink as 28, 14, 7, 4, 2, 1.

    Args:
        shape: height and width of the image. Pixel (i, j) is variable i · width + j, and the parts of
            a block are in the same row-by-row order. A third number C ≤ 4 is that of the channels: the
            variables (i · width + j) · C, … + C − 1 of a pixel are joined before pixels are.
        parts: 4 merges the blocks at once, 2 in two steps. A Kronecker layer has K^(parts + 1) weights, so
            that halves allow many more units: K = 64 costs about what K = 16 does with quarters.
        order: of halves, from the pixels up and then repeated: h joins left with right, v above with below.
            Neighbours that tell most about each other should meet first ("vvhh" for FashionMNIST). A number
            after it moves the blocks: those of "vvhh+2" begin two pixels above and left of the image, so that
            pixels on both sides of a border of "vvhh" are in one block.

    Example:
        >>> quad_tree((28, 28))
        RegionGraph(784 variables, 1049 regions, depth 5)
        >>> quad_tree((2, 3)).arity_counts()
        {2: 2, 4: 1}
        >>> quad_tree((2, 2, 3)).arity_counts()
        {3: 4, 4: 1}
        >>> quad_tree((28, 28), parts=2)
        RegionGraph(784 variables, 1567 regions, depth 10)
        >>> quad_tree((4, 4), parts=2, order="vvhh").regions[16].scope  # the first pair of pixels
        frozenset({0, 4})
        >>> quad_tree((4, 4), parts=2, order="hv+1").regions[16].scope  # begins with a pixel alone
        frozenset({1, 2})
    """
    sides, channels = _sides_and_channels(shape)
    if parts not in (2, 4):
        raise ParameterError(f"quad_tree: parts must be 2 or 4, got {parts!r}. Fix: pass one of the two.")
    letters, shift = _letters_and_shift(order, parts)
    builder = Builder()
    grid = pixel_grid("quad_tree", sides)
    blocks = [(2, 2)] if parts == 4 else [BLOCKS[letter] for letter in letters]
    _merge(builder, [[_pixel(builder, n, channels, parts) for n in row] for row in grid], blocks, shift)
    return builder.finish()


def _letters_and_shift(order: object, parts: int) -> tuple[str, int]:
    letters, plus, shift = order.partition("+") if isinstance(order, str) else ("", "", "")
    if set(letters) != set(BLOCKS) or (plus and not (shift.isdecimal() and len(shift) < 5)):
        raise ParameterError(
            f"quad_tree: order must be a text of both letters h and v, got {order!r}. Fix: 'hv' joins left "
            "with right, then above with below; 'vvhh' joins twice above with below first; 'vvhh+2' begins "
            "two pixels outside the image"
        )
    if parts == 4 and order != "hv":
        raise ParameterError(f"quad_tree: order={order!r} is that of halves. Fix: pass parts=2 as well")
    return letters, int(shift or 0)


def _sides_and_channels(shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    if not isinstance(shape, Sequence) or len(shape) != 3:
        return shape, 1
    *sides, channels = shape
    if not is_whole(channels, 1, CHANNELS):
        raise ParameterError(
            f"quad_tree: the third number of shape {shape!r} is that of the channels, from 1 to {CHANNELS}"
            ". Fix: pass (height, width, channels)."
        )
    return tuple(sides), int(channels)


def _pixel(builder: Builder, number: int, channels: int, parts: int) -> int:
    """A leaf, or the channels of a pixel joined, all at once or one after the other."""
    leaves = [builder.leaf(number * channels + channel) for channel in range(channels)]
    if parts == 2:
        return reduce(lambda joined, leaf: builder.split([joined, leaf]), leaves)
    return leaves[0] if channels == 1 else builder.split(leaves)


def pixel_grid(name: str, shape: tuple[int, ...]) -> list[list[int]]:
    """The variables of an image, row by row, for the builder of that name.

    Example:
        >>> pixel_grid("quad_tree", (2, 3))
        [[0, 1, 2], [3, 4, 5]]
    """
    if not _is_image_shape(shape):
        raise ParameterError(
            f"{name}: shape must be two positive integers, got {shape!r}. Fix: pass (height, width)."
        )
    height, width = shape
    return [list(range(row * width, (row + 1) * width)) for row in range(height)]


def add_quad_tree(builder: Builder, variables: Grid) -> int:
    """Add a quad-tree over a rectangle of variables, and return its root."""
    return _merge(builder, [[builder.leaf(variable) for variable in row] for row in variables])


def _merge(
    builder: Builder, grid: Grid, blocks: Sequence[tuple[int, int]] = ((2, 2),), shift: int = 0
) -> int:
    """Merge a grid of regions up to one, by blocks of these heights and widths in turn.

    The first region lies at (shift, shift) of a larger grid, whose blocks begin at (0, 0).
    """
    sizes, top, left = cycle(blocks), shift, shift
    while len(grid) > 1 or len(grid[0]) > 1:
        height, width = next(sizes)
        rows, columns = _pieces(len(grid), height, top), _pieces(len(grid[0]), width, left)
        grid = [[_join(builder, [row[column] for row in grid[some]]) for column in columns] for some in rows]
        top, left = top // height, left // width
    return grid[0][0]


def _pieces(count: int, size: int, shift: int) -> list[slice]:
    """What lies in each of the blocks of a row that begins ``shift`` places to the left.

    Example:
        >>> _pieces(5, 2, shift=3)
        [slice(0, 1, None), slice(1, 3, None), slice(3, 5, None)]
    """
    starts = range(-(shift % size), count, size)
    return [slice(max(start, 0), min(start + size, count)) for start in starts]


def _join(builder: Builder, block: Grid) -> int:
    """One region of the parts of a block; a single part is passed on."""
    parts = [index for row in block for index in row]
    return builder.split(parts) if len(parts) > 1 else parts[0]


def _is_image_shape(shape: object) -> bool:
    if not isinstance(shape, Sequence) or len(shape) != 2:
        return False
    return all(is_whole(side, 1) for side in shape)


def patch_splits(shape: tuple[int, int], min_side: int = 8) -> RegionGraph:
    """Split an image into (above, below) and also into (left, right), and each patch again.

    This is the paper's graph for circuits that are not structured-decomposable (appendix "Image
    Distribution Estimation", "Building non-structured-decomposable circuit architectures"). A patch is
    split both ways while both of its sides are at least ``min_side``; the first half takes the odd row or
    column. The paper does not say how a smaller patch goes on; here a quad-tree splits it. Nothing is
    shared between alternatives, not even leaves, so that the inputs of a pixel can be pairwise
    orthogonal: at 28×28 each pixel has six.

    Args:
        shape: height and width of the image. Pixel (i, j) is variable i · width + j.
        min_side: the least height and width of a patch that is split both ways, at least 2.

    Example:
        >>> graph = patch_splits((28, 28))
        >>> len(graph.leaves) / graph.num_variables
        6.0
        >>> graph.is_structured
        False
    """
    check_integer("patch_splits", "min_side", min_side, minimum=2)  # a side of 1 cannot be halved
    builder = Builder()
    _add_patch(builder, pixel_grid("patch_splits", shape), min_side)
    return builder.finish()


def _add_patch(builder: Builder, patch: Grid, min_side: int) -> int:
    if min(len(patch), len(patch[0])) < min_side:
        return add_quad_tree(builder, patch)
    across, along = _halve_rows(patch), _halve_columns(patch)
    return builder.split(
        [_add_patch(builder, half, min_side) for half in across],
        [_add_patch(builder, half, min_side) for half in along],
    )


def _halve_rows(patch: Grid) -> tuple[Grid, Grid]:
    middle = (len(patch) + 1) // 2
    return patch[:middle], patch[middle:]


def _halve_columns(patch: Grid) -> tuple[Grid, Grid]:
    middle = (len(patch[0]) + 1) // 2
    return [row[:middle] for row in patch], [row[middle:] for row in patch]
