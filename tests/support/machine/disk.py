"""Small file systems, and how to fill them."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

CHUNK_BYTES = 1 << 12


@contextlib.contextmanager
def small_file_system(path: Path, *, mib: int) -> Iterator[Path]:
    """Mount one of *mib* MiB at *path*; the test is skipped without the right to."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "none", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    if not done:
        pytest.skip("needs the right to mount a file system of a few megabytes")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(ballast: Path, *, leave: int = 0) -> None:
    """Write *ballast* until its file system is full, then give *leave* bytes back."""
    with ballast.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(bytes(CHUNK_BYTES))
        file.truncate(max(0, file.tell() - leave))
