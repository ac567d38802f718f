"""A small SVG writer for layered graphs, without dependencies: region graphs now, circuits later."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from squircuit.errors import ParameterError

PALETTE: Mapping[str, str] = {
    "leaf": "#0d9488",
    "input": "#0d9488",
    "region": "#4f46e5",
    "sum": "#4f46e5",
    "partition": "#d97706",
    "product": "#d97706",
}
"""The accent colour of each kind of node, as ``#rrggbb``."""

OTHER_KIND = "#64748b"
EDGE = "#94a3b8"
TEXT = "#1e293b"
FONT = "ui-sans-serif, system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
FONT_SIZE, LETTER, LINE = 12, 7.0, 15  # letter: the mean width of a character of that size
GAP, ROW_GAP, MARGIN = 16, 26, 20
LONGEST_LINE = 28


@dataclass(frozen=True)
class Node:
    """A node of a drawing.

    Args:
        label: the text in the box; a line break starts a second line, and a label of one character is
            drawn in a small circle in place of a box.
        kind: what the node is; it chooses the colour and is the class of the SVG element.
        inputs: the nodes below it, by position in the sequence of nodes.
        level: the row, 0 at the bottom; above that of every input.

    Example:
        >>> Node("+", "sum", inputs=(), level=0).width
        22.0
    """

    label: str
    kind: str
    inputs: tuple[int, ...]
    level: int

    @property
    def lines(self) -> list[str]:
        """The text lines of the box, shortened to a reasonable width."""
        return [_shorten(line) for line in self.label.split("\n")]

    @property
    def is_circle(self) -> bool:
        """Whether the node is drawn as a small circle."""
        return len(self.label) == 1

    @property
    def width(self) -> float:
        """The width of the shape."""
        return 22.0 if self.is_circle else 18.0 + LETTER * max(len(line) for line in self.lines)

    @property
    def height(self) -> float:
        """The height of the shape."""
        return 22.0 if self.is_circle else 12.0 + LINE * len(self.lines)


def draw_graph(nodes: Sequence[Node], palette: Mapping[str, str] = PALETTE) -> str:
    """Draw a layered graph, leaves at the bottom and roots on top, and return the SVG text.

    Leaves are spread evenly in the order in which a walk from the roots meets them, so the edges of a
    tree do not cross; every other node stands above the middle of its inputs.

    Args:
        nodes: in topological order, inputs before the nodes that use them.
        palette: an accent colour ``#rrggbb`` for each kind; kinds without one are grey.

    Example:
        >>> nodes = [Node("x", "input", (), 0), Node("y", "input", (), 0), Node("x·y", "product", (0, 1), 1)]
        >>> svg = draw_graph(nodes)
        >>> svg.count("<path"), svg.count("<title>")
        (2, 3)
    """
    _check_nodes(nodes)
    xs, ys = _columns(nodes), _rows(nodes)
    left = min((x - node.width / 2 for x, node in zip(xs, nodes, strict=True)), default=0.0) - MARGIN
    right = max((x + node.width / 2 for x, node in zip(xs, nodes, strict=True)), default=0.0) + MARGIN
    bottom = max((y + node.height / 2 for y, node in zip(ys, nodes, strict=True)), default=0.0) + MARGIN
    centres = [(x - left, y) for x, y in zip(xs, ys, strict=True)]
    body = [*_edges(nodes, centres), *_shapes(nodes, centres, palette)]
    return _document(right - left, bottom, body)


def _check_nodes(nodes: Sequence[Node]) -> None:
    for position, node in enumerate(nodes):
        for source in node.inputs:
            if not 0 <= source < position or nodes[source].level >= node.level:
                raise ParameterError(
                    f"draw_graph: input {source} of node {position} must come before it and on a lower level"
                    ". Fix: order nodes from the inputs upwards."
                )


def _columns(nodes: Sequence[Node]) -> list[float]:
    """The horizontal centre of each node."""
    xs = [0.0] * len(nodes)
    order = {leaf: place for place, leaf in enumerate(_leaves_in_order(nodes))}
    spacing = max((nodes[leaf].width for leaf in order), default=0.0) + GAP
    for _, members in sorted(_levels(nodes).items()):
        for member in members:
            inputs = nodes[member].inputs
            xs[member] = sum(xs[i] for i in inputs) / len(inputs) if inputs else order[member] * spacing
        _spread(members, nodes, xs)
    return xs


