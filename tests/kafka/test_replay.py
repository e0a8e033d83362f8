"""Replay: no more in memory than one write, and nobody's batches but ours."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import pytest

from streamfilter.engine.beginning import Names, Refusal
from streamfilter.engine.changelog import BatchRecord, encode_batch, writer_of
from streamfilter.engine.ports import Entry
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.protocol import Applied, Changes
from streamfilter.model import BatchMark, Span
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from streamfilter.tasks import restore
from streamfilter.tasks.restore import Replay

BATCHES = 3 * restore.WRITE_ROWS + 7
SCHEME = Scheme(bands=16, rows=6)
OURS, THEIRS = writer_of("ab" * 16, "ours"), writer_of("ab" * 16, "theirs")


def batches(writers: Iterable[bytes], first: int = 0) -> Iterator[Entry]:
    """Yield batches that found nothing unique, by their writers."""
    for number, writer in enumerate(writers, first):
        mark = BatchMark(number, 0, 0, (Span(0, number, number + 1),))
        yield Entry(number, encode_batch(BatchRecord(mark, -1, writer)))


class Reader:
    """A changelog."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.position, self.done = 0, False
        self._entries = iter(entries)

    def read(self, count: int, _: float) -> Sequence[Entry]:
        """Return some more."""
        found = list(islice(self._entries, count))
        self.position += len(found)
        self.done = len(found) < count
        return found

    def close(self) -> None:
        """Nothing to close."""


def test_batches_without_documents_are_written_in_bounded_pieces() -> None:
    written, index = list[int](), MemoryIndex(slots=SCHEME.slots)
    real = index.apply

    def apply(changes: Changes) -> Applied:
        written.append(len(changes.marks))
        return real(changes)

    index.apply = apply  # type: ignore[method-assign]
    assert not any(replay_of(index, batches([OURS] * BATCHES)).run())
    assert max(written) <= restore.WRITE_ROWS
    assert index.progress.next_batch == BATCHES


def replay_of(index: MemoryIndex, entries: Iterable[Entry], *, known: bool = False) -> Replay:
    names = Names("ours", "t", "c/0", "w")
    sketcher = Sketcher(SCHEME, seed=bytes(16))
    return Replay(index, sketcher, Reader(entries), names, writer=OURS, from_known=known)


@pytest.mark.parametrize(
    ("writers", "refused_at"),
    [
        ([OURS, OURS], None),
        ([b"", b"", OURS], None),  # an upgrade
        ([OURS, THEIRS], 1),
        ([OURS, b""], 1),  # of a version that names nobody: not ours any more
        ([b"", THEIRS], 1),
        ([THEIRS], 0),
    ],
)
def test_a_batch_is_ours_by_its_writer_and_not_by_its_number(
    writers: list[bytes], refused_at: int | None
) -> None:
    """A start took the next batch of another group, open when it asked for the end, for its own."""
    index = MemoryIndex(slots=SCHEME.slots)
    replay = replay_of(index, batches(writers))
    if refused_at is None:
        assert not any(replay.run())
        assert index.progress.next_batch == len(writers)
        return
    with pytest.raises(Refusal, match=f"at offset {refused_at} .* no process of the group 'ours'"):
        list(replay.run())
    assert index.progress.next_batch == 0


@pytest.mark.parametrize("last", [OURS, b""])
def test_what_the_index_has_applied_last_says_whether_batches_are_named(last: bytes) -> None:
    index = MemoryIndex(slots=SCHEME.slots)
    assert not any(replay_of(index, batches([b"", last])).run())
    again = list(batches([last, b""], first=1))
    if last:
        with pytest.raises(Refusal, match="somebody else writes this changelog"):
            list(replay_of(index, again, known=True).run())
    else:
        assert not any(replay_of(index, again, known=True).run())
    assert index.progress.next_batch == (2 if last else 3)
