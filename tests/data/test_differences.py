"""Differences from predictions: a bijection of images, causal, and smaller where neighbours are alike."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import squircuit as sq
from squircuit.data import Prediction
from squircuit.errors import DataError, ParameterError


def smooth(count, shape, seed=0):
    """Images that vary slowly."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(0, 3, (count, *shape)).cumsum(1).cumsum(2)
    return (128 + steps).clip(0, 255).astype(np.uint8).reshape(count, -1)


@given(st.integers(1, 6), st.integers(1, 6), st.booleans(), st.integers(0, 99))
@settings(max_examples=25)
def test_images_come_back_from_differences_and_differences_from_images(height, width, coloured, seed):
    shape = (height, width, 3) if coloured else (height, width)
    prediction = Prediction.fit(smooth(30, shape, seed), shape)
    any_rows = np.random.default_rng(seed).integers(0, 256, (7, int(np.prod(shape))))
    assert np.array_equal(prediction.images(prediction.differences(any_rows)), any_rows)
    assert np.array_equal(prediction.differences(prediction.images(any_rows)), any_rows)


def test_all_levels_of_one_pixel_have_all_differences():
    prediction = Prediction.fit(smooth(30, (3, 3, 3)), (3, 3, 3))
    rows = np.repeat(smooth(1, (3, 3, 3), 5), 256, axis=0)
    rows[:, 3 * 4] = np.arange(256)  # red of the pixel in the middle
    found = prediction.differences(rows)
    assert sorted(found[:, 3 * 4 + 1].tolist()) == list(range(256))  # its second plane


def test_what_comes_later_does_not_count():
    prediction = Prediction.fit(smooth(30, (4, 4)), (4, 4))
    first, second = smooth(2, (4, 4), 3)
    for place in range(16):
        both = np.stack([first, np.concatenate([first[:place], second[place:]])])
        found = prediction.differences(both)
        assert np.array_equal(found[0, :place], found[1, :place])


def test_differences_of_smooth_images_are_small():
    rows = smooth(50, (12, 12, 3))
    found = Prediction.fit(rows, (12, 12, 3)).differences(rows).astype(int) - 128
    assert np.abs(found).mean() < 0.3 * np.abs(rows.astype(int) - rows.mean()).mean()


def test_a_prediction_is_kept_as_json():
    prediction = Prediction.fit(smooth(9, (3, 3)), (3, 3))
    kept = json.loads(json.dumps(asdict(prediction)))
    again = Prediction(tuple(kept["shape"]), tuple(map(tuple, kept["weights"])))
    assert again == prediction


def test_a_model_of_differences_is_a_lossless_code_of_images():
    rows = smooth(40, (4, 4), 1)
    prediction = Prediction.fit(rows, (4, 4))
    model = sq.image_model((4, 4), units=2)
    content = sq.compress(model, prediction.differences(rows))
    assert np.array_equal(prediction.images(sq.decompress(model, content).numpy()), rows)


def test_rows_that_are_no_images_are_refused():
    prediction = Prediction.fit(smooth(9, (3, 3)), (3, 3))
    for wrong in (np.zeros((2, 8), int), np.zeros((2, 9)), np.full((2, 9), 256)):
        with pytest.raises(DataError, match="no rows of 9 whole numbers from 0 to 255"):
            prediction.differences(wrong)
    with pytest.raises(ParameterError, match=r"pass \(height, width\)"):
        Prediction.fit(np.zeros((2, 9), int), (9,))
    with pytest.raises(ParameterError, match=r"Fix: Prediction\.fit"):
        Prediction((3, 3), ((1, 2),))
