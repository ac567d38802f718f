"""The type of a column: inferred from what was seen of it, or as the user says."""

from __future__ import annotations

import re
from functools import lru_cache

from squircuit.data.cells import read_as, shown
from squircuit.data.columns import KINDS, Column, Kind
from squircuit.data.facts import FAR, MOST, NEAR, Facts
from squircuit.errors import DataError, ParameterError, suggestion

FEW = 256
"""The most states of a column that is inferred to be discrete."""

EXACT = 2.0**53
"""Whole numbers up to here are exact as floats."""

LIKE_A_NUMBER = re.compile(r"[-+]?[€$£]?\d[\d.,' ]*[%€$£]?")
"""A number with a decimal comma, marks between thousands, or a unit."""


def infer(name: str, facts: Facts, source: str, wish: str | None = None) -> Column:
    """The column with this name.

    Texts are categories. Of numbers, two different integers are binary, integers that span at most 256 are
    counts, all others continuous. One value only is a category by itself.

    Args:
        name: of the column.
        facts: what was seen of it.
        source: the file, named in errors.
        wish: overrides: "binary", "categorical", "count", "count:LOW:HIGH", "continuous", "periodic:PERIOD"
            or "periodic:PERIOD:START".

    Example:
        >>> import numpy as np
        >>> seen = Facts.of(np.array([0.0, 3.0, 7.0]), str)
        >>> infer("n", seen, "data.csv").family(), infer("n", seen, "data.csv", "categorical").categories
        (Categorical(size=8, ordered=True), (0, 3, 7))
    """
    if facts.count == 0 and wish in (None, "continuous"):
        raise DataError(
            "every cell is missing",
            where=f"{source}, column {name!r}",
            fix="leave it out, " + read_as(name, "drop"),
        )
    kind, numbers = _parsed(name, wish or _guess(name, facts, source))
    if kind in ("binary", "categorical"):
        return _categories(name, kind, facts, source)
    _require_numbers(name, kind, facts, source)
    if kind == "count":
        return _count(name, facts, source, numbers)
    if kind == "periodic":
        return _periodic(name, facts, source, numbers)
    return _continuous(name, facts, source)


def _guess(name: str, facts: Facts, source: str) -> str:
    distinct = len(facts.categories())
    if facts.text is not None:
        _refuse_identifiers(name, facts, source, distinct)
        return "binary" if distinct == 2 else "categorical"
    if distinct == 1:
        return "categorical"
    if not facts.integral or facts.high - facts.low >= FEW:
        return "continuous"
    return "binary" if distinct == 2 else "count"


def _refuse_identifiers(name: str, facts: Facts, source: str, distinct: int) -> None:
    """Texts that look like a typing error among numbers, or like names: better asked than modelled."""
    assert facts.text is not None
    where = f"{facts.text.where}, column {name!r}"
    ways = read_as(name, "categorical") + " to keep it or " + read_as(name, "drop") + " to leave it out"
    if 2 * facts.numbers > facts.count:
        raise DataError(
            f"{shown(facts.text.cell)} is not a number, but most of the column is",
            where=where,
            value=facts.text.cell,
            fix="correct the cell, leave it empty (missing), or say " + ways,
        )
    if all(LIKE_A_NUMBER.fullmatch(str(value)) for value in facts.distinct):
        raise DataError(
            f"{shown(facts.text.cell)} looks like a number, but is not written as one",
            where=where,
            value=facts.text.cell,
            fix="write a decimal point, and no units or commas; or say " + ways,
        )
    if distinct > FEW:
        more = "more than " if distinct > MOST else ""
        raise DataError(
            f"{more}{min(distinct, MOST)} different texts, such as {shown(facts.text.cell)}; it seems to "
            "hold names or dates",
            where=f"{source}, column {name!r}",
            value=facts.text.cell,
            fix="say " + ways,
        )


def _parsed(name: str, wish: str) -> tuple[str, list[float]]:
    kind, *arguments = wish.strip().split(":")
    if kind not in KINDS:
        near = suggestion(kind, [*KINDS, "drop"])
        raise ParameterError(f"column {name!r}: {wish!r} is no type of a column. Fix: {near}")
    numbers = list(_numbers(tuple(arguments)))
    allowed = {"count": (0, 2), "periodic": (1, 2)}.get(kind, (0,))
    if len(numbers) not in allowed:
        raise ParameterError(
            f"column {name!r}: {wish!r} is not understood. "
            f"Fix: write {_usage(kind)}, with numbers for the capitals."
        )
    return kind, numbers


