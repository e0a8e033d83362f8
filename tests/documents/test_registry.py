"""A registry's answers, and what is none: an unknown schema is the record's fault."""

import json
import socket
import time
from uuid import UUID

import pytest

from streamfilter.assembly import registry_for
from streamfilter.commands.demo import encoding
from streamfilter.config.loading import load_config, read_config
from streamfilter.demo.wire import AVRO_SCHEMA, as_avro
from streamfilter.documents.codecs import registry_calls
from streamfilter.documents.codecs.registry import SETTLE_SECONDS, Registry
from streamfilter.documents.codecs.registry_calls import BYTES_MAX, CONNECTIONS_MAX, Access
from streamfilter.documents.codecs.schemas import Schema, SchemasAway, SchemaUnsettled
from streamfilter.documents.fields.pointers import Unreadable
from streamfilter.model import ErrorCode
from tests.documents.registry_stub import SUBJECTS, Clock, Handler, url
from tests.support.cases import cases

__all__ = ["url"]

SCHEMA = {"schema": '{"type":"record","name":"A","fields":[]}'}
GUID = UUID("0f3a1b52-1111-4222-8333-123456789abc")


STORY = {"id": "a", "text": "one"}


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


def settled(registry: Registry, clock: Clock, id: int | UUID) -> ErrorCode:
    """Return the verdict on the records of an unknown id, after it was waited for."""
    until = clock.now + SETTLE_SECONDS
    while clock.now < until:
        with pytest.raises(SchemaUnsettled, match=f"knows no schema {id}; it is asked again"):
            registry.schema(id)
        clock.now += 0.5
    with pytest.raises(Unreadable) as caught:
        registry.schema(id)
    return caught.value.reading.code


def test_an_id_that_the_registry_notices_late_costs_no_record(url):
    clock = Clock()
    registry = Registry(Access(url), clock)
    for _ in range(3):
        with pytest.raises(SchemaUnsettled):
            registry.schema(9)
    assert [path for path, _ in Handler.asked] == ["/schemas/ids/9", SUBJECTS]
    Handler.answers["/schemas/ids/9"] = (200, SCHEMA)
    clock.now += 0.5
    assert registry.schema(9).text == SCHEMA["schema"]


def test_an_id_that_stays_unknown_is_the_records_fault_and_asked_for_ever_more_rarely(url, caplog):
    clock = Clock()
    registry = Registry(Access(url), clock)
    assert settled(registry, clock, 9) is ErrorCode.SCHEMA_UNKNOWN
    assert f"{url} knows no schema 9, asked for 5 s: records of it are dead letters" in caplog.text
    asked = len(Handler.asked)
    for _ in range(120):
        clock.now += 0.5
        with pytest.raises(Unreadable):
            registry.schema(9)
    assert (len(Handler.asked) - asked) / 2 == 3, "after 5, 10 and 20 s, with the subjects"
    assert len(caplog.records) == 1
    Handler.answers["/schemas/ids/9"] = (200, SCHEMA)
    clock.now += 31
    assert registry.schema(9).text == SCHEMA["schema"]


def test_a_number_that_no_schema_has_is_not_asked_for(url):
    with pytest.raises(Unreadable, match="the registry knows no schema 2147483648"):
        Registry(Access(url)).schema(1 << 31)
    assert Handler.asked == []


DEEP = b"[" * 90_000
FOREIGN = [(404, b"<html>"), (404, {"error_code": 404}), (400, {"error_code": 400}), (405, DEEP)]


@pytest.mark.parametrize("id", [2_000_000_000, GUID])
@pytest.mark.parametrize("answer", FOREIGN)
def test_an_id_that_a_registry_cannot_have_is_the_records_fault_beside_one_that_answers(
    url, id, answer
):
    path = f"/schemas/{'guids' if isinstance(id, UUID) else 'ids'}/{id}"
    Handler.answers[path] = answer
    clock = Clock()
    assert settled(Registry(Access(url), clock), clock, id) is ErrorCode.SCHEMA_UNKNOWN
    for status in (404, 503):
        Handler.answers[SUBJECTS] = (status, b"<html>")
        Handler.answers["/schemas/types"] = (404, b"<html>")
        with pytest.raises(SchemasAway) as caught:
            Registry(Access(url)).schema(id)
        assert not isinstance(caught.value, SchemaUnsettled), "that is no registry at all"
    Handler.answers[SUBJECTS] = (403, {})
    Handler.answers["/schemas/types"] = (200, ["AVRO"])
    assert settled(Registry(Access(url), clock), clock, id) is ErrorCode.SCHEMA_UNKNOWN


def waited_for(url: str, ids: range) -> tuple[Registry, Clock]:
    """Return a registry whose unknown *ids* were looked up together until they are settled."""
    clock = Clock()
    registry = Registry(Access(url), clock)
    while clock.now <= SETTLE_SECONDS:
        registry.ask_all(ids, lambda: False)
        clock.now += 0.5
    return registry, clock


