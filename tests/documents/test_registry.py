"""A registry's answers, and what is none: unknown is the record's fault, all else is nobody's."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from uuid import UUID

import pytest

from streamfilter.commands.feed import encoding
from streamfilter.config.configuration import load_config, read_config
from streamfilter.demo.wire import AVRO_SCHEMA, as_avro
from streamfilter.documents.pointers import Unreadable
from streamfilter.documents.registry import Access, Registry
from streamfilter.documents.schemas import Schema, SchemasAway
from streamfilter.model import ErrorCode

SCHEMA = {"schema": '{"type":"record","name":"A","fields":[]}'}
UNKNOWN = (404, {"error_code": 40403, "message": "Schema not found"})
GUID = UUID("0f3a1b52-1111-4222-8333-123456789abc")


SUBJECTS = "/subjects?limit=1"
STORY = {"id": "a", "text": "one"}


class Handler(BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, Any]] = {}
    given: ClassVar[list[Any]] = []
    asked: ClassVar[list[tuple[str, str | None]]] = []
    wait: ClassVar[threading.Event] = threading.Event()

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        status, body = self.answers.get(self.path, UNKNOWN)
        if status == "hang":
            self.wait.wait(30)
            return
        self.send_response(status)
        if status == 302:
            self.send_header("Location", body)
            body = ""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        self.given.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Handler.answers, Handler.asked, Handler.wait = {SUBJECTS: (200, ["a"])}, [], threading.Event()
    Handler.given = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Handler.wait.set()
    server.shutdown()
    server.server_close()


def test_a_schema_is_asked_for_once_with_what_it_refers_to(url):
    Handler.answers = {
        "/schemas/ids/7": (200, {"schema": '"w"', "references": [
            {"name": "B", "subject": "b/c", "version": 2},
            {"name": "C", "subject": "c", "version": 1}]}),
        "/subjects/b%2Fc/versions/2": (200, {"schema": '"b"', "references": [
            {"name": "C", "subject": "c", "version": 1}]}),
        "/subjects/c/versions/1": (200, {"schema": '"c"'}),
        f"/schemas/guids/{GUID}": (200, {**SCHEMA, "schemaType": "PROTOBUF"}),
    }  # fmt: skip
    registry = Registry(Access(url + "/", user="me", password="secret"))
    for _ in range(3):
        assert registry.schema(7) == Schema("AVRO", '"w"', (("C", '"c"'), ("B", '"b"')))
        assert registry.schema(GUID).kind == "PROTOBUF"
    assert len(Handler.asked) == 4
    assert {told for _, told in Handler.asked} == {"Basic bWU6c2VjcmV0"}
    Registry(Access(url, token="t0ken")).schema(7)
    assert Handler.asked[-1][1] == "Bearer t0ken"
    assert "secret" not in repr(Access(url, user="me", password="secret", token="secret"))


def test_what_the_registry_does_not_know_is_the_records_fault_and_asked_again_after_a_while(url):
    now = 0.0
    registry = Registry(Access(url), clock=lambda: now)
    for _ in range(5):
        with pytest.raises(Unreadable) as caught:
            registry.schema(9)
        assert caught.value.reading.code is ErrorCode.SCHEMA_UNKNOWN
    assert [path for path, _ in Handler.asked] == ["/schemas/ids/9", SUBJECTS]
    Handler.answers["/schemas/ids/9"] = (200, SCHEMA)
    now = 31.0
    assert registry.schema(9).text == SCHEMA["schema"]


def test_a_registry_that_came_back_empty_is_away_until_something_is_in_it(url):
    registry = Registry(Access(url))
    Handler.answers["/schemas/ids/7"] = (200, SCHEMA)
    assert registry.schema(7)
    Handler.answers = {SUBJECTS: (200, b"[ ]\n")}
    for _ in range(2):
        with pytest.raises(SchemasAway, match=f"{url} is empty: it knows no schema 9"):
            registry.schema(9)
    assert registry.schema(7), "what was asked for before it ended is known still"
    Handler.answers = {SUBJECTS: (200, ["a"]), "/schemas/ids/9": (200, SCHEMA)}
    assert registry.schema(9)


@pytest.mark.parametrize(
    ("answer", "error"),
    [((403, {}), Unreadable), ((404, b"<html>"), Unreadable), ((405, {}), Unreadable),
     ((200, ["s" * 90] * 90_000), Unreadable), ((503, {}), SchemasAway),
     ((200, b"<html>"), SchemasAway)],
)  # fmt: skip
def test_who_may_not_ask_what_it_knows_believes_what_it_says_of_one_schema(url, answer, error):
    Handler.answers = {SUBJECTS: answer}
    with pytest.raises(error):
        Registry(Access(url)).schema(9)


def test_feed_adds_its_schema_as_whom_the_configuration_says(url):
    path = "/subjects/news%2F1-value/versions"
    settings = ("input.format=avro", f"input.registry.url={url}", "input.topic=news")
    settings += ("input.registry.user=me", "input.registry.password=secret")
    config = load_config((), {}, settings)
    Handler.answers["/subjects/news-value/versions"] = (200, {"id": 5})
    assert encoding(config)(**STORY) == as_avro(5)(**STORY)
    assert Handler.asked[-1][1] == "Basic bWU6c2VjcmV0"
    assert Handler.given[-1] == {"schemaType": "AVRO", "schema": AVRO_SCHEMA}
    del Handler.answers["/subjects/news-value/versions"]
    with pytest.raises(SchemasAway, match="takes no schema of news-value"):
        encoding(config)
    Handler.answers[path] = (200, {"id": 6})
    references = [("B", "b", 2)]
    assert Registry(Access(url)).register("news/1-value", "AVRO", '"B"', references) == 6
    assert Handler.given[-1]["references"] == [{"name": "B", "subject": "b", "version": 2}]


@pytest.mark.parametrize(
    "answer",
    [(500, {}), (503, b"busy"), (401, {"error_code": 401}), (403, {}), (404, b"<html>"),
     (404, {"error_code": 404}), (429, {}), (200, b"<html>"), (200, []), (200, {"schema": 5}),
     (302, "http://127.0.0.1:1/")],
)  # fmt: skip
def test_whatever_else_it_says_is_no_answer_and_it_is_asked_again(url, answer):
    Handler.answers["/schemas/ids/7"] = answer
    registry = Registry(Access(url, user="me", password="hunter2"))
    with pytest.raises(SchemasAway) as caught:
        registry.schema(7)
    assert url in str(caught.value)
    assert "hunter2" not in str(caught.value)
    Handler.answers["/schemas/ids/7"] = (200, SCHEMA)
    assert registry.schema(7).text == SCHEMA["schema"]


def test_who_does_not_answer_is_waited_for_no_longer_than_said(url):
    Handler.answers["/schemas/ids/7"] = ("hang", None)
    begun = time.monotonic()
    with pytest.raises(SchemasAway, match="timed out"):
        Registry(Access(url, seconds=0.2)).schema(7)
    assert time.monotonic() - begun < 25, "the server would wait for 30"
    with pytest.raises(SchemasAway, match="refused"):
        Registry(Access("http://127.0.0.1:1")).schema(7)


def test_an_answer_that_was_slow_is_kept_and_the_batch_is_not_held_up_for_the_next_one(url):
    Handler.answers["/schemas/ids/7"] = (200, SCHEMA)
    times = iter([0.0, 2.5])
    registry = Registry(Access(url), clock=lambda: next(times))
    with pytest.raises(SchemasAway, match=r"took 2\.5 s for schema 7"):
        registry.schema(7)
    assert registry.schema(7).text == SCHEMA["schema"]
    assert len(Handler.asked) == 1


AVRO = ("input.format=avro", "input.registry.url=https://registry:8081")


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (("input.registry.url=http://r",), "input.registry.url"),
        (("input.format=avro",), "input.schema_file"),
        ((*AVRO, "input.schema_file=a.avsc"), "input.schema_file"),
        ((*AVRO, "input.framing=none"), "input.framing"),
        ((*AVRO, "input.registry.url=https://me:hunter2@r"), "input.registry.url"),
        ((*AVRO, "input.registry.url=r:8081"), "input.registry.url"),
        ((*AVRO, "input.registry.user=me"), "input.registry.user"),
        ((*AVRO, "input.registry.user=me", "input.registry.password=hunter2",
          "input.registry.token=x"), "input.registry.token"),
        ((*AVRO, "input.registry.timeout=2h"), "input.registry.timeout"),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_problems(settings, key):
    problems = read_config((), {}, settings).problems
    assert [problem.key for problem in problems] == [key]
    assert "hunter2" not in str(problems)


def test_the_secrets_of_a_registry_are_shown_nowhere():
    settings = ("input.registry.user=me", "input.registry.password=hunter2")
    config = load_config((), {"STREAMFILTER_INPUT__REGISTRY__PASSWORD": "12345"}, AVRO + settings)
    assert config.secrets() == {"hunter2"}
    assert "hunter2" not in json.dumps(config.masked()) + repr(config)
