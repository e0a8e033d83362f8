"""The next batch of lines is read and sketched while this one is judged and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def at_once(
    given: Iterable[Given], make: Callable[[Given], Made]
) -> Iterator[tuple[Given, Callable[[], Made]]]:
    """Yield each of *given* with what makes something of it, when it is called."""
    for each in given:
        yield each, partial(make, each)


def one_ahead(
    given: Iterable[Given], make: Callable[[Given], Made]
) -> Iterator[tuple[Given, Callable[[], Made]]]:
    """Yield as `at_once` does, and take and make the next one meanwhile, in a thread.

    What is made must be a function of what is given. Trouble with taking one is raised when it
    is that one's turn.
    """
    from concurrent.futures import ThreadPoolExecutor  # who is not ahead does not import it

    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as thread:
        waiting: tuple[Given, Callable[[], Made]] | None = None
        try:
            for each in given:
                begun = each, thread.submit(make, each).result
                if waiting is not None:
                    yield waiting
                waiting = begun
        except Exception:
            if waiting is not None:
                yield waiting
            raise
        if waiting is not None:
            yield waiting
