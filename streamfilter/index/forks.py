"""What a forked child inherits of an open index: files that are its parent's, and no threads.

RocksDB works with threads of its own, and a fork copies none of them. A child that closes the
database waits for them for ever, or writes into files that its parent goes on writing; another
database that it opens waits at its first flush; even its end waits. So a child uses and closes
nothing, it is refused by name, and its end skips RocksDB's.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from streamfilter.index.errors import IndexForked

CURE = (
    "open it in the process that uses it, and nothing in its parent before the fork "
    "(multiprocessing's spawn and forkserver, or a hook of the worker's start)"
)


class Holder:
    """The process that opened something, and the right to use it, which a forked child has not."""

    def __init__(self, what: str, process: int = 0) -> None:
        self.what, self.process = what, process or os.getpid()

    @property
    def forked(self) -> bool:
        """Return whether this process is another one, forked from the holder."""
        return os.getpid() != self.process

    def refuse_child(self) -> None:
        """Let nobody but the holder go on.

        Raises:
            IndexForked: this is another process.
        """
        if self.forked:
            raise IndexForked(
                f"{self.what}: cannot be used in process {os.getpid()}, which was forked from "
                f"process {self.process} after that had opened an index; {CURE}"
            )


class Inherited(Protocol):
    """Something open that a forked child must let go of without touching its parent's."""

    def abandon(self) -> None:
        """Let go of it: called in the child, right after the fork."""


class _Process:
    """What this process has to do with RocksDB's threads."""

    def __init__(self) -> None:
        self.opened: WeakSet[Inherited] = WeakSet()
        self.threads_of = 0
        """The process in which RocksDB has begun its threads; 0: none so far."""

    def forked(self) -> None:
        """Let a forked child go of all that its parent has open."""
        for each in list(self.opened):
            each.abandon()
        if self.threads_of:
            _end_without_destructors()


_PROCESS = _Process()
os.register_at_fork(after_in_child=_PROCESS.forked)


def begin_threads(path: Path) -> None:
    """Say that RocksDB begins its threads, if it has not, for the database at *path*.

    Raises:
        IndexForked: a parent of this process began them, and they are not here.
    """
    _PROCESS.threads_of = _PROCESS.threads_of or os.getpid()
    Holder(str(path), _PROCESS.threads_of).refuse_child()


def abandon_in_children(opened: Inherited) -> None:
    """Have `abandon` of *opened* called in each child that is forked while it lives."""
    _PROCESS.opened.add(opened)


def never_freed(inherited: object) -> None:
    """Keep *inherited* until the process ends, even through the interpreter's own end.

    Freeing RocksDB's objects closes the database; a list of ours would be emptied at the end.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


def _end_without_destructors() -> None:
    """Let the process end where the C library would join RocksDB's threads, which are not here.

    By then Python has run its own exit handlers and flushed its streams. Only glibc hands the
    exit status on: elsewhere a child must end by os._exit, as multiprocessing's do.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "on_exit"):
        library.on_exit(library._exit, None)
