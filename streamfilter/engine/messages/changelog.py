"""The changelog's records as bytes. An index can be rebuilt from them.

Every record begins with a version byte and a type byte. Integers are little-endian.

- `Header` (`changelog_header.py`) opens a changelog. It is repeated as the first record of a
  transaction that begins a window, with that window. So a changelog may be trimmed there. The
  batch record of the same transaction holds the numbers to go on with.
- `DOCUMENT` holds an ordinal, and the bytes that the index stores for that document. Band keys
  are not stored; the replay computes them again.
- `FORGET` names earlier documents that the batch's tombstones remove. A replay removes them before
  it adds the batch's own documents.
- `BatchRecord` ends every transaction, even one without a unique document. It says which batch
  judged an offset first. It names its writer, because consecutive numbers alone do not. It also
  says what was forgotten at that time, so a replay decides nothing.

This module reads no clock: the times in a record are decided before.

Example: a batch judges three input records, two of them unique. Its transaction writes three
records here: `DOCUMENT`, `DOCUMENT`, `BATCH`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from streamfilter.engine.messages.changelog_header import (
    AGED,
    BATCH,
    DATED,
    DOCUMENT,
    FORGET,
    NAMED,
    NUMBER_MAX,
    PREFIX,
    VERSION,
    Header,
    Successor,
    body_of,
    encode_header,
    encode_successor,
)
from streamfilter.index.ages import ages_of
from streamfilter.index.errors import FormatError
from streamfilter.index.format import ORDINAL_MAX, decode_documents, encode_documents
from streamfilter.index.progress import Progress
from streamfilter.index.protocol import Additions, Changes, Documents, Removals
from streamfilter.model import SEEDS_FROM, BatchMark, Positions, Span
from streamfilter.similarity.columns import I64, Widths
from streamfilter.similarity.sketch import Sketches

WRITER_BYTES = 16
FORGET_ORDINALS_MAX = 1_000  # most ordinals in one record: 8 KB, which every topic accepts

FIXED_BYTES = 128  # of a document's record without id, signature, tokens and payload
DOCUMENT_PREFIX = PREFIX.pack(VERSION, DOCUMENT)  # the first bytes of each `DOCUMENT`
_HEAD = np.dtype([("prefix", "<u2"), ("ordinal", "<u8")])  # of a `DOCUMENT`
_ORDINAL = struct.Struct("<Q")
_BATCH = struct.Struct("<QQQqI")
_SPAN = struct.Struct("<Iqq")
_HORIZON = struct.Struct("<Q")  # behind the spans of an `AGED` batch; ages follow if `DATED`


class BatchRecord(Struct, frozen=True):
    """The last record of each transaction: the offsets it judged, and their numbers."""

    mark: BatchMark
    """It has one span for every input partition of the task, even if empty. If the index forgets,
    its stream time is `highest_timestamp`. Otherwise it has no stream time and no horizon."""
    highest_timestamp: int  # of all records so far, clamped when it was recorded; -1: none
    writer: bytes = b""  # `writer_of` index and group. Empty: an old version did not store it

    @property
    def positions(self) -> Positions:
        """Return the next offset of every input partition after this batch.

        The position of a seed is in the header's table (`index.input_table.Seed`).
        """
        ends = {span.partition: span.end for span in self.mark.spans}
        return {number: end for number, end in ends.items() if number < SEEDS_FROM}

    @property
    def stored_mark(self) -> BatchMark:
        """Return the mark as the index stores it: without empty spans."""
        mark = self.mark
        spans = tuple(span for span in mark.spans if span.start < span.end)
        return replace(mark, spans=spans)

    def progress(self, offset: int, value: bytes) -> Progress:
        """Return an index's progress after this batch, whose record *value* is at *offset*."""
        return Progress(
            changelog_offset=offset,
            record_hash=record_hash(value),
            positions=self.positions,
            next_batch=self.mark.number + 1,
            next_ordinal=self.mark.next_ordinal,
            highest_timestamp=self.highest_timestamp,
            horizon=self.mark.horizon,
        )


