"""Whatever a text holds, it is a circuit, a family or a region graph, or one clear error on one line."""

import copy
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import squircuit as sq
from squircuit.families.serialise import family_from_dict, family_to_dict

FAMILIES = [
    sq.Hermite(4, learnable=True),
    sq.Categorical(3),
    sq.Orthonormalised(sq.BSpline(5)),
    sq.Laguerre(3),
]
TEXTS = {
    "circuit": (sq.build(sq.regions.linear(4), FAMILIES, units=2).to_json(), sq.Circuit.from_json),
    "graph": (sq.regions.quad_tree((3, 3)).to_json(), sq.regions.RegionGraph.from_json),
}
WRONG = [
    math.inf, math.nan, -1, 0, 1, 2, 2**31, 2**70, 10**400, 10**4000, 1.5, True, "2", "x", None, [], [2], {},
    [[0, 1]], [[]], 1e308, 1e-320,
]  # fmt: skip


def change(document, draw):
    """One entry, anywhere, made another one or left out."""
    place = document
    while True:
        key = draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
        inner = place[key]
        if isinstance(inner, list | dict) and inner and draw(st.integers(0, 5)):
            place = inner
        elif isinstance(place, dict) and not draw(st.integers(0, 5)):
            del place[key]
            return
        else:
            place[key] = draw(st.sampled_from(WRONG))
            return


@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_text_with_any_entry_changed_is_the_thing_or_one_error(name, data):
    text, read = TEXTS[name]
    document = copy.deepcopy(json.loads(text))
    change(document, data.draw)
    try:
        read(json.dumps(document))
    except (sq.FormatError, sq.StructureError) as error:
        assert "Fix: " in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
        assert len(str(error)) < 600  # noqa: PT017


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 200_000, "9" * 5000, "{", "", b"\xff", None, 3])
def test_what_is_no_json_is_one_error(name, text):
    with pytest.raises(sq.FormatError, match=r"Fix: pass the text of .*to_json\(\)"):
        TEXTS[name][1](text)


def test_a_short_text_of_regions_that_fill_the_memory_is_refused():
    regions = [0]
    for variable in range(1, 50_000):
        regions += [variable, [[len(regions) - 1, len(regions)]]]
    text = json.dumps({"format": "squircuit.region_graph", "version": 1, "regions": regions})
    with pytest.raises(sq.FormatError, match="all regions together hold more than 67,108,864 variables"):
        sq.regions.RegionGraph.from_json(text)


@pytest.mark.parametrize("size", [2**30, 10**400, 1e300, math.inf, math.nan, True, "3", None, [3]])
def test_a_family_of_a_size_that_is_none_is_one_error(size):
    for family in (sq.Categorical(3), sq.Hermite(3), sq.BSpline(5), sq.Fourier(3, 1.0)):
        with pytest.raises(sq.FormatError, match="Fix: "):
            family_from_dict(family_to_dict(family) | {"size": size})


def test_what_could_not_be_read_again_is_not_written():
    with pytest.raises(sq.FormatError, match="too large for a file"):
        family_to_dict(sq.Categorical(2**25))
