"""Step 5: the index catches up with the committed changelog.

The reader begins AT the last record that the index applied, to check that it is still the same.
Then whole transactions are applied, many in one write. After each write the index is as it was
after some batch. Band keys are not in the changelog; they are computed again from signatures.

A write ends before a batch that forgets documents, because a batch removes before it adds. A write
also ends before a header, because a header begins a window. A replay decides neither what is
forgotten nor when a window begins: it reads both. A known record adds nothing, so a replay may be
interrupted anywhere. A rewrite (`changelog_rewrite.py`) repeats batches; those that the index has
are skipped.

Example: the transactions hold [document 1, batch 0], [document 2, batch 1] and [document 3,
forget 1, batch 2]. The first write adds 1 and 2. The second write removes 1 and adds 3.

A batch is ours if it has our writer's name. Its number alone proves nothing. Another group's
transaction may be open when a start asks for the end, and is read once it is committed. Batches
of an old version have no writer. They are accepted until the first batch with a writer.

`run` ends at the reader's end; `follow` also applies later commits (`standby.py`).
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from streamfilter.engine.messages import changelog
from streamfilter.engine.messages.changelog_header import (
    BATCH,
    BEGIN,
    END,
    FORGET,
    HEADER,
    SUCCESSOR,
    Header,
    Successor,
    decode_header,
    decode_successor,
    kind_of,
)
from streamfilter.engine.ports import ChangelogReader, Entry
from streamfilter.engine.start_checks import (
    Names,
    refuse_broken,
    refuse_other_record,
    refuse_other_writer,
)
from streamfilter.index.errors import DiskFull, FormatError
from streamfilter.index.input_table import FACT, InputTable
from streamfilter.index.protocol import Additions, Changes, Index, Removals
from streamfilter.killpoints import kill_point
from streamfilter.matching.blocking.forgetting import removals_of
from streamfilter.model import BatchMark, Window
from streamfilter.similarity.columns import I64
from streamfilter.similarity.sketch import Sketcher

_ALONE = (bytes([HEADER]), bytes([FORGET]))  # a write ends before a record of these types
READ_RECORDS = 5_000
READ_SECONDS = 0.05  # longest wait of a read: the membership is polled between two reads
WRITE_ROWS = 5_000
"""Documents or batches in one write, rounded up to a whole transaction: input of duplicates makes
millions of batches with few documents."""


class Replay:
    """Applies one changelog partition to one index."""

    def __init__(
        self,
        index: Index,
        sketcher: Sketcher,
        reader: ChangelogReader,
        names: Names,
        *,
        writer: bytes,
        from_known: bool,
    ) -> None:
        """Prepare to catch up with what *reader* reads, from the index's offset on.

        *writer* is the writer's name in our batches. With *from_known*, the reader begins at the
        last record that the index applied.
        """
        # A tail that a full disk ended leaves a write pending. Its records are read again here,
        # in other pieces. Waiting for that exact write would never end, even with free space.
        index.drop_owed()
        self._index, self._sketcher, self._reader = index, sketcher, reader
        self._names = names
        self._writers = {b"", writer}  # accepted; "" is, until a batch has our writer's name
        self._unchecked = from_known
        self._unfinished: list[bytes] = []  # documents whose batch record has not come yet
        self._forgotten: list[I64] = []  # what the first batch of the write forgets
        self._documents: list[bytes] = []
        self._marks: list[BatchMark] = []
        self._opens: Window | None = None
        self._inputs = InputTable()  # the table of the last header, until it is a fact of the index
        self._last: tuple[Entry, changelog.BatchRecord] | None = None
        progress = index.progress
        self._next = progress.next_batch if progress.changelog_offset >= 0 else None
        """Number of the next batch; None: any number, because the changelog may be trimmed."""
        self._horizon = progress.horizon
        self._anew = False  # whether the last header began a rewrite: known batches come again
        self.successor: Successor | None = None  # who took over, if no batch of ours follows
        self.by = ""  # the process that wrote the last record read, if a record says so

    @property
    def position(self) -> int:
        """Return the offset read next."""
        return self._reader.position

    def close(self) -> None:
        """Release the connection; the index stays open."""
        self._reader.close()

    def run(self) -> Iterator[str]:
        """Catch up; yield between two reads why it waits, or "". Raise `Refusal`."""
        while not self._reader.done:
            yield from self._take_all(self._reader.read(READ_RECORDS, READ_SECONDS))
            yield ""
        yield from self._write()
        if self._unchecked:
            raise refuse_other_record(self._names, self._index.progress.changelog_offset)
        if self._unfinished or (self._forgotten and self._last is None):
            why = "documents without the batch record that ends their transaction"
            raise refuse_broken(self._names, self._reader.position, why)

    def follow(self) -> Iterator[str]:
        """Apply commits without end; yield after every read, and raise, as `run` does."""
        while True:
            yield from self._take_all(self._reader.read(READ_RECORDS, READ_SECONDS))
            yield from self._write()
            yield ""

    def _take_all(self, entries: Sequence[Entry]) -> Iterator[str]:
        """Take *entries*: a run of documents at once, each other record alone.

        Example: of [document, document, batch], the two documents are one slice.
        """
        values, taken = [each.value for each in entries], 0
        others = [at for at, value in enumerate(values) if value[:2] != changelog.DOCUMENT_PREFIX]
        if self._unchecked and entries and others[:1] != [0]:
            others.insert(0, 0)
        for at in others:
            self._unfinished += values[taken:at]
            taken = at + 1
            yield from self._before(entries[at])
            self._take(entries[at])
            if max(len(self._documents), len(self._marks)) >= WRITE_ROWS:
                yield from self._write()
        self._unfinished += values[taken:]

    def _before(self, entry: Entry) -> Iterator[str]:
        """Write the pending batches if *entry* begins a window or forgets documents.

        Their documents must be in the buckets before others leave, and belong to the window before.
        """
        if entry.value[1:2] in _ALONE:
            yield from self._write()

    def _take(self, entry: Entry) -> None:
        self.by = entry.by or self.by
        try:
            if self._unchecked:
                self._check(entry)
                return
            kind = kind_of(entry.value)
            if kind == HEADER:
                self._head(entry, decode_header(entry.value))
            elif kind == FORGET:
                self._forgotten.append(changelog.decode_forgotten(entry.value))
            elif kind == BATCH:
                self._end_batch(entry, changelog.decode_batch(entry.value))
            elif kind == SUCCESSOR:
                self.successor = decode_successor(entry.value)
        except FormatError as error:
            raise refuse_broken(self._names, entry.offset, str(error)) from error

    def _check(self, entry: Entry) -> None:
        """Compare the first record with the last one that the index applied."""
        known = self._index.progress
        same = changelog.record_hash(entry.value) == known.record_hash
        if entry.offset != known.changelog_offset or not same:
            raise refuse_other_record(self._names, known.changelog_offset)
        self._refuse_stranger(entry, changelog.decode_batch(entry.value))
        self._unchecked = False

    def _refuse_stranger(self, entry: Entry, batch: changelog.BatchRecord) -> None:
        if batch.writer not in self._writers:
            raise refuse_other_writer(self._names, entry.offset)
        if batch.writer:
            self._writers = {batch.writer}

    def _head(self, entry: Entry, header: Header) -> None:
        self._inputs = header.inputs or self._inputs
        if header.anew in (BEGIN, END):
            self._anew = header.anew == BEGIN
            if self._next is None and header.window is None:
                self._next = 0  # no window was dropped, so the rewrite has all batches
        self._begin_window(entry, header.window)

    def _begin_window(self, entry: Entry, window: Window | None) -> None:
        """Let the next write begin *window*, if it is new; earlier batches are written already."""
        progress, newest = self._index.progress, self._index.windows[-1]
        if window is None or window.number <= newest.number:
            return
        if self._next is None:
            self._next = window.first_batch
        elif window != Window(newest.number + 1, progress.next_ordinal, progress.next_batch):
            why = f"window {window.number} does not follow what was judged before it"
            raise refuse_broken(self._names, entry.offset, why)
        self._opens = replace(window, offset=entry.offset)

    def _end_batch(self, entry: Entry, batch: changelog.BatchRecord) -> None:
        """Add a batch to the next write; batch numbers have no gaps."""
        self._refuse_stranger(entry, batch)
        number = batch.mark.number
        if self._anew and self._next is not None and number < self._next:
            self._unfinished = []
            return
        if self._next is not None and number != self._next:
            why = f"batch {number} where batch {self._next} must come"
            raise refuse_broken(self._names, entry.offset, why)
        if batch.mark.horizon < self._horizon:
            why = f"batch {number} remembers what was forgotten before it"
            raise refuse_broken(self._names, entry.offset, why)
        if any(each[-1] >= batch.mark.first_ordinal for each in self._forgotten):
            why = f"batch {number} forgets what was not judged before it"
            raise refuse_broken(self._names, entry.offset, why)
        self._next, self._horizon, self._anew = number + 1, batch.mark.horizon, False
        self.successor = None
        self._marks.append(batch.stored_mark)
        self._documents += self._unfinished
        self._unfinished = []
        self._last = (entry, batch)

    def _write(self) -> Iterator[str]:
        """Write all complete batches; wait while the disk is full."""
        if self._last is None:
            return
        kill_point("restore.read")
        (entry, batch), marks = self._last, tuple(self._marks)
        progress = batch.progress(entry.offset, entry.value)
        removals = self._removals()
        changes = Changes(progress, self._additions(entry.offset), marks, removals, self._opens)
        while True:
            try:
                if self._inputs:  # it is committed, even if the write fails
                    self._index.remember(FACT, self._inputs.encode())
                self._index.apply(changes)
                break
            except DiskFull as error:
                yield str(error)
        self._documents, self._marks, self._last, self._opens = [], [], None, None
        self._inputs = InputTable()
        self._forgotten = []
        kill_point("restore.applied")

    def _removals(self) -> Removals | None:
        if not self._forgotten:
            return None
        forgotten = np.sort(np.concatenate(self._forgotten))
        return removals_of(forgotten, self._index, self._sketcher.keys_of)

    def _additions(self, offset: int) -> Additions | None:
        if not self._documents:
            return None
        try:
            documents, stored = changelog.decode_changelog_documents(
                self._documents, self._sketcher.scheme.widths
            )
        except FormatError as error:
            raise refuse_broken(self._names, offset, f"before it, {error}") from error
        return Additions(documents, self._sketcher.keys_of(documents.contents), records=stored)
