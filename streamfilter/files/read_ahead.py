"""Read-ahead: the next batches are read and sketched while this one is judged and written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")

AHEAD = 2
"""Batches read ahead. With only one, a worker that finishes its part early sits idle.

It would wait until the other workers finish, this batch is written, and another one is read."""


def at_once(
    given: Iterable[Given], make: Callable[[Given], Made]
) -> Iterator[tuple[Given, Callable[[], Made]]]:
    """Yield each of *given* with a function that calls *make* on it."""
    for each in given:
        yield each, partial(make, each)


def some_ahead(
    given: Iterable[Given], make: Callable[[Given], Made]
) -> Iterator[tuple[Given, Callable[[], Made]]]:
    """Yield as `at_once` does, and prepare the next items meanwhile, in threads.

    The result of *make* must depend only on its argument. If *given* raises, the items before the
    error are yielded first.
    """
    from concurrent.futures import ThreadPoolExecutor  # slow import: only if needed

    with ThreadPoolExecutor(AHEAD, thread_name_prefix="ahead") as threads:
        waiting: deque[tuple[Given, Callable[[], Made]]] = deque()
        try:
            for each in given:
                waiting.append((each, threads.submit(make, each).result))
                if len(waiting) > AHEAD:
                    yield waiting.popleft()
        except Exception:
            yield from waiting
            raise
        yield from waiting
