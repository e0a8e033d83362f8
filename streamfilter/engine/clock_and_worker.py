"""The clock, the worker thread, and calls with a time limit.

A simulator replaces the clock and the worker. No other module of the engine starts a thread or
reads a clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

from streamfilter.engine.ports import NotReady, OutcomeUnknown

T = TypeVar("T")

BEAT_SECONDS = 1.0
GRACE_SECONDS = 3.0  # beyond a call's own timeout: it may be late without being lost


class SystemClock:
    """`streamfilter.engine.ports.Clock` by the operating system."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_milliseconds(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Inline:
    """A worker without a thread: it makes the call when its result is needed, and only once."""

    def begin(self, call: Callable[[], T]) -> Callable[[], T]:
        """Return *call* with a cache: the first use makes the call."""
        return cache(call)


class ThreadWorker:
    """`streamfilter.engine.ports.Worker` with a thread of its own, which all tasks share.

    The loop waits for it at most `BEAT_SECONDS` at a time. So a slow call of any task does not
    keep the loop from polling its group and sending its heartbeat.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")

    def begin(self, call: Callable[[], T]) -> Callable[[], T]:
        """Begin *call*; return a function that waits for it and gives its result or exception."""
        future = self._pool.submit(call)

        def result() -> T:
            wait((future,), BEAT_SECONDS)
            if not future.done():
                raise NotReady
            return future.result()

        return result

    def close(self) -> None:
        """End the thread; calls that have not started are cancelled."""
        self._pool.shutdown(cancel_futures=True)


class Aside:
    """A `Worker` whose call may hang for ever: its result is never waited for, nor is its end.

    Each call has a daemon thread, and one is made at a time.
    """

    def begin(self, call: Callable[[], T]) -> Callable[[], T]:
        """Begin *call*; return a function for its result or exception, or `NotReady`."""
        return _begun(call, "aside")[1]


def _begun(call: Callable[[], T], name: str) -> tuple[threading.Thread, Callable[[], T]]:
    """Make *call* in a daemon thread; return that, and what `Aside.begin` returns."""
    done: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            done.append(call())
        except BaseException as error:
            raised.append(error)

    def result() -> T:
        if raised:
            raise raised[0]
        if not done:
            raise NotReady
        return done[0]

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread, result


def bounded(call: Callable[[], None], *, seconds: float, doing: str) -> None:
    """Make *call* in a thread, and wait for it for *seconds* and `GRACE_SECONDS`.

    librdkafka never checks the timeout of the request to the group's coordinator (librdkafka#5456).
    After the loss of a coordinator `send_offsets_to_transaction` can wait for ever, and the loop
    with it. The group's heartbeats go on, so no other process takes over. Then `OutcomeUnknown` is
    raised. The thread left behind belongs to a producer that is replaced and fenced: brokers refuse
    its later requests. An exception of *call* is raised here.
    """
    thread, result = _begun(call, "bounded")
    thread.join(seconds + GRACE_SECONDS)
    if thread.is_alive():
        raise OutcomeUnknown(f"{doing}: no answer within {seconds:g} s, against its own timeout")
    result()
