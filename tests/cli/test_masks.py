"""Masks by words."""

import pytest
import torch

import squircuit as sq
from squircuit.cli.masks import image_mask, named_mask


@pytest.mark.parametrize(
    ("text", "expected"),
    [("left", "1100" * 4), ("right", "0011" * 4), ("top", "1111" * 2 + "0000" * 2),
     ("bottom", "0000" * 2 + "1111" * 2), ("center", "0000" + "0110" * 2 + "0000")],
)  # fmt: skip
def test_a_part_of_an_image_is_missing(text, expected):
    assert "".join(str(int(bit)) for bit in image_mask(text, (4, 4), 1)[0]) == expected


def test_channels_of_a_pixel_are_missing_together():
    assert torch.equal(
        image_mask("random:0.5", (6, 5, 3), 4, seed=1).view(4, 30, 3),
        image_mask("random:0.5", (6, 5), 4, seed=1)[..., None].expand(-1, -1, 3),
    )


def test_random_masks_have_their_share_and_differ_from_row_to_row():
    mask = image_mask("random:0.3", (40, 40), 3)
    assert mask.float().mean(dim=1).tolist() == pytest.approx([0.3] * 3, abs=0.05)
    assert not torch.equal(mask[0], mask[1])


@pytest.mark.parametrize("text", ["middle", "random:2", "random:x"])
def test_an_unknown_mask_is_refused(text):
    with pytest.raises(sq.ParameterError, match="Fix: "):
        image_mask(text, (4, 4), 1)


def test_columns_are_missing_by_name_one_by_one_or_with_commas(model_file):
    model = sq.load(model_file)
    one_by_one = named_mask(model, ["height", "wind"], 2)
    assert one_by_one.tolist() == [[False, False, True, True]] * 2
    assert torch.equal(named_mask(model, ["height,wind"], 2), one_by_one)
    with pytest.raises(sq.ParameterError, match=r"hight: no such column\. Fix: did you mean 'height'"):
        named_mask(model, ["wind,hight"], 1)
