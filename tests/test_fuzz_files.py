"""The fuzzer of files: a small budget of it, and that it finds what it looks for."""

import hashlib
import sys
from pathlib import Path

import pytest

import squircuit as sq

FUZZ = Path(__file__).parents[1] / "fuzz"
sys.path.insert(0, str(FUZZ))

import files  # noqa: E402
from broken import judge, models, mutate  # noqa: E402
from broken.workers import judged_apart  # noqa: E402

DRAWN, EACH = range(20_000, 20_400), 2
"""Seeds among which some mutations of every kind are chosen, and how many of each."""
SEEDS = range(30)


def budget():
    """The first mutations of each kind, always the same ones."""
    chosen = {}
    for seed in DRAWN:
        chosen.setdefault(files.case_of(seed).kind, []).append(seed)
    return [seed for seeds in chosen.values() for seed in seeds[:EACH]]


def test_files_of_every_kind_obey_the_laws():
    """In a process of its own, so that a file which ends the process is a failure like others."""
    seeds = budget()
    assert len(seeds) > 60
    found = files.hunt(seeds, quiet=True)
    assert not found, "\n".join(map(str, found))


def fingerprint(seed):
    contents = sorted(files.case_of(seed).files.items())
    return hashlib.sha256(repr(contents).encode()).hexdigest()


def raises(error):
    def read(folder):
        raise error

    return read


@pytest.mark.parametrize(
    ("error", "law"),
    [
        (KeyError("x"), "KeyError"),
        (MemoryError(), "MemoryError"),
        (sq.DataError("two\nlines"), "message of several lines"),
        (sq.DataError("\x1b[31m"), "message that cannot be printed"),
        (sq.DataError(" "), "empty message"),
        (sq.DataError("x" * 9999), "endless message"),
        (judge.LawBrokenError("p is NaN", 3), "wrong answer: p is NaN"),
    ],
)
def test_what_breaks_a_law_is_found(error, law):
    (failure,) = judge.judged(7, judge.Case("planted", {}, raises(error)))
    assert (failure.seed, failure.kind, failure.error) == (7, "planted", law)


def test_one_clear_line_is_no_failure():
    assert (
        judge.judged(0, judge.Case("planted", {}, raises(sq.FormatError("damaged. Fix: copy it again."))))
        == []
    )


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux says it")
def test_memory_is_watched(monkeypatch):
    monkeypatch.setattr(judge, "MEMORY", 20 * 2**20)
    found = judge.judged(0, judge.Case("planted", {}, lambda folder: bytearray(b"x" * (60 * 2**20)) and None))
    assert [failure.error for failure in found] == ["too much memory"]


def test_what_hangs_is_broken_off(monkeypatch):
    monkeypatch.setattr(judge, "HANGS", 0.2)

    def read(folder):
        while True:
            pass

    assert judge.judged(0, judge.Case("planted", {}, read))[0].error == "HangsError"


def probe(seed, keep):
    """Dies at one seed, as a crash in C would; else it tells what the file of the seed is."""
    if seed == SEEDS[3]:
        sys.exit(3)
    return [judge.Failure(seed, "probe", "", fingerprint(seed), "")]


def test_a_process_that_dies_is_started_again_and_makes_the_same_files():
    found = dict(judged_apart(probe, SEEDS, jobs=1))
    assert sorted(found) == list(SEEDS)
    assert found.pop(SEEDS[3])[0].error == "death"
    assert {seed: failures[0].message for seed, failures in found.items()} == {
        s: fingerprint(s) for s in found
    }


def test_files_that_fail_are_kept(tmp_path):
    judge.judged(5, judge.Case("planted", {"a/b.csv": b"1,2"}, raises(KeyError("x"))), tmp_path)
    assert (tmp_path / "5" / "a" / "b.csv").read_bytes() == b"1,2"


def test_crafted_files_have_the_right_checksum(tmp_path):
    for one in models.originals():
        file = tmp_path / models.NAME
        file.write_bytes(models.signed(one.tensors, one.metadata["complex"], one.metadata["document"]))
        models.require_same(one, sq.load(file))


def test_hostile_numbers_are_written_as_they_are():
    assert (
        mutate.dumps({"a": mutate.raw("1e999"), "b": mutate.raw('{"x": 1}')}) == '{"a": 1e999, "b": {"x": 1}}'
    )
