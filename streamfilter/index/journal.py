"""The bytes of an index's progress, and of the mark of every judged batch.

A mark is stored twice: whole, under its number, and for each span, under (partition, start). So
"which batch judged this offset?" is one step back from a seek. Numbers are big-endian in keys, so
that bytes sort like numbers, and little-endian in values.
"""

import struct
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from msgspec import Struct, field
from msgspec.structs import astuple

from streamfilter.index.errors import FormatError
from streamfilter.index.progress import Progress
from streamfilter.model import EVER, BatchMark, Span, Window
from streamfilter.similarity.columns import I64

STANDING = b"standing"  # key of the progress among the facts about an index

_SPAN_KEY = struct.Struct(">Iq")
_SPAN_VALUE = struct.Struct("<qQ")
_MARK = struct.Struct("<QQI")
_SPAN = struct.Struct("<Iqq")
_PROGRESS = struct.Struct("<qQQqQB?I")
_POSITION = struct.Struct("<Iq")
_RECALL = struct.Struct("<Qq")  # behind a mark's spans: horizon and stream time; then the ages
_REACH = struct.Struct("<QI")  # behind the positions, if it forgets: horizon, number of windows
_WINDOW = struct.Struct("<QQQQ")
_HELD = struct.Struct("<Q")  # behind the windows: the documents of each; not in first versions


def fact_key(name: str) -> bytes:
    """Return the key of a fact that `RocksIndex.remember` stores."""
    return b"fact:" + name.encode()


class StoredProgress(Struct, frozen=True):
    """Progress, and numbers that are cheaper to store than to count."""

    progress: Progress = field(default_factory=Progress)
    documents: int = 0  # that are remembered
    windows: tuple[Window, ...] = (EVER,)
    held: tuple[int, ...] = (0,)
    """How many documents each window holds, with those before the horizon: if it jumps over
    windows, they need no count. Empty: it was not stored."""


def _packed(layout: struct.Struct, *values: int) -> bytes:
    """Return *values* packed; a number that does not fit is reported as a `FormatError`."""
    try:
        return layout.pack(*values)
    except struct.error as error:
        raise FormatError(f"{values} cannot be stored: {error}") from error


def encode_standing(standing: StoredProgress) -> bytes:
    """Return the bytes of *standing*: positions in rising order of their partition."""
    progress = standing.progress
    positions = sorted((progress.positions or {}).items())
    head = _packed(
        _PROGRESS,
        progress.changelog_offset,
        progress.next_batch,
        progress.next_ordinal,
        progress.highest_timestamp,
        standing.documents,
        len(progress.record_hash),
        progress.positions is not None,
        len(positions),
    )
    tail = b"".join(_packed(_POSITION, *position) for position in positions)
    if progress.horizon or standing.windows != (EVER,):
        tail += _packed(_REACH, progress.horizon, len(standing.windows))
        tail += b"".join(_packed(_WINDOW, *astuple(window)) for window in standing.windows)
        tail += b"".join(_packed(_HELD, held) for held in standing.held)
    return head + progress.record_hash + tail


def decode_standing(data: bytes) -> StoredProgress:
    """Return the progress that `encode_standing` wrote, or raise `FormatError`."""
    try:
        offset, batch, ordinal, timestamp, documents, hash_size, known, count = (
            _PROGRESS.unpack_from(data)
        )
        start = _PROGRESS.size + hash_size
        end = start + count * _POSITION.size
        positions = dict(_POSITION.iter_unpack(data[start:end]))
        horizon, windows, held = _decoded_reach(data[end:], documents)
    except struct.error as error:
        raise FormatError(f"stored progress cannot be read: {error}") from error
    if len(positions) != count or (count and not known):
        raise FormatError("stored progress has another number of positions than it says")
    progress = Progress(
        changelog_offset=offset,
        record_hash=data[_PROGRESS.size : start],
        positions=positions if known else None,
        next_batch=batch,
        next_ordinal=ordinal,
        highest_timestamp=timestamp,
        horizon=horizon,
    )
    return StoredProgress(progress, documents, windows, held)


