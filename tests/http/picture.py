"""Saves a picture of the page while the demo runs: ``python -m tests.http.picture PATH``."""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from deploy.local.node import free_ports
from tests.http.browser import ask

DUPLICATES = 2_000
"""How many near-duplicates the picture waits for."""
TIMEOUT_SECONDS = 120
SIZE = "1280,1850"


def main(path: Path) -> None:
    """Run the demo, wait until there is something to see, and save it as *path*."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [sys.executable, "-m", "streamfilter", "demo", "--seconds", "300", "--seed", "7"]
    with subprocess.Popen([*command, "--http", address], stdout=subprocess.DEVNULL) as demo:
        try:
            _wait(f"http://{address}/status")
            with tempfile.TemporaryDirectory(prefix="streamfilter-") as profile:
                ask(f"http://{address}/", Path(profile), f"--screenshot={path.resolve()}",
                    "--hide-scrollbars", f"--window-size={SIZE}")  # fmt: skip
        finally:
            demo.terminate()


def _wait(url: str) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if json.load(answer)["verdicts"]["near_duplicate"] >= DUPLICATES:
                    return
        except OSError:
            pass
        time.sleep(0.5)
    raise SystemExit(f"the demo found fewer than {DUPLICATES} near-duplicates")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
