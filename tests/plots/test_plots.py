"""Figures show the numbers that they were given: pixels, lines, limits and panels are read back from them."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

import squircuit as sq
from squircuit.data.optional import MissingPackageError
from squircuit.plots.style import ORANGE
from squircuit.training import Epoch


def drawn(fig):
    """The figure as it is seen: (height, width, 3) in [0, 1]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3] / 255


def colour_at(fig, axes, x, y):
    """What is seen at a point in the units of the axes."""
    picture = drawn(fig)
    column, row = axes.transData.transform((x, y))
    return picture[picture.shape[0] - 1 - int(row), int(column)]


def history(losses, valid=None, log_z=None, best=1, unit="nats"):
    rows = [
        Epoch(
            i + 1,
            i,
            loss,
            None if valid is None else valid[i],
            None if log_z is None else log_z[i],
            True,
            0.1,
            i,
        )
        for i, loss in enumerate(losses)
    ]
    return sq.History(rows, unit, best, "finished")


# ---- curves


def test_curves_have_the_losses_of_the_history_the_kept_epoch_and_log_z_below():
    fig = sq.plots.curves(history([3.0, 2.0, 1.5], [3.5, 2.5, 2.6], [1e-7, -2e-7, 0.0], best=2, unit="bits"))
    losses, log_z = fig.axes
    lines = {line.get_label().split(":")[0]: line for line in losses.lines}
    assert lines["training"].get_xydata().tolist() == [[1, 3.0], [2, 2.0], [3, 1.5]]
    assert lines["validation"].get_xydata().tolist() == [[1, 3.5], [2, 2.5], [3, 2.6]]
    assert lines["kept"].get_xydata().tolist() == [[2, 2.5]]
    assert losses.get_ylabel() == "loss, bits per dimension"
    assert log_z.lines[-1].get_ydata().tolist() == [1e-7, -2e-7, 0.0]
    assert log_z.get_position().y1 <= losses.get_position().y0


def test_curves_leave_out_what_was_not_validated_and_what_is_not_finite():
    fig = sq.plots.curves(history([3.0, math.inf, 1.5], [None, 2.5, None], best=0))
    losses, log_z = fig.axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in losses.lines}
    assert lines == {"training": [[1, 3.0], [3, 1.5]], "validation": [[2, 2.5]]}
    assert len(log_z.lines) == 1  # that at zero


def test_curves_mark_the_training_loss_where_there_is_no_validation():
    losses = sq.plots.curves(history([3.0, 2.0], best=2)).axes[0]
    assert losses.lines[-1].get_xydata().tolist() == [[2, 2.0]]


@pytest.mark.parametrize("wrong", [[1.0, 2.0], None, history([])])
def test_curves_refuse_what_is_no_history_or_an_empty_one(wrong):
    with pytest.raises(sq.ParameterError, match="Fix"):
        sq.plots.curves(wrong)


# ---- images


def test_images_of_one_channel_are_drawn_dark_on_white_row_by_row():
    rows = np.array([[0, 1, 2, 3, 4, 4], [4, 3, 2, 1, 0, 0]])
    fig = sq.plots.images(torch.from_numpy(rows), shape=(2, 3), levels=5)
    for axes, row in zip(fig.axes, rows, strict=True):
        pixels = np.asarray(axes.images[0].get_array())
        assert pixels[..., :3] == pytest.approx(np.repeat(1 - row.reshape(2, 3, 1) / 4, 3, axis=2))
        assert (pixels[..., 3] == 1).all()
    assert colour_at(fig, fig.axes[0], 0, 0) == pytest.approx([1, 1, 1])  # level 0 of the first image
    assert colour_at(fig, fig.axes[0], 2, 1) == pytest.approx([0, 0, 0])  # level 4
    assert colour_at(fig, fig.axes[1], 0, 1) == pytest.approx([0.75] * 3, abs=0.01)  # level 1 of the second


def test_images_of_three_channels_are_red_green_and_blue():
    fig = sq.plots.images([[255, 0, 0, 0, 255, 0]], shape=(1, 2, 3), levels=256)
    assert colour_at(fig, fig.axes[0], 0, 0) == pytest.approx([1, 0, 0])
    assert colour_at(fig, fig.axes[0], 1, 0) == pytest.approx([0, 1, 0])


@pytest.mark.parametrize(("count", "columns", "lines", "width"), [(1, 8, 1, 1), (8, 8, 1, 8), (9, 4, 3, 4)])
def test_there_is_a_panel_for_each_image_in_lines_of_so_many_columns(count, columns, lines, width):
    fig = sq.plots.images(np.zeros((count, 4)), (2, 2), columns=columns)
    assert len(fig.axes) == count
    spec = fig.axes[0].get_gridspec()
    assert (spec.nrows, spec.ncols) == (lines, width)


