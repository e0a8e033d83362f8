"""Values beside the text: each way of reading gives the same canonical string."""

import json

import numpy as np
import pytest

from streamfilter.documents.reader import Reader
from streamfilter.model import Document, ErrorCode, Malformed, Record, Source
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher
from streamfilter.workers.crew import Crew
from streamfilter.workers.preparing import Preparing
from tests.support.cases import cases

HERE = Source("in", 0, 7)
DEEP = '{"a":' * 40 + "1" + "}" * 40

VALUES = [
    ('"x"', '"x"'), ('"1"', '"1"'), ("1", "1"), ("1.0", "1"), ("-0", "0"), ("1.50", "1.5"),
    ("12345678901234567890", "12345678901234567890"), ("9" * 5_000, "9" * 5_000),
    ("true", "true"), ("1e999", "inf"), ('"é"', '"é"'), ('"e\\u0301"', '"e\u0301"'),
    ('"cut \\ud83d"', '"cut \ufffd"'), ('"a\\u0000b"', '"a\\u0000b"'),
    ('{"b":[1,"1"],"a":null}', '{"a":null,"b":[1,"1"]}'), ("[]", "[]"), (DEEP, DEEP),
    ("null", None), ('""', None), ('" \\t"', None),
]  # fmt: skip


def read(value: str, *, text: str | list[str] = "/text", **settings: object) -> object:
    reader = Reader(text=text, id="/id", values=["/v", "/deep/v"], **settings)  # type: ignore[arg-type]
    return reader.read(Record(HERE, None, value.encode()))


@cases(("given", "wanted"), VALUES)
@cases("text", ["/text", ["/text", "/title"], ["/lines/*"]])
def test_a_value_is_canonical_whichever_decoder_reads_it(given, wanted, text):
    record = f'{{"id":1,"text":"t","title":"u","lines":["t"],"v":{given},"deep":{{"v":{given}}}}}'
    reading = read(record, text=text)
    assert isinstance(reading, Document)
    assert reading.values == (wanted, wanted)


@pytest.mark.parametrize("deep", ["", ',"deep":null', ',"deep":3', ',"deep":[{"v":1}]'])
def test_a_value_without_a_place_is_absent(deep):
    reading = read(f'{{"id":1,"text":"t"{deep}}}')
    assert isinstance(reading, Document)
    assert reading.values == (None, None)


def test_a_value_that_is_not_utf_8_is_a_dead_letter():
    reader = Reader(values=["/v"])
    reading = reader.read(Record(HERE, None, b'{"id":1,"text":"t","v":"\xff"}'))
    assert isinstance(reading, Malformed)
    assert reading.code is ErrorCode.BAD_UTF8


@pytest.mark.parametrize("pointer", ["/v/*", "v"])
def test_a_pointer_that_cannot_lead_to_a_value_is_refused(pointer):
    with pytest.raises(ValueError, match=pointer):
        Reader(values=[pointer])


@pytest.mark.slow(1)
def test_workers_digest_what_this_process_digests():
    scheme = Scheme(16, 6, digests=("scope /v", "scope /deep/v"))
    sketcher = Sketcher(scheme, seed=bytes(16))
    records = [
        Record(Source("in", 0, n), None, json.dumps(
            {"id": n, "text": f"{n} " + "word " * 90, "v": n % 3, "deep": {"v": None}}
        ).encode())
        for n in range(300)
    ]  # fmt: skip
    crew, sketches = Crew(2), []
    for text, workers in [("/text", Crew(0)), ("/text", crew), (["/text", "/no"], crew)]:
        # Of the last, the values are read here, and workers get texts with the values beside.
        reader = Reader(text=text, values=scheme.pointers)
        preparing = Preparing(reader, sketcher, workers)
        if isinstance(text, list):
            readings = reader.read_all(records)
            sketches.append(workers.sketch(sketcher, readings))  # type: ignore[arg-type]
        else:
            sketches.append(preparing.prepare(records).sketches)
    crew.close()
    assert len({each.to_bytes() for each in sketches if each is not None}) == 1
    digests = sketches[0].contents.digests  # type: ignore[union-attr]
    assert (np.bincount([len(set(digests[n::3, 0].tolist())) for n in range(3)]) == [0, 3]).all()
    assert not digests[:, 1].any()
