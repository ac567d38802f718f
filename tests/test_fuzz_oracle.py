"""What the oracle of the fuzzer knows of maps, bins and blocks agrees with dense grids and definitions."""

import sys
from pathlib import Path

import numpy as np
import pytest

import squircuit as sq

sys.path.append(str(Path(__file__).resolve().parent.parent))

from fuzz import blocks
from fuzz.functions import DOUBLE, functions, rule
from fuzz.oracle import Oracle

MAP = sq.Monotone((-1.0, 0.5, 2.0), (-1.5, 0.2, 1.0), (1.0, 2.0, 0.4), (0.3, 0.0))
BLOCKS = {
    "full": sq.MultivariateGaussian.of(
        [[0.0, 1.0], [1.0, -1.0]], [[[1.0, 0.6], [0.6, 0.8]], [[0.5, 0.0], [0.0, 2.0]]]
    ),
    "tied": sq.MultivariateGaussian.of([[0.0, 1.0], [1.0, -1.0]], [[1.0, -0.5], [-0.5, 0.8]], "tied"),
    "diagonal": sq.MultivariateGaussian.of([[0.0, 1.0], [1.0, -1.0]], [[1.0, 0.5], [0.7, 2.0]], "diagonal"),
    "low-rank": sq.MultivariateGaussian.of(
        [[0.0, 1.0], [1.0, -1.0]], ([[1.0, 0.5], [0.7, 1.0]], [[[0.5], [0.7]], [[-0.8], [0.1]]]), "low-rank"
    ),
}


def numbers(family, x):
    found = functions(family, x, {}, DOUBLE)
    return found.phase * np.exp(found.log)


def test_a_map_backwards_is_its_inverse_and_its_slope_is_its_derivative():
    x = np.linspace(-6, 9, 301)
    t, log_slope = blocks.forward(MAP, x)
    np.testing.assert_allclose(blocks.backward(MAP, t), x, rtol=1e-12, atol=1e-12)
    step = 1e-6
    slope = (blocks.forward(MAP, x + step)[0] - blocks.forward(MAP, x - step)[0]) / (2 * step)
    np.testing.assert_allclose(np.exp(log_slope), slope, rtol=1e-5)


@pytest.mark.parametrize("kind", BLOCKS)
def test_overlaps_of_gaussians_are_integrals_over_a_dense_grid(kind):
    family = BLOCKS[kind]
    side = np.linspace(-11, 11, 260)
    points = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    values = numbers(family, points)
    gram = values.T @ values * (side[1] - side[0]) ** 2
    np.testing.assert_allclose(blocks.overlaps(family, {}), gram, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.diagonal(gram), 1, rtol=1e-10)


@pytest.mark.parametrize(
    "family",
    [
        sq.Transformed(sq.Hermite(3), MAP),
        sq.Transformed(sq.Transformed(sq.Hermite(2), MAP), MAP),
        sq.Bins((0.0, 1.0, 3.0), (0.5, 2.0)),
        sq.Transformed(sq.Bins((0.0, 1.0, 3.0), (0.5, 2.0)), MAP),
        sq.Transformed(
            sq.Legendre(3, 0.0, 2.0), sq.Monotone((1.0, 2.0, 5.0), (0.0, 1.5, 2.0), (1.0, 1.0, 0.1), None)
        ),
    ],
    ids=lambda family: type(family).__name__,
)
def test_transformed_functions_and_bins_are_orthonormal_under_the_rule_of_the_oracle(family):
    nodes, log_weights = rule([(family, {})])
    values = numbers(family, nodes)
    np.testing.assert_allclose(
        values.T @ (values * np.exp(log_weights)[:, None]), np.eye(family.size), atol=1e-12
    )


def test_what_is_left_of_a_block_is_integrated_around_where_it_is_given_the_rest():
    family = sq.MultivariateGaussian.of([[0.0, 0.0]], [[[1.0, 0.9], [0.9, 1.0]]], columns=(MAP, None))
    oracle = Oracle(sq.Circuit(sq.Input((0, 1), family)), {})
    far = np.array([[0.3, 30.0], [20.0, 1.0]])
    t, log_slope = blocks.forward(MAP, far[1:, 0])
    first, second = oracle.table(far[:1], [0]), oracle.table(far[1:], [1])
    normal = -0.5 * np.log(2 * np.pi)
    assert first.total()[0] == pytest.approx(normal - 450, rel=1e-12)
    assert second.total()[0] == pytest.approx(normal - t[0] ** 2 / 2 + log_slope[0], rel=1e-12)