def writer_of(index_id: str, group: str) -> bytes:
    """Return the writer's name in a group's batches: a hash of the index id and the group."""
    return hashlib.blake2b(f"{index_id} {group}".encode(), digest_size=WRITER_BYTES).digest()


def record_hash(value: bytes) -> bytes:
    """Return the hash by which the index recognises the last record it applied.

    Older versions compute another one for a batch that names its writer, and so refuse this index.
    """
    person = b"" if value[:1] == bytes([VERSION]) else b"named"
    return hashlib.blake2b(value, digest_size=16, person=person).digest()


def encode_changelog_documents(
    documents: Documents, stored: Sequence[bytes] | None = None
) -> list[bytes]:
    """Return a record for each document; *stored* are its bytes in the index, if known."""
    prefix, ordinals = DOCUMENT_PREFIX, documents.ordinals.tolist()
    bodies = encode_documents(documents) if stored is None else stored
    return [prefix + _ORDINAL.pack(n) + body for n, body in zip(ordinals, bodies, strict=True)]


def remembered_bytes(ids: Sequence[str], sketches: Sketches) -> list[int]:
    """Return an upper bound of the record size of each document, in bytes."""
    contents = sketches.contents
    widths = contents.widths
    sizes = FIXED_BYTES + widths.slots + 8 * widths.digests + 4 * contents.samples.sizes
    total = [size + 4 * len(id_) for size, id_ in zip(sizes.tolist(), ids, strict=True)]
    if contents.payloads:
        total = [size + len(more) for size, more in zip(total, contents.payloads, strict=True)]
    return total


def decode_changelog_documents(
    values: Sequence[bytes], widths: Widths
) -> tuple[Documents, list[bytes]]:
    """Return the documents that `encode_changelog_documents` wrote, and their bytes in the index.

    Raises `FormatError`: something else wrote one of the *values*.
    """
    size = _HEAD.itemsize
    if min(map(len, values), default=size) < size:
        raise FormatError("a document's changelog record is too short for its ordinal")
    heads = np.frombuffer(b"".join([value[:size] for value in values]), _HEAD)
    for strange in np.flatnonzero(heads["prefix"] != int.from_bytes(DOCUMENT_PREFIX, "little"))[
        :1
    ].tolist():
        body_of(values[strange], DOCUMENT)  # raises
    if (ordinals := heads["ordinal"]).max(initial=0) > ORDINAL_MAX:
        raise FormatError("a document's changelog record has an impossible ordinal")
    stored = [value[size:] for value in values]
    return decode_documents(ordinals.astype(np.int64), stored, widths), stored


def encode_forgotten(ordinals: I64) -> list[bytes]:
    """Return `FORGET` records that name the documents of the rising *ordinals*."""
    prefix = PREFIX.pack(VERSION, FORGET)
    starts = range(0, len(ordinals), FORGET_ORDINALS_MAX)
    return [
        prefix + ordinals[start : start + FORGET_ORDINALS_MAX].astype("<u8").tobytes()
        for start in starts
    ]


def decode_forgotten(value: bytes) -> I64:
    """Return the ordinals in a record of `encode_forgotten`, or raise `FormatError`."""
    body = body_of(value, FORGET)
    if not body or len(body) % _ORDINAL.size:
        raise FormatError("a changelog record of what is forgotten is truncated")
    ordinals = np.frombuffer(body, "<u8")
    if ordinals[-1] > ORDINAL_MAX or (ordinals[1:] <= ordinals[:-1]).any():
        raise FormatError("a changelog record forgets what cannot be")
    return ordinals.astype(np.int64)


def encode_batch(batch: BatchRecord) -> bytes:
    mark = batch.mark
    head = _BATCH.pack(
        mark.number, mark.first_ordinal, mark.next_ordinal, batch.highest_timestamp, len(mark.spans)
    )
    spans = b"".join(_SPAN.pack(each.partition, each.start, each.end) for each in mark.spans)
    aged = mark.stream_time >= 0
    version = NAMED if batch.writer else VERSION
    if aged:
        version = DATED if mark.ages else AGED
    tail = _HORIZON.pack(mark.horizon) + mark.ages if aged else b""
    return PREFIX.pack(version, BATCH) + batch.writer + head + spans + tail


