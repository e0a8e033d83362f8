"""A command in a pseudo-terminal of a given size, and what a person sees there."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_SECONDS = 180
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a command wrote."""

    code: int
    raw: str

    @property
    def plain(self) -> str:
        """Return it without what moves the cursor and changes colours."""
        return _ESCAPE.sub("", self.raw).replace("\r\n", "\n")


def in_terminal(
    arguments: Sequence[str],
    *,
    columns: int = 80,
    rows: int = 24,
    typed: str = "",
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Seen:
    """Run `streamfilter` with *arguments* on a terminal, and type *typed* into it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "streamfilter", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=directory,
        env={**os.environ, "TERM": "xterm-256color", **(environment or {})},
        start_new_session=True,
    ) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        raw = _read_to_the_end(ours, process)
    os.close(ours)
    return Seen(process.returncode, raw.decode(errors="replace"))


def _read_to_the_end(terminal: int, process: subprocess.Popen[bytes]) -> bytes:
    read, deadline = b"", time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            part = os.read(terminal, 65536)
        except OSError:  # no one has the other end any more
            return read
        if not part:
            return read
        read += part
    process.kill()
    raise AssertionError(f"not at its end after {TIMEOUT_SECONDS} s: {read[-2000:]!r}")
