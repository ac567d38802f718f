"""What is decompressed is what was compressed, in about as many bits as the model says."""

import datetime
import math

import numpy as np
import polars
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import squircuit as sq
from query_laws import DISCRETE, models
from squircuit.compression import parts
from squircuit.compression.container import parsed

ENDS = 2 * 32
"""Bits that a stream may take more than its rows: it ends with whole words."""


def bits(content):
    """Those of the streams of a file, without its header."""
    return 8 * parsed(content)[0].streams


def log2(model, rows):
    return model.log_prob(rows).double().sum().item() / math.log(2)


def mixed_images(weights=(1, 2, 3), levels=5):
    """A mixture of trees over images of 4×4 pixels, to which different orders are best."""
    orders = ("hv", "vh", "vvhh")
    members = [
        sq.image_model((4, 4), 3, levels, parts=2, order=order, seed=seed)
        for seed, order in enumerate(orders)
    ]
    return sq.mixture(members, list(weights))


@pytest.mark.parametrize("name", DISCRETE)
@given(data=st.data())
@settings(max_examples=8)
def test_rows_of_any_circuit_come_back(name, data):
    dtype = data.draw(st.sampled_from((torch.complex64, torch.complex128)))
    _, model = data.draw(models(name, limit=300, dtype=dtype))
    rows = model.sample(data.draw(st.integers(0, 9)), seed=data.draw(st.integers(0, 99)))
    content = sq.compress(model, rows)
    assert sq.decompress(model, content).equal(rows)
    assert sq.compress(model, rows) == content


@given(data=st.data())
@settings(max_examples=20)
def test_rows_that_the_model_does_not_expect_come_back_too(data):
    circuit, model = data.draw(models(data.draw(st.sampled_from(("unitary", "baseline"))), limit=300))
    rows = torch.from_numpy(oracle.assignments(circuit, sorted(circuit.scope))[0]).long()
    assert sq.decompress(model, sq.compress(model, rows)).equal(rows)  # all there are, impossible ones too


@given(data=st.data())
@settings(max_examples=12)
def test_the_code_takes_as_many_bits_as_the_model_says(data):
    circuit, model = data.draw(models(data.draw(st.sampled_from(DISCRETE)), limit=300))
    rows = model.sample(200, seed=0)
    expected = -float(
        np.log2(oracle.density(circuit, rows.double().numpy()) / oracle.partition(circuit)).sum()
    )
    found = bits(sq.compress(model, rows))
    assert abs(found - expected) < ENDS + 0.001 * expected


@pytest.mark.parametrize("apart", [False, True])
def test_a_mixture_of_trees_is_coded_together_or_by_the_best_tree_of_each_row(monkeypatch, apart):
    monkeypatch.setattr(parts, "MORE", 1.0 if apart else 0.0)
    model = mixed_images()
    rows = model.sample(300, seed=2)
    content = sq.compress(model, rows)
    assert len(parsed(content)[0].parts) == (3 if apart else 1)
    assert sq.decompress(model, content).equal(rows)
    terms = model.component_log_prob(rows).double()
    best = -(terms.max(dim=1).values.sum() if apart else terms.logsumexp(dim=1).sum()).item() / math.log(2)
    assert abs(bits(content) - best) < 4 * ENDS + 0.001 * best


def test_a_part_for_each_row_is_chosen_only_where_it_costs_next_to_nothing():
    model = mixed_images((1, 1e-9, 1e-9))
    rows = model.sample(4000, seed=0)
    content = sq.compress(model, rows)
    assert len(parsed(content)[0].parts) == 3  # the first tree has nearly all of p(m | x)
    assert bits(content) < 6 * ENDS - 1.001 * log2(model, rows)
    assert len(parsed(sq.compress(model, rows[:100]))[0].parts) == 1  # of few rows the parts themselves cost


