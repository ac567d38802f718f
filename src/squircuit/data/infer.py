"""The type of a column: inferred from what was seen of it piece by piece, or as the user says."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from squircuit.data.cells import number, read_as, shown
from squircuit.data.column_facts import MOST, Facts, plain
from squircuit.data.columns import FAR, KINDS, NEAR, Column, Kind
from squircuit.data.decimals import ENOUGH
from squircuit.errors import DataError, ParameterError, Wording, suggestion
from squircuit.storage.words import listed

FEW = 256
"""The most states of a column that is inferred to be discrete."""

ROWS_A_STATE = 5
"""Rows for each whole number of a range, on average, from which each may be a state of its own."""
SPARSE = 32
"""States that a column of whole numbers may have however few rows there are."""
POOLING = 100
"""Rows from which on a text that is in one row only has no state of its own."""

EXACT = 2.0**53
"""Whole numbers up to here are exact as floats."""

WISHES = (*KINDS, "positive", "bounded", "ordered")
OF_DATES = ("date", "datetime", "time")
"""Types of columns that are several variables."""
_ENDS = {"positive": (0.0, None), "continuous": (None, None)}

LIKE_A_NUMBER = re.compile(r"[-+]?[€$£]?\d[\d.,' ]*[%€$£]?")
"""A number with a decimal comma, marks between thousands, or a unit."""


def infer(name: str, facts: Facts, source: str, wish: str | None = None) -> Column:
    """The column with this name.

    Texts are categories; in tables of 100 rows or more those that are in one row only are pooled. Of numbers,
    two different integers are binary, integers that span at most 256 are counts if there are five rows for
    each of more than 32, all others continuous. One value only is a category by itself.

    Args:
        name: of the column.
        facts: what was seen of it.
        source: the file, named in errors.
        wish: overrides: "binary", "categorical", "categorical:MOST" (the others are pooled), "ordered:A,B,C",
            "count", "count:LOW:HIGH", "continuous", "positive", "bounded:LOW:HIGH", "periodic:PERIOD" or
            "periodic:PERIOD:START".

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
    if wish is not None and wish.strip().partition(":")[0] in OF_DATES:
        wish = "categorical"  # all of them are the same: a constant
    if wish is not None and wish.strip().startswith("ordered:"):
        return _ordered(name, facts, source, wish.strip().removeprefix("ordered:"))
    kind, numbers = _parsed(name, wish or _guess(name, facts, source))
    if kind in ("binary", "categorical"):
        return _categories(name, kind, facts, source, None if wish is None else int([*numbers, MOST][0]))
    _require_numbers(name, kind, facts, source)
    if kind == "count":
        return _count(name, facts, source, numbers)
    if kind == "periodic":
        return _periodic(name, facts, source, numbers)
    ends = facts.bounds if wish is None else _ENDS.get(kind, (*numbers, None, None)[:2])
    return _bounded(_continuous(name, facts, source), facts, source, kind, ends)


def _guess(name: str, facts: Facts, source: str) -> str:
    is_many = facts.text is None and len(facts.distinct) > FEW  # then it does not matter how many
    distinct = len(facts.distinct if is_many else facts.categories())
    if facts.text is not None:
        _refuse_identifiers(name, facts, source, distinct)
        return "binary" if distinct == 2 else "categorical"
    if distinct == 1:
        return "categorical"
    if not facts.integral or facts.high - facts.low >= FEW:
        return "continuous"
    if distinct == 2:
        return "binary"
    states = facts.high - min(facts.low, 0.0) + 1
    is_sparse = states > SPARSE and ENOUGH <= facts.numbers < ROWS_A_STATE * states
    return "continuous" if is_sparse else "count"


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
    if _are_names(facts, distinct):
        more = "more than " if distinct > MOST else ""
        raise DataError(
            f"{more}{min(distinct, MOST)} different texts, such as {shown(facts.text.cell)}; it seems to "
            "hold names or dates",
            where=f"{source}, column {name!r}",
            value=facts.text.cell,
            fix="say " + ways,
        )


def _are_names(facts: Facts, distinct: int) -> bool:
    """Most cells hold texts that no model can tell apart: too many different ones."""
    return distinct > FEW and 2 * sum(_kept(facts, FEW - 1).values()) < facts.count


def require_no_identifiers(facts: Mapping[str, Facts], source: str) -> None:
    """Refuse several columns of names at once; of one alone, `infer` says more."""
    found = [name for name, seen in facts.items() if seen.text is not None and seen.numbers == 0]
    found = [name for name in found if _are_names(facts[name], len(facts[name].categories()))]
    if len(found) > 1:
        raise DataError(
            f"columns {listed(found)} seem to hold names or dates, another text in nearly every row",
            where=source,
            value=found[0],
            fix="leave them out, " + _all_as(found, "drop") + ", or keep some as 'categorical'",
        )


def _all_as(names: Sequence[str], kind: str) -> Wording:
    """The argument, or the options, that read several columns as some type."""
    options = " ".join(read_as(name, kind).shell for name in names)
    return Wording(f"columns={dict.fromkeys(names, kind)!r}", options)


def _kept(facts: Facts, most: int, least: int = 2) -> dict[str, int]:
    """The most frequent texts, of those that are in so many rows at least, and how many have each."""
    often = [(-count, text) for text, count in facts.texts.items() if count >= least]
    return {text: -count for count, text in sorted(often)[:most]}


