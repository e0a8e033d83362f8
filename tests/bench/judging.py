"""The service's way without a broker: sketch, judge and write on a fresh index."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from streamfilter.index.directory.identity import Identity
from streamfilter.index.directory.opening import open_index
from streamfilter.index.format import FORMAT
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Changes, Index
from streamfilter.matching.pipeline import Batch, Judgement, judge
from streamfilter.matching.verdict.policy import MatchPolicy
from streamfilter.model import BatchMark, Source, Span
from streamfilter.similarity.sketch import Sketcher, Sketches

IDENTITY = Identity("00" * 16, FORMAT, "benchmark", '{"slots":128}', bytes(16), 0, "15.0.0")


def step_of(number: int, first: int, count: int) -> tuple[Progress, BatchMark]:
    """Return how far an index is after batch *number*, and the batch's mark."""
    end = first + count
    progress = Progress(positions={0: end}, next_batch=number + 1, next_ordinal=end)
    return progress, BatchMark(number, first, end, (Span(0, first, end),))


class BatchFilter:
    """Judges and writes batch by batch."""

    def __init__(self, index: Index, sketcher: Sketcher) -> None:
        self._index, self._sketcher = index, sketcher
        self._number = self._next = 0

    def take(self, texts: Sequence[str]) -> tuple[Sketches, Judgement]:
        """Judge *texts* as one batch, and write what is new."""
        first, n = self._next, len(texts)
        offsets, zeros = np.arange(first, first + n), np.zeros(n, np.int64)
        batch = Batch([str(each) for each in offsets], zeros, offsets, zeros - 1)
        sketches = self._sketcher.sketch(texts)
        judgement = judge(
            batch, sketches, index=self._index, policy=MatchPolicy(), number=self._number,
            locate=lambda partition, offset: Source("", partition, offset), first_ordinal=first,
        )  # fmt: skip
        progress, mark = step_of(self._number, first, n)
        self._index.apply(Changes(progress, judgement.additions, (mark,)))
        self._number, self._next = self._number + 1, first + n
        return sketches, judgement


@contextmanager
def fresh_index() -> Iterator[Index]:
    """Yield an empty index on disk; it is gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="streamfilter-bench-") as directory,
        closing(open_index(Path(directory, "index"), IDENTITY)) as index,
    ):
        yield index