def _levels(nodes: Sequence[Node]) -> dict[int, list[int]]:
    levels = defaultdict(list)
    for position, node in enumerate(nodes):
        levels[node.level].append(position)
    return levels


def _leaves_in_order(nodes: Sequence[Node]) -> list[int]:
    """The nodes without inputs, as a depth-first walk from the roots meets them."""
    used = {source for node in nodes for source in node.inputs}
    stack = [position for position in reversed(range(len(nodes))) if position not in used]
    met: dict[int, None] = {}  # an ordered set
    while stack:
        position = stack.pop()
        if position not in met:
            met[position] = None
            stack.extend(reversed(nodes[position].inputs))
    return [position for position in met if not nodes[position].inputs]


def _spread(members: list[int], nodes: Sequence[Node], xs: list[float]) -> None:
    """Push the nodes of a level apart where they overlap, and keep the level's centre of mass."""
    before = sum(xs[member] for member in members)
    edge = float("-inf")
    for member in sorted(members, key=lambda m: xs[m]):
        xs[member] = max(xs[member], edge + GAP + nodes[member].width / 2)
        edge = xs[member] + nodes[member].width / 2
    shift = (sum(xs[member] for member in members) - before) / len(members)
    for member in members:
        xs[member] -= shift


def _rows(nodes: Sequence[Node]) -> list[float]:
    """The vertical centre of each node; the rows of a level are as high as its highest node."""
    y, centre = float(MARGIN), {}
    for level, members in sorted(_levels(nodes).items(), reverse=True):
        height = max(nodes[member].height for member in members)
        centre[level] = y + height / 2
        y += height + ROW_GAP
    return [centre[node.level] for node in nodes]


def _edges(nodes: Sequence[Node], centres: Sequence[tuple[float, float]]) -> list[str]:
    lines = []
    for position, node in enumerate(nodes):
        for source in node.inputs:
            (x1, y1), (x2, y2) = centres[source], centres[position]
            start, end = y1 - nodes[source].height / 2, y2 + node.height / 2
            bend = min((start - end) / 2, 30.0)
            lines.append(
                f'<path d="M{x1:.1f} {start:.1f}C{x1:.1f} {start - bend:.1f} '
                f'{x2:.1f} {end + bend:.1f} {x2:.1f} {end:.1f}"/>'
            )
    return [f'<g fill="none" stroke="{EDGE}" stroke-width="1.3">', *lines, "</g>"]


def _shapes(
    nodes: Sequence[Node], centres: Sequence[tuple[float, float]], palette: Mapping[str, str]
) -> list[str]:
    style = f'fill="{TEXT}" font-family="{FONT}" font-size="{FONT_SIZE}" text-anchor="middle"'
    shapes = [_shape(node, x, y, palette) for node, (x, y) in zip(nodes, centres, strict=True)]
    return [f"<g {style}>", *shapes, "</g>"]


def _shape(node: Node, x: float, y: float, palette: Mapping[str, str]) -> str:
    accent = palette.get(node.kind, OTHER_KIND)
    paint = f'fill="{_tint(accent)}" stroke="{accent}" stroke-width="1.3"'
    title = f"<title>{escape(node.label)}</title>"
    if node.is_circle:
        outline = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{node.width / 2:g}" {paint}/>'
    else:
        corner = f'x="{x - node.width / 2:.1f}" y="{y - node.height / 2:.1f}"'
        outline = f'<rect {corner} width="{node.width:g}" height="{node.height:g}" rx="8" {paint}/>'
    return f'<g class="{escape(node.kind)}">{title}{outline}{_text(node.lines, x, y)}</g>'


def _text(lines: Sequence[str], x: float, y: float) -> str:
    """The lines, centred; 0.35 of the font size lowers the baseline to centre the letters."""
    first = y + 0.35 * FONT_SIZE - LINE * (len(lines) - 1) / 2
    return "".join(
        f'<text x="{x:.1f}" y="{first + LINE * row:.1f}">{escape(line)}</text>'
        for row, line in enumerate(lines)
    )


def _document(width: float, height: float, body: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.1f} {height:.1f}"'
    # A white card with a faint border: readable on light and on dark pages.
    card = '<rect class="card" width="100%" height="100%" rx="10" fill="#ffffff" stroke="#e2e8f0"/>'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', card, *body, "</svg>"])


def _tint(colour: str) -> str:
    """The colour mixed with nine parts of white, opaque so that edges do not shine through."""
    channels = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{(channel + 9 * 255) // 10:02x}" for channel in channels)


def _shorten(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"
