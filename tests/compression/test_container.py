"""Files that are damaged, of another model or of another machine: one clear error, and never wrong rows."""

import dataclasses
import json
import zlib
from contextlib import suppress

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import squircuit as sq
from squircuit.compression import arithmetic, codec
from squircuit.compression.container import LEAD, MAGIC, checksum, parsed, written
from squircuit.inference.chain import walk

MODEL = sq.SquaredCircuit(sq.build(sq.regions.balanced_tree(5), sq.Categorical(4), units=2))
ROWS = MODEL.sample(30, seed=0)
CONTENT = sq.compress(MODEL, ROWS)


def sealed(content):
    """Bytes with the checksum that they would have, had they been written so."""
    return content + bytes.fromhex(checksum(content))


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
@settings(max_examples=60)
def test_a_byte_that_was_changed_is_noticed(place, change):
    damaged = bytearray(CONTENT)
    damaged[place] ^= change
    with pytest.raises(sq.FormatError, match="Fix: "):
        sq.decompress(MODEL, bytes(damaged))


@given(st.integers(0, len(CONTENT) - 1))
@settings(max_examples=40)
def test_a_file_that_was_cut_off_is_noticed(length):
    with pytest.raises(sq.FormatError, match="Fix: "):
        sq.decompress(MODEL, CONTENT[:length])


@given(st.binary(max_size=200))
def test_bytes_of_any_other_kind_are_refused(content):
    for given_bytes in (content, MAGIC + content, sealed(LEAD.pack(MAGIC, 1, len(content)) + content)):
        with pytest.raises(sq.FormatError, match="Fix: "):
            sq.decompress(MODEL, given_bytes)


@given(st.integers(0, 10_000), st.integers(1, 255))
@settings(max_examples=40)
def test_words_that_were_changed_with_their_checksum_give_no_rows(place, change):
    header, streams = parsed(CONTENT)
    damaged = bytearray(streams)
    damaged[place % len(damaged)] ^= change
    with suppress(sq.FormatError):
        found = sq.decompress(MODEL, written(header, bytes(damaged)))
        assert found.equal(ROWS)  # some bits of the last word do not count


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 2**60},
        {"rows": -1},
        {"rows": 31},
        {"columns": 2**40},
        {"parts": [[7]]},
        {"parts": []},
        {"parts": [[]]},
        {"blocks": []},
        {"gaps": 2**50},
        {"chosen": -4},
        {"arithmetic": 7},
        {"model": 7},
        {"nonsense": 1},
    ],
)
def test_a_hostile_header_is_refused_before_memory_is_used(change):
    refused(codec_document() | change)


def codec_document():
    header, _ = parsed(CONTENT)
    blocks = [[b.part, b.rows, b.size, b.checksum] for b in header.blocks]
    return dataclasses.asdict(header) | {"blocks": blocks}


def refused(document):
    packed = zlib.compress(json.dumps(document).encode())
    content = sealed(LEAD.pack(MAGIC, 1, len(packed)) + packed + parsed(CONTENT)[1])
    with pytest.raises(sq.FormatError, match="Fix: "):
        sq.decompress(MODEL, content)


@pytest.mark.parametrize(
    "block", [[0, 2**40, 8, "00"], [0, 0, 0, ""], [3, 30, 8, "00"], [0, 30, -8, "00"], [0, 30], "x", None]
)
def test_a_hostile_block_is_refused(block):
    refused(codec_document() | {"blocks": [block]})


def test_a_header_that_would_fill_the_memory_is_not_unpacked():
    packed = zlib.compress(b"[" * 2**26)
    with pytest.raises(sq.FormatError, match="its header is not of this format"):
        sq.decompress(MODEL, sealed(LEAD.pack(MAGIC, 1, len(packed)) + packed))
    late = sealed(LEAD.pack(MAGIC, 9, 0))
    with pytest.raises(sq.FormatError, match="version 9 of the format, this release reads up to 1"):
        sq.decompress(MODEL, late)


def test_another_model_is_named_as_such():
    other = sq.SquaredCircuit(MODEL.structure, seed=1)
    with pytest.raises(sq.FormatError, match=r"compressed with another model, of hash [0-9a-f]{16}"):
        sq.decompress(other, CONTENT)
    assert arithmetic.fingerprint(sq.SquaredCircuit(MODEL.circuit())) == arithmetic.fingerprint(MODEL)


def test_other_probabilities_than_those_of_the_encoder_are_noticed_and_explained(monkeypatch):
    header, streams = parsed(CONTENT)
    elsewhere = dataclasses.replace(header, arithmetic=header.arithmetic | {"torch": "1.0"})
    assert sq.decompress(MODEL, written(elsewhere, streams)).equal(ROWS)  # it decides what comes out

    def slanted(own, table):
        found = masses(own, table)
        return found * torch.linspace(1, 1.5, found.shape[1])

    masses = walk.masses
    monkeypatch.setattr(walk, "masses", slanted)
    with pytest.raises(sq.FormatError, match=r"probabilities differ \(torch 1.0 there, .* here\)"):
        sq.decompress(MODEL, written(elsewhere, streams))
    with pytest.raises(sq.FormatError, match="torch and processor say the same of themselves"):
        sq.decompress(MODEL, CONTENT)


def test_what_verify_finds_is_an_error(monkeypatch):
    monkeypatch.setattr(
        codec.coder, "decoded", lambda chain, part, words, rows, gaps: torch.zeros(rows, 5).long()
    )
    with pytest.raises(sq.FormatError, match="other rows come out"):
        sq.compress(MODEL, ROWS, verify=True)
