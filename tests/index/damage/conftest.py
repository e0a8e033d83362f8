"""What the tests of damage share."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def state(original: Path, tmp_path: Path) -> Path:
    """A copy of the index that the test's own file made (`original`)."""
    return Path(shutil.copytree(original, tmp_path / "state"))
