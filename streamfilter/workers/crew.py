"""A crew of workers: reads and sketches a batch in several processes, and keeps its order.

A sketch depends only on scheme, seed and text. A text depends only on its value and the settings
for reading it. No value changes the result of another. So any process may make the sketches: a
batch is cut into parts, one for each worker, and the results are joined. This module decides
whether workers are worth it. `workforce` runs them and handles their failures.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from streamfilter.documents.sketching import sketched
from streamfilter.model import Document
from streamfilter.similarity.sketch import Sketcher, Sketches
from streamfilter.workers.frames import Drawn, Part, as_values

if TYPE_CHECKING:
    from streamfilter.workers.workforce import Workforce

PART_CHARACTERS_MIN = 32 * 1024  # least size of a part: 1 ms to sketch, .1 ms to send

AUTO_MAX = 4  # workers at most: the output of four keeps the one judging process busy
AUTO_CHARACTERS = 8 * 1024 * 1024  # sketched before `auto` starts workers: .3 s for each
AUTO_MEAN_MIN = 64  # mean characters below which a transfer costs as much as sketching
AUTO_MEAN_SEVERAL = 512
"""Mean characters of a text below which one worker is faster than the judging process: at 130 bytes
they take 19 and 34 us a text. A second worker would only compete with both for the core (figures:
README of tests/bench_runs)."""

PATIENCE_SECONDS = 10.0  # of a part, which takes milliseconds; retried once (suspension)


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
        self._workforce: Workforce | None = None
        self._seen, self._size = 0, workers

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
        workforce = self._started()
        return [answer() for answer in [workforce.begin(each) for each in questions]]

    @property
    def pids(self) -> list[int]:
        return [] if self._workforce is None else self._workforce.pids

    def close(self) -> None:
        with self._lock:
            workforce, self._workforce, self.workers = self._workforce, None, 0
        if workforce is not None:
            workforce.close()

    def _parts(self, lengths: Sequence[int]) -> list[slice]:
        """Return the parts for the workers, given the *lengths* of texts or values; maybe none."""
        total, workers = sum(lengths), self.workers
        if self._reluctant:
            mean = total / max(len(lengths), 1)
            workers = auto_workers(workers, mean) if self._seen >= AUTO_CHARACTERS else 0
        if self._workforce is not None and self._workforce.given_up:
            return []
        parts = min(workers, total // PART_CHARACTERS_MIN, len(lengths))
        if parts and self._workforce is None:
            self._size = workers  # fixed: one source has one kind of texts
        return cut(lengths, parts) if parts else []

    def _started(self) -> Workforce:
        from streamfilter.workers.workforce import Workforce  # most runs are short, and start none

        with self._lock:
            if self._workforce is None:
                self._workforce = Workforce(self._size, self._command, patience=self._patience)
            return self._workforce


def cut(lengths: Sequence[int], parts: int) -> list[slice]:
    """Return *parts* slices of at least one text, with about as many characters each."""
    ends = list(accumulate(lengths))
    cuts = [0]
    for part in range(1, parts):
        wanted = ends[-1] * part / parts
        row = next(row for row, end in enumerate(ends) if end >= wanted) + 1
        cuts.append(min(max(row, cuts[-1] + 1), len(lengths) - parts + part))
    return [slice(begin, end) for begin, end in zip(cuts, [*cuts[1:], len(lengths)], strict=True)]
