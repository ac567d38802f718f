"""Every notebook runs from beginning to end, as a script in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")


def test_there_are_notebooks_and_the_index_lists_them_all():
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert NOTEBOOKS
    assert all(f"({path.name})" in index for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_as_a_script(path, tmp_path):
    notebook = jupytext.read(path)
    assert any(cell.cell_type == "code" for cell in notebook.cells), f"{path.name} has no code cells"
    script = tmp_path / f"{path.stem}.py"
    jupytext.write(notebook, script, fmt="py:percent")
    settings = {**os.environ, "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=settings,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
