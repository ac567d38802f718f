"""What works where neither narwhals nor pyarrow is installed, and what the rest says."""

import subprocess
import sys

import pytest

CODE = """
import sys
for package in ("narwhals", "pyarrow", "pooch"):
    sys.modules[package] = None  # so that an import fails
import numpy as np, torch, squircuit as sq
from squircuit.data import csv_files
csv_files.LARGE = 0
rows = np.random.default_rng(0).normal(size=(40, 2))
model = sq.model_for(rows, units=2, size=4)
for data in (rows, torch.from_numpy(rows), sq.data.table({"a": rows[:, 0], "b": rows[:, 1]})):
    sq.fit(model, data, epochs=1, progress=False)
np.savetxt(sys.argv[1], rows, delimiter=",", header="a,b", comments="")
np.testing.assert_array_equal(sq.data.read(sys.argv[1]).rows, rows)

class Frame:
    columns = ["a"]
try:
    sq.data.table(Frame())
except sq.data.MissingPackageError as error:
    print(error)
"""


@pytest.mark.process
def test_arrays_tensors_mappings_and_csv_files_need_no_package_and_frames_name_theirs(tmp_path):
    command = [sys.executable, "-c", CODE, str(tmp_path / "x.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("reading data frames needs the package narwhals, which is not installed")
    assert done.stdout.endswith("Fix: pip install narwhals.\n")