@pytest.mark.slow
def test_thousands_of_unknown_ids_wait_together_over_a_few_connections(url):
    ids = range(1, 1_001)
    registry, _ = waited_for(url, ids)
    for id in ids:
        with pytest.raises(Unreadable):
            registry.schema(id)
    assert len(Handler.connections) <= CONNECTIONS_MAX
    assert len(Handler.asked) <= 7 * len(ids)
    asked = len(Handler.asked)
    registry.ask_all([*range(3_000, 3_100)], lambda: True)
    assert len(Handler.asked) == asked, "it was late"


@pytest.mark.slow
def test_ids_that_stay_unknown_are_asked_for_a_few_at_a_time_and_said_together(url, caplog):
    ids = range(1, 501)
    registry, clock = waited_for(url, ids)
    clock.now += 60  # all are due again
    before = len(Handler.asked)
    for _ in range(3):
        registry.ask_all(ids, lambda: False)
        for id in ids:
            with pytest.raises(Unreadable):
                registry.schema(id)
    assert len(Handler.asked) <= before + CONNECTIONS_MAX + 1, "in no time"
    for id in ids:
        Handler.answers[f"/schemas/ids/{id}"] = (200, SCHEMA)
    for _ in range(len(ids) // CONNECTIONS_MAX + 1):
        clock.now += 0.5
        registry.ask_all(ids, lambda: False)
    assert all(registry.schema(id) for id in ids), "each has its turn"
    assert len([each for each in caplog.records if "schema_unknown" in each.message]) == 1


def test_a_connection_that_the_other_end_closed_is_made_anew(url):
    registry = Registry(Access(url))
    for id in range(1, 4):
        Handler.answers[f"/schemas/ids/{id}"] = (200, SCHEMA)
        assert registry.schema(id)
    assert len(Handler.connections) == 1
    Handler.connections[0].shutdown(socket.SHUT_RDWR)
    Handler.answers["/schemas/ids/4"] = (200, SCHEMA)
    assert registry.schema(4)
    assert len(Handler.connections) == 2


def test_after_a_failure_no_connection_from_before_is_used(url):
    """A path that drops packets cost a timeout for each connection that was kept."""
    registry = Registry(Access(url, seconds=0.8))
    registry.ask_all([*range(1, 60)], lambda: False)
    before = len(Handler.connections)
    Handler.answers["/schemas/ids/70"] = ("hang", None)
    with pytest.raises(SchemasAway, match="timed out"):
        registry.schema(70)
    Handler.answers["/schemas/ids/71"] = (200, SCHEMA)
    assert registry.schema(71)
    assert len(Handler.connections) == before + 1


def test_a_connection_that_was_not_used_for_long_is_made_anew(url, monkeypatch):
    monkeypatch.setattr(registry_calls, "IDLE_SECONDS", 0.0)
    Handler.answers |= {f"/schemas/ids/{id}": (200, SCHEMA) for id in (1, 2)}
    registry = Registry(Access(url))
    assert registry.schema(1) == registry.schema(2)
    assert len(Handler.connections) == 2


def test_a_schema_that_is_too_large_is_the_records_fault_and_holds_up_no_other(url):
    reference = {"name": "B", "subject": "b", "version": 1}
    many = [{**reference, "version": number} for number in range(101)]
    Handler.answers |= {
        "/schemas/ids/1": (200, {"schema": "a" * (BYTES_MAX + 1)}),
        "/schemas/ids/2": (200, {"schema": '"B"', "references": many}),
        "/schemas/ids/3": (200, {"schema": "a" * (BYTES_MAX - 100), "references": [reference]}),
        **{f"/subjects/b/versions/{number}": (200, {"schema": "b" * 200}) for number in range(101)},
    }
    registry = Registry(Access(url))
    for id in (1, 2, 3):
        for _ in range(2):
            with pytest.raises(Unreadable, match=f"schema {id} is too large") as caught:
                registry.schema(id)
            assert caught.value.reading.code is ErrorCode.SCHEMA_DECODE


def test_a_proxy_of_the_environment_is_asked_instead(url, monkeypatch):
    monkeypatch.setenv("http_proxy", url.replace("//", "//me:pass%40word@"))
    monkeypatch.delenv("no_proxy", raising=False)
    Handler.answers["http://registry.invalid/x/schemas/ids/7"] = (200, SCHEMA)
    assert Registry(Access("http://registry.invalid/x", token="t0ken")).schema(7)
    assert Handler.asked[-1][1] == "Bearer t0ken"


def test_what_is_read_by_one_configuration_shares_one_registry(url):
    config = load_config((), {}, ("input.format=avro", f"input.registry.url={url}"))
    assert registry_for(config, settle=True) is registry_for(config, settle=True)
    with pytest.raises(Unreadable):
        registry_for(config).schema(9)  # who only looks waits for no new schema


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
    [((403, {}), SchemaUnsettled), ((404, b"<html>"), SchemaUnsettled),
     ((405, {}), SchemaUnsettled), ((200, ["s" * 90] * 90_000), SchemaUnsettled),
     ((503, {}), SchemasAway),
     ((200, b"<html>"), SchemasAway)],
)  # fmt: skip
def test_who_may_not_ask_what_it_knows_believes_what_it_says_of_one_schema(url, answer, error):
    Handler.answers = {SUBJECTS: answer}
    with pytest.raises(SchemasAway) as caught:
        Registry(Access(url)).schema(9)
    assert type(caught.value) is error


