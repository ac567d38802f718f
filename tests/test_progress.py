"""What is told of work that takes a while: how much of all is done, on a terminal and nowhere else."""

import io
import time

import torch
from rich.console import Console

from squircuit import progress
from squircuit.execution import threads
from squircuit.progress import heard, shown, steps


def test_shares_of_loops_inside_loops_rise_to_one_and_follow_the_sizes():
    told = []
    with heard(told.append):
        for _ in steps(range(2), [1, 3]):
            for _ in steps(range(3), [1, 1, 2]):
                pass
    assert told == sorted(told)
    assert told[-1] == 1
    assert 0.25 in told


def test_nobody_hears_of_what_is_done_outside():
    assert list(steps("ab", [1, 1])) == ["a", "b"]


def drawn(monkeypatch, wanted=True, patience=0.0, terminal=True):
    monkeypatch.setattr(progress, "PATIENCE", patience)
    output = io.StringIO()
    with shown("counting", wanted, Console(file=output, force_terminal=terminal, width=80)):
        for _ in steps(range(3), [1] * 3):
            time.sleep(0.001)
    return output.getvalue()


def test_a_bar_is_drawn_on_a_terminal_if_work_lasts_and_is_wanted(monkeypatch):
    assert "counting" in drawn(monkeypatch)
    assert drawn(monkeypatch, patience=60.0) == ""
    assert drawn(monkeypatch, wanted=False) == ""
    assert drawn(monkeypatch, terminal=False) == ""


def test_small_operations_and_busy_machines_get_one_thread(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for operation, is_busy, expected in ((0, False, 1), (1e9, True, 1), (1e9, False, 2)):
            monkeypatch.setattr(threads, "_is_busy", lambda _, busy=is_busy: busy)
            with threads.fitting_threads(operation):
                assert torch.get_num_threads() == expected
            assert torch.get_num_threads() == 2
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        with threads.fitting_threads():
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
