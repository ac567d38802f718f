"""Processes that talk by NCCL: one on a GPU, and two that share one, which NCCL refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch import distributed

import squircuit as sq
from squircuit.training.distributed import Distributed

SCRIPT = str(Path(__file__).with_name("by_nccl.py"))


def said(folder, size):
    """What each of so many processes on the first GPU prints."""
    env = os.environ | {"PYTHONPATH": str(Path(sq.__file__).resolve().parents[1])}
    started = [
        subprocess.Popen(
            [sys.executable, SCRIPT, str(rank), str(size), str(folder)],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for rank in range(size)
    ]  # fmt: skip
    return [process.communicate(timeout=120)[0].strip() for process in started]


@pytest.mark.gpu
@pytest.mark.process
def test_sums_by_nccl_are_right_and_steps_with_them_are_captured(tmp_path):
    (line,) = said(tmp_path, 1)
    assert line.startswith("sums are right; steps captured: True; weights differ by 0.0e+00")


@pytest.mark.gpu
@pytest.mark.process
def test_two_processes_that_share_a_gpu_are_told_so_in_one_line(tmp_path):
    lines = said(tmp_path, 2)
    assert all("processes share a GPU, which NCCL refuses. Fix: " in line for line in lines)


def test_what_nccl_says_of_a_shared_gpu_becomes_an_error_with_its_fix(tmp_path):
    """As NCCL 2.2x words it, in a group of one process, without a GPU."""
    distributed.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        talks = Distributed()
        with pytest.raises(sq.ParameterError, match="share a GPU, which NCCL refuses"), talks._answered():
            raise RuntimeError(
                "NCCL error in: NCCLUtils.cpp:77, invalid usage, NCCL version 2.27.5 ncclInvalidUsage: … "
                "Last error: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 18000"
            )
    finally:
        distributed.destroy_process_group()
