"""The scripts of docs/scale.md for other launchers train as they say, with two processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import squircuit as sq

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.xdist_group("processes")]

SRC = Path(sq.__file__).resolve().parents[1]
PAGE = SRC.parent / "docs" / "scale.md"


@pytest.mark.skipif(not PAGE.exists(), reason="in a checkout")
@pytest.mark.parametrize(
    ("name", "package"), [("fabric_coins", "lightning_fabric"), ("ray_coins", "ray.train")]
)
def test_the_script_trains_in_two_processes_as_one_does(name, package, tmp_path):
    pytest.importorskip(package)
    script = re.search(rf"```python\n(# {name}\.py\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / f"{name}.py").write_text(script[1], encoding="utf-8")
    path = os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    env |= {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "240", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, f"{name}.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (said,) = set(re.findall(r"2 processes: ([\d.]+)", done.stdout + done.stderr))  # Ray may repeat a line
    assert float(said) == pytest.approx(alone(), abs=1e-5)


def alone():
    """What one process finds."""
    coins = torch.randint(2, (400, 1), generator=torch.Generator().manual_seed(0)).expand(-1, 6)
    model = sq.SquaredCircuit(sq.build(sq.regions.balanced_tree(6), sq.Categorical(2), units=2))
    return sq.fit(model, coins, epochs=4, progress=False).best.valid
