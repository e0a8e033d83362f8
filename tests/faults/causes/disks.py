"""Disks of a life's filters, each one's own, that can be full for a while.

A file system in memory is full as soon as its size is set to what it holds: no ballast is written,
and room comes back at once.
"""

import os
import subprocess
from pathlib import Path

SIZE_KIB = 1024 * 1024
"""More than any life writes."""
LEFT_KIB = 16


class Disks:
    """Mounted below a directory; without the right to mount there are none."""

    def __init__(self, directory: Path, count: int) -> None:
        """Mount *count* of them."""
        self._directory = directory
        self.paths = [path for n in range(count) if _mount(path := directory / f"disk{n}")]

    def of(self, number: int) -> Path:
        """Return where the filter of this number keeps its state."""
        return self.paths[number] if number < len(self.paths) else self._directory

    def fill(self, path: Path) -> None:
        """Leave nothing on a disk but a few blocks."""
        status = os.statvfs(path)
        used = (status.f_blocks - status.f_bfree) * status.f_frsize // 1024
        _resize(path, used + LEFT_KIB)

    def free(self, path: Path) -> None:
        """Give the room back."""
        _resize(path, SIZE_KIB)

    def close(self) -> None:
        """Unmount all."""
        for path in self.paths:
            subprocess.run(["umount", "-l", str(path)], check=True)
        self.paths = []


def _mount(path: Path) -> bool:
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_KIB}k", "none", str(path)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _resize(path: Path, kib: int) -> None:
    # Refused if more was written meanwhile: then it is not full this time.
    command = ["mount", "-o", f"remount,size={kib}k", str(path)]
    subprocess.run(command, capture_output=True, check=False)