def test_without_levels_the_largest_value_is_black():
    fig = sq.plots.images([[0, 7]], (1, 2))
    assert np.asarray(fig.axes[0].images[0].get_array())[0, 1, :3].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("rows", "shape", "options", "words"),
    [
        (np.zeros((2, 5)), (2, 2), {}, "4 pixels"),
        (np.zeros(4), (2, 2), {}, r"shape \(4,\)"),
        (np.zeros((0, 4)), (2, 2), {}, "n ≥ 1"),
        (np.zeros((1, 4)), (4,), {}, "height, width"),
        (np.zeros((1, 8)), (2, 2, 2), {}, "1 or 3 channels"),
        (np.zeros((1, 4)), (2, 2), {"columns": 0}, "columns=0"),
        (np.zeros((1, 4)), (2, 2), {"levels": 1}, "levels=1"),
        ([[0, 1, 2, 9]], (2, 2), {"levels": 4}, "row 0, pixel 3: 9"),
        ([[0, 1, -2, 0]], (2, 2), {}, "row 0, pixel 2: -2"),
        ([[0, 1, math.inf, 0]], (2, 2), {}, "pixel 2: inf"),
        ([["a"] * 4], (2, 2), {}, "no array of numbers"),
    ],
)
def test_images_refuse_what_does_not_fit_and_say_where(rows, shape, options, words):
    with pytest.raises(sq.SquircuitError, match=words):
        sq.plots.images(rows, shape, **options)


# ---- completions


def test_completions_show_original_seen_and_every_completion_of_every_image():
    rng = np.random.default_rng(0)
    originals, completed = rng.integers(5, size=(3, 4)), rng.integers(5, size=(2, 3, 4))
    missing = rng.random((3, 4)) < 0.5
    fig = sq.plots.completions(originals, missing, torch.from_numpy(completed), (2, 2), levels=5)
    panels = np.array([np.asarray(axes.images[0].get_array()) for axes in fig.axes]).reshape(3, 4, 2, 2, 4)
    grey = 1 - panels[..., 0].reshape(3, 4, 4)
    assert grey[:, 0] == pytest.approx(originals / 4)
    assert grey[:, 2:].transpose(1, 0, 2) == pytest.approx(completed / 4)
    assert (panels[:, 1, ..., 3].reshape(3, 4) == ~missing).all()  # transparent where missing
    assert grey[:, 1][~missing] == pytest.approx(originals[~missing] / 4)


def test_the_missing_part_is_seen_in_a_colour_that_is_no_grey():
    fig = sq.plots.completions([[0, 3]], [False, True], [[[0, 2]]], (1, 2), levels=4)
    red, green, blue = colour_at(fig, fig.axes[1], 1, 0)
    assert (red, green, blue) == pytest.approx(to_rgb(ORANGE), abs=0.01)
    assert max(red, green, blue) - min(red, green, blue) > 0.5
    assert colour_at(fig, fig.axes[1], 0, 0) == pytest.approx([1, 1, 1])


def test_the_missing_part_of_images_in_colour_is_hatched():
    fig = sq.plots.completions(
        [[9, 0, 0, 0, 9, 0]], [False] * 3 + [True] * 3, [[[9, 0, 0, 0, 0, 9]]], (1, 2, 3)
    )
    seen = fig.axes[1]
    assert seen.patch.get_hatch()
    picture = drawn(fig)
    box = seen.transData.transform([(0.55, 0.4), (1.45, -0.4)]).astype(int)
    (left, low), (right, high) = box.min(axis=0), box.max(axis=0)
    part = picture[picture.shape[0] - high : picture.shape[0] - low, left:right].reshape(-1, 3)
    assert len(np.unique(part.round(2), axis=0)) > 1  # no even colour, as a pixel would be


@pytest.mark.parametrize(
    ("missing", "completed", "words"),
    [
        ([True] * 3, np.zeros((1, 2, 4)), r"missing: .* \(2, 4\) or \(4,\)"),
        ([0, 1, 0, 1], np.zeros((1, 2, 4)), "booleans"),
        ([True] * 4, np.zeros((2, 4)), r"completed: shape \(2, 4\)"),
        ([True] * 4, np.zeros((1, 3, 4)), r"\(m, 2, 4\)"),
        ([True] * 4, np.full((1, 2, 4), 9), r"completed\[0\], row 0, pixel 0: 9"),
    ],
)
def test_completions_refuse_what_does_not_fit(missing, completed, words):
    with pytest.raises(sq.DataError, match=words):
        sq.plots.completions(np.ones((2, 4)), missing, completed, (2, 2), levels=4)


# ---- density


def model_of(families, seed=1):
    return sq.SquaredCircuit(sq.build(sq.regions.balanced_tree(len(families)), families, units=2), seed=seed)


def test_the_density_drawn_is_that_of_the_model_with_x0_to_the_right_and_x1_upwards():
    model = model_of([sq.Fourier(5, period=6.0), sq.Legendre(4, 10.0, 12.0)])
    axes = sq.plots.density(model, size=10).axes[0]
    picture = axes.images[0]
    values = np.asarray(picture.get_array())
    assert axes.get_xlim() == (-3, 3)
    assert axes.get_ylim() == (10, 12)
    assert picture.origin == "lower"
    for row, column in ((0, 0), (2, 7), (9, 3)):
        point = [[-3 + 0.6 * (column + 0.5), 10 + 0.2 * (row + 0.5)]]
        assert values[row, column] == pytest.approx(model.log_prob(point).exp().item(), rel=1e-4)


