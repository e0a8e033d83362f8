"""A wall clock that is wrong, for one process alone: a library compiled here and loaded first."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")
SECOND = 1_000_000_000


class ShiftedClock:
    """What a process shows as the time, as long as it lives; `shift` may jump while it runs."""

    def __init__(self, directory: Path) -> None:
        """Compile the library into *directory*; without a compiler skip, and fail in CI."""
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            missing = "a wrong clock needs a C compiler: apt-get install gcc libc6-dev"
            if os.environ.get("CI", "").lower() in {"1", "true"}:
                pytest.fail(f"CI must have one. {missing}")
            pytest.skip(missing)
        library, self._file = directory / "shifted_clock.so", directory / "shift"
        command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True, timeout=120)
        self._file.write_bytes(struct.pack("<q", 0))
        self.environment = {"LD_PRELOAD": str(library), "SHIFTED_CLOCK": str(self._file)}

    def shift(self, seconds: float) -> None:
        """Let the clock be wrong by *seconds* from now on, also where it runs already."""
        with self._file.open("r+b", buffering=0) as file:
            file.write(struct.pack("<q", round(seconds * SECOND)))
