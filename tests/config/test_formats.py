"""The pages of the formats, one each: what their examples say is what is read."""

import json
import re
from pathlib import Path

import pytest

from streamfilter.assembly import reader_for
from streamfilter.config.loading import load_config
from streamfilter.documents.codecs import registry
from streamfilter.documents.codecs.schemas import Schema
from streamfilter.documents.decoding import NAMES
from streamfilter.documents.reader import Reader
from streamfilter.model import Document, Record, Source
from tests.documents.test_avro import frame, written
from tests.support.texts import TEXTS, section

PAGES = dict(re.findall(r"^### `(\w+)`\n+```yaml\n(.*?)^```", section("Formats"), re.M | re.S))
SECRET = "${file:/run/secrets/registry}"

AVRO = {"type": "record", "name": "Article", "fields": [
    {"name": name, "type": ["null", "string"]} for name in ("id", "title", "body")]}  # fmt: skip
PROTO = """syntax = "proto3"; package news; message Other { int32 a = 1; }
message Article { string id = 1; message Body { string text = 1; } Body body = 2; }"""
ARTICLE = {"meta": {"id": 7}, "title": "a", "paragraphs": [{"text": "b"}, {"text": "c"}]}
CUSTOMER = {"id": "c7", "name": "Ann Lee", "phone": "030 1234"}

READ = {
    "json": (json.dumps(ARTICLE).encode(), Document("7", "a\nb\nc")),
    "text": (b"a line of a log", Document("the key", "a line of a log")),
    "fields": (json.dumps(CUSTOMER).encode(), None),
    "json_schema": (frame(b'{"id": "a7", "text": "b"}'), Document("a7", "b")),
    "avro": (frame(written({"id": "a7", "title": None, "body": "b"}, AVRO)), Document("a7", "b")),
    "protobuf": (b"\x0a\2a7\x12\3\x0a\1b", Document("a7", "b")),
}
"""A record of each format, and what the page's example makes of it; None: of its fields."""


def test_every_format_has_a_page() -> None:
    assert PAGES.keys() == READ.keys() == {*NAMES, "fields"}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", PAGES)
def test_the_example_of_a_page_reads_what_it_says(name, tmp_path, monkeypatch):
    if name == "avro":
        pytest.importorskip(name)
    asked = []

    def schema(self: registry.Registry, id_: object) -> Schema:
        asked.append((self._access.url, self._access.user, self._access.password))
        return Schema("AVRO", json.dumps(AVRO))

    monkeypatch.setattr(registry.Registry, "schema", schema)
    Path("password").write_text("hunter2")
    Path("article.proto").write_text(PROTO)
    path = tmp_path / "page.yaml"
    path.write_text(PAGES[name].replace(SECRET, "${file:password}"))
    reader = reader_for(load_config([path], {}))
    value, expected = READ[name]
    reading = reader.read(Record(Source("in", 0, 1), b"the key", value))
    fields = Reader("fields", fields=["/name", "/phone"]).read(
        Record(Source("in", 0, 1), None, value)
    )
    assert reading == (expected or fields)
    assert isinstance(reading, Document)
    assert asked == [("https://registry:8081", "filter", "hunter2")] * (name == "avro")


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("home", TEXTS)
def test_every_piece_of_a_configuration_in_a_text_is_accepted(home: str, tmp_path: Path) -> None:
    Path("secret").write_text("hunter2")
    Path("article.proto").write_text(PROTO)
    for piece in re.findall(r"^```yaml\n(.*?)^```", TEXTS[home], re.M | re.S):
        path = tmp_path / "piece.yaml"
        path.write_text(re.sub(r"\$\{file:[^}]*\}", "${file:secret}", piece))
        named = ("input.topic=articles",) if "topics:" not in piece else ()
        load_config([path], {}, overrides=named)
