"""The two messages between edges and the judge: sketch ranges and verdict ranges, as bytes.

A range covers the input offsets of one partition from its start up to its end. It lists the offsets
that hold a record, because markers and aborted records take offsets, too.

- A **sketch range** holds what the judge needs of these records: ids, timestamps and sketches, and
  what is not a document. If start = end it is an *inquiry*: what came before was signed.
- A **verdict range** holds an outcome for each record, with the evidence. If start = end it is a
  *resume*: "sign again from here". It names the offset of the sketch range that caused it.

Both begin with a letter and the version of the format, and name the index by `writer_of`. The body
is MessagePack, so no message can make code run. Anything else is refused with a reason. Neither
message holds text.

Example: partition 3 has records at 10 and 12 and a marker at 11. The sketch range says 10 to 13,
offsets 10 and 12. The verdict range says the same, and an outcome for each of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from streamfilter.cluster.column_checks import check_columns
from streamfilter.index.format import ID_BYTES_MAX
from streamfilter.matching.verdict.decision import UNIQUE
from streamfilter.model import (
    SEEDS_FROM,
    Decision,
    ErrorCode,
    Malformed,
    Match,
    Reason,
    Source,
    Unjudged,
    Verdict,
)
from streamfilter.similarity.columns import I64, Widths
from streamfilter.similarity.sketch import Sketches
from streamfilter.workers.frames import as_text, as_value

VERSION = 1
SKETCHES, VERDICTS = b"S", b"V"
RANGE_BYTES = 900_000  # most bytes of a message that we write, unless it holds one record only
RANGE_BYTES_MIN = 16_384  # a topic must take the verdict of one record, with all its evidence
OFFSET_MAX = (1 << 62) - 1
RECORDS_MAX = 10_000  # of one range: a batch has no more
NO_CAUSE = -1
ALONE = -2  # the cause of a judge's first resume if one process has forwarded what lies before it
MARK_BYTES = 16

T = TypeVar("T")
Outcome = Decision | Unjudged | Malformed
Locate = Callable[[int, int], Source]
Fault = Literal["undecodable", "other_version", "other_index"]


class BadRange(ValueError):
    """A message that is not used; `fault` is the reason as metrics name it."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault: Fault = fault


class SketchRange(Struct, frozen=True):
    """Records of one input partition that an edge has sketched: its message to the judge."""

    mark: bytes  # `writer_of` the index and the group
    partition: int
    start: int
    end: int
    offsets: I64  # (n,) the records' offsets, rising
    timestamps: I64  # (n,) as in `Record`
    ids: Sequence[str] = ()  # of the documents
    others: Mapping[int, Unjudged | Malformed] = field(default_factory=dict)
    sketches: Sketches | None = None  # of the documents, without keys; None: there are none
    retracted: Sequence[int] = ()
    """Offset of a record that an output refused after its verdict: the judge forgets it.

    There is one at most, because each costs the judge a look through its batch.
    """

    @property
    def inquires(self) -> bool:
        """Return whether it covers nothing, and only says how far the edge has signed."""
        return self.start == self.end

    def part(self, begin: int, end: int) -> SketchRange:
        """Return the rows from *begin* up to *end*; the parts of a range have no gap between."""
        rows = range(len(self.offsets))[begin:end]
        if len(rows) == len(self.offsets):
            return self
        documents = [row for row in range(len(self.offsets)) if row not in self.others]
        kept = [place for place, row in enumerate(documents) if begin <= row < end]
        sketches = self.sketches
        if sketches is not None:
            sketches = sketches.at(np.array(kept, np.int64)) if kept else None
        return replace(
            self,
            start=self.start if begin == 0 else int(self.offsets[begin]),
            end=self.end if end >= len(self.offsets) else int(self.offsets[end]),
            offsets=self.offsets[begin:end],
            timestamps=self.timestamps[begin:end],
            ids=[self.ids[place] for place in kept],
            others={row - begin: self.others[row] for row in rows if row in self.others},
            sketches=sketches,
            retracted=self.retracted if begin == 0 else (),
        )


