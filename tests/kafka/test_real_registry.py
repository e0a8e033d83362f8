"""The same stories in every format, on a real Kafka, whatever becomes of a real registry."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from deploy.local.registry import API, RealRegistry
from streamfilter import cli
from streamfilter.documents.registry import Reference
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.process.health import State
from streamfilter.stories.stream import stories
from tests.documents.test_avro import frame, written
from tests.kafka.story import TIMESTAMP
from tests.kafka.test_schema_formats import field, found
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import Input, produce

STORIES = 5_000
STRETCH = 1_000
"""Stories between two schemas; the first half of each is still of the schema before."""
VERSIONS = STORIES // STRETCH
HELD_SECONDS = 60.0
ANSWER_SECONDS = 2.0
"""What the filters wait for an answer."""
SLOW_SECONDS = 1.5

Row = dict[str, str]


def named(version: int) -> str:
    """Return what the text's field is called: the third schema calls it otherwise."""
    return "text" if version < 2 else "body"


def added(version: int) -> dict[str, str]:
    return {f"new_{number}": f"added {number}" for number in range(1, version + 1)}


def avro(version: int) -> Any:
    fields: list[Any] = [{"name": name, "type": "string"} for name in (*added(version), "id")]
    text = {"name": named(version), "type": ["null", "string"], "aliases": ["text"]}
    return {"type": "record", "name": "Story", "fields": [*fields, text]}


def proto(version: int) -> str:
    members = [f"string {name} = {10 + n};" for n, name in enumerate(added(version))]
    members += ["string id = 1;", f'string {named(version)} = 2 [json_name = "text"];']
    return f'syntax = "proto3"; message Other {{}} message Story {{ {" ".join(members)} }}'


SCHEMAS: Mapping[str, Callable[[int], str]] = {
    "avro": lambda version: json.dumps(avro(version)), "protobuf": proto,
}  # fmt: skip


def as_avro(row: Row, version: int, id_: int) -> Input:
    value = {**added(version), "id": row["id"], named(version): row["text"]}
    return Input(frame(written(value, avro(version)), id_), timestamp=TIMESTAMP)


def as_protobuf(row: Row, version: int, id_: int) -> Input:
    more = b"".join(field(10 + n, text) for n, text in enumerate(added(version).values()))
    content = field(1, row["id"]) + more + field(2, row["text"])
    return Input(frame(b"\2\2" + content, id_), timestamp=TIMESTAMP)


def as_json(row: Row, version: int, id_: int) -> Input:
    return Input(json.dumps({**row, **added(version)}).encode(), timestamp=TIMESTAMP)


def as_json_schema(row: Row, version: int, id_: int) -> Input:
    return Input(frame(as_json(row, version, id_).value or b"", id_), timestamp=TIMESTAMP)


def as_event(row: Row, version: int, id_: int) -> Input:
    event = {"specversion": "1.0", "id": row["id"], "data": {"text": row["text"]}}
    return Input(json.dumps(event).encode(), timestamp=TIMESTAMP)


def as_binary_event(row: Row, version: int, id_: int) -> Input:
    beside = (("ce_specversion", b"1.0"), ("ce_id", row["id"].encode()))
    value = json.dumps({"text": row["text"], **added(version)}).encode()
    return Input(value, headers=beside, timestamp=TIMESTAMP)


WAYS: Mapping[str, tuple[Callable[[Row, int, int], Input], Mapping[str, str]]] = {
    "json": (as_json, {}),
    "json_schema": (as_json_schema, {"format": "json_schema"}),
    "CloudEvents": (as_event, {"text": "/data/text"}),
    "CloudEvents in headers": (as_binary_event, {"id": "header:ce_id"}),
    "avro": (as_avro, {"format": "avro"}),
    "protobuf": (as_protobuf, {"format": "protobuf"}),
}


class Between(BaseHTTPRequestHandler):
    """Stands before the registry, and refuses or takes its time if it is told to."""

    to = ""
    refuses = False
    seconds = 0.0

    def do_GET(self) -> None:
        time.sleep(self.seconds)
        status, body = 500, b"{}"
        if not self.refuses:
            try:
                with urlopen(self.to + self.path, timeout=60) as answer:
                    status, body = answer.status, answer.read()
            except HTTPError as error:
                with error:
                    status, body = error.code, error.read()
            except OSError:
                return  # no answer at all
        with suppress(BrokenPipeError):  # whoever asked has given up
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[RealRegistry]:
    with RealRegistry() as registry:
        yield registry


