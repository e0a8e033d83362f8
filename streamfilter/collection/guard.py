"""Who may use a `Deduplicator`: one thread at a time, of one process, until `close`."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Concatenate, NoReturn, ParamSpec, Self, TypeVar

from streamfilter.collection.collection import DeduplicatorClosed
from streamfilter.index.rocks.forks import Holder

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Guarded")


def alone(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Allow one thread at a time in *method*, of the process that opened, until `close`.

    Each call reads, decides and writes.
    """

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._refuse_child()  # first: a child lacks the thread that may hold the lock
        with self._lock:
            self._refuse_closed()
            return method(self, *args, **kwargs)

    return call


class Guarded:
    """Something that is opened, used by one thread at a time, and closed once."""

    def _guard(self, *, release: Callable[[], object], where: str) -> None:
        """Begin: *release* is called by `close`, or when the object is garbage-collected.

        *where* is the path as a call writes it; empty: in memory.
        """
        # Not __del__: with reference cycles it runs late, when modules may be gone already.
        self._release = weakref.finalize(self, release)
        self._where, self._lock = where, threading.RLock()
        self._holder = Holder(where.strip("'") or f"this {type(self).__name__}")

    def _refuse_child(self) -> None:
        self._holder.refuse_child()

    def _refuse_closed(self) -> None:
        if not self._release.alive:
            name = type(self).__name__
            raise DeduplicatorClosed(f"this {name} is closed; {name}({self._where}) opens one")

    def _in_turn(self, steps: Iterator[R]) -> Iterator[R]:
        """Yield the results of *steps*; each step holds the lock like a call of its own.

        Each step checks that the object is still open. The lock is free between steps:
        otherwise a caller that stops half-way would lock out all others.
        """
        while True:
            self._refuse_child()
            with self._lock:
                self._refuse_closed()
                step = next(steps, None)
            if step is None:
                return
            yield step

    def close(self) -> None:
        """Release the directory. All other methods then raise `DeduplicatorClosed`.

        A second call does nothing. In a forked child `close` does nothing: the parent owns the
        directory.
        """
        if not self._holder.forked:
            with self._lock:
                self._release()

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: a directory has one holder."""
        raise TypeError("a Deduplicator is not copied or pickled; save(path) copies its documents")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