def test_feed_adds_its_schema_as_which_user_the_configuration_says(url):
    path = "/subjects/news%2F1-value/versions"
    settings = ("input.format=avro", f"input.registry.url={url}", "input.topic=news")
    settings += ("input.registry.user=me", "input.registry.password=secret")
    config = load_config((), {}, settings)
    Handler.answers["/subjects/news-value/versions"] = (200, {"id": 5})
    assert encoding(config, config.input.topic)(**STORY) == as_avro(5)(**STORY)
    assert Handler.asked[-1][1] == "Basic bWU6c2VjcmV0"
    assert Handler.given[-1] == {"schemaType": "AVRO", "schema": AVRO_SCHEMA}
    del Handler.answers["/subjects/news-value/versions"]
    with pytest.raises(SchemasAway, match="takes no schema of news-value"):
        encoding(config, config.input.topic)
    Handler.answers[path] = (200, {"id": 6})
    references = [("B", "b", 2)]
    assert Registry(Access(url)).register("news/1-value", "AVRO", '"B"', references) == 6
    assert Handler.given[-1]["references"] == [{"name": "B", "subject": "b", "version": 2}]


@pytest.mark.parametrize(
    "answer",
    [(500, {}), (503, b"busy"), (401, {"error_code": 401}), (403, {}), (429, {}),
     (200, b"<html>"), (200, []), (200, DEEP), (200, {"schema": 5}),
     (200, {"schema": "", "references": 5}), (302, "http://127.0.0.1:1/")],
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


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, b"<html>"), "HTTP 200 OK, but it is no JSON; input.registry.url may name a proxy"),
        ((200, {"schema": 5}), "but the answer holds no schema; input.registry.url may name a"),
        ((302, "http://127.0.0.1:1/"), "redirects are not followed; input.registry.url may name"),
    ],
)
def test_a_server_that_is_no_registry_is_said_to_be_one(url, answer, words):
    """It was "HTTP 200 OK, but Expecting value: line 1 column 1 (char 0)"."""
    Handler.answers["/schemas/ids/7"] = answer
    with pytest.raises(SchemasAway) as caught:
        Registry(Access(url)).schema(7)
    assert words in str(caught.value)


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
OAUTH = ("oauth.token_url=https://id/token", "oauth.client_id=a", "oauth.client_secret=hunter2")


def of_registry(*settings: str) -> tuple[str, ...]:
    return (*AVRO, *(f"input.registry.{each}" for each in settings))


@cases(
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
        (of_registry(*OAUTH[:2]), "input.registry.oauth"),
        (of_registry(*OAUTH[1:]), "input.registry.oauth"),
        (of_registry("oauth.scope=a"), "input.registry.oauth"),
        (of_registry("oauth.token_url=id/token", *OAUTH[1:]), "input.registry.oauth.token_url"),
        (of_registry("oauth.token_url=https://a:hunter2@id/token", *OAUTH[1:]),
         "input.registry.oauth.token_url"),
        (of_registry(*OAUTH, "token=hunter2"), "input.registry.oauth"),
        (of_registry(*OAUTH, "user=me", "password=hunter2"), "input.registry.oauth"),
        (of_registry("key_file=a"), "input.registry.key_file"),
        (of_registry("key_password=hunter2"), "input.registry.key_file"),
        (of_registry("certificate_file=a", "url=http://registry"),
         "input.registry.certificate_file"),
        (of_registry("identity_pool=a b"), "input.registry.identity_pool"),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_problems(settings, key):
    problems = read_config((), {}, settings).problems
    assert [problem.key for problem in problems] == [key]
    assert "hunter2" not in str(problems)


def test_the_secrets_of_a_registry_are_shown_nowhere():
    whole = (*OAUTH, "certificate_file=a", "key_password=hunter3")
    before = {"STREAMFILTER_INPUT__REGISTRY__PASSWORD": "12345"}
    for settings, environment, secrets in (
        (("user=me", "password=hunter2"), before, {"hunter2"}),
        (whole, {}, {"hunter2", "hunter3"}),
    ):
        config = load_config((), environment, of_registry(*settings))
        assert config.secrets() == secrets
        assert "hunter" not in json.dumps(config.masked()) + repr(config)
