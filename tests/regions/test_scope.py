"""Laws of the short descriptions of scopes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from squircuit.regions.scope import describe


def test_a_short_scope_is_written_out_in_order():
    assert describe(frozenset({10, 2, 1})) == "{1,2,10}"


def test_a_long_scope_is_abbreviated_and_counted():
    assert describe(frozenset(range(784))) == "{0,1,2,…,783} (784 variables)"


@given(st.frozensets(st.integers(0, 10_000)))
def test_a_description_is_short_and_names_the_least_and_greatest_variable(scope):
    text = describe(scope)
    assert len(text) < 60
    if scope:
        listed = text.split("}")[0].strip("{").split(",")
        assert (listed[0], listed[-1]) == (str(min(scope)), str(max(scope)))
