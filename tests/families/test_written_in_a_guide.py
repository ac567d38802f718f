"""The family of docs/guides/writing-a-family.md obeys the laws of all families; it quotes real code."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cosine import Cosine
from families.conformance import Case, FamilyConformance
from squircuit.families import FAMILIES, Legendre, serialise

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    """As if Cosine stood in the list of serialise.py, which the guide asks for."""
    monkeypatch.setattr(serialise, "FAMILIES", (*FAMILIES, Cosine))


class TestCosine(FamilyConformance):
    def cases(self):
        return [Case(Cosine(1)), Case(Cosine(4)), Case(Cosine(5, low=-2.0, high=3.0))]

    def large(self):
        return [Case(Cosine(64))]

    def window(self, case):
        return case.family.low, case.family.high, 40

    def formula(self, case, x):
        length = case.family.high - case.family.low
        turns = np.pi * np.arange(case.family.size) * ((x[:, None] - case.family.low) / length)
        return np.cos(turns) * np.where(np.arange(case.family.size) == 0, 1, np.sqrt(2)) / np.sqrt(length)

    def others(self, case):
        low, high = case.family.low, case.family.high
        return [Case(Cosine(3, low, high)), Case(Legendre(4, low, high))]

    def outside(self, case):
        return [case.family.low - 1e-6, case.family.high + 1e-6]


def test_the_guide_quotes_the_family_and_its_test_word_for_word():
    guide = (ROOT / "docs" / "guides" / "writing-a-family.md").read_text(encoding="utf-8")
    quotes = [
        block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if ">>>" not in block[:4]
    ]
    sources = [(ROOT / "examples" / "cosine.py").read_text(encoding="utf-8"), Path(__file__).read_text()]
    assert len(quotes) == 2
    for quote, source in zip(quotes, sources, strict=True):
        assert quote in source
