"""Walk a directed acyclic graph of any depth without recursion."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def postorder(starts: Iterable[Node], inputs: Callable[[Node], Iterable[Node]]) -> list[Node]:
    """Every node reachable from ``starts``, each after all of its inputs.

    An explicit stack, because a matrix-product state over 784 variables is deeper than Python's
    recursion limit.

    >>> postorder(["root"], {"root": "ab", "a": "c", "b": "c", "c": ""}.__getitem__)
    ['c', 'a', 'b', 'root']
    """
    done: dict[Node, None] = {}  # an ordered set
    stack = [(node, False) for node in reversed(list(starts))]
    while stack:
        node, inputs_are_done = stack.pop()
        if inputs_are_done:
            done[node] = None
        elif node not in done:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(list(inputs(node))))
    return list(done)
