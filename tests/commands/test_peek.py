"""`peek`: how records are read, from a topic or a file; nothing is joined, committed or made."""

import json

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter import cli
from streamfilter.documents.codecs import registry
from streamfilter.kafka.embedded import EmbeddedBroker
from tests.documents.registry_stub import Handler, url  # noqa: F401
from tests.documents.test_avro import frame
from tests.documents.test_protobuf import ARTICLE, written

REGISTRY = "input.registry.url="
WORDS = "the old mill by the river was sold"
ROWS = [
    {"id": "a-1", "text": f"{WORDS} \x1b[2J\u202e"}, {"id": "a-2", "body": WORDS},
    {"id": "a-3", "text": 7}, {"id": "a-4", "text": " "},
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("alone")


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker() as embedded:
        embedded.create_topics({"articles": 2, "framed": 1, "empty": 1, "other": 1})
        producer = Producer({"bootstrap.servers": embedded.bootstrap})
        for number in range(40):
            value = json.dumps(article(number)).encode()
            producer.produce("articles", value, f"k{number}", partition=number % 2,
                             timestamp=1_700_000_000_000 + number)  # fmt: skip
            producer.produce("framed", frame(b"\0" + written(), 7))
        producer.produce("other", None, "gone", timestamp=5)
        producer.produce("other", b"{", "hunter2", timestamp=6)
        producer.flush(30)
        yield embedded.bootstrap


def article(number):
    return {"uuid": f"u-{number}", "body": f"{WORDS} {number}", "title": "of a mill"}


def peek(capsys, *arguments, code=0):
    assert cli.main(["peek", *arguments]) == code
    return capsys.readouterr().out


def of_topic(broker, topic, *settings):
    given = (f"input.topic={topic}", f"kafka.common.bootstrap.servers={broker}", *settings)
    return [each for one in given for each in ("--set", one)]


def test_records_of_a_file_are_shown_as_they_would_be_read(capsys, tmp_path):
    (tmp_path / "news.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    said = peek(capsys, "news.jsonl")
    assert "news.jsonl 0 @ 1: document" in said
    assert f'id    "a-1"\n    text  "{WORDS} \\x1b[2J\\u202e" 9 words' in said, "no escapes"
    assert 'missing_text: there is no /text\n    it has "/id", "/body"' in said
    assert "wrong_type: /text is an integer; it must be a string" in said
    assert "@ 4: passthrough (" in said
    assert "2 dead letter, 1 document, 1 passthrough" in said
    assert "@ 2" not in peek(capsys, "news.jsonl", "-n", "1")
    told = json.loads(peek(capsys, "news.jsonl", "-o", "json"))["records"]
    assert [each["reading"] for each in told] == (
        ["document", "dead_letter", "dead_letter", "passthrough"]
    )
    assert told[0]["text"] == ROWS[0]["text"]


def test_values_beside_the_text_are_shown_and_one_that_no_record_has_is_a_warning(capsys, tmp_path):
    rows = [{"id": "a", "text": WORDS, "tenant": "\x1b[2J"}, {"id": "b", "text": WORDS}]
    (tmp_path / "news.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    said = peek(capsys, "news.jsonl", "--set", "index.scope_field=/tenant")
    assert '    /tenant  "\\u001b[2J"\n' in said
    assert "    /tenant  none\n" in said
    assert "warning" not in said
    wrong = ("news.jsonl", "--set", "index.scope_field=/tenent", "--set", "verify.agree_on=[/id]")
    said = peek(capsys, *wrong)
    assert "warning: index.scope_field: none of 2 documents has /tenent" in said
    assert "verify.agree_on" not in said
    first = json.loads(peek(capsys, *wrong, "-o", "json"))["records"][0]
    assert first["values"] == {"/id": '"a"', "/tenent": None}


def test_rows_of_a_file_are_shown_and_an_empty_file_is_called_by_its_name(capsys, tmp_path):
    (tmp_path / "news.csv").write_text(f"id,text\n1,{WORDS}\n2\n")
    assert peek(capsys, "news.csv").splitlines() == [
        "news.csv 0 @ 2: document (36 bytes)", '    id    "1"', f'    text  "{WORDS}" 8 words',
        "news.csv 0 @ 3: dead letter (1 byte)",
        "    schema_decode: the row has 1 cell, the first one 2",
        "1 document, 1 dead letter",
    ]  # fmt: skip
    (tmp_path / "empty.jsonl").write_text("\n")
    assert peek(capsys, "empty.jsonl") == "empty.jsonl holds no records\n"


def test_the_latest_or_first_records_of_a_topic_are_shown_and_where_the_text_seems_to_be(
    broker, capsys
):
    said = peek(capsys, *of_topic(broker, "articles"), code=65)
    assert said.count("missing_text: there is no /text") == 5
    assert "articles 1 @ 19" in said
    assert (
        "most words are at /body (9 words at the median; also /title): --set input.text=/body"
        in said
    )
    assert "a different id is at /uuid: --set input.id=/uuid" in said
    right = ("input.text=/body", "input.id=key")
    said = peek(capsys, *of_topic(broker, "articles", *right), "--from", "earliest", "-n", "3")
    assert said.splitlines()[0] == 'articles 0 @ 0: document (85 bytes, key "k0")'
    assert [f'id    "k{number}"' in said for number in range(4)] == [True] * 3 + [False]
    assert said.endswith("3 document\n"), "nothing to advise"


def test_nothing_is_joined_committed_or_made(broker, capsys):
    group = "kafka.group=watched"
    peek(capsys, *of_topic(broker, "articles", group, "input.text=/body", "input.id=/uuid"))
    admin = AdminClient({"bootstrap.servers": broker})
    topics = {name for name in admin.list_topics(timeout=10).topics if not name.startswith("__")}
    assert topics == {"articles", "framed", "empty", "other"}
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "watched"})
    (spot,) = consumer.committed([TopicPartition("articles", 0)], timeout=10)
    consumer.close()
    assert spot.offset < 0


def test_a_topic_that_is_not_there_or_empty_is_reported_and_secrets_are_masked(broker, capsys):
    assert cli.main(["peek", *of_topic(broker, "article")]) == 78
    assert "did you mean articles? topics there: articles, empty" in capsys.readouterr().err
    assert peek(capsys, *of_topic(broker, "empty")) == "empty holds no records\n"
    masked = of_topic(broker, "other", "kafka.common.sasl.password=hunter2")
    said = peek(capsys, *masked)
    assert "tombstone" in said
    assert "invalid_json" in said
    assert "hunter2" not in said


def test_values_of_a_schema_are_decoded_as_a_whole_and_without_one_it_is_said(
    broker, capsys, tmp_path
):
    said = peek(capsys, *of_topic(broker, "framed"), code=65)
    assert "they begin with the id of a registry's schema: set input.format to avro, proto" in said
    (tmp_path / "article.proto").write_text(ARTICLE)
    schema = ("input.format=protobuf", "input.schema_file=article.proto")
    said = peek(capsys, *of_topic(broker, "framed", *schema, "input.text=/subtitle"), code=65)
    assert "missing_text: there is no /subtitle" in said
    assert 'it has "/id", "/text"' in said
    assert "most words are at /text (2 words at the median" in said
    assert 'text  "a störy" 2 words' in peek(capsys, *of_topic(broker, "framed", *schema))


def test_a_registry_that_is_slow_to_answer_is_waited_for(broker, capsys, url, monkeypatch):  # noqa: F811
    monkeypatch.setattr(registry, "SLOW_SECONDS", -1.0)
    Handler.answers["/schemas/ids/7"] = (200, {"schema": ARTICLE, "schemaType": "PROTOBUF"})
    said = peek(capsys, *of_topic(broker, "framed", "input.format=protobuf", REGISTRY + url))
    assert 'text  "a störy" 2 words' in said
    assert "waits" not in said


def test_a_registry_that_does_not_answer_lets_records_wait(broker, capsys):
    away = ("input.format=protobuf", REGISTRY + "http://127.0.0.1:1", "kafka.start_timeout=1s")
    said = peek(capsys, *of_topic(broker, "framed", *away))
    assert "framed 0 @ 39: waits" in said
    assert "refused" in said
