"""JSON documents that are no family are refused with the reason."""

from __future__ import annotations

import inspect

import pytest

from squircuit.errors import FormatError
from squircuit.families import (
    FAMILIES,
    BlockFamily,
    Categorical,
    Family,
    Hermite,
    Product,
    family_from_dict,
    family_to_dict,
)

HERMITE = family_to_dict(Hermite(3))


def test_every_concrete_family_is_registered():
    kinds = {*Family.__subclasses__(), *BlockFamily.__subclasses__()}
    kinds |= {kind for abstract in kinds for kind in abstract.__subclasses__()}
    own = {kind for kind in kinds if kind.__module__.startswith("squircuit.")}
    assert set(FAMILIES) == {kind for kind in own if not inspect.isabstract(kind)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            HERMITE | {"family": "Hermit"},
            r"unknown family 'Hermit'\. Fix: did you mean 'Hermite'\? Known",
        ),
        (HERMITE | {"family": None}, r"unknown family None"),
        ({"size": 3}, r"unknown family None"),
        (
            HERMITE | {"colour": 1},
            r"missing fields \[\], unknown fields \['colour'\]\. Fix: give exactly",
        ),
        ({"family": "Hermite", "size": 3}, r"missing fields \['loc', 'scale', 'learnable'\].*Fix"),
        (HERMITE | {"size": "3"}, r"size='3' is not an integer.*Fix"),
        (HERMITE | {"size": True}, r"size=True is not an integer.*Fix"),
        (HERMITE | {"loc": [0.0]}, r"loc=\(0\.0,\) is not a finite number.*Fix"),
        (HERMITE | {"scale": -1.0}, r"scale=-1\.0 is not positive.*Fix"),
        (HERMITE | {"loc": HERMITE}, r"loc=Hermite\(.* is not a finite number.*Fix"),
        ({"family": "Product", "left": HERMITE, "right": 3}, r"right=3 is not a family.*Fix"),
        ({"family": "Product", "left": HERMITE, "right": {"family": "Hermit"}}, r"unknown family 'Hermit'"),
        (["Hermite", 3], r"\['Hermite', 3\] is not a family\. Fix"),
        (None, r"None is not a family\. Fix"),
    ],
)
def test_documents_that_are_no_family_are_refused_with_the_reason(data, message):
    with pytest.raises(FormatError, match=message):
        family_from_dict(data)


def test_nested_families_are_nested_objects():
    data = family_to_dict(Product(Hermite(3), Hermite(3)))
    assert data == {"family": "Product", "left": HERMITE, "right": HERMITE}


def test_categorical_families_of_files_that_know_no_order_are_read():
    assert family_from_dict({"family": "Categorical", "size": 3}).ordered is False
    assert family_from_dict(family_to_dict(Categorical(3, ordered=True))).ordered is True
