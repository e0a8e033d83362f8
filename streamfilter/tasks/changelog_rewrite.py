"""Writes a changelog that lost its beginning again, from the owner's whole index.

    1   a BEGIN header with the oldest live window, in a transaction of its own
    2   all batches of the index, with their old numbers, and the documents that it still holds
    3   an END header and the next batch, in one transaction

Step 2 takes many transactions of bounded size. A rewrite without its END has no effect, so a kill
leaves the changelog as it was. With its END, a restore begins at the BEGIN (`index_storage.py`). An
index that has the batches skips them (`restore.py`).

A rewrite holds what the index remembers, and nothing about forgotten documents. If a bucket was
full and a tombstone made room in it, a restore lists a document that the bucket had rejected.

Example: the index holds batches 0 to 2. The rewrite is [BEGIN], [document 1, batch 0, batch 1,
document 2, batch 2], [END, batch 3]. Batch 3 judges no record.
"""

import numpy as np
from msgspec.structs import replace

from streamfilter.engine.messages.changelog import (
    BatchRecord,
    Update,
    encode_batch,
    encode_changelog_documents,
)
from streamfilter.engine.messages.changelog_header import BEGIN, END, Header, encode_header
from streamfilter.engine.parts import Parts
from streamfilter.engine.start_checks import BEGIN_ANEW, Refusal
from streamfilter.engine.task_position import TaskPosition
from streamfilter.engine.transaction import Load, Transactions
from streamfilter.engine.writer_check import WriterCheck
from streamfilter.index.protocol import Index
from streamfilter.model import EVER, BatchMark
from streamfilter.tasks.plan import Script, tried

BATCHES, DOCUMENTS = 1_000, 500  # limits of one transaction; a batch is never divided


class Rewriting:
    """Writes one task's changelog again; it reads the index and does not change it."""

    def __init__(
        self,
        parts: Parts,
        index: Index,
        position: TaskPosition,
        writer_check: WriterCheck,
        own: Header,
    ) -> None:
        """Prepare a rewrite from a whole *index* that has applied every committed batch."""
        self._parts, self._index, self._position, self._own = parts, index, position, own
        self._transactions = Transactions(parts, writer_check)

    def run(self) -> Script[None]:
        """Do the three steps. The caller starts again, and applies the last batch."""
        index, next_batch = self._index, self._position.progress.next_batch
        oldest, positions = index.windows[0], self._position.positions
        number, most = oldest.first_batch, BATCHES
        begin = replace(self._own, window=None if oldest == EVER else oldest, anew=BEGIN)
        self._parts.observer.process.loudly(
            f"the changelog is written again: batches {number} to {next_batch - 1} with "
            f"{len(index)} documents; until the end of this, it stays as it was"
        )
        yield from self._commit(Load(positions, repeated=[encode_header(begin)]))
        while number < next_batch:
            marks = self._marks(number, min(next_batch, number + most))
            load = Load(positions, repeated=self._values(marks))
            if (yield from tried(self._parts, self._transactions, load)):
                number += len(marks)
            else:
                most = max(1, len(marks) // 2)  # it may have been too much for one transaction
        _, batch = self._position.opened(self._parts.retention.rest(index))
        update = Update.encoded(batch, replace(self._own, anew=END))
        yield from self._commit(Load(positions, update=update))
        self._parts.observer.process.loudly("the changelog is written again, and whole")

    def _marks(self, first: int, end: int) -> list[BatchMark]:
        """Return the batches of the next transaction, from *first* on: at least one."""
        marks: list[BatchMark] = []
        for number in range(first, end):
            mark = self._index.mark(number)
            if mark is None:
                raise Refusal(
                    f"the index has no batch {number}: it is not whole, and the changelog cannot "
                    "be written again from it",
                    "bring a whole directory, or a backup of it, here",
                    BEGIN_ANEW,
                )
            if marks and mark.next_ordinal - marks[0].first_ordinal > DOCUMENTS:
                break
            marks.append(mark)
        return marks

    def _values(self, marks: list[BatchMark]) -> list[bytes]:
        """Return the records of the batches *marks*, in the order of a replay."""
        first, end = marks[0].first_ordinal, marks[-1].next_ordinal
        documents = self._index.fetch(np.arange(first, end, dtype=np.int64))
        records = encode_changelog_documents(documents)
        ends = np.searchsorted(documents.ordinals, [mark.next_ordinal for mark in marks])
        opens = {window.first_batch: window for window in self._index.windows[1:]}
        values: list[bytes] = []
        done = 0
        for mark, upto in zip(marks, ends.tolist(), strict=True):
            if mark.number in opens:
                values.append(encode_header(replace(self._own, window=opens[mark.number])))
            batch = BatchRecord(mark, mark.stream_time, self._position.writer)
            values += [*records[done:upto], encode_batch(batch)]
            done = upto
        return values

    def _commit(self, load: Load) -> Script[None]:
        while not (yield from tried(self._parts, self._transactions, load)):
            pass
