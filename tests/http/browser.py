"""A real headless Chromium, asked for a page as it is after its scripts have run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS_MILLISECONDS = 4_000
"""Of the page's own time: its timers run ahead while nothing is being loaded."""
TIMEOUT_SECONDS = 120


def chromium() -> str:
    """Return the browser; skip without one, or fail where CI must have it."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        message = "there is no chromium (Debian: apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


def ask(url: str, profile: Path, *arguments: str) -> str:
    """Open *url* and return what the browser writes to its standard output."""
    command = [
        chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--force-prefers-reduced-motion", f"--user-data-dir={profile}",
        f"--virtual-time-budget={SCRIPTS_MILLISECONDS}", *arguments, url,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def dom(url: str, profile: Path) -> str:
    """Return the document at *url* as its scripts left it."""
    return ask(url, profile, "--dump-dom")