def decode_batch(value: bytes) -> BatchRecord:
    """Return the batch in a record of `encode_batch`, or raise `FormatError`."""
    body = body_of(value, BATCH)
    named = 0 if value[0] == VERSION else WRITER_BYTES
    writer, body = body[:named], body[named:]
    aged, dated = value[0] in (AGED, DATED), value[0] == DATED
    if len(body) < _BATCH.size:
        raise FormatError("a batch's changelog record is truncated")
    number, first, after, highest, count = _BATCH.unpack_from(body)
    end = _BATCH.size + count * _SPAN.size
    behind = len(body) - end - aged * _HORIZON.size
    if behind < 0 or (behind > 0) != dated:
        raise FormatError("a batch's changelog record has not the length that it says")
    spans = tuple(Span(*fields) for fields in _SPAN.iter_unpack(body[_BATCH.size : end]))
    (horizon,) = _HORIZON.unpack_from(body, end) if aged else (0,)
    if number > NUMBER_MAX or after > NUMBER_MAX:
        raise FormatError("a batch's changelog record has impossible numbers")
    if first > after or any(not 0 <= span.start <= span.end for span in spans):
        raise FormatError("a batch's changelog record counts backwards")
    if len({span.partition for span in spans}) != len(spans):
        raise FormatError("a batch's changelog record names a partition twice")
    if horizon > after or (aged and highest < 0):
        raise FormatError("a batch's changelog record forgets what was not judged, or at no time")
    ages = body[len(body) - behind :]
    mark = BatchMark(number, first, after, spans, horizon, highest if aged else -1, ages)
    _check_ages(mark)
    return BatchRecord(mark, highest, writer)


def _check_ages(mark: BatchMark) -> None:
    """Refuse a batch whose documents could match none, or have a time above the batch's own."""
    if (ages := ages_of(mark)) is None:
        if mark.ages:
            raise FormatError("a batch's changelog record dates no documents")
    elif ages.horizons[-1] > mark.next_ordinal or ages.times[-1] > mark.stream_time:
        raise FormatError("a batch's changelog record dates its documents after its end")


class Update(Struct, frozen=True):
    """The changes of one transaction: as changelog records, and as the same write to the index."""

    batch: BatchRecord
    header: Header | None  # a header, if the transaction begins the changelog or a window
    additions: Additions | None
    removals: Removals | None
    values: Sequence[bytes]  # the records in a replay's order: the batch record, and the successor
    successors: int = 0  # how many records follow the batch record

    @classmethod
    def encoded(
        cls,
        batch: BatchRecord,
        header: Header | None = None,
        additions: Additions | None = None,
        removals: Removals | None = None,
        successor: Successor | None = None,
    ) -> Update:
        """Return the update of a *batch* with its *additions* (`format.recorded`) and removals.

        If a *successor* has the input, its record stays the changelog's last one.
        """
        begin = [encode_header(header)] if header else []
        added = additions and encode_changelog_documents(additions.documents, additions.records)
        forgotten = encode_forgotten(removals.ordinals) if removals else []
        last = [encode_successor(successor)] if successor else []
        values = [*begin, *(added or ()), *forgotten, encode_batch(batch), *last]
        return cls(batch, header, additions, removals, values, len(last))

    @property
    def places(self) -> list[tuple[int, int] | None]:
        """Return the (partition, offset) that each value was made from; None: the whole batch."""
        begin: list[tuple[int, int] | None] = [None] if self.header else []
        if self.additions is not None:
            documents = self.additions.documents
            begin += zip(documents.partitions.tolist(), documents.offsets.tolist(), strict=True)
        return begin + [None] * (len(self.values) - len(begin))

    def changes(self, offset: int) -> Changes:
        """Return the write of step 13, if the last value is at *offset*.

        The values have consecutive offsets: with a foreign record in between, `WriterCheck`
        would not let the transaction commit.
        """
        opens = self.header.window if self.header else None
        if opens is not None:
            opens = replace(opens, offset=offset - len(self.values) + 1)
        more = self.successors
        progress = self.batch.progress(offset - more, self.values[-1 - more])
        return Changes(progress, self.additions, (self.batch.stored_mark,), self.removals, opens)
