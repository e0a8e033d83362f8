"""The next batches of lines are read and sketched while this one is judged and written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")

AHEAD = 2
"""So many batches. With one, whoever is done with his part of it has nothing to do until the other
workers are done with theirs, and this one's batch is written, and another one read."""


def at_once(
    given: Iterable[Given], make: Callable[[Given], Made]
) -> Iterator[tuple[Given, Callable[[], Made]]]:
    """Yield each of *given* with what makes something of it, when it is called."""
    for each in given:
        yield each, partial(make, each)


def some_ahead(
    given: Iterable[Given], make: Callable[[Given], Made]
) -> Iterator[tuple[Given, Callable[[], Made]]]:
    """Yield as `at_once` does, and take and make the next ones meanwhile, in threads.

    What is made must be a function of what is given. Trouble with taking one is raised when it
    is that one's turn.
    """
    from concurrent.futures import ThreadPoolExecutor  # who is not ahead does not import it

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
