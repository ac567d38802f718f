"""Region graphs learnt from data: the Chow–Liu tree."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from squircuit.errors import DataError, require_unmasked
from squircuit.regions._checks import check_integer
from squircuit.regions.region_graph import Builder, RegionGraph

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
Neighbours = list[list[int]]
"""A tree: the neighbours of each node."""

EXACT_IN_FLOAT32 = 2**24  # single precision counts exactly up to here, and is twice as fast as double


def chow_liu(
    data: npt.ArrayLike, arity: int | None = 2, bins: int = 16, resample: int | None = None
) -> RegionGraph:
    """Split variables along the tree that explains most of their pairwise dependence.

    The Chow–Liu tree (1968) is the spanning tree with the greatest sum of mutual informations. It is rooted
    at its centre, and every sub-tree becomes a region, which splits into its top variable and the
    sub-trees below. So variables that depend on each other meet low in the circuit. The paper leaves
    the structure for data other than images open; this is a good default for tables.

    Args:
        data: (n, d) table of numbers, rows are samples. NaN means missing: each pair of columns uses the
            rows where both are known.
        arity: the greatest number of parts of a split; None keeps one split for each sub-tree.
        bins: columns with more distinct values than this are cut into so many bins of about equal
            counts; other columns are categories. The cost grows as n · d² · bins².
        resample: a seed: the tree is that of as many rows, drawn with replacement. Columns that depend on
            each other about equally change places, so models on such trees, mixed, err in different places.

    Raises:
        DataError: if the table is not one of numbers, has fewer than two rows, or infinite values.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> a, b = rng.integers(2, size=(2, 1000))
        >>> table = np.stack([a, b, a ^ (rng.random(1000) < 0.1), b], axis=1)
        >>> sorted(sorted(region.scope) for region in chow_liu(table).regions)
        [[0], [0, 1, 2, 3], [0, 2], [1], [1, 3], [2], [3]]
    """
    if arity is not None:
        check_integer("chow_liu", "arity", arity, minimum=2)
    check_integer("chow_liu", "bins", bins, minimum=2)
    if resample is not None:
        check_integer("chow_liu", "resample", resample, minimum=0)
        table = _checked(data)
        data = table[np.random.default_rng(resample).integers(len(table), size=len(table))]
    information = mutual_information(data, bins)
    return _region_graph(_spanning_tree(information), arity)


def mutual_information(data: npt.ArrayLike, bins: int = 16) -> Floats:
    """The mutual information in nats of every pair of columns, by counting; the entropies on the diagonal.

    Args:
        data: (n, d) table, as for `chow_liu`.
        bins: as for `chow_liu`.

    Returns:
        A symmetric (d, d) matrix.

    Example:
        >>> mutual_information([[0, 0], [0, 0], [1, 1], [1, 1]]).round(4)
        array([[0.6931, 0.6931],
               [0.6931, 0.6931]])
    """
    table = _checked(data)
    codes = np.stack([_discretise(column, bins) for column in table.T], axis=1)  # (n, d)
    return _information_of_codes(codes)


def _checked(data: npt.ArrayLike) -> npt.NDArray[Any]:
    require_unmasked(data)
    try:
        table = np.asarray(data)
    except (TypeError, ValueError) as error:  # rows of unequal length, a tensor on a GPU
        raise DataError(
            f"chow_liu: data is not a table of numbers ({error}). Fix: pass an array (n, d) on the CPU."
        ) from error
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 1:
        needed = "(n, d) with at least 2 rows and 1 column"
        raise DataError(
            f"chow_liu: data must be a table of shape {needed}, got shape {table.shape}"
            ". Fix: pass one row a sample."
        )
    if table.dtype.kind not in "biuf":
        raise DataError(
            f"chow_liu: data must be real numbers, got dtype {table.dtype}"
            ". Fix: encode texts, sq.data.table(data).rows."
        )
    infinite = np.argwhere(np.isinf(table))
    if len(infinite):
        row, column = infinite[0]
        raise DataError(
            f"chow_liu: row {row}, column {column} of data is {table[row, column]}, not finite"
            ". Fix: NaN in its place means missing."
        )
    return table


def _discretise(column: npt.NDArray[Any], bins: int) -> Codes:
    """The category or bin of each entry, from 0; missing entries are -1."""
    codes = np.full(len(column), -1, dtype=np.int32)
    known = ~np.isnan(column)
    values, inverse, counts = np.unique(column[known], return_inverse=True, return_counts=True)
    if len(values) <= bins:
        codes[known] = inverse
    else:
        # The bin of a value is that of the middle of its ranks. Equal values stay together, and a value that
        # fills more than a bin, such as the black of an image's border, has one of its own.
        middle = (np.cumsum(counts) - counts / 2) / counts.sum()
        codes[known] = (middle * bins).astype(np.int32)[inverse]
    return codes


def _information_of_codes(codes: Codes) -> Floats:
    """Mutual information for all pairs at once: a product of one-hot matrices for each pair of codes.

    With n_ab the number of rows where x_i = a and x_j = b, n_a and n_b its margins over the rows where both
    are known, and N the number of these, MI_ij = Σ_ab n_ab / N · log(n_ab N / (n_a n_b)).
    """
    known = _indicator(codes, -1, equal=False)
    pairs = _count(known, known)
    levels = range(int(codes.max()) + 1)
    margins = [_count(_indicator(codes, a), known) for a in levels]  # of x_i = a where x_j is known
    total = np.zeros_like(pairs)
    for a in levels:
        left = _indicator(codes, a)
        for b in range(a + 1):
            joint = _count(left, _indicator(codes, b))
            terms = _terms(joint, pairs, margins[a], margins[b].T)
            total += terms if a == b else terms + terms.T  # (b, a) for (i, j) is (a, b) for (j, i)
    return np.divide(total, pairs, out=np.zeros_like(pairs), where=pairs > 0)


def _indicator(codes: Codes, code: int, equal: bool = True) -> npt.NDArray[np.floating[Any]]:
    """One where the code is, or is not, the given one; (n, d)."""
    found: npt.NDArray[np.bool_] = (codes == code) == equal
    return found.astype(np.float32 if len(codes) < EXACT_IN_FLOAT32 else np.float64)


def _count(left: npt.NDArray[np.floating[Any]], right: npt.NDArray[np.floating[Any]]) -> Floats:
    """The number of rows where both indicators are one, for each pair of columns."""
    return (left.T @ right).astype(np.float64)


def _terms(joint: Floats, pairs: Floats, margin_left: Floats, margin_right: Floats) -> Floats:
    """n_ab · log(n_ab N / (n_a n_b)), with 0 · log 0 = 0."""
    seen = joint > 0
    ratio = np.divide(joint * pairs, margin_left * margin_right, out=np.ones_like(joint), where=seen)
    return np.where(seen, joint * np.log(ratio), 0.0)


def _spanning_tree(weights: Floats) -> Neighbours:
    """The maximum spanning tree of a complete graph by Prim's algorithm, grown from node 0."""
    d = len(weights)
    neighbours: Neighbours = [[] for _ in range(d)]
    best = weights[0].copy()  # the greatest weight of an edge from each node to the tree
    nearest = np.zeros(d, dtype=np.int64)  # the end of that edge in the tree
    best[0] = -np.inf
    for _ in range(d - 1):
        new = int(np.argmax(best))
        old = int(nearest[new])
        neighbours[new].append(old)
        neighbours[old].append(new)
        best[new] = -np.inf
        closer = (weights[new] > best) & (best > -np.inf)
        best[closer], nearest[closer] = weights[new][closer], new
    return neighbours


