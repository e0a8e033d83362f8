"""Types: mypy runs beside other tests, because it uses one core for the time of many of them."""

import subprocess
import sys

import pytest

from tests.support.texts import ROOT


@pytest.mark.slow(60)
def test_mypy_finds_no_mistake_in_the_package_and_in_what_generates_deploy():
    ran = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
