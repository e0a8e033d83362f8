"""Debian's programs that check what we deploy: there, skipped with the reason, or failed in CI."""

import os
import shutil
import subprocess

import pytest

from tests.support.session.needs import IN_CI


def tool(name: str, *, package: str) -> str:
    """Return the path of *name*; without it the test is skipped, in CI it fails."""
    path = shutil.which(name)
    if path is None:
        missing = f"{name} is not installed (Debian: apt-get install {package})"
        if IN_CI:
            pytest.fail(f"CI must have it: {missing}")
        pytest.skip(missing)
    return path


def accepted(command: list[str], *, stdin: str | None = None) -> str:
    """Return what *command* printed; fail with it unless it exits with 0."""
    # Programs in Go: a rarer collection of their garbage, by one thread, is a fifth less work.
    environment = {**os.environ, "GOGC": "800", "GOMAXPROCS": "1"}
    done = subprocess.run(
        command, input=stdin, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr
