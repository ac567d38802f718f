"""How Sphinx builds the site: `make docs`."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import iter_modules, resolve_name
from types import FunctionType
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import SphinxError
from sphinx.writers.html5 import HTML5Translator

import squircuit
from squircuit.explore.demos import digits, kept
from squircuit.explore.exhibit import Exhibit
from squircuit.explore.export import export

BUILD = Path(__file__).resolve().parents[1] / "build"

project = "squircuit"
version = release = squircuit.__version__
copyright = "the squircuit authors"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
nitpicky = True

# pages: they are read on GitHub as well, so nothing beyond CommonMark is needed but a few directives
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

# notebooks: executed once, and again only when they change
nb_execution_mode = "cache"
nb_execution_cache_path = str(BUILD / "notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

# reference: what folders list in __all__, in that order
ROUTING = "set_fit_request, set_score_request"  # of scikit-learn, for its own machinery
autodoc_default_options = {"members": True, "imported-members": True, "exclude-members": ROUTING}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
add_module_names = False
autosummary_generate = False
napoleon_numpy_docstring = False
napoleon_use_rtype = False
default_role = "code"
python_use_unqualified_type_names = True
# types of other packages, for which there would have to be a network, and aliases of theirs
nitpick_ignore_regex = [
    ("py:class", "Layout|Gaussians|contextlib.AbstractContextManager"),
    ("py:.*", r"(torch|numpy|collections|os|pathlib|matplotlib)\..*|Tensor|Figure|Number|Rows|Mask"),
]

html_theme = "furo"
html_title = "squircuit"
html_math_renderer = "mathml"  # below; browsers draw it without a script, so pages need no network
html_static_path = ["_static"]
html_css_files = ["site.css"]
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

CODE = r"(``.*?``|:math:`.*?`|^ *(?:>>>|\.\. ).*?(?:\n *\n|\Z))"  # spans, doctests, directives


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
    app.connect("autodoc-process-docstring", keep_colons, priority=400)  # before napoleon, at 500
    app.connect("autodoc-process-docstring", escape_bars)
    app.connect("autodoc-process-docstring", add_table)
    app.connect("missing-reference", link_to_folder)
    app.connect("doctree-read", trim_code)
    app.connect("build-finished", write_explored)


def write_math(writer: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """A formula as MathML, made while the site is built. A command that is not known stops the build."""
    formula = node.astext()
    markup = convert(formula, display="block" if isinstance(node, nodes.math_block) else "inline")
    if "\\" in markup:  # the converter hands on what it does not know
        raise SphinxError(f"{writer.builder.current_docname}: a command in {formula!r} is not known.")
    writer.body.append(markup)
    raise nodes.SkipNode


def keep_colons(app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Napoleon takes what stands before a colon in the first line of a property for its type."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # an empty comment


def escape_bars(app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """|c|² is a density here, not a substitution of reStructuredText; code stays as it is."""
    parts = re.split(CODE, "\n".join(lines), flags=re.DOTALL | re.MULTILINE)
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def add_table(app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """After a module's own words, a table of its public functions and classes."""
    names = [n for n in getattr(found, "__all__", []) if isinstance(getattr(found, n), type | FunctionType)]
    if what == "module" and names:
        lines += ["", ".. autosummary::", "   :nosignatures:", "", *(f"   {n}" for n in names), ""]


def trim_code(app: Sphinx, doctree: nodes.document) -> None:
    """Doctests in Markdown end with an empty line, for doctest's sake; it need not be seen."""
    for block in doctree.findall(nodes.literal_block):
        block.rawsource = block.astext().rstrip("\n")
        block.children = [nodes.Text(block.rawsource)]


def link_to_folder(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.Element) -> Any:
    """Objects live in files, squircuit.circuits.circuit.Circuit, and are documented as a folder's.

    What exists but is not public, such as a type in a signature, becomes text without a link. A name that
    does not exist is left to Sphinx, which warns.
    """
    target = str(node.get("reftarget", ""))
    if node.get("refdomain") != "py" or not target.startswith("squircuit."):
        return None
    try:
        found = resolve_name(target)
    except (AttributeError, ImportError):
        return None
    public = next((name for name, item in PUBLIC.items() if item is found), target)
    python, place = env.get_domain("py"), str(node["refdoc"])
    return python.resolve_xref(env, place, app.builder, "obj", public, node, text) or text


def write_explored(app: Sphinx, error: Exception | None) -> None:
    """The page that the guide to `squircuit explore` refers to: digits that are asked without Python."""
    if error is None and app.builder.format == "html":
        model = kept(BUILD / "digits.safetensors", digits).eval().requires_grad_(False)
        assert model.schema is not None
        export(Exhibit(model, model.schema, "digits"), Path(app.outdir) / "explore.html")


def public_names() -> dict[str, object]:
    """What the folders list in __all__, by the name under which it is documented."""
    folders = [resolve_name(f"squircuit.{module.name}") for module in iter_modules(squircuit.__path__)]
    return {f"{f.__name__}.{name}": getattr(f, name) for f in folders for name in getattr(f, "__all__", [])}


PUBLIC = public_names()