def test_cells_of_a_whole_domain_sum_to_one():
    model = model_of([sq.Fourier(5, period=6.0), sq.Fourier(3, period=2.0)])
    values = sq.plots.density(model, size=40).axes[0].images[0].get_array()
    assert values.sum() * (6 / 40) * (2 / 40) == pytest.approx(1, abs=1e-4)


def test_on_a_line_nearly_all_of_the_probability_is_drawn():
    model = model_of([sq.Hermite(4, loc=100.0, scale=5.0), sq.Laguerre(4)])
    axes = sq.plots.density(model, size=100).axes[0]
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    mass = axes.images[0].get_array().sum() * (x1 - x0) * (y1 - y0) / 100**2
    assert 0.99 < mass < 1.005
    assert y0 >= 0  # the half-line begins there


def test_data_is_drawn_beside_the_density_on_the_same_axes_and_decides_ranges_on_lines():
    model = model_of([sq.Hermite(4), sq.Fourier(3, period=2.0)])
    data = torch.tensor([[0.0, 0.1], [10.0, -0.2], [math.nan, 0.3]])
    points, density = sq.plots.density(model, size=5, data=data).axes[:2]
    assert points.lines[0].get_xydata() == pytest.approx(data[:2].numpy())
    for axes in (points, density):
        assert axes.get_xlim() == pytest.approx((-0.5, 10.5))
        assert axes.get_ylim() == pytest.approx((-1, 1))


def test_columns_give_their_names_to_the_axes():
    table = sq.data.table({"length": [1.5, 2.0, 4.0], "mass": [3.0, 1.5, 2.0]})
    axes = sq.plots.density(sq.table_model(table, size=4), size=4).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("length", "mass")


@pytest.mark.parametrize(
    ("families", "options", "words"),
    [
        ([sq.Hermite(3)] * 3, {}, "the model has 3"),
        ([sq.Hermite(3), sq.Categorical(3)], {}, "integers 0 to 2"),
        ([sq.Hermite(3)] * 2, {"size": 1}, "size=1"),
        ([sq.Hermite(3)] * 2, {"data": [[1.0, 2.0, 3.0]]}, r"\(1, 3\)"),
        ([sq.Hermite(3)] * 2, {"data": [[math.nan, 2.0]]}, "no row without NaN"),
    ],
)
def test_density_refuses_other_models_and_data(families, options, words):
    with pytest.raises(sq.SquircuitError, match=words):
        sq.plots.density(model_of(families), **options)


# ---- marginals


def test_marginals_have_a_panel_a_variable_with_the_exact_numbers():
    model = model_of([sq.Categorical(3), sq.Fourier(5, period=6.0), sq.Hermite(4)])
    tables, circle, line = sq.plots.marginals(model).axes
    hidden = torch.tensor([False, True, True])
    rows = torch.tensor([[state, 0.0, 0.0] for state in range(3)])
    expected = model.log_prob(rows, missing=hidden).exp()
    assert [bar.get_height() for bar in tables.patches] == pytest.approx(expected.tolist(), rel=1e-4)
    x, y = circle.lines[0].get_data()
    points = torch.zeros(len(x), 3, dtype=torch.float64)
    points[:, 1] = torch.from_numpy(x)
    asked = model.log_prob(points, missing=torch.tensor([True, False, True])).exp()
    assert y == pytest.approx(asked.detach().numpy(), rel=1e-3, abs=1e-6)
    assert circle.get_xlim() == (-3, 3)
    assert np.trapezoid(line.lines[0].get_ydata(), line.lines[0].get_xdata()) == pytest.approx(1, abs=0.01)


def test_states_and_panels_have_the_words_of_the_table():
    table = sq.data.table(
        {"colour": ["red", "blue", "green"], "children": [2, 0, 1], "height": [1.5, 1.7, 1.9]}
    )
    colour, children, height = sq.plots.marginals(sq.table_model(table, size=4)).axes
    assert [axes.get_title() for axes in (colour, children, height)] == ["colour", "children", "height"]
    assert [label.get_text() for label in colour.get_xticklabels()] == ["blue", "green", "red"]
    assert [bar.get_center()[0] for bar in children.patches] == pytest.approx([0, 1, 2])


def test_marginals_refuse_more_panels_than_can_be_read_and_what_is_no_model():
    with pytest.raises(sq.ParameterError, match="101 variables"):
        sq.plots.marginals(model_of([sq.Categorical(2)] * 101))
    with pytest.raises(sq.ParameterError, match="SquaredCircuit"):
        sq.plots.marginals("model")


# ---- matplotlib


@pytest.mark.process
def test_figures_need_neither_pyplot_nor_its_state():
    script = (
        "import sys, squircuit as sq; assert 'matplotlib' not in sys.modules; "
        "sq.plots.images([[0, 1]], (1, 2)); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as if it were not installed
    with pytest.raises(MissingPackageError, match=r"squircuit\[plot\]"):
        sq.plots.images([[0, 1]], (1, 2))
