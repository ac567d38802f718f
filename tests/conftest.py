"""One hypothesis profile for the whole suite: no deadlines (they are timings), the same examples each run.

Each process computes with one thread: the tests are small, and threads of several workers hinder each other.
Tests with the mark `gpu` are skipped where there is no CUDA device.
"""

import os

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "squircuit",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.register_profile(  # of kill_mutants.py, to which the first failure is enough
    "first-failure", settings.get_profile("squircuit"), phases=[Phase.explicit, Phase.generate]
)
settings.register_profile(  # of quick.py: the first examples of each law
    "quick", settings.get_profile("squircuit"), max_examples=5
)
settings.load_profile("squircuit")

torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that tests start


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
