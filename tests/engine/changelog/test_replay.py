"""Replay: no more in memory than one write, and no batches but ours."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import pytest

from streamfilter.engine.messages.changelog import (
    BatchRecord,
    Update,
    encode_batch,
    encode_changelog_documents,
    encode_forgotten,
    writer_of,
)
from streamfilter.engine.messages.changelog_header import (
    BEGIN,
    FORGET,
    Header,
    encode_header,
    kind_of,
)
from streamfilter.engine.ports import Entry
from streamfilter.engine.start_checks import Names, Refusal
from streamfilter.index.format import recorded
from streamfilter.index.memory import MemoryIndex
from streamfilter.index.protocol import Applied, Changes
from streamfilter.model import EVER, BatchMark, Span, Window
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from streamfilter.tasks import restore
from streamfilter.tasks.restore import Replay
from tests.index.samples import documents, identity
from tests.pipeline.forgetting.test_forgetting import FORGETTING, Story
from tests.support.cases import cases

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
    written, index = list[int](), MemoryIndex(SCHEME.widths)
    real = index.apply

    def apply(changes: Changes) -> Applied:
        written.append(len(changes.marks))
        return real(changes)

    index.apply = apply  # type: ignore[method-assign]
    assert not any(replay_of(index, batches([OURS] * BATCHES)).run())
    assert max(written) <= restore.WRITE_ROWS
    assert index.progress.next_batch == BATCHES


def replay_of(
    index: MemoryIndex, entries: Iterable[Entry], *, known: bool = False, scheme: Scheme = SCHEME
) -> Replay:
    names = Names("ours", "t", "c/0", "w")
    sketcher = Sketcher(scheme, seed=bytes(16))
    return Replay(index, sketcher, Reader(entries), names, writer=OURS, from_known=known)


@cases(
    ("writers", "refused_at"),
    [
        ([OURS, OURS], None),
        ([b"", b"", OURS], None),  # an upgrade
        ([OURS, THEIRS], 1),
        ([OURS, b""], 1),  # of a version that names no one: not ours any more
        ([b"", THEIRS], 1),
        ([THEIRS], 0),
    ],
)
def test_a_batch_is_ours_by_its_writer_and_not_by_its_number(writers, refused_at):
    """A start took the next batch of another group, open when it asked for the end, for its own."""
    index = MemoryIndex(SCHEME.widths)
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
    index = MemoryIndex(SCHEME.widths)
    assert not any(replay_of(index, batches([b"", last])).run())
    again = list(batches([last, b""], first=1))
    if last:
        with pytest.raises(Refusal, match="another program writes this changelog"):
            list(replay_of(index, again, known=True).run())
    else:
        assert not any(replay_of(index, again, known=True).run())
    assert index.progress.next_batch == (2 if last else 3)


BATCH_DOCUMENTS = 3
AGING = Scheme(bands=4, rows=4, slots=16)


def aging(count: int, *, every: int) -> Iterator[bytes]:
    """Yield a changelog whose last 2 * *every* batches are remembered, window by window."""
    for number in range(count):
        first = BATCH_DOCUMENTS * number
        if number % every == 0:
            window = Window(number // every, first, number) if number else None
            yield encode_header(Header(identity().encode(), "ours", 8, window))
        ordinals = list(range(first, first + BATCH_DOCUMENTS))
        yield from encode_changelog_documents(documents(ordinals))
        horizon = max(0, first - 2 * every * BATCH_DOCUMENTS)
        spans = (Span(0, first, first + BATCH_DOCUMENTS),)
        mark = BatchMark(number, first, first + BATCH_DOCUMENTS, spans, horizon, 1_000 * number)
        yield encode_batch(BatchRecord(mark, 1_000 * number, OURS))


def dumped(
    entries: Sequence[Entry], *, pieces: Sequence[int] = ()
) -> list[tuple[str, bytes, bytes]]:
    """Return what an index holds that read *entries*, stopped and begun again at *pieces*."""
    index, begin = MemoryIndex(AGING.widths), 0
    for end in (*pieces, len(entries)):
        known = begin > 0
        some = entries[begin - 1 if known else 0 : end]
        assert not any(replay_of(index, some, known=known, scheme=AGING).run())
        begin = end
    return list(index.dump())


def test_an_index_that_forgets_is_the_same_however_it_was_read(monkeypatch):
    """In one write or many, from the beginning or from the oldest window that is alive."""
    entries = [Entry(n, value) for n, value in enumerate(aging(40, every=4))]
    batch_ends = [n + 1 for n, entry in enumerate(entries) if entry.value[1] == 3]
    whole = dumped(entries)
    monkeypatch.setattr(restore, "WRITE_ROWS", 2)
    assert dumped(entries) == whole
    assert dumped(entries, pieces=batch_ends[:-1]) == whole
    index = MemoryIndex(AGING.widths)
    assert not any(replay_of(index, entries, scheme=AGING).run())
    oldest, *_ = index.windows
    assert [window.number for window in index.windows] == [7, 8, 9]
    assert entries[oldest.offset].value[1] == 1, "a window tells where it begins"
    assert dumped(entries[oldest.offset :]) == whole
    assert len(index) == np.ptp([index.progress.horizon, index.progress.next_ordinal])


class Owner:
    """What stands beside an index that is written, and notes down what its changelog would hold."""

    def __init__(self, cap: int) -> None:
        self.entries: list[Entry] = []
        self._cap = cap
        self._note(encode_header(Header(identity().encode(), "ours", cap)))

    def _note(self, *values: bytes) -> None:
        self.entries += [Entry(n, value) for n, value in enumerate(values, len(self.entries))]

    def apply(self, changes: Changes) -> None:
        if changes.opens is not None:
            self._note(encode_header(Header(identity().encode(), "ours", self._cap, changes.opens)))
        (mark,) = changes.marks
        batch = BatchRecord(mark, mark.stream_time, OURS)
        additions = changes.additions and recorded(changes.additions)
        update = Update.encoded(batch, None, additions, changes.removals)
        self._note(*update.values)


def held(index: MemoryIndex) -> list[tuple[str, bytes, bytes]]:
    return [entry for entry in index.dump() if entry[0] != "progress"]


@pytest.mark.parametrize("rows", [1, 7, restore.WRITE_ROWS])
@pytest.mark.slow
def test_what_tombstones_forgot_is_forgotten_by_a_replay_whatever_it_writes_at_once(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte: who left a full bucket, and who came into it before and after."""
    monkeypatch.setattr(restore, "WRITE_ROWS", rows)
    records = 0
    for seed in FORGETTING:
        story = Story(seed)
        live, cap = story.index, story.given.cap
        owner = Owner(cap)
        story.beside = [owner]
        story.run()
        index = MemoryIndex(story.sketcher.scheme.widths, bucket_cap=cap, ids=True)
        names, reader = Names("ours", "t", "c/0", "w"), Reader(owner.entries)
        replay = Replay(index, story.sketcher, reader, names, writer=OURS, from_known=False)
        assert not any(replay.run())
        assert held(index) == held(live), seed
        assert len(index) == len(live)
        records += sum(kind_of(entry.value) == FORGET for entry in owner.entries)
    assert records > 10