class VerdictRange(Struct, frozen=True):
    """Outcomes of records of one input partition: the judge's message to the edge."""

    mark: bytes
    start: int
    end: int
    offsets: I64
    outcomes: Sequence[Outcome] = ()  # one for each record
    ids: Mapping[int, str] = field(default_factory=dict)  # by row, where the evidence shows it
    cause: int = NO_CAUSE  # of a resume: the offset of the sketch range not used, or `ALONE`

    @property
    def resumes(self) -> bool:
        """Return whether it covers nothing, and only says from where to sign again."""
        return self.start == self.end

    def part(self, begin: int, end: int) -> VerdictRange:
        """Return the rows from *begin* up to *end*; the parts of a range have no gap between."""
        return replace(
            self,
            start=self.start if begin == 0 else int(self.offsets[begin]),
            end=self.end if end >= len(self.offsets) else int(self.offsets[end]),
            offsets=self.offsets[begin:end],
            outcomes=self.outcomes[begin:end],
            ids={row - begin: id_ for row, id_ in self.ids.items() if begin <= row < end},
        )


R = TypeVar("R", SketchRange, VerdictRange)
_ROOM = 1.1  # parts of equal rows differ in bytes


def in_messages(whole: R, encode: Callable[[R], bytes], limit: int) -> list[tuple[R, bytes]]:
    """Return *whole* in parts, each with its message of at most *limit* bytes if it can be cut."""
    message, rows = encode(whole), len(whole.offsets)
    if len(message) <= limit or rows < 2:
        return [(whole, message)]
    count = min(rows, max(2, ceil(_ROOM * len(message) / limit)))
    ends = [rows * number // count for number in range(count + 1)]
    parts: list[R] = [whole.part(begin, end) for begin, end in pairwise(ends)]
    return [each for part in parts for each in in_messages(part, encode, limit)]


# The bytes.

_Texts = tuple[bytes, ...]
_Other = tuple[int, str, str, bytes, _Texts | None, tuple[bytes | None, ...]]
"""Row; verdict, reason, b"", forgets, scope; or row; code, stage, message."""
_SketchBody = tuple[
    bytes, int, int, int, bytes, bytes, _Texts, tuple[_Other, ...], bytes, _Texts, tuple[int, ...]
]
_Place = int | tuple[int, bytes]  # the number of a source; of a seed also the name
_Found = tuple[bytes, int | float, int, _Place, int, int, int | float | None]
_Detail = tuple[str, str, bytes, bool, int | float, str | None, tuple[_Found, ...]]
_VerdictBody = tuple[bytes, int, int, bytes, bytes, tuple[_Detail, ...], int]
_SKETCHES, _VERDICTS = msgspec.msgpack.Decoder(_SketchBody), msgspec.msgpack.Decoder(_VerdictBody)
_ENCODER = msgspec.msgpack.Encoder(enc_hook=lambda number: number.item())  # of numpy
_CODES = frozenset(each.value for each in ErrorCode)
_PLAIN, _DETAILED = 0, 1
_UNJUDGED, _MALFORMED = "unjudged", "malformed"


def encode_sketches(one: SketchRange) -> bytes:
    """Return *one* as a message."""
    sketched = b""
    payloads: list[bytes] = []
    if one.sketches is not None:
        contents = one.sketches.contents
        payloads = [*contents.payloads]
        keyless = np.zeros((len(one.sketches), 0), np.uint64)
        bare = Sketches(replace(contents, payloads=()), keyless, one.sketches.dropped)
        sketched = bare.to_bytes()
    others = [_other(row, each) for row, each in one.others.items()]
    return _message(
        SKETCHES,
        (
            one.mark, one.partition, one.start, one.end, _packed(one.offsets, one.start),
            one.timestamps.astype("<i8").tobytes(), [*map(as_value, one.ids)], others, sketched,
            payloads, [*one.retracted],
        ),
    )  # fmt: skip


def decode_sketches(data: bytes, mark: bytes, widths: Widths, *, fields: bool) -> SketchRange:
    """Return the sketch range in *data*, or raise `BadRange`.

    It must be of the index with this *mark*, and its columns must have these *widths*; *fields*
    says whether the index compares records.
    """
    body = _body(SKETCHES, data)
    try:
        found = _SKETCHES.decode(body)
        _check_mark(found[0], mark)
        one = _sketch_range(found)
        _check(one, widths, fields=fields)
    except BadRange:
        raise
    except ValueError as error:
        raise BadRange("undecodable", f"a sketch range cannot be read: {error}") from None
    return one


def encode_verdicts(one: VerdictRange) -> bytes:
    """Return *one* as a message: one byte a record, and the details of all but plain uniques."""
    ids, codes = one.ids, bytearray(len(one.outcomes))  # all `_PLAIN`
    rows = [row for row, each in enumerate(one.outcomes) if each is not UNIQUE or row in ids]
    for row in rows:
        codes[row] = _DETAILED
    details = [_detail(one.outcomes[row], ids.get(row, "")) for row in rows]
    offsets = _packed(one.offsets, one.start)
    fields = one.mark, one.start, one.end, offsets, bytes(codes), details, one.cause
    return _message(VERDICTS, fields)


def decode_verdicts(data: bytes, mark: bytes, locate: Locate) -> VerdictRange:
    """Return the verdict range in *data*, or raise `BadRange`; *locate* names a match's source."""
    body = _body(VERDICTS, data)
    try:
        theirs, start, end, packed, codes, details, cause = _VERDICTS.decode(body)
        _check_mark(theirs, mark)
        offsets = _unpacked(packed, start, end, len(codes))
        if codes.count(_DETAILED) != len(details) or len(codes.strip(b"\0\1")):
            raise ValueError("its outcomes do not fit their number")
        outcomes: list[Outcome] = []
        ids: dict[int, str] = {}
        waiting = iter(details)
        for row, code in enumerate(codes):
            if code == _PLAIN:
                outcomes.append(UNIQUE)  # the one that `matching` makes: it is found by identity
            else:
                detail = next(waiting)
                outcomes.append(_outcome(detail, locate))
                if detail[0] not in (_UNJUDGED, _MALFORMED):
                    ids[row] = as_text(detail[2])
    except BadRange:
        raise
    except ValueError as error:
        raise BadRange("undecodable", f"a verdict range cannot be read: {error}") from None
    return VerdictRange(theirs, start, end, offsets, outcomes, ids, cause)


def _message(letter: bytes, fields: tuple[Any, ...]) -> bytes:
    return letter + bytes([VERSION]) + _ENCODER.encode(fields)


def _body(letter: bytes, data: bytes) -> bytes:
    if data[:1] != letter or len(data) < 2:
        raise BadRange("undecodable", f"a message does not begin with {letter.decode()}")
    if data[1] != VERSION:
        raise BadRange("other_version", f"version {data[1]}; this streamfilter reads {VERSION}")
    return data[2:]


def _check_mark(theirs: bytes, ours: bytes) -> None:
    if theirs != ours:
        raise BadRange("other_index", f"it is of the index {theirs.hex()}, not of {ours.hex()}")


def _packed(offsets: I64, start: int) -> bytes:
    """Return *offsets* as bytes; none if they follow each other from *start* on."""
    dense = np.arange(start, start + len(offsets))
    return b"" if np.array_equal(offsets, dense) else offsets.astype("<i8").tobytes()


def _unpacked(packed: bytes, start: int, end: int, count: int) -> I64:
    if not 0 <= start <= end <= OFFSET_MAX:
        raise ValueError(f"it begins at {start} and ends at {end}")
    offsets = np.arange(start, start + count)
    if packed:
        offsets = np.frombuffer(packed, "<i8").astype(np.int64)
    if len(offsets) != count or (offsets[1:] <= offsets[:-1]).any():
        raise ValueError("its offsets do not rise")
    if count and not start <= offsets[0] <= offsets[-1] < end:
        raise ValueError(f"its offsets lie outside of {start} to {end}")
    return offsets


def _sketch_range(found: _SketchBody) -> SketchRange:
    mark, partition, start, end, packed, stamps, ids, others, sketched, payloads, retracted = found
    if len(mark) != MARK_BYTES or partition < 0:
        raise ValueError("it names no index, or no partition")
    timestamps = np.frombuffer(stamps, "<i8").astype(np.int64)
    offsets = _unpacked(packed, start, end, len(timestamps))
    readings = dict(map(_reading, others))
    documents = len(offsets) - len(readings)
    rows = range(len(offsets))
    if len(offsets) > RECORDS_MAX:
        raise ValueError(f"it has {len(offsets)} records")
    if len(readings) != len(others) or not all(row in rows for row in readings):
        raise ValueError("its records do not fit their number")
    if len(ids) != documents or any(len(each) > ID_BYTES_MAX for each in ids):
        raise ValueError("its ids do not fit its documents")
    if len(retracted) > 1 or any(not 0 <= each <= OFFSET_MAX for each in retracted):
        raise ValueError("it retracts what cannot be")
    sketches = None
    if documents:
        sketches = Sketches.from_bytes(sketched)
        if len(sketches) != documents or len(payloads) not in (0, documents):
            raise ValueError("its sketches do not fit its documents")
        contents = replace(sketches.contents, payloads=[*payloads])
        sketches = replace(sketches, contents=contents)
    names = [*map(as_text, ids)]
    return SketchRange(
        mark, partition, start, end, offsets, timestamps, names, readings, sketches, retracted
    )


def _check(one: SketchRange, widths: Widths, *, fields: bool) -> None:
    """Raise `ValueError` unless *one* fits a scheme with these *widths*."""
    scopes = [each.scope for each in one.others.values() if isinstance(each, Unjudged)]
    if any(len(scope) > widths.scoped for scope in scopes):
        raise ValueError("its records to forget have scopes of another scheme")
    if one.sketches is not None:
        check_columns(one.sketches.contents, widths, fields=fields)


def _other(row: int, each: Unjudged | Malformed) -> _Other:
    if isinstance(each, Malformed):
        return row, each.code.value, each.stage, as_value(each.message), None, ()
    forgets = None if each.forgets is None else tuple(map(as_value, each.forgets))
    scope = tuple(None if part is None else as_value(part) for part in each.scope)
    return row, each.verdict.value, each.reason.value, b"", forgets, scope


def _reading(one: _Other) -> tuple[int, Unjudged | Malformed]:
    row, what, why, message, forgets, scope = one
    if what in _CODES:
        return row, Malformed(ErrorCode(what), as_text(message), why)
    ids = None if forgets is None else tuple(map(as_text, forgets))
    parts = tuple(None if part is None else as_text(part) for part in scope)
    return row, Unjudged(Verdict(what), Reason(why), ids, parts)


def _detail(outcome: Outcome, id_: str) -> Any:
    if isinstance(outcome, Malformed):
        message = as_value(outcome.message)
        return _MALFORMED, outcome.code.value, message, False, 0, outcome.stage, ()
    if isinstance(outcome, Unjudged):
        return _UNJUDGED, outcome.verdict.value, b"", False, 0, outcome.reason.value, ()
    found = [
        (as_value(each.document_id), each.similarity, each.bands, _place(each.source),
         each.source.offset, each.ordinal, each.containment)
        for each in outcome.matches
    ]  # fmt: skip
    reason = None if outcome.reason is None else outcome.reason.value
    return (
        outcome.verdict.value, outcome.method, as_value(id_), outcome.matches_truncated,
        outcome.p_false_positive, reason, found,
    )  # fmt: skip


def _place(source: Source) -> _Place:
    """Return the number of *source*; for a seed with its name, because an edge has no table."""
    number = source.number
    return number if number < SEEDS_FROM else (number, as_value(source.topic))


def _located(place: _Place, offset: int, locate: Locate) -> Source:
    if isinstance(place, int):
        return locate(place, offset)
    return Source(as_text(place[1]), place[0], offset)


def _outcome(detail: _Detail, locate: Locate) -> Outcome:
    what, method, text, truncated, wrong, reason, found = detail
    if what == _MALFORMED:
        return Malformed(ErrorCode(method), as_text(text), reason or "")
    if what == _UNJUDGED:
        return Unjudged(Verdict(method), Reason(reason or ""))
    matches = tuple(
        Match(as_text(id_), alike, bands, _located(place, offset, locate), ordinal, contained)
        for id_, alike, bands, place, offset, ordinal, contained in found
    )
    why = None if reason is None else Reason(reason)
    return Decision(Verdict(what), matches, method, truncated, wrong, why)
