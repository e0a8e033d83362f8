"""Two workers: a thread beside the engine's, and none.

A worker does one thing after the other and knows nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

T = TypeVar("T")


class Inline:
    """No thread: what is begun is done when it is asked for, and only once."""

    def begin(self, call: Callable[[], T]) -> Callable[[], T]:
        """Return *call*, to be made when it is needed."""
        return cache(call)


class ThreadWorker:
    """`streamfilter.engine.ports.Worker` with a thread of its own, which all tasks share."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")

    def begin(self, call: Callable[[], T]) -> Callable[[], T]:
        """Begin *call*; what is returned waits for it, and returns or raises what it did."""
        return self._pool.submit(call).result

    def close(self) -> None:
        """End the thread; what was not begun never is."""
        self._pool.shutdown(cancel_futures=True)
