"""What the machine gives the engine: time, a thread beside its own, and a call it can leave behind.

A simulator brings a clock and a worker of its own; nothing else of the engine starts a thread or
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
GRACE_SECONDS = 3.0
"""How much longer than its own timeout a call may take: it is late before it is lost."""


class SystemClock:
    """`streamfilter.engine.ports.Clock` by the operating system."""

    def monotonic(self) -> float:
        """Return seconds that never jump."""
        return time.monotonic()

    def wall_milliseconds(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Do nothing for *seconds*."""
        time.sleep(seconds)


class Inline:
    """No thread: what is begun is done when it is asked for, and only once."""

    def begin(self, call: Callable[[], T]) -> Callable[[], T]:
        """Return *call*, to be made when it is needed."""
        return cache(call)


class ThreadWorker:
    """`streamfilter.engine.ports.Worker` with a thread of its own, which all tasks share.

    It is not waited for longer than `BEAT_SECONDS` at a time: whatever it does, and for whichever
    task, the loop polls its group and shows that it turns.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")

    def begin(self, call: Callable[[], T]) -> Callable[[], T]:
        """Begin *call*; what is returned waits for it, and returns or raises what it did."""
        future = self._pool.submit(call)

        def result() -> T:
            wait((future,), BEAT_SECONDS)
            if not future.done():
                raise NotReady
            return future.result()

        return result

    def close(self) -> None:
        """End the thread; what was not begun never is."""
        self._pool.shutdown(cancel_futures=True)


def bounded(call: Callable[[], None], *, seconds: float, doing: str) -> None:
    """Make *call* in a thread, and wait for it for *seconds* and a grace.

    librdkafka never checks the timeout of the request to the group's coordinator
    (librdkafka#5456): `send_offsets_to_transaction` waited for ever after a coordinator was lost,
    and the loop with it, while the group's heartbeats went on and nobody could take over. Who is
    left behind belongs to a producer that is replaced, and so fenced: whatever it still does is
    refused.

    Raises:
        OutcomeUnknown: it did not return; the thread is left to itself.
        Exception: whatever *call* raises.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="bounded", daemon=True)
    thread.start()
    thread.join(seconds + GRACE_SECONDS)
    if thread.is_alive():
        raise OutcomeUnknown(f"{doing}: no answer within {seconds:g} s, against its own timeout")
    if raised:
        raise raised[0]
