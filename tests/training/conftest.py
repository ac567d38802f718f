"""Small data and models that train in a second."""

import pytest
import torch

import squircuit as sq


def coins(n=240, d=4, seed=0):
    """Rows of d binary columns that agree with the first one nine times in ten."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(2, (n, 1), generator=generator)
    flips = (torch.rand(n, d, generator=generator) < 0.1).long()
    return (first + flips) % 2


def model_of_coins(d=4, seed=0, **options):
    return sq.SquaredCircuit(
        sq.build(sq.regions.balanced_tree(d), sq.Categorical(2), 2, **options), seed=seed
    )


def all_rows(feed):
    return torch.cat([part.x for part in feed.blocks()])


@pytest.fixture
def x():
    return coins()


@pytest.fixture
def model():
    return model_of_coins()
