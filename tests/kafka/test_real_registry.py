"""Schemas that refer to others, in a real registry, and one that came back empty."""

import json
from collections.abc import Iterator

import pytest

from deploy.local.registry import RealRegistry
from streamfilter import cli
from streamfilter.documents.codecs.registry import Reference
from streamfilter.kafka.embedded import EmbeddedBroker
from tests.documents.test_avro import frame
from tests.support.topics import Input, produce

FORMATS = ("avro", "protobuf")


@pytest.fixture
def registry() -> Iterator[RealRegistry]:
    with RealRegistry() as registry:
        yield registry


PLACE = {"type": "record", "name": "Place", "namespace": "common",
         "fields": [{"name": "city", "type": "string"}]}  # fmt: skip
AUTHOR = {"type": "record", "name": "Author", "namespace": "common",
          "fields": [{"name": "home", "type": "common.Place"}]}  # fmt: skip
ARTICLE = {"type": "record", "name": "Article", "namespace": "news", "fields": [
    {"name": "id", "type": "string"}, {"name": "seen", "type": ["null", "common.Place"]},
    {"name": "by", "type": "common.Author"},
    {"name": "text", "type": ["null", "string"]}]}  # fmt: skip
PROTO = 'syntax = "proto3"; package common; '
PLACE_PROTO = f"{PROTO} message Place {{ string city = 1; }}"
AUTHOR_PROTO = f"""{PROTO} import "place.proto"; import "google/protobuf/timestamp.proto";
message Author {{ Place home = 1; google.protobuf.Timestamp born = 2; }}"""
ARTICLE_PROTO = """syntax = "proto3"; package news; import "author.proto"; import "place.proto";
message Article { string id = 1; common.Place seen = 2; common.Author by = 3; string text = 4; }"""
WORDS = "the old mill by the river was sold"


def referring(registry: RealRegistry, way: str) -> bytes:
    """Register an article's schema, in three subjects; return an article."""
    if way == "avro":
        names, texts = ("common.Place", "common.Author"), map(json.dumps, (PLACE, AUTHOR, ARTICLE))
        place = b"\x08Oslo"
        content = (
            b"\x04a1" + b"\2" + place + place + b"\2" + bytes([2 * len(WORDS)]) + WORDS.encode()
        )
    else:
        names = ("place.proto", "author.proto")
        texts = iter((PLACE_PROTO, AUTHOR_PROTO, ARTICLE_PROTO))
        place = b"\n\4Oslo"
        seen, by = b"\x12\6" + place, b"\x1a\x08\n\6" + place
        content = b"\0\n\2a1" + seen + by + b'"' + bytes([len(WORDS)]) + WORDS.encode()
    kind, needed = way.upper(), list[Reference]()
    for name, text in zip(names, texts, strict=False):
        registry.register(name, kind, text, needed)
        needed.append((name, name, 1))
    return frame(content, registry.register(f"{way}-value", kind, next(texts), needed))


@pytest.mark.long
@pytest.mark.usefixtures("alone")
def test_what_refers_to_other_schemas_is_shown_and_checked_and_an_empty_registry_waited_for(
    registry: RealRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(verb: str, way: str, text: str, code: int) -> str:
        given = {"input.topic": way, "input.format": way, "input.text": text,
                 "input.registry.url": registry.url,
                 "kafka.common.bootstrap.servers": broker.bootstrap}  # fmt: skip
        settings = [each for item in given.items() for each in ("--set", "=".join(item))]
        assert cli.main([*verb.split(), *settings]) == code
        told = capsys.readouterr()
        return told.out + told.err

    with EmbeddedBroker() as broker:
        topics = ("", ".unique", ".duplicates", ".dead-letter")
        for way in FORMATS:
            broker.create_topics({f"{way}{topic}": 1 for topic in topics})
            produce(broker.bootstrap, way, [Input(frame(b"\0", 9_999))])
            assert "is empty: it knows no schema 9999" in said("peek", way, "/text", 0)
        for way in FORMATS:
            produce(broker.bootstrap, way, [Input(referring(registry, way))])
            assert f'"{WORDS}"' in said("peek", way, "/text", 0)
            assert "schema_unknown: the registry knows no schema 9999" in said(
                "peek", way, "/by/home/city", 0
            )
            assert '"Oslo"' in said("peek", way, "/by/home/city", 0)
            said("check --connect", way, "/by/home/city", 0)
            assert "there is no /txt" in said("peek", way, "/txt", 65)
            wrong = said("check --connect", way, "/txt", 78)
            assert f"there is no /txt in the newest schema of subject {way}-value" in wrong
            assert "/by/home/city" in wrong
