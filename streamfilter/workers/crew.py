"""A crew of workers: reads and sketches a batch in several processes, and keeps its order.

A sketch depends only on scheme, seed and text. A text depends only on its value and the settings
for reading it. No value changes the result of another. So any process may make the sketches: a
batch is cut into parts, one for each worker, and the results are joined.

If a worker does not answer, another worker gets the part once more. If that fails too, the caller
does the part itself. So a worker that is killed, stuck or out of memory costs time and a line of
log, but never a text.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from streamfilter.documents.sketching import sketched
from streamfilter.model import Document
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.workers.frames import Drawn, Mishap, Part, as_values

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from streamfilter.workers.handle import Handle

PART_CHARACTERS_MIN = 32 * 1024  # least size of a part: 1 ms to sketch, .1 ms to send

AUTO_MAX = 4  # workers at most: the output of four keeps the one judging process busy
AUTO_CHARACTERS = 8 * 1024 * 1024  # sketched before `auto` starts workers: .3 s for each
AUTO_MEAN_MIN = 64  # mean characters below which a transfer costs as much as sketching
AUTO_MEAN_SEVERAL = 512
"""Mean characters of a text below which one worker is faster than the judging process: at 130 bytes
they take 19 and 34 us a text. A second worker would only compete with both for the core (figures:
README of tests/bench_runs)."""

PATIENCE_SECONDS = 10.0  # of a part, which takes milliseconds; retried once (suspension)
MISHAPS_MAX = 8  # then workers are given up: something on this system keeps killing them
GOOD = 100
"""After so many answers, one mishap is forgiven. A single answer is not enough: beside a healthy
worker, one that always fails would be replaced for ever, at .3 s a batch."""

logger = logging.getLogger("streamfilter.workers")


def auto_workers(cores: int, mean: float) -> int:
    """Return how many workers are worth it on *cores* cores for texts of *mean* characters."""
    if cores < 2 or mean < AUTO_MEAN_MIN:
        return 0
    return 1 if mean < AUTO_MEAN_SEVERAL else min(cores, AUTO_MAX)


class Crew:
    """Workers that are started when there is enough work, and ended by `close`.

    Memory: each worker holds its part of one batch and that part's sketches. This process holds
    them too, during the transfer. Each caller has at most one batch in progress, `filter` two.
    """

    def __init__(
        self,
        workers: int,
        *,
        reluctant: bool = False,
        command: Sequence[str] = (),
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Start nothing yet; with 0 *workers* the caller does all work itself.

        A *reluctant* crew starts none until `AUTO_CHARACTERS` were sketched, then as many as are
        worth it (`auto_workers`). A worker that does not answer for *patience* seconds is killed.
        """
        self.workers = workers
        self._reluctant, self._command, self._patience = reluctant, command, patience
        self._lock = threading.Lock()  # tasks may share it
        self._seen, self._size = 0, workers
        self._threads: ThreadPoolExecutor | None = None  # one waits for each worker
        self._alive: set[Handle] = set()
        self._idle: list[Handle] = []
        self._closed = False
        self._mishaps = self._good = 0

    def sketch(self, sketcher: Sketcher, documents: Sequence[Document]) -> Sketches:
        """Return the sketches of *documents*, as `sketched` makes them.

        Parts that no worker answered are sketched here, and so are records with fields: sending
        their payloads would cost more.
        """
        if not self.workers or sketcher.scheme.fields:
            return sketched(sketcher, documents)
        lengths = [len(each.text) for each in documents]
        self._seen += sum(lengths)
        parts = self._parts(lengths)
        if not parts:
            return sketched(sketcher, documents)
        pointers = len(sketcher.scheme.pointers)
        asked = [
            Part(*sketcher.recipe, "", as_values(documents[p], pointers), 1 + pointers)
            for p in parts
        ]
        answers = zip(self._answered(asked), parts, strict=True)
        return Sketches.joined(
            [
                sketched(sketcher, documents[own]) if each is None else each.sketches
                for each, own in answers
            ]
        )

    def read(self, sketcher: Sketcher, recipe: str, values: Sequence[bytes | None]) -> Drawn | None:
        """Return the plain documents in *values*, sketched, from the parts that were answered.

        The caller reads all others itself, and all if the result is None. *recipe* says how to read
        them (`Reader.recipe_for`); a tombstone's value is None.
        """
        parts = self._parts([0 if value is None else len(value) for value in values])
        asked = [Part(*sketcher.recipe, recipe, values[part]) for part in parts]
        answers = zip(self._answered(asked), parts, strict=True)
        drawn = [(each, part.start) for each, part in answers if each is not None]
        return Drawn.joined(*zip(*drawn, strict=True)) if drawn else None

    def _answered(self, questions: Sequence[Part]) -> list[Drawn | None]:
        """Return the answers to *questions*, which the workers work on together."""
        if not questions:
            return []
        threads = self._started()
        return [answer() for answer in [self._begun(threads, each) for each in questions]]

    def _begun(self, threads: ThreadPoolExecutor, question: Part) -> Callable[[], Drawn | None]:
        try:
            return threads.submit(self._part, question).result
        except RuntimeError:  # the system gave no thread, or it was closed meanwhile
            return lambda: None

    def _part(self, question: Part) -> Drawn | None:
        """Return a worker's answer, None after two mishaps."""
        for _ in range(2):
            if self._closed:
                break
            try:
                return self._asked(question)
            except Mishap as mishap:
                self._note(mishap, len(question.values))
        return None

    def _asked(self, question: Part) -> Drawn:
        """Send the question to a worker; a worker that fails is not used again. Raises `Mishap`."""
        worker = self._taken()
        try:
            answer = worker.ask(question)
        except BaseException:
            self._dismiss(worker)
            raise
        with self._lock:
            self._good += 1
            if kept := not self._given_up:
                if self._good >= GOOD and self._mishaps:
                    self._good, self._mishaps = 0, self._mishaps - 1
                self._idle.append(worker)
        if not kept:
            self._dismiss(worker)
        return answer

    def _taken(self) -> Handle:
        from streamfilter.workers.handle import Handle  # most runs are short, and start none

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

    def _dismiss(self, worker: Handle) -> None:
        with self._lock:
            self._alive.discard(worker)
        worker.close()

    @property
    def _given_up(self) -> bool:
        return self._mishaps >= MISHAPS_MAX

    @property
    def pids(self) -> list[int]:
        """Return the process ids of the workers."""
        with self._lock:
            return [each.pid for each in self._alive]

    def close(self) -> None:
        """End all workers; open questions stay unanswered."""
        with self._lock:
            self._closed, self.workers, alive = True, 0, list(self._alive)
        for each in alive:
            each.kill()
        if self._threads is not None:
            self._threads.shutdown()
        for each in alive:
            each.close()

    def _parts(self, lengths: Sequence[int]) -> list[slice]:
        """Return the parts for the workers, given the *lengths* of texts or values; maybe none."""
        total, workers = sum(lengths), self.workers
        if self._reluctant:
            mean = total / max(len(lengths), 1)
            workers = auto_workers(workers, mean) if self._seen >= AUTO_CHARACTERS else 0
        if self._given_up:
            return []
        parts = min(workers, total // PART_CHARACTERS_MIN, len(lengths))
        if parts and self._threads is None:
            self._size = workers  # fixed: one source has one kind of texts
        return cut(lengths, parts) if parts else []

    def _started(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor  # slow to import, as `Handle` is

        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._size, thread_name_prefix="workers")
            return self._threads


def cut(lengths: Sequence[int], parts: int) -> list[slice]:
    """Return *parts* slices of at least one text, with about as many characters each."""
    ends = list(accumulate(lengths))
    cuts = [0]
    for part in range(1, parts):
        wanted = ends[-1] * part / parts
        row = next(row for row, end in enumerate(ends) if end >= wanted) + 1
        cuts.append(min(max(row, cuts[-1] + 1), len(lengths) - parts + part))
    return [slice(begin, end) for begin, end in zip(cuts, [*cuts[1:], len(lengths)], strict=True)]
