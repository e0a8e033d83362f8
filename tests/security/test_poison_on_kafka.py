"""The large poison on a real broker: every kind in one topic, one letter each, and on it goes.

No Python client can send some of it (a header's name that is no UTF-8). So the client's own
librdkafka is called here.
"""

import ctypes
import re
from pathlib import Path

import confluent_kafka
import pytest

from streamfilter.model import ErrorCode, Record
from tests.kafka.story import id_of
from tests.security.test_poison import POISON, text_of
from tests.support.stage import Stage
from tests.support.topics import create_topics, header

INPUT_BYTES = 16 << 20
FLUSH_SECONDS = 180
LIMITS = {"document": 2_000_000, "text_characters": 500_000}
FITS = {"a text over its limit"}
"""Of the poison, what these limits let pass."""
TOPIC, VALUE, KEY, FLAGS, HEADERS, END, COPY = 1, 4, 5, 7, 10, 0, 2
"""librdkafka's tags of the arguments of `rd_kafka_producev`, and the flag to copy the value."""


class RawProducer:
    """librdkafka without Python's client in front: names of headers are bytes."""

    def __init__(self, bootstrap: str) -> None:
        assert confluent_kafka.libversion()  # it is loaded
        found = re.search(r"\S*librdkafka\S*\.so\S*", Path("/proc/self/maps").read_text())
        assert found, "librdkafka is no library of its own here"
        self._kafka = ctypes.CDLL(found[0])
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
            getattr(self._kafka, name).restype = ctypes.c_void_p
        conf, told = (
            ctypes.c_void_p(self._kafka.rd_kafka_conf_new()),
            ctypes.create_string_buffer(512),
        )
        settings = {"bootstrap.servers": bootstrap, "message.max.bytes": str(INPUT_BYTES)}
        for key, value in settings.items():
            done = self._kafka.rd_kafka_conf_set(conf, key.encode(), value.encode(), told, 512)
            assert done == 0, told.value
        self._handle = ctypes.c_void_p(self._kafka.rd_kafka_new(0, conf, told, 512))
        assert self._handle, told.value

    def send(self, topic: str, record: Record) -> None:
        value, key = record.value or b"", record.key or b""
        words: list[object] = [TOPIC, topic.encode(), FLAGS, COPY]
        words += [VALUE, value, ctypes.c_size_t(len(value)), KEY, key, ctypes.c_size_t(len(key))]
        headers = ctypes.c_void_p(self._kafka.rd_kafka_headers_new(len(record.headers)))
        for name, content in record.headers:
            raw, size = name.encode("utf-8", "surrogateescape"), len(content or b"")
            self._kafka.rd_kafka_header_add(
                headers, raw, ctypes.c_ssize_t(len(raw)), content, ctypes.c_ssize_t(size)
            )
        words += [HEADERS, headers]
        error = self._kafka.rd_kafka_producev(self._handle, *words, END)
        assert error == 0, error

    def flush(self) -> None:
        assert self._kafka.rd_kafka_flush(self._handle, FLUSH_SECONDS * 1_000) == 0

    def close(self) -> None:
        self._kafka.rd_kafka_destroy(self._handle)


def keyed(name: str, record: Record) -> Record:
    """Return *record* with its name for a key, and the header that its trouble came of."""
    headers = record.headers
    if record.headers_error:
        headers = (("good", b"1"), ("\udcff\udcfe", b"2"))
    return Record(record.source, name.encode(), record.value, headers)


@pytest.fixture
def wide(stage: Stage) -> Stage:
    """A stage whose input takes records of 16 MiB; its outputs take what they always do."""
    stage.input = f"{stage.input}.wide"
    config = {"max.message.bytes": str(INPUT_BYTES)}
    create_topics(stage.bootstrap, {stage.input: 1}, config=config)
    return stage


def test_large_poison_ends_as_letters_and_marks_out_of_order_end_nothing(wide: Stage) -> None:
    marks = text_of("x" + "\u0300\u0316" * 150_000)
    good = Record(next(iter(POISON.values()))[0].source, b"marks", marks)
    poison = {name: each for name, each in POISON.items() if name not in FITS}
    producer = RawProducer(wide.bootstrap)
    try:
        for name, (record, _) in poison.items():
            producer.send(wide.input, keyed(name, record))
        producer.send(wide.input, good)
        producer.flush()
    finally:
        producer.close()

    process = wide.start(limits=LIMITS)
    wide.drain(process)
    assert process.terminate() == 0, process.with_log("did not end well")

    outputs = wide.outputs()
    letters = {
        (each.key or b"").decode(): ErrorCode(header(each, "__streamfilter.error.code"))
        for each in outputs["dead_letter"]
    }
    assert letters == {name: code for name, (_, code) in poison.items()}
    assert [(each.key, id_of(each)) for each in outputs["unique"]] == [(b"marks", "a")]
    assert not outputs["duplicates"]
