"""Image patches that are halved both ways: a region graph that is not structured."""

from __future__ import annotations

from squircuit.regions._checks import check_integer
from squircuit.regions.quad_tree import Grid, add_quad_tree, pixel_grid
from squircuit.regions.region_graph import Builder, RegionGraph


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