@lru_cache(maxsize=64)  # one wish may be that of 100,000 columns
def _numbers(arguments: tuple[str, ...]) -> tuple[float, ...]:
    """The numbers of a type; too many where one is none."""
    try:
        return tuple(float(argument) for argument in arguments)
    except ValueError:
        return (0.0,) * 9


def _usage(kind: str) -> str:
    usages = {
        "count": "'count' or 'count:LOW:HIGH'",
        "periodic": "'periodic:PERIOD' or 'periodic:PERIOD:START'",
    }
    return usages.get(kind, repr(kind))


def _categories(name: str, kind: str, facts: Facts, source: str) -> Column:
    categories = facts.categories()
    most = 2 if kind == "binary" else MOST
    if len(categories) > most or not categories:
        some = ", ".join(shown(category) for category in categories[:4])
        raise DataError(
            f"{len(categories)} different values ({some}, …) where a {kind} column has 1 to {most}",
            where=f"{source}, column {name!r}",
            fix="choose another type, or leave it out with " + read_as(name, "drop"),
        )
    exact: Kind = "binary" if kind == "binary" else "categorical"
    return Column(name, exact, categories, missing=facts.missing)


def _require_numbers(name: str, kind: str, facts: Facts, source: str) -> None:
    if facts.text is not None:
        raise DataError(
            f"{facts.text.where}, column {name!r}: {shown(facts.text.cell)} is not a number, but the column "
            f"is read as {kind}. Fix: correct the cell, leave it empty (missing), or say 'categorical'."
        )
    if kind == "count" and not facts.integral:
        raise DataError(
            f"{source}, column {name!r}: it holds numbers that are no integers, but is read as count. "
            "Fix: read it as 'continuous'."
        )


def _count(name: str, facts: Facts, source: str, numbers: list[float]) -> Column:
    low = 0.0 if facts.low >= 0 and facts.high < FEW else facts.low
    first, last = numbers or (low, facts.high)
    is_range = first <= last and last - first < MOST and max(abs(first), abs(last)) <= EXACT
    if not (is_range and first == int(first) and last == int(last)):
        raise DataError(
            f"{source}, column {name!r}: {first:g} to {last:g} is no range of 1 to {MOST} integers. "
            "Fix: read it as 'continuous', or give the range as 'count:LOW:HIGH'."
        )
    return Column(name, "count", low=first, high=last, missing=facts.missing)


def _periodic(name: str, facts: Facts, source: str, numbers: list[float]) -> Column:
    period, start = [*numbers, 0.0][:2]
    if not (NEAR <= period <= FAR and abs(start) <= FAR):
        raise ParameterError(
            f"column {name!r}: period {period:g} from {start:g}. "
            f"Fix: give a period > 0, as 'periodic:360', and numbers from {NEAR:g} to {FAR:g}."
        )
    _refuse_far_numbers(name, facts, source)
    return Column(name, "periodic", low=start, high=start + period, missing=facts.missing)


def _continuous(name: str, facts: Facts, source: str) -> Column:
    if len(facts.distinct) == 1:
        raise DataError(
            f"constant ({facts.low:g}), so it has no density",
            where=f"{source}, column {name!r}",
            value=facts.low,
            fix="leave it out, " + read_as(name, "drop") + ", or keep it as 'categorical'",
        )
    _refuse_far_numbers(name, facts, source)
    scale = facts.deviation or facts.high - facts.low  # squares of 1e-162 are 0; no model takes them
    return Column(name, "continuous", (), facts.low, facts.high, facts.mean, scale, facts.missing)


def _refuse_far_numbers(name: str, facts: Facts, source: str) -> None:
    """Numbers that no model can compute with, each of which is more likely a mark for something else."""
    if facts.farthest is None:
        return
    size, where = facts.farthest
    raise DataError(
        f"±{size:g} is too large, {FAR:g} is the most",
        where=f"{where if source in where else f'{source}, {where}'}, column {name!r}",
        value=size,
        fix="correct the cell, leave it empty (missing), or leave the column out, " + read_as(name, "drop"),
    )
