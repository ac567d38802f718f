"""The short version of fuzz/kills.py: killed and resumed, a run ends as if nothing had happened."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import squircuit as sq

pytestmark = pytest.mark.process

SRC = Path(sq.__file__).resolve().parents[1]
PROGRAM = SRC.parent / "fuzz" / "kills.py"


@pytest.mark.skipif(
    not PROGRAM.exists() or not hasattr(os, "fork"), reason="in a checkout, where one can fork"
)
def test_killed_at_random_moments_and_resumed_the_end_is_the_same():
    env = os.environ | {"PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    words = ("--kills", "3", "--epochs", "3", "--seed", "1", "--fork")
    command = [sys.executable, str(PROGRAM), *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["kills"], found["faults"]) == (3, [])
