"""What we wrote ourselves, and a disk or a topic gives back: refused by name, or read exactly."""

from contextlib import suppress

import numpy as np

from streamfilter.engine.messages.changelog import (
    FORGET_ORDINALS_MAX,
    WRITER_BYTES,
    BatchRecord,
    decode_batch,
    decode_changelog_documents,
    decode_forgotten,
    encode_batch,
    encode_changelog_documents,
    encode_forgotten,
)
from streamfilter.engine.messages.changelog_header import (
    BATCH,
    DOCUMENT,
    FORGET,
    HEADER,
    Header,
    decode_header,
    encode_header,
    kind_of,
)
from streamfilter.index.ages import Ages, ages_of
from streamfilter.index.directory.identity import decode_identity
from streamfilter.index.errors import FormatError, IndexMismatch
from streamfilter.index.format import (
    ORDINAL_MAX,
    Lists,
    decode_buckets,
    decode_documents,
    encode_buckets,
    encode_documents,
)
from streamfilter.index.journal import (
    StoredProgress,
    decode_mark,
    decode_span,
    decode_standing,
    encode_mark,
    encode_standing,
    span_entries,
)
from streamfilter.index.progress import Progress
from streamfilter.kafka.ports.membership import MAGIC, parse_member
from streamfilter.model import BatchMark, Span, Window
from streamfilter.similarity.columns import Widths
from tests.fuzz.pieces import Target, cut, joined
from tests.index import samples
from tests.support.values import replace

SLOTS = samples.SLOTS


def read_documents(data: bytes) -> None:
    values = cut(data, 4)
    try:
        found = decode_documents(np.arange(len(values)), values, Widths(SLOTS))
    except FormatError:
        return
    assert encode_documents(found) == values


def read_buckets(data: bytes) -> None:
    values = [each or None for each in cut(data, 6)]
    try:
        lists = decode_buckets(values)
    except FormatError:
        return
    stored = lists.counts > 0
    written = encode_buckets(Lists(lists.counts[stored], lists.ordinals, lists.overflows[stored]))
    assert written == [each for each in values if each]


def read_identity(data: bytes) -> None:
    try:
        identity = decode_identity(data)
    except (FormatError, IndexMismatch):
        return
    assert decode_identity(identity.encode()) == identity
    assert identity.seed.hex() not in repr(identity)


def read_journal(data: bytes) -> None:
    first, second, third, fourth = [*cut(data, 4), b"", b"", b""][:4]
    try:
        standing = decode_standing(first)
        assert decode_standing(encode_standing(standing)) == standing
    except FormatError:
        pass
    try:
        mark = decode_mark(7, second)
        assert encode_mark(mark) == second
        with suppress(FormatError):
            ages_of(mark)
        assert [decode_span(*entry) for entry in span_entries(mark)] == [
            (span, 7) for span in mark.spans if span.start < span.end
        ]
    except FormatError:
        pass
    with suppress(FormatError):
        decode_span(third, fourth)


def read_changelog(data: bytes) -> None:
    values = cut(data, 3)
    try:
        kinds = {kind_of(value) for value in values}
    except FormatError:
        kinds = {HEADER, DOCUMENT, BATCH, FORGET}
    if kinds & {HEADER}:
        _header(values[0])
    if kinds & {DOCUMENT}:
        _documents(values)
    if kinds & {BATCH}:
        _batch(values[0])
    if kinds & {FORGET}:
        _forgotten(values[0])


def _header(value: bytes) -> None:
    try:
        header = decode_header(value)
    except FormatError:
        return
    assert header.identity == value[2:]
    read_identity(header.identity)


def _forgotten(value: bytes) -> None:
    try:
        found = decode_forgotten(value)
    except FormatError:
        return
    assert encode_forgotten(found)[0] == value[: 2 + 8 * FORGET_ORDINALS_MAX]


def _documents(values: list[bytes]) -> None:
    try:
        found, stored = decode_changelog_documents(values, Widths(SLOTS))
    except FormatError:
        return
    assert len(stored) == len(values)
    assert found.ordinals.min() >= 0
    assert found.ordinals.max() <= ORDINAL_MAX
    assert encode_changelog_documents(found) == values


def _batch(value: bytes) -> None:
    try:
        batch = decode_batch(value)
    except FormatError:
        return
    assert encode_batch(batch) == value
    mark = batch.stored_mark
    np.array([mark.number, mark.first_ordinal, mark.next_ordinal], np.int64)  # what judging needs
    span_entries(mark)
    progress = batch.progress(0, b"h")
    assert decode_standing(encode_standing(StoredProgress(progress, 1))).progress == progress


def read_member(data: bytes) -> None:
    try:
        member = parse_member(data)
    except ValueError:
        return
    assert b"\0" not in member.member_id.encode()


SAMPLE = samples.documents([3, 4, 5, 6], unsigned=[4])
MARK = BatchMark(7, 10, 14, (Span(0, 5, 9), Span(1, 0, 3)))
AGED_MARK = replace(MARK, horizon=9, stream_time=1_700)
DATED_MARK = replace(
    AGED_MARK,
    ages=Ages(
        *np.array([[0, 0, 0, 1], [5, 6, 8, 2], [6, 6, 8, 9], [900, 1_000, 1_000, 1_700]])
    ).encoded(MARK.spans),
)
STANDING = StoredProgress(Progress(12, b"h" * 16, {0: 9, 1: 3}, 8, 14, 1_700), 9)
BUCKETS = encode_buckets(
    Lists(np.array([2, 1, 1]), np.array([1, 9, 4, 2**40 - 1]), np.array([3, 0, 0]))
)
((SPAN_KEY, SPAN_VALUE), *_) = span_entries(MARK)
IDENTITY = samples.identity().encode()

TARGETS = {
    "index": Target(read_documents, (joined(*encode_documents(SAMPLE)),)),
    "buckets": Target(read_buckets, (joined(*BUCKETS, b""), joined(b"", *BUCKETS))),
    "identity": Target(
        read_identity,
        (IDENTITY, samples.identity(external_seed=True).encode()),
        (b'"seed":', b'"format":2', b'"slots":', b"null", b"1e999", b'"scheme":{"slots":8}'),
    ),
    "journal": Target(
        read_journal,
        (
            joined(encode_standing(STANDING), encode_mark(MARK), SPAN_KEY, SPAN_VALUE),
            joined(encode_standing(STANDING), encode_mark(DATED_MARK), SPAN_KEY, SPAN_VALUE),
        ),
    ),
    "changelog": Target(
        read_changelog,
        (
            encode_header(Header(IDENTITY, "group", 8)),
            encode_header(Header(IDENTITY, "group", 8, Window(2, 30, 7))),
            joined(*encode_changelog_documents(samples.documents([1, 2, 3]))),
            *encode_forgotten(np.array([3, 8])),
            encode_batch(BatchRecord(MARK, 1_700)),
            encode_batch(BatchRecord(MARK, 1_700, b"w" * WRITER_BYTES)),
            encode_batch(BatchRecord(AGED_MARK, 1_700, b"w" * WRITER_BYTES)),
            encode_batch(BatchRecord(DATED_MARK, 1_700, b"w" * WRITER_BYTES)),
        ),
    ),
    "member": Target(read_member, (MAGIC + b"\x05\0\0\0group\0member\0tail",), (MAGIC,)),
}
