"""Values that are repeated often: those and no others."""

from __future__ import annotations

import numpy as np
import pytest

from squircuit.data import spikes_of
from squircuit.errors import ParameterError


def by_counting(values: np.ndarray, step: float, share: float = 0.005) -> tuple[float, ...]:
    """The definition, value by value."""
    known = [round(v / step) if step else v for v in values.tolist() if np.isfinite(v)]
    spikes = []
    for level in sorted(set(known)):
        count = known.count(level)
        beside = [known.count(level + s) for s in (-4, -3, -2, -1, 1, 2, 3, 4)] if step else [0]
        if count > share * len(known) and count > 4 * np.median(beside) + 8:
            spikes.append(level * step if step else level)
    return tuple(spikes)


@pytest.mark.parametrize("seed", range(8))
def test_spikes_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    smooth = rng.normal(scale=rng.choice([0.03, 0.3, 3.0]), size=400).round(2)
    spiky = rng.choice([0.0, 0.5, 0.51, -1.25], size=rng.integers(1, 200))
    values = rng.permutation(np.concatenate([smooth, spiky, [np.nan] * 50, [np.inf]]))
    assert spikes_of(values, 0.01) == pytest.approx(by_counting(values, 0.01))
    assert spikes_of(values) == by_counting(values, 0.0)
    for share in (0.0, 0.05):
        assert spikes_of(values, 0.01, share) == pytest.approx(by_counting(values, 0.01, share))


def test_of_too_many_spikes_the_most_frequent_are_given_in_order():
    values = np.repeat(np.arange(100) * 100.0, np.random.default_rng(0).permutation(np.arange(100) + 10))
    levels, counts = np.unique(values, return_counts=True)
    assert spikes_of(values, 1.0, share=0.0) == tuple(levels)
    assert spikes_of(values, 1.0, share=0.0, most=30) == tuple(levels[counts >= 80])


def test_all_levels_of_a_column_that_has_few_are_spikes_as_they_are_written():
    levels = [written / 100 for written in range(82, 4101, 82)]
    values = np.random.default_rng(0).permutation(np.repeat(levels, 100))
    assert spikes_of(values, 0.01) == tuple(levels)


def test_a_smooth_column_on_a_lattice_has_no_spikes():
    values = np.random.default_rng(0).normal(0.6, 0.2, size=17_000).round(2)
    assert spikes_of(values, 0.01) == ()


def test_few_rows_that_meet_by_chance_are_no_spikes():
    for seed in range(20):
        values = np.random.default_rng(seed).integers(0, 500, size=1000) / 10
        assert spikes_of(values, 0.1) == ()


def test_numbers_of_single_precision_are_counted_as_the_decimal_numbers_they_were():
    values = np.tile(np.float32([0.1, 0.7]), 100)
    assert spikes_of(values, 0.1) == (0.1, 0.7)


def test_no_numbers_have_no_spikes():
    assert spikes_of([]) == spikes_of([np.nan] * 100, 0.1) == ()


def test_a_step_that_is_none_is_refused():
    with pytest.raises(ParameterError, match=r"step=0\.82 is neither 0 nor a power of ten\. Fix:"):
        spikes_of([1.0], 0.82)
