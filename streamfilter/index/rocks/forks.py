"""Forked children of a process with an open index: they inherit its files, but no threads.

RocksDB has threads of its own, which a fork does not copy. If a child closes the database, it
waits for these threads for ever, or writes into files that its parent is writing. If it opens
another database, the first flush waits for ever. Even the end of the child would wait. So a child
may use and close nothing, gets an `IndexForked`, and skips RocksDB's destructors at its end.
"""

import ctypes
import os
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from streamfilter.index.errors import IndexForked

CURE = (
    "open it in the process that uses it, and open no index in its parent before the fork: use "
    "multiprocessing's spawn or forkserver, or a hook of the worker's start"
)


class Holder:
    """The process that opened something. Only it may use that; a forked child may not."""

    def __init__(self, what: str, process: int = 0) -> None:
        self.what, self.process = what, process or os.getpid()

    @property
    def forked(self) -> bool:
        """Return whether this process is another one, forked from the holder."""
        return os.getpid() != self.process

    def refuse_child(self) -> None:
        """Refuse every process but the holder (`IndexForked`)."""
        if self.forked:
            raise IndexForked(
                f"{self.what}: cannot be used in process {os.getpid()}, which was forked from "
                f"process {self.process} after that had opened an index; {CURE}"
            )


class Inherited(Protocol):
    """An open object that a forked child must give up without changing the parent's."""

    def abandon(self) -> None:
        """Give it up: called in the child, right after the fork."""


class _Process:
    """This process's open objects, and whether RocksDB has threads in it."""

    def __init__(self) -> None:
        self.opened: WeakSet[Inherited] = WeakSet()
        self.threads_of = 0  # the process in which RocksDB has started its threads; 0: none so far

    def forked(self) -> None:
        """In a forked child: give up all objects that the parent has open."""
        for each in list(self.opened):
            each.abandon()
        if self.threads_of:
            _end_without_destructors()


_PROCESS = _Process()
os.register_at_fork(after_in_child=_PROCESS.forked)


def begin_threads(path: Path) -> None:
    """Note that RocksDB starts its threads here; raise `IndexForked` if they are a parent's."""
    _PROCESS.threads_of = _PROCESS.threads_of or os.getpid()
    Holder(str(path), _PROCESS.threads_of).refuse_child()


def abandon_in_children(opened: Inherited) -> None:
    """Call `abandon` of *opened* in each child that is forked while *opened* exists."""
    _PROCESS.opened.add(opened)


def never_freed(inherited: object) -> None:
    """Never free *inherited*, not even when the interpreter shuts down.

    Freeing RocksDB's objects closes the database. A Python list is not enough to keep them: the
    interpreter empties it at the end.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


def _end_without_destructors() -> None:
    """Make the process end before the C library joins RocksDB's threads, which are not here.

    At that time Python has run its own exit handlers and flushed its streams. Only glibc passes on
    the exit status (`on_exit`). Elsewhere a child must end by os._exit, as multiprocessing's do.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "on_exit"):
        library.on_exit(library._exit, None)
