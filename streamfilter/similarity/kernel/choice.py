"""Which of the two signs texts here, the kernel or numpy, and why.

There is one choice for the whole process, because no output depends on it: the setting
``batch.kernel``. Without a configuration, its variable in the environment counts. So does it in
worker processes, which get it from here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

    from streamfilter.similarity.kernel.calls import Kernel

VARIABLE = "STREAMFILTER_BATCH__KERNEL"
AUTO, OFF = "auto", "off"
_setting = os.environ.get(VARIABLE) or AUTO


@dataclass(frozen=True, slots=True)
class Choice:
    """The kernel's library, or None for numpy."""

    library: ctypes.CDLL | None
    why: str  # the library's file, or the reason for numpy

    @property
    def kernel(self) -> Kernel | None:
        """Return the kernel, or None for numpy."""
        return None if self.library is None else _calls_of(self.library)

    def __str__(self) -> str:
        return f"numpy ({self.why})" if self.library is None else f"C kernel ({self.why})"


def choice() -> Choice:
    """Return the choice of this process; the first call compiles and loads the library."""
    return _found() if _setting == AUTO else Choice(None, f"batch.kernel is {_setting}")


def kernel() -> Kernel | None:
    """Return the kernel, or None if numpy does the work."""
    return choice().kernel


def choose(setting: str) -> None:
    """Choose by the setting ``batch.kernel``: ``auto`` or ``off``."""
    global _setting
    _setting = setting


@contextmanager
def chosen(setting: str) -> Iterator[Choice]:
    """Choose by *setting* for a while: to compare the two."""
    before = _setting
    choose(setting)
    try:
        yield choice()
    finally:
        choose(before)


def environment() -> dict[str, str]:
    """Return our environment for a worker process, which makes the same choice.

    Where we found no kernel, no worker waits for the compiler again.
    """
    return {**os.environ, VARIABLE: OFF if kernel() is None else AUTO}


@lru_cache(maxsize=1)
def _found() -> Choice:
    try:
        from streamfilter.similarity.kernel.library import NoLibraryError, opened
    except ImportError as error:  # a Python without ctypes
        return Choice(None, str(error))
    try:
        library, path = opened()
    except NoLibraryError as error:
        return Choice(None, str(error))
    return Choice(library, str(path))


@lru_cache(maxsize=1)
def _calls_of(library: ctypes.CDLL) -> Kernel:
    from streamfilter.similarity.kernel.calls import Kernel  # numpy, which --version does without

    return Kernel(library)
