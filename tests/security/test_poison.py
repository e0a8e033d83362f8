"""The poison that is too large for a table of strings: bounded work, a code, and the next record.

The short poison is in tests/documents/test_reading.py, its way over a real broker in
tests/kafka/test_records.py.
"""

import json

import pytest

from streamfilter.documents.fields.selecting import Limits
from streamfilter.documents.reader import Reader
from streamfilter.engine.batches.batch_preparation import Incoming
from streamfilter.engine.messages.forwarding import Destinations, Forwarder, Style
from streamfilter.engine.ports import Layout
from streamfilter.model import (
    Decision,
    Document,
    ErrorCode,
    Headers,
    Malformed,
    Record,
    Source,
    Verdict,
)
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from streamfilter.workers.preparing import Preparing, Read
from tests.support.cases import cases

LIMIT = 1_048_588
PLACES = Destinations("u", "d", "x", dict.fromkeys("udx", LIMIT))
FORWARDER = Forwarder(
    PLACES,
    Style(shadow=False, duplicates_mode="annotate", scheme="00000000", threshold=0.8),
    Layout(1, dict.fromkeys("udx", 1)),
)
READER = Reader(limits=Limits(document_bytes=2_000_000, text_characters=100_000, depth=64))
INCOMING = Incoming(READER, PLACES)
TEXT = b'{"id":"a","text":"some plain words"}'


def text_of(characters: str) -> bytes:
    return json.dumps({"id": "a", "text": characters}, ensure_ascii=False).encode()


def record(value: bytes | None, headers: Headers = (), trouble: str | None = None) -> Record:
    return Record(Source("in", 0, 7), b"k", value, headers, headers_error=trouble)


POISON: dict[str, tuple[Record, ErrorCode]] = {
    "depth 100,000": (record(b'{"id":1,"text":' + b"[" * 100_000), ErrorCode.TOO_DEEP),
    "ten megabytes": (record(text_of("x" * 10_000_000)), ErrorCode.TOO_LARGE),
    "a million ligatures": (record(text_of("\ufdfa" * 1_000_000)), ErrorCode.TOO_LARGE),
    "a text over its limit": (record(text_of("\ufdfa" * 100_001)), ErrorCode.TOO_LARGE),
    "a huge integer": (record(b'{"text":"a","id":' + b"9" * 1_000_000 + b"}"), ErrorCode.TOO_LARGE),
    "a header of a megabyte": (record(TEXT, (("h", b"x" * LIMIT),)), ErrorCode.TOO_LARGE),
    "30,000 headers": (record(TEXT, (("name", b"v" * 40),) * 30_000), ErrorCode.TOO_LARGE),
    "a header name that is no UTF-8": (record(TEXT, (), "not UTF-8"), ErrorCode.BAD_HEADER),
}


@cases("name", POISON)
def test_large_poison_is_a_dead_letter_that_says_where_it_came_from(name):
    poison, code = POISON[name]
    (reading,) = INCOMING.forwardable([poison], INCOMING.reader.read_all([poison]))
    assert isinstance(reading, Malformed)
    assert reading.code is code
    letter = FORWARDER.output(poison, reading)
    assert letter is not None
    told = dict(letter.headers)
    assert told["__streamfilter.error.code"] == code.value.encode()
    assert told["__streamfilter.error.offset"] == b"7"
    assert letter.value in (poison.value, None)
    size = sum(len(n) + len(v or b"") for n, v in letter.headers) + len(letter.value or b"")
    assert size <= LIMIT


def test_poison_of_every_kind_in_one_batch_leaves_its_neighbours_alone():
    records = [record(TEXT), *(each for each, _ in POISON.values()), record(TEXT)]
    readings = INCOMING.forwardable(records, INCOMING.reader.read_all(records))
    preparing = Preparing(INCOMING.reader, Sketcher(Scheme(16, 6), seed=bytes(16)))
    prepared = preparing.sketch(Read(records, readings))
    assert prepared.rows == [0, len(records) - 1]
    assert prepared.rejected[0] == len(POISON)


def test_repeated_header_names_and_twenty_thousand_small_ones_pass_unharmed():
    headers: Headers = (("h", None), ("h", b"1"), ("h", b"1"), *((("n", b""),) * 20_000))
    whole = record(TEXT, headers)
    (reading,) = INCOMING.forwardable([whole], INCOMING.reader.read_all([whole]))
    assert isinstance(reading, Document)
    assert FORWARDER.output(whole, Decision(Verdict.UNIQUE)).headers == headers


def test_a_text_within_its_limit_grows_eighteenfold_at_most():
    sketcher = Sketcher(Scheme(16, 6), seed=bytes(16))
    grown = sketcher.normalise("\ufdfa" * 10_000)
    assert len(grown.decode()) == 180_000


@pytest.mark.slow
def test_a_million_marks_out_of_order_are_normalised_as_python_would():
    # Sorted by insertion, as Python does it, this takes a quarter of an hour.
    sketcher = Sketcher(Scheme(16, 6), seed=bytes(16))
    marks = sketcher.normalise("x" + "\u0300\u0316" * 500_000)
    assert marks.decode() == "x" + "\u0316" * 500_000 + "\u0300" * 500_000
