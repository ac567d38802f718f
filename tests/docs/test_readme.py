"""The commands of README are those of the Makefile, in the same words; pictures are there and small."""

from __future__ import annotations

import re
from pathlib import Path

import squircuit as sq

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_commands_of_the_readme_are_those_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    known = dict(re.findall(r"^(\w+):.*?## (.*)$", makefile, flags=re.MULTILINE))
    commands = dict(re.findall(r"^make (\w+) +# (.*)$", README, flags=re.MULTILINE))
    assert sorted(commands) == ["demo", "test"]
    assert commands.items() <= known.items()


def test_pictures_of_pages_are_there_and_below_150_kilobytes():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    names = [
        (page, name)
        for page in pages
        for name in re.findall(r"!\[[^]]*\]\(([^)]*)\)", page.read_text("utf-8"))
    ]
    assert any(name.endswith("completions.png") for _, name in names)
    assert any(page.name == "README.md" for page, _ in names)
    for page, name in names:
        assert (page.parent / name).stat().st_size < 150_000, f"{page.name}: {name}"


def test_the_readme_is_read_in_minutes():
    assert len(README.split()) <= 600


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {sq.__version__}\n" in citation
    assert "How to Square Tensor Networks and Circuits Without Squaring Them" in citation
