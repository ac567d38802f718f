"""Files for the tests of tables."""

from __future__ import annotations

import pytest

MIXED = """colour,n,height,angle,weight
red,3,1.5,350,70
blue,0,,10,65.5
,1,2.25,20,NA
green,7,-1,-30,80
"""


@pytest.fixture
def mixed(write):
    """A CSV file with columns of every type."""
    return write(MIXED)


@pytest.fixture
def write(tmp_path):
    def made(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return made
