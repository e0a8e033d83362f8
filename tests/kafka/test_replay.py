"""Replay keeps no more in memory than one write, whatever the changelog consists of."""

from collections.abc import Iterator, Sequence
from itertools import islice

from streamfilter.engine import restore
from streamfilter.engine.beginning import Names
from streamfilter.engine.changelog import BatchRecord, encode_batch
from streamfilter.engine.ports import Entry
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.protocol import Applied, Changes
from streamfilter.model import BatchMark, Span
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher

BATCHES = 3 * restore.WRITE_ROWS + 7


class Reader:
    """A changelog of batches that found nothing unique."""

    def __init__(self) -> None:
        self.position, self.done = 0, False
        self._entries = self._told()

    def _told(self) -> Iterator[Entry]:
        for number in range(BATCHES):
            mark = BatchMark(number, 0, 0, (Span(0, number, number + 1),))
            yield Entry(number, encode_batch(BatchRecord(mark, -1)))

    def read(self, count: int, _: float) -> Sequence[Entry]:
        """Return some more."""
        found = list(islice(self._entries, count))
        self.position += len(found)
        self.done = self.position >= BATCHES or len(found) < count
        return found

    def close(self) -> None:
        """Nothing to close."""


def test_batches_without_documents_are_written_in_bounded_pieces() -> None:
    scheme, written = Scheme(bands=16, rows=6), list[int]()
    index = MemoryIndex(slots=scheme.slots)
    real = index.apply

    def apply(changes: Changes) -> Applied:
        written.append(len(changes.marks))
        return real(changes)

    index.apply = apply  # type: ignore[method-assign]
    sketcher = Sketcher(Scheme(bands=16, rows=6), seed=bytes(16))
    replay = restore.Replay(
        index, sketcher, Reader(), Names("g", "t", "c/0", "w"), from_known=False
    )
    assert not any(replay.run())
    assert max(written) <= restore.WRITE_ROWS
    assert index.progress.next_batch >= BATCHES - len(written)