def _parents_first(neighbours: Neighbours, root: int) -> dict[int, int]:
    """The parent of each node, breadth first from the root, which is its own parent."""
    parent = {root: root}
    queue = [root]
    for node in queue:  # grows while it is read
        for other in neighbours[node]:
            if other not in parent:
                parent[other] = node
                queue.append(other)
    return parent


def _centre(neighbours: Neighbours) -> int:
    """The node in the middle of a longest path of a tree; rooted there the tree is as low as can be."""
    one_end = next(reversed(_parents_first(neighbours, 0)))  # the last node met is the farthest one
    parent = _parents_first(neighbours, one_end)
    path = [next(reversed(parent))]
    while path[-1] != one_end:
        path.append(parent[path[-1]])
    return path[len(path) // 2]


def _region_graph(neighbours: Neighbours, arity: int | None) -> RegionGraph:
    """A region for each sub-tree, from the leaves of the tree up to its centre."""
    builder = Builder()
    parent = _parents_first(neighbours, _centre(neighbours))
    below: dict[int, list[int]] = {node: [] for node in parent}  # the regions of a node's sub-trees
    for node in reversed(parent):
        region = _join(builder, [builder.leaf(node), *below[node]], arity)
        below[parent[node]].append(region)
    return builder.finish()


def _join(builder: Builder, parts: Sequence[int], arity: int | None) -> int:
    """Join regions, the smallest ones first as in Huffman's code, so that large ones stay near the top."""
    if len(parts) == 1:
        return parts[0]
    if arity is None or len(parts) <= arity:
        return builder.split(parts)
    heap = [(builder.size(part), part) for part in parts]
    heapq.heapify(heap)
    take = (len(heap) - 2) % (arity - 1) + 2  # a first short step, so that all later ones are full
    while len(heap) > 1:
        region = builder.split([heapq.heappop(heap)[1] for _ in range(take)])
        heapq.heappush(heap, (builder.size(region), region))
        take = arity
    return heap[0][1]