def _decoded_reach(data: bytes, documents: int) -> tuple[int, tuple[Window, ...], tuple[int, ...]]:
    """Return the horizon, the windows and their documents; by default one window of *documents*."""
    if not data:
        return 0, (EVER,), (documents,)
    horizon, count = _REACH.unpack_from(data)
    end = _REACH.size + count * _WINDOW.size
    windows = tuple(Window(*fields) for fields in _WINDOW.iter_unpack(data[_REACH.size : end]))
    held = tuple(number for (number,) in _HELD.iter_unpack(data[end:]))
    rising = all(
        one.number < other.number
        and one.first_ordinal <= other.first_ordinal
        and one.first_batch <= other.first_batch
        for one, other in pairwise(windows)
    )
    if len(windows) != count or not count or not rising or len(held) not in (0, count):
        raise FormatError("stored progress contradicts itself about its windows")
    return horizon, windows, held


def encode_mark(mark: BatchMark) -> bytes:
    """Return the bytes of *mark* without its number, which is its key."""
    head = _packed(_MARK, mark.first_ordinal, mark.next_ordinal, len(mark.spans))
    spans = b"".join(_packed(_SPAN, s.partition, s.start, s.end) for s in mark.spans)
    extended = mark.horizon > 0 or mark.stream_time >= 0 or mark.ages
    tail = _packed(_RECALL, mark.horizon, mark.stream_time) + mark.ages if extended else b""
    return head + spans + tail


def decode_mark(number: int, data: bytes) -> BatchMark:
    """Return the mark stored under *number*, or raise `FormatError`."""
    try:
        first, following, count = _MARK.unpack_from(data)
        end = _MARK.size + count * _SPAN.size
        spans = tuple(Span(*fields) for fields in _SPAN.iter_unpack(data[_MARK.size : end]))
        horizon, time = _RECALL.unpack_from(data, end) if data[end:] else (0, -1)
    except struct.error as error:
        raise FormatError(f"a batch's mark cannot be read: {error}") from error
    if len(spans) != count or first > following:
        raise FormatError("a batch's mark contradicts itself")
    return BatchMark(number, first, following, spans, horizon, time, data[end + _RECALL.size :])


def span_entries(mark: BatchMark) -> list[tuple[bytes, bytes]]:
    """Return the entries that lead from an offset to *mark*; empty spans are not stored.

    An empty span has the same start as the next batch's span, and would replace it when a restore
    applies the earlier batch again.
    """
    return [
        (
            _packed(_SPAN_KEY, span.partition, span.start),
            _packed(_SPAN_VALUE, span.end, mark.number),
        )
        for span in mark.spans
        if span.start < span.end
    ]


def numbers_covering(
    at_or_before: Callable[[bytes], tuple[bytes, bytes] | None], partitions: I64, offsets: I64
) -> list[int | None]:
    """Return for each (partition, offset) the number of the batch whose span holds it, or None.

    *at_or_before* finds the stored span with the greatest key not greater than a key. Neighbouring
    places share a span and a look-up.
    """
    span, number = Span(-1, 0, 0), -1
    numbers: list[int | None] = [None] * len(offsets)
    places = list(zip(partitions.tolist(), offsets.tolist(), strict=True))
    for i in np.lexsort((offsets, partitions)).tolist():
        partition, offset = places[i]
        if not _covers(span, partition, offset):
            entry = at_or_before(_packed(_SPAN_KEY, partition, offset))
            if entry is None:
                continue
            span, number = decode_span(*entry)
        if _covers(span, partition, offset):
            numbers[i] = number
    return numbers


def _covers(span: Span, partition: int, offset: int) -> bool:
    return span.partition == partition and span.start <= offset < span.end


def decode_span(key: bytes, value: bytes) -> tuple[Span, int]:
    """Return a span and the number of its batch, or raise `FormatError`."""
    try:
        partition, start = _SPAN_KEY.unpack(key)
        end, number = _SPAN_VALUE.unpack(value)
    except struct.error as error:
        raise FormatError(f"a span of a batch cannot be read: {error}") from error
    return Span(partition, start, end), number
