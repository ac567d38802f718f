"""The fuzzer of files: a small budget of it, and that it finds what it looks for."""

import hashlib
import sys
from functools import cache
from pathlib import Path

import pytest

import squircuit as sq

FUZZ = Path(__file__).parents[1] / "fuzz"
sys.path.insert(0, str(FUZZ))

import files  # noqa: E402
from broken import judge, models, mutate  # noqa: E402
from broken.workers import judged_apart  # noqa: E402

SEEDS = (
    20000, 20001, 20002, 20003, 20004, 20005, 20006, 20007, 20008, 20010, 20011, 20012, 20013,
    20016, 20017, 20018, 20020, 20022, 20023, 20024, 20029, 20030, 20031, 20035, 20036, 20037,
    20040, 20041, 20047, 20048, 20050, 20052, 20055, 20056, 20058, 20066, 20067, 20068, 20070,
    20071, 20072, 20073, 20074, 20076, 20077, 20080, 20093, 20094, 20095, 20098, 20100, 20105,
    20106, 20108, 20113, 20121, 20130, 20146, 20154, 20155, 20156, 20157, 20177, 20184, 20185,
    20189, 20197, 20199, 20202, 20234, 20247, 20260, 20265, 20303, 20354, 20387, 20432, 20484,
    20510, 20524, 20533, 20599, 20653, 20668, 20691, 20755,
)  # fmt: skip
"""Two mutations of each kind, of those that take no time."""
KINDS = 43
DEADLY = 19_999


def fingerprint(case):
    contents = sorted(case.files.items())
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


ready = cache(files.prepare)


def probe(seed, keep):
    """Dies at one seed, as a crash in C would; else it says what is wrong, and what the file is."""
    if seed == DEADLY:
        sys.exit(3)
    ready()
    case = files.case_of(seed)
    return [*judge.judged(seed, case), judge.Failure(seed, case.kind, "", fingerprint(case), "")]


def test_files_of_every_kind_obey_the_laws_also_after_a_process_has_died():
    """One test of three laws, since processes take seconds to start; the last: a seed gives the same file."""
    found = dict(judged_apart(probe, (DEADLY, *SEEDS), jobs=1))
    assert found.pop(DEADLY)[0].error == "death"
    assert sorted(found) == list(SEEDS)
    told = [failures.pop() for failures in found.values()]
    broken = [failure for failures in found.values() for failure in failures]
    assert not broken, "\n".join(map(str, broken))
    assert len({case.kind for case in told}) == KINDS
    light = [case for case in told if case.kind.startswith("data: bytes")]
    assert [case.message for case in light] == [fingerprint(files.case_of(case.seed)) for case in light]


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
