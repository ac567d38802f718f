"""Draws images/architecture.svg from the import contract in pyproject.toml and the imports of the source.

A box for every folder of the contract, in its order; on the left an arrow to each folder that it imports, but
for those that it reaches through another one. Run it after a change of the contract or of imports:

    python docs/draw_architecture.py
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "architecture.svg"
ERRORS = "errors"  # all import it, so it gets no arrows

INDIGO, TEAL, AMBER, GREY = "#4f46e5", "#0d9488", "#d97706", "#64748b"
FONT = "ui-sans-serif, system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
LEFT, WIDTH, HEIGHT, STEP, MARGIN = 150, 400, 30, 40, 20

# folder: (what it is, the colour of its box)
WORDS = {
    "errors": ("what is wrong, where, the fix; for all", GREY),
    "progress": ("how far work is", GREY),
    "regions": ("which variables are split how", INDIGO),
    "families": ("functions of one variable", TEAL),
    "data": ("data sets, files, streams", TEAL),
    "circuits": ("layers, parameters, build", AMBER),
    "storage": ("circuits and models in files", TEAL),
    "reference": ("what a circuit means, plainly", INDIGO),
    "properties": ("is it smooth, orthogonal, unitary …?", INDIGO),
    "transforms": ("from circuit to circuit", TEAL),
    "execution": ("the arithmetic made fast", TEAL),
    "inference": ("likelihoods, marginals, samples", TEAL),
    "models": ("a circuit that is trained and asked", AMBER),
    "compression": ("rows as few bytes, without loss", TEAL),
    "networks": ("tensor networks in and out", TEAL),
    "optim": ("optimisers for semi-unitary weights", TEAL),
    "training": ("from data to a trained model", AMBER),
    "learning": ("what is learnt without gradients", AMBER),
    "presets": ("options worth having a name", TEAL),
    "plots": ("pictures of all that", TEAL),
    "estimators": ("the door for scikit-learn", TEAL),
    "api": ("the names that users see", GREY),
    "explore": ("a page in the browser", AMBER),
    "cli": ("the command line", TEAL),
}


def picture() -> str:
    """The drawing as SVG text, the lowest folder at the bottom."""
    imports = direct_imports(contract_folders())
    tops = {name: MARGIN + STEP * row for row, name in enumerate(reversed(imports))}
    arrows = [arrow(tops[name], tops[below], colour(below)) for name in imports for below in imports[name]]
    boxes = [box(name, top) for name, top in tops.items()]
    return document(STEP * len(tops) - (STEP - HEIGHT) + 2 * MARGIN, [*arrows, *boxes])


def box(folder: str, top: int) -> str:
    """A folder: its name and what it is."""
    accent, name = colour(folder), shown(folder)
    return (
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="7" fill="{accent}" '
        f'fill-opacity="0.1" stroke="{accent}" stroke-width="1.3"/>'
        f'<text x="{LEFT + 14}" y="{top + 20}" font-weight="600">{name}</text>'
        f'<text x="{LEFT + 116}" y="{top + 20}">{escape(words(folder)[0])}</text>'
    )


def arrow(top: int, below: int, accent: str) -> str:
    """From the lower half of a box around the left to the upper half of the box that it imports."""
    start, end = top + 0.7 * HEIGHT, below + 0.35 * HEIGHT
    out = LEFT - min(16 + 0.36 * (end - start), 175)
    return (
        f'<path d="M{LEFT} {start:.1f}C{out:.1f} {start:.1f} {out:.1f} {end:.1f} {LEFT - 5} {end:.1f}" '
        f'fill="none" stroke="{accent}" stroke-width="1.3"/>'
        f'<path d="M{LEFT - 1} {end:.1f}l-7 -3.5v7z" fill="{accent}"/>'
    )


def document(height: int, body: list[str]) -> str:
    """On a white card with a faint border: readable on light and on dark pages."""
    width = LEFT + WIDTH + MARGIN
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    style = f'font-family="{FONT}" font-size="13" fill="#1e293b"'
    card = '<rect width="100%" height="100%" rx="10" fill="#ffffff" stroke="#e2e8f0"/>'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', card, *body, "</svg>"]
    return "\n".join(lines) + "\n"


def shown(name: str) -> str:
    """A name of the contract as that of a file or a folder."""
    return name + (".py" if (ROOT / "src" / "squircuit" / f"{name}.py").is_file() else "/")


def contract_folders() -> list[str]:
    """The folders of the contract from the lowest to the highest."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return [name for layer in reversed(layers) for name in re.findall(r"squircuit\.(\w+)", layer)]


def direct_imports(folders: list[str]) -> dict[str, list[str]]:
    """Folder: what it imports, without what another of its imports reaches; lowest folders first."""
    reached: dict[str, set[str]] = {}
    direct: dict[str, list[str]] = {}
    for folder in folders:
        names = imported(folder) - {ERRORS}
        named = [name for name in reached if name in names]
        reached[folder] = set(named).union(*(reached[name] for name in named))
        direct[folder] = [name for name in named if not any(name in reached[other] for other in named)]
    return direct


def imported(folder: str) -> set[str]:
    """The folders that the files of a folder import, in whatever way they write it."""
    return {name for tree in syntax_trees(folder) for name in _names(tree)} - {folder}


def syntax_trees(folder: str) -> Iterator[ast.AST]:
    source = ROOT / "src" / "squircuit" / folder
    for file in sorted(source.rglob("*.py")):
        yield ast.parse(file.read_text(encoding="utf-8"))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "squircuit":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("squircuit."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("squircuit."))


def words(folder: str) -> tuple[str, str]:
    """What a folder is, and the colour of its box."""
    if folder not in WORDS:
        raise SystemExit(f"the contract names {folder!r}. Fix: say in a few words what it is, in WORDS.")
    return WORDS[folder]


def colour(folder: str) -> str:
    return words(folder)[1]


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
