"""The fuzzer of files: a small budget of it, and that it finds what it looks for."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import squircuit as sq

FUZZ = Path(__file__).parents[1] / "fuzz"
sys.path.insert(0, str(FUZZ))

import files  # noqa: E402
from broken import judge, models, mutate  # noqa: E402
from broken.workers import judged_apart  # noqa: E402

BUDGET = range(20_000, 20_250)
"""Seeds of the mutations that are tried each time."""
SEEDS = range(60)


def test_files_obey_the_laws():
    found = files.hunt(BUDGET, quiet=True)
    assert not found, "\n".join(map(str, found))


def test_every_seed_gives_the_same_file_in_another_process():
    program = (
        f"import sys; sys.path.insert(0, {str(FUZZ)!r}); sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    )
    program += "import json, test_fuzz_files as t; print(json.dumps([t.fingerprint(s) for s in t.SEEDS]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [fingerprint(seed) for seed in SEEDS]


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


def dies(seed, keep):
    if seed == 2:
        sys.exit(3)  # as a crash in C would
    return []


def test_a_process_that_dies_is_started_again():
    found = dict(judged_apart(dies, range(5), jobs=1))
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert [failure.error for seed in found for failure in found[seed]] == ["death"]


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
