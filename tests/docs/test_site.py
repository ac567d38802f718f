"""The site builds without a warning, its reference has every public name, and its pictures are up to date."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from sphinx.util.inventory import InventoryFile

import squircuit as sq

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("site")]  # one worker builds it, once

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PUBLIC = [getattr(sq, name) for name in sq.__all__]
FOLDERS = sorted(
    {"estimators"} | {getattr(item, "__module__", item.__name__).split(".")[1] for item in PUBLIC}
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, strictly, without executing notebooks: that is the task of their own test."""
    out = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--fail-on-warning", "--keep-going", "-D", "nb_execution_mode=off"]
    command = [
        sys.executable,
        "-m",
        "sphinx",
        *options,
        "-d",
        str(out / "trees"),
        str(DOCS),
        str(out / "html"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    return out / "html"


def documented(site: Path) -> set[str]:
    """Every dotted name that has an entry in the reference."""
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    return {name for kind in inventory.data if kind.startswith("py:") for name in inventory.data[kind]}


def test_every_public_name_of_squircuit_is_in_the_reference(site):
    names = documented(site)
    last = {name.rpartition(".")[2] for name in names}
    assert [name for name in sq.__all__ if name not in last] == []


def test_the_site_has_a_page_to_ask_a_model_of_less_than_a_megabyte(site):
    page = site / "explore.html"
    assert page.stat().st_size < 1_000_000
    assert 'href="../explore.html"' in (site / "guides" / "explore.html").read_text()


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_public_name_of_a_folder_is_in_the_reference_under_that_folder(site, folder):
    module = importlib.import_module(f"squircuit.{folder}")
    own = {k for k, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__}
    public = {
        name for name in getattr(module, "__all__", own) if not isinstance(vars(module)[name], ModuleType)
    }
    assert {f"squircuit.{folder}.{name}" for name in public} - documented(site) == set()


def test_the_queries_of_a_model_are_in_the_reference(site):
    for query in ("log_prob", "sample", "given", "marginals", "log_conditional", "expectation", "impute"):
        assert f"squircuit.models.SquaredCircuit.{query}" in documented(site)


def test_pages_load_nothing_from_elsewhere_and_formulas_are_mathml(site):
    pages = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    loaded = r'<(?:script|img|iframe)\b[^>]*\bsrc="([^"]*)"|<link\b[^>]*\bstylesheet\b[^>]*\bhref="([^"]*)"'
    addresses = {script or sheet for text in pages.values() for script, sheet in re.findall(loaded, text)}
    assert any(address.startswith("_static/") for address in addresses)
    assert [address for address in addresses if re.match(r"(https?:)?//", address)] == []
    assert pages[site / "api" / "families.html"].count("<math ") >= 10


def test_the_picture_of_the_folders_is_that_of_the_import_contract():
    path = DOCS / "draw_architecture.py"
    spec = importlib.util.spec_from_file_location("draw_architecture", path)
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)
    fix = f"run: python {path.relative_to(ROOT)}"
    assert drawing.PICTURE.read_text(encoding="utf-8") == drawing.picture(), fix
    table = (DOCS / "architecture.md").read_text(encoding="utf-8")
    for folder in drawing.contract_folders():
        row = f"| `{drawing.shown(folder)}` |"
        assert row in table, f"docs/architecture.md has no row for {folder}"