def _parsed(name: str, wish: str) -> tuple[str, list[float]]:
    kind, *arguments = wish.strip().split(":")
    if kind not in WISHES:
        near = suggestion(kind, [*WISHES, *OF_DATES, "drop"])
        raise ParameterError(f"column {name!r}: {wish!r} is no type of a column. Fix: {near}")
    numbers = list(_numbers(tuple(arguments)))
    allowed = {"count": (0, 2), "periodic": (1, 2), "bounded": (2,), "categorical": (0, 1)}.get(kind, (0,))
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
        "bounded": "'bounded:LOW:HIGH'",
        "categorical": "'categorical' or 'categorical:MOST'",
        "ordered": "'ordered:LOW,MIDDLE,HIGH', all values in their order",
    }
    return usages.get(kind, repr(kind))


def _categories(name: str, kind: str, facts: Facts, source: str, wished: int | None) -> Column:
    """A column of states; ``wished``: how many there may be, None: nobody has said anything."""
    most = 2 if kind == "binary" else MOST if wished is None else wished
    if kind == "categorical" and facts.text is not None:
        pooled = _pooled(name, facts, wished)
        if pooled is not None:
            return pooled
    categories = facts.categories()
    if len(categories) > most or not categories:
        some = ", ".join(shown(category) for category in categories[:4])
        raise DataError(
            f"{len(categories)} different values ({some}, …) where a {kind} column has 1 to {most}",
            where=f"{source}, column {name!r}",
            fix="choose another type, or leave it out with " + read_as(name, "drop"),
        )
    exact: Kind = "binary" if kind == "binary" else "categorical"
    return Column(name, exact, categories, missing=facts.missing)


def _pooled(name: str, facts: Facts, wished: int | None) -> Column | None:
    """A column of texts whose rare ones are one state; None: each has its own.

    A text that one row has says as little as one that no row has. By the rule of Good and Turing new rows
    have a text that was never seen as often as rows here have one that no other has: the state's share.
    """
    if wished is None and facts.count < POOLING:
        return None
    kept = _kept(facts, FEW - 1) if wished is None else facts.texts
    if wished is not None and len(kept) > wished:
        kept = _kept(facts, max(wished - 1, 1), least=1)
    rare = len(facts.texts) - len(kept)
    if not (kept and rare) or (2 * sum(kept.values()) < facts.count and wished is None):
        return None
    return Column(name, "categorical", tuple(sorted(kept)), missing=facts.missing, pooled=rare)


def _ordered(name: str, facts: Facts, source: str, words: str) -> Column:
    """A column of states in the order that is given."""
    texts = [word.strip() for word in words.split(",")]
    are_numbers = facts.text is None and all(number(word) is not None for word in texts)
    states: tuple[Any, ...] = tuple(map(plain, texts)) if are_numbers else tuple(texts)
    if len(states) < 2 or len(set(states)) < len(states) or len(states) > MOST or "" in states:
        raise ParameterError(
            f"column {name!r}: 'ordered:{words}' is not understood. Fix: write {_usage('ordered')}."
        )
    for strange in sorted(set(facts.categories()) - set(states), key=str):
        raise DataError(
            f"the value {shown(strange)} is not among those of 'ordered:{words}'",
            where=f"{source}, column {name!r}",
            value=strange,
            fix="name all values in their order",
        )
    return Column(name, "categorical", states, missing=facts.missing, ordered=True)


def in_order(column: Column, kind: Any) -> Column:
    """The column with all categories of the type that it has in a data frame, if that gives them an order.

    Example:
        >>> import numpy as np, polars
        >>> seen = Facts.of(np.array(["low", "high", "low"], dtype=object), str)
        >>> in_order(infer("n", seen, "data", "categorical"), polars.Enum(["low", "mid", "high"])).categories
        ('low', 'mid', 'high')
    """
    has_order = getattr(kind, "ordered", type(kind).__name__ == "Enum")
    categories: tuple[Any, ...] = tuple(kind.categories) if has_order and hasattr(kind, "categories") else ()
    fits = column.kind == "categorical" and column.pooled is None and not column.ordered
    if not fits or not set(column.categories) <= set(categories) or len(categories) > FEW:
        return column
    texts = tuple(str(c) if column.is_text else plain(c) for c in categories)
    return replace(column, categories=texts, ordered=True)


def _bounded(column: Column, facts: Facts, source: str, kind: str, ends: tuple[float | None, ...]) -> Column:
    """The column with the ends that its samples keep to."""
    least, most = ends
    outside = facts.low < (-math.inf if least is None else least) or facts.high > (
        math.inf if most is None else most
    )
    if outside or (least is not None and most is not None and least >= most):
        raise DataError(
            f"its numbers are {facts.low:g} to {facts.high:g}, but it is read as "
            + (f"bounded:{least:g}:{most:g}" if kind == "bounded" else kind),
            where=f"{source}, column {column.name!r}",
            fix="correct the cells, give other bounds, or read it as 'continuous'",
        )
    return replace(column, least=least, most=most, spikes=facts.spikes)


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
    return Column(
        name,
        "continuous",
        (),
        facts.low,
        facts.high,
        facts.mean,
        scale,
        facts.missing,
        facts.step,
        facts.levels,
    )


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