def test_cells_that_are_missing_are_marginalised_and_stay_missing():
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 500)
    frame = polars.DataFrame(
        {
            "sex": sex,
            "age": [
                None if gap else int(a)
                for gap, a in zip(rng.random(500) < 0.2, rng.integers(20, 40, 500), strict=True)
            ],
            "works": [
                None if gap else bool(s == "f") for gap, s in zip(rng.random(500) < 0.3, sex, strict=True)
            ],
        }
    )
    model = sq.model_for(frame, units=2, dtype=torch.complex128)
    content = sq.compress(model, frame)
    assert sq.decompress(model, content).equals(frame)
    for more in (frame.with_columns(id=1), {"sex": ["f"], "id": [1]}, [{"sex": "f", "id": 1}]):
        with pytest.raises(sq.DataError, match="the model has no column 'id'"):
            sq.compress(model, more)
    header, _ = parsed(content)
    assert abs(8 * (header.streams - header.gaps) + log2(model, frame)) < ENDS + 0.001 * 500 * 6


def test_images_are_rows_whatever_their_shape_and_blocks_are_put_together_again():
    model = sq.image_model((3, 4), 2, levels=4)
    images = np.random.default_rng(0).integers(0, 4, (2100, 3, 4)).astype(np.uint8)
    content = sq.compress(model, images, verify=True)
    assert len(parsed(content)[0].blocks) == 3
    assert np.array_equal(sq.decompress(model, content).reshape(-1, 3, 4).numpy(), images)


def test_a_column_of_one_state_and_a_model_of_one_variable_take_no_more_than_they_must():
    circuit = sq.build(sq.regions.linear(2), [sq.Categorical(1), sq.Categorical(3)], units=1)
    for model in (
        sq.SquaredCircuit(circuit),
        sq.SquaredCircuit(sq.build(sq.regions.linear(1), sq.Categorical(4), 2)),
    ):
        rows = model.sample(40, seed=0)
        content = sq.compress(model, rows)
        assert sq.decompress(model, content).equal(rows)
        assert bits(content) < ENDS - 1.01 * log2(model, rows)


@pytest.mark.parametrize("unitary", [True, False])
def test_the_number_of_threads_changes_no_byte_and_no_row(unitary):
    circuit = sq.build(sq.regions.quad_tree((4, 4), 2), sq.Categorical(5), 3, unitary=unitary, components=2)
    model = sq.SquaredCircuit(circuit)
    rows = model.sample(2500, seed=0)
    found = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        try:
            found.append(sq.compress(model, rows))
            assert sq.decompress(model, found[0]).equal(rows)
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(1)
    assert found[0] == found[1]


def test_a_saved_model_reads_what_the_model_wrote(tmp_path):
    model = mixed_images()
    rows = model.sample(20, seed=0)
    model.save(tmp_path / "m.safetensors")
    assert sq.decompress(sq.load(tmp_path / "m.safetensors"), sq.compress(model, rows)).equal(rows)


def test_continuous_columns_and_values_that_are_none_are_refused():
    line = sq.SquaredCircuit(sq.build(sq.regions.linear(2), [sq.Categorical(2), sq.Hermite(3)], units=2))
    with pytest.raises(sq.ParameterError, match="variable 1 of the model is continuous, and only discrete"):
        sq.compress(line, [[0, 0.5]])
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=day) for day in range(60)]
    dated = sq.table_model(polars.DataFrame({"day": days, "wet": [True, False] * 30}), units=2)
    with pytest.raises(sq.ParameterError, match="column 'day' holds dates"):
        sq.compress(dated, {"day": days[0], "wet": True})
    table = sq.table_model({"sex": ["f", "m"] * 9, "height": np.linspace(1.5, 2, 18)}, size=3)
    with pytest.raises(sq.ParameterError, match="column 'height' of the model is continuous"):
        sq.compress(table, {"sex": "f", "height": 1.7})
    model = sq.SquaredCircuit(sq.build(sq.regions.linear(2), sq.Categorical(2), units=2))
    for rows in ([[0, 2]], [[0, 0.5]], [[0]], None):
        with pytest.raises(sq.DataError, match="Fix: "):
            sq.compress(model, rows)
    with pytest.raises(sq.ParameterError, match="str is not bytes"):
        sq.decompress(model, "file.sqz")