def test_a_record_that_forgets_what_was_not_judged_before_its_batch_is_refused() -> None:
    header = encode_header(Header(identity().encode(), "ours", 8))
    batch = encode_batch(BatchRecord(BatchMark(0, 0, 5, (Span(0, 0, 5),)), -1, OURS))
    values = [header, *encode_forgotten(np.array([0])), batch]
    entries = [Entry(n, value) for n, value in enumerate(values)]
    with pytest.raises(Refusal, match="offset 2: batch 0 forgets what was not judged before it"):
        list(replay_of(MemoryIndex(SCHEME.widths), entries).run())
    with pytest.raises(Refusal, match="without the batch record"):
        list(replay_of(MemoryIndex(SCHEME.widths), entries[:2]).run())


def test_a_rewrite_goes_on_where_an_index_stands_and_an_empty_one_needs_its_first_batch() -> None:
    begin = encode_header(Header(identity().encode(), "ours", 8, anew=BEGIN))
    values = [begin, *(entry.value for entry in batches([OURS] * 4))]
    entries = [Entry(n, value) for n, value in enumerate(values, 10)]
    index = MemoryIndex(SCHEME.widths)
    assert not any(replay_of(index, batches([OURS] * 2)).run())
    assert not any(replay_of(index, entries).run())
    assert index.progress.next_batch == 4
    with pytest.raises(Refusal, match="batch 1 where batch 0 must come"):
        list(replay_of(MemoryIndex(SCHEME.widths), [entries[0], *entries[2:]]).run())


def test_windows_that_do_not_follow_and_a_horizon_that_falls_are_refused_at_their_offset() -> None:
    entries = [Entry(n, value) for n, value in enumerate(aging(12, every=4))]
    (_, second, third) = [n for n, entry in enumerate(entries) if entry.value[1] == 1]
    missing = [*entries[:second], *entries[third:]]
    with pytest.raises(Refusal, match=f"offset {third}: window 2 does not follow"):
        list(replay_of(MemoryIndex(AGING.widths), missing, scheme=AGING).run())
    older = BatchMark(12, 36, 36, (Span(0, 36, 36),), 8, 12_000)
    falls = Entry(len(entries), encode_batch(BatchRecord(older, 12_000, OURS)))
    with pytest.raises(Refusal, match=f"offset {falls.offset}: batch 12 remembers what was forg"):
        list(replay_of(MemoryIndex(AGING.widths), [*entries, falls], scheme=AGING).run())
    assert MemoryIndex(AGING.widths).windows == (EVER,)
