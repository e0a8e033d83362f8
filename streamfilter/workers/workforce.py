"""The workers of a crew: each asked by one thread at a time, replaced when it fails.

A part that a worker does not answer is asked once more, of another one, and then given up, for
who asked to do it himself: a worker that is killed, stuck or out of memory costs time and a line of
log, never a text.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from streamfilter.workers.frames import Answer, Question
from streamfilter.workers.handle import COMMAND, Handle, Mishap

MISHAPS_MAX = 8
"""So many that were not made good, and they are given up: something does not let them live."""
GOOD = 100
"""Answers make one mishap good. Not a single one: where one worker fails again and again beside one
that does not, each would be replaced for ever, at .3 s a batch."""

logger = logging.getLogger("streamfilter.workers")


class Workforce:
    """Up to so many workers, started as they are needed."""

    def __init__(self, size: int, command: Sequence[str], *, patience: float) -> None:
        """Start nothing yet; *command* is what a worker is, if it is another one."""
        self._command, self._patience = command or COMMAND, patience
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="workers")
        self._lock = threading.Lock()
        self._alive: set[Handle] = set()
        self._idle: list[Handle] = []
        self._closed = False
        self._mishaps = self._answers = 0

    def begin(self, question: Question) -> Callable[[], Answer | None]:
        """Begin to ask *question*; what is returned waits for the answer, None if there is none."""
        try:
            return self._threads.submit(self._part, question).result
        except RuntimeError:  # no thread to be had, or closed meanwhile
            return lambda: None

    @property
    def given_up(self) -> bool:
        """Return True if they failed so often that none is asked any more."""
        return self._mishaps >= MISHAPS_MAX

    @property
    def pids(self) -> list[int]:
        """Return the numbers of the processes."""
        with self._lock:
            return [each.pid for each in self._alive]

    def close(self) -> None:
        """End all of them; what is not answered yet stays so."""
        with self._lock:
            self._closed, alive = True, list(self._alive)
        for each in alive:
            each.kill()
        self._threads.shutdown()
        for each in alive:
            each.close()

    def _part(self, question: Question) -> Answer | None:
        """Return a worker's answer, None after two mishaps."""
        for _ in range(2):
            if self._closed:
                break
            try:
                return self._asked(question)
            except Mishap as mishap:
                self._note(mishap, len(question))
        return None

    def _note(self, mishap: Mishap, texts: int) -> None:
        with self._lock:
            self._mishaps += 1
            last = self._mishaps == MISHAPS_MAX
            idle = self._idle.copy() if last else []
            self._idle = [] if last else self._idle
        if not self._closed:
            logger.warning("a worker failed: %s; its %d texts are sketched again", mishap, texts)
            if last:
                logger.error("workers failed %d times: going on without", MISHAPS_MAX)
        for each in idle:
            self._dismiss(each)

    def _asked(self, question: Question) -> Answer:
        """Ask a worker; one that fails is not asked again.

        Raises:
            Mishap: it failed.
        """
        worker = self._taken()
        try:
            answer = worker.ask(question)
        except BaseException:
            self._dismiss(worker)
            raise
        with self._lock:
            self._answered()
            kept = not self.given_up
            if kept:
                self._idle.append(worker)
        if not kept:
            self._dismiss(worker)
        return answer

    def _answered(self) -> None:
        self._answers += 1
        if self._answers >= GOOD and self._mishaps and not self.given_up:
            self._answers, self._mishaps = 0, self._mishaps - 1

    def _dismiss(self, worker: Handle) -> None:
        with self._lock:
            self._alive.discard(worker)
        worker.close()

    def _taken(self) -> Handle:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        started = Handle(self._command, patience=self._patience)
        with self._lock:
            self._alive.add(started)
            closed = self._closed
        if closed:
            started.kill()
        return started
