"""A temporary directory, on the disk that the system has for such files (TMPDIR)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamfilter.files.outputs import AS_THEY_WERE
from streamfilter.index.errors import DiskFull
from streamfilter.stops import NoRoom, no_room


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a directory that is removed afterwards.

    Raises:
        NoRoom: its disk is full.
    """
    with tempfile.TemporaryDirectory(prefix="streamfilter-") as directory:
        try:
            yield Path(directory)
        except NoRoom as told:
            if directory not in told.fact:  # an output's disk is full, not this one
                raise
            raise _no_room(told.fact) from told
        except DiskFull as fault:
            raise _no_room(fault.fact) from fault
        except OSError as error:
            if not no_room(error):
                raise
            raise _no_room(f"{directory}: {error.strerror}") from error


def _no_room(fact: str) -> NoRoom:
    cure = "make room there, or set TMPDIR to a directory on another disk, and run it again"
    return NoRoom(fact, stays=AS_THEY_WERE, cure=cure)
