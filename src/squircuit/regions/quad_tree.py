"""Region graphs of images: the quad-tree over the pixels, and patches that are halved both ways."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import chain, cycle
from typing import Literal

from squircuit.errors import ParameterError, is_whole
from squircuit.regions._checks import check_integer
from squircuit.regions.region_graph import Builder, RegionGraph

Grid = Sequence[Sequence[int]]
"""A rectangle of variables or of region indices, row by row."""


CHANNELS = 4  # a split into more parts would have too many products
BLOCKS = {"h": (1, 2), "v": (2, 1), "q": (2, 2)}  # heights and widths of what is joined
JOIN = "c"  # the letter that joins the channels


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
            Neighbours that tell most about each other should meet first ("vvhh" for FashionMNIST). A c joins
            the channels there and is not repeated: "vhcvh" joins the blocks of 2×2 of all channels, which are
            planes until then; without it the channels of each pixel come first, as in "cvh". A number
            at the end moves the blocks: those of "vvhh+2" begin two pixels above and left of the image, so
            that pixels on both sides of a border of "vvhh" are in one block.

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
        >>> quad_tree((2, 2, 3), parts=2, order="hcv").regions[12].scope  # the first pair of one channel
        frozenset({0, 3})
    """
    sides, channels = _sides_and_channels(shape)
    if parts not in (2, 4):
        raise ParameterError(f"quad_tree: parts must be 2 or 4, got {parts!r}. Fix: pass one of the two.")
    letters, shift = _letters_and_shift(order, parts)
    builder, rows = Builder(), pixel_grid("quad_tree", sides)
    leaves = [[builder.leaf(n * channels + c) for c in range(channels)] for row in rows for n in row]
    planes = [[[leaves[n][c] for n in row] for row in rows] for c in range(channels)]
    _merge(builder, planes, letters, shift, parts)
    return builder.finish()


def _letters_and_shift(order: object, parts: int) -> tuple[str, int]:
    """The letters of an order, with that which joins channels, and by how much blocks are moved."""
    letters, plus, shift = order.partition("+") if isinstance(order, str) else ("", "", "")
    is_order = set("hv") <= set(letters) <= set("hvc") and letters.count(JOIN) < 2
    if not is_order or (plus and not (shift.isdecimal() and len(shift) < 5)):
        raise ParameterError(
            f"quad_tree: order must be a text of both letters h and v, got {order!r}. Fix: 'hv' joins left "
            "with right, then above with below; 'vvhh' joins twice above with below first; 'vvhh+2' begins "
            "two pixels outside the image; 'vhcvh' joins channels, once, after blocks of 2×2"
        )
    if parts == 4 and order != "hv":
        raise ParameterError(f"quad_tree: order={order!r} is that of halves. Fix: pass parts=2 as well")
    letters = letters if parts == 2 else "q"
    return letters if JOIN in letters else JOIN + letters, int(shift or 0)


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
    return _merge(builder, [[[builder.leaf(variable) for variable in row] for row in variables]])


def _merge(
    builder: Builder, planes: Sequence[Grid], letters: str = "q", shift: int = 0, parts: int = 4
) -> int:
    """Merge grids of regions, one for each channel, up to one region, by the blocks of some letters in turn.

    The first region lies at (shift, shift) of a larger grid, whose blocks begin at (0, 0). At the letter c
    the grids become one, and that letter is not repeated.
    """
    steps, top, left = chain(letters, cycle(letters.replace(JOIN, ""))), shift, shift
    while len(planes) > 1 or len(planes[0]) > 1 or len(planes[0][0]) > 1:
        letter = next(steps)
        if letter == JOIN:
            planes = [_channels_joined(builder, planes, parts)]
        else:
            height, width = BLOCKS[letter]
            planes = [_blocks_joined(builder, grid, (height, width), (top, left)) for grid in planes]
            top, left = top // height, left // width
    return planes[0][0][0]


def _channels_joined(builder: Builder, planes: Sequence[Grid], parts: int) -> Grid:
    """One grid of several: the channels of a place at once, or one after the other."""
    places = [list(zip(*rows, strict=True)) for rows in zip(*planes, strict=True)]
    if parts == 2:
        return [[reduce(lambda a, b: builder.split([a, b]), place) for place in row] for row in places]
    return [[_join(builder, [place]) for place in row] for row in places]


def _blocks_joined(builder: Builder, grid: Grid, size: tuple[int, int], start: tuple[int, int]) -> Grid:
    """The grid of the blocks of a grid, the first of which begins so many places above and left of it."""
    rows = _pieces(len(grid), size[0], start[0])
    columns = _pieces(len(grid[0]), size[1], start[1])
    return [[_join(builder, [row[column] for row in grid[some]]) for column in columns] for some in rows]


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
