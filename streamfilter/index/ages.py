"""Ages: when each document of a batch came, and which earlier documents it could see.

An index that forgets needs both later. To forget, a later batch needs the times of its documents.
A document that is read again must see the same documents as the first time. The changelog's batch
record and the index's mark hold the same bytes, so both are exact to the document:

    for each span of the mark that holds an offset: how many documents it has
    their offsets, their horizons and their times, one column after the other

Each number is the difference to the one before, as a variable-length integer (LEB128). An offset
begins anew in each span, at the span's start. Horizons and times never fall. Three documents at the
offsets 10, 11 and 14 of the span (10, 20), with the horizons 5, 5, 6 and the times 900, 950, 950:

    counts 3 | offsets 0 1 3 | horizons 5 0 1 | times 900 50 0
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from streamfilter.index.errors import FormatError
from streamfilter.model import BatchMark, Span
from streamfilter.similarity.columns import I64, U8, distinct, starts_of

_GROUP_BITS = 7
_MORE = np.uint8(0x80)  # set in each byte of a number but its last
_GROUPS_MAX = 9  # seven bits each: whatever a signed column holds that is not negative


class Ages(Struct, frozen=True):
    """The documents of a batch in the order of judgement; each column is (n,)."""

    partitions: I64
    offsets: I64
    horizons: I64
    """Ordinals below it were forgotten, or too old to be a match (`verify.within`), when the
    document was judged. Never falls."""
    times: I64  # the stream time when the document came. Never falls

    def horizons_at(self, partitions: I64, offsets: I64) -> I64:
        """Return the horizon at each place: that of the last document there or before it.

        A record that was no document may be one now. Before all documents it is the first one's.
        """
        rows = np.empty(len(offsets), np.int64)
        for partition in distinct(partitions).tolist():
            asked = np.flatnonzero(partitions == partition)
            begin, end = np.searchsorted(self.partitions, (partition, partition + 1))
            found = np.searchsorted(self.offsets[begin:end], offsets[asked], "right")
            rows[asked] = begin + found - 1
        return np.asarray(self.horizons[rows.clip(min=0)])

    def encoded(self, spans: Sequence[Span]) -> bytes:
        """Return the bytes for a mark with these *spans*, which rise by partition."""
        spans = _holding(spans)
        numbers = [span.partition for span in spans]
        counts = np.searchsorted(self.partitions, numbers, "right")
        counts = np.diff(counts, prepend=0)
        firsts = np.repeat([span.start for span in spans], counts)
        offsets = self.offsets - firsts
        offsets[1:] -= np.where(np.diff(self.partitions) == 0, offsets[:-1], 0)
        columns = (counts, offsets, *(np.diff(c, prepend=0) for c in (self.horizons, self.times)))
        return _packed(np.concatenate(columns).astype(np.uint64))


def ages_of(mark: BatchMark) -> Ages | None:
    """Return the documents' ages of *mark*, or raise `FormatError`; None: it has none of each."""
    n, spans = mark.next_ordinal - mark.first_ordinal, _holding(mark.spans)
    if not mark.ages or not n:
        return None
    numbers = _unpacked(np.frombuffer(mark.ages, np.uint8))
    counts, columns = numbers[: len(spans)], numbers[len(spans) :]
    if len(columns) != 3 * n or counts.max(initial=0) > n or counts.sum() != n:
        raise FormatError("a batch has other documents than its ages")
    offsets, horizons, times = columns.reshape(3, n)
    begins = starts_of(counts)
    totals = np.append(0, np.cumsum(offsets))
    firsts = np.array([span.start for span in spans], np.int64) - totals[begins[:-1]]
    partitions = np.repeat([span.partition for span in spans], counts)
    offsets = totals[1:] + np.repeat(firsts, counts)
    ages = Ages(partitions, offsets, np.cumsum(horizons), np.cumsum(times))
    if any((np.diff(column, prepend=0) < 0).any() for column in (ages.horizons, ages.times)):
        raise FormatError("the ages of a batch are no numbers")  # their sum left 63 bits
    return ages


def first_met(mark: BatchMark) -> int:
    """Return the first ordinal that the first document of *mark* could see."""
    return mark.horizon if (ages := ages_of(mark)) is None else int(ages.horizons[0])


def _holding(spans: Sequence[Span]) -> list[Span]:
    """Return those of *spans* that hold an offset, by partition: an index keeps no others."""
    return sorted((span for span in spans if span.start < span.end), key=lambda s: s.partition)


def _packed(numbers: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> bytes:
    shifts = np.arange(_GROUPS_MAX, dtype=np.uint64) * np.uint64(_GROUP_BITS)
    groups = numbers[:, None] >> shifts
    used = groups > 0
    used[:, 0] = True
    last = used.sum(axis=1) - 1
    content = (groups & np.uint64(_MORE - 1)).astype(np.uint8)
    content[np.arange(_GROUPS_MAX) < last[:, None]] |= _MORE
    return content[used].tobytes()


def _unpacked(data: U8) -> I64:
    ends = np.flatnonzero(data < _MORE)
    sizes = np.diff(ends, prepend=-1)
    if not len(ends) or ends[-1] != len(data) - 1 or sizes.max() > _GROUPS_MAX:
        raise FormatError("the ages of a batch are truncated")
    begins = ends - sizes + 1
    places = np.arange(len(data)) - np.repeat(begins, sizes)
    parts = (data & (_MORE - 1)).astype(np.int64) << (places * _GROUP_BITS)
    return np.add.reduceat(parts, begins)