@pytest.fixture
def url(registry: RealRegistry) -> Iterator[str]:
    Between.to = f"http://127.0.0.1:{registry.port}"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Between)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}{API}"
    server.shutdown()
    server.server_close()


@contextmanager
def killed(registry: RealRegistry) -> Iterator[None]:
    registry.kill()
    yield
    registry.start()


@contextmanager
def frozen(registry: RealRegistry) -> Iterator[None]:
    registry.pause()
    yield
    registry.resume()


@contextmanager
def refusing(registry: RealRegistry) -> Iterator[None]:
    Between.refuses = True
    yield
    Between.refuses = False


@contextmanager
def slow(registry: RealRegistry) -> Iterator[None]:
    Between.seconds = ANSWER_SECONDS + SLOW_SECONDS
    yield
    Between.seconds = SLOW_SECONDS  # from now on in time, but only just


FAULTS = (killed, frozen, refusing, slow)


def stretches(way: str, rows: Sequence[Row], ids: Sequence[int]) -> Iterator[list[Input]]:
    write = WAYS[way][0]
    for version in range(VERSIONS):
        yield [
            write(row, known, ids[known])
            for number, row in enumerate(rows[version * STRETCH : (version + 1) * STRETCH])
            for known in [max(0, version - (number < STRETCH // 2))]
        ]


def names_of(rows: Sequence[Row], parts: Sequence[Sequence[Input]]) -> dict[Any, str]:
    records = [each for part in parts for each in part]
    return {
        (each.value, dict(each.headers).get("ce_id")): row["id"]
        for row, each in zip(rows, records, strict=True)
    }


def ended(stage: Stage, process: FilterProcess, names: Mapping[Any, str]) -> dict[str, Any]:
    assert process.terminate() == 0, process.told("did not end well")
    assert stage.outputs()["dead_letter"] == []
    return found(stage, lambda each: names[each.value, dict(each.headers).get("ce_id")])


def undisturbed(stage: Stage, way: str, rows: Sequence[Row]) -> dict[str, Any]:
    parts = list(stretches(way, rows, range(VERSIONS)))
    process = stage.start(input={"topic": stage.input, **WAYS[way][1]})
    for part in parts:
        stage.produce(part)
    stage.drain(process)
    return ended(stage, process, names_of(rows, parts))


@pytest.mark.long
def test_5000_stories_have_the_verdicts_of_json_in_every_format_whatever_becomes_of_the_registry(
    make_stage: Callable[..., Stage], registry: RealRegistry, url: str
) -> None:
    rows = [{"id": each.id, "text": each.text} for each in islice(stories(18), STORIES)]
    plain = undisturbed(make_stage(), "json", rows)
    assert len(plain) == STORIES
    assert {place for place, _ in plain.values()} == {"unique", "duplicates"}
    for way in WAYS.keys() - SCHEMAS.keys() - {"json"}:
        assert undisturbed(make_stage(), way, rows) == plain, way
    lives = {}
    for way, schema in SCHEMAS.items():
        stage = make_stage()
        subject = f"{stage.input}-value"
        ids = [registry.register(subject, way.upper(), schema(n)) for n in range(VERSIONS)]
        given = {"url": url, "timeout": f"{ANSWER_SECONDS:.0f}s"}
        process = stage.start(input={"topic": stage.input, "registry": given, **WAYS[way][1]})
        lives[way] = stage, process, list(stretches(way, rows, ids))
    for version in range(VERSIONS):
        fault = FAULTS[version - 1] if version else None
        with fault(registry) if fault else nullcontext():
            for stage, _, parts in lives.values():
                stage.produce(parts[version])
            for _, process, _ in lives.values() if fault else ():
                process.wait_for_state(State.PAUSED_SCHEMAS.value)
            begun = time.monotonic()
            while fault and time.monotonic() < begun + HELD_SECONDS:
                for _, process, _ in lives.values():
                    assert process.status()["state"] == State.PAUSED_SCHEMAS.value
                time.sleep(1)
        for stage, process, _ in lives.values():
            stage.drain(process)
    for way, (stage, process, parts) in lives.items():
        assert ended(stage, process, names_of(rows, parts)) == plain, way


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
        for way in SCHEMAS:
            broker.create_topics({f"{way}{topic}": 1 for topic in topics})
            produce(broker.bootstrap, way, [Input(frame(b"\0", 9_999))])
            assert "is empty: it knows no schema 9999" in said("peek", way, "/text", 0)
        for way in SCHEMAS:
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
