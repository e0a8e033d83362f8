"""The examples in config/ do what their comments say, on records of the kind they are for."""

import json

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from deploy.local.node import free_ports
from streamfilter import cli
from streamfilter.assembly import reader_for
from streamfilter.config.loading import load_config
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.model import Document, ErrorCode, Malformed, Record, Source
from tests.recipes.streams import STREAMS
from tests.support.filter_process import FilterProcess
from tests.support.texts import ROOT

ARTICLE = (
    "The council voted on Tuesday to close the bridge over the river for the whole of the summer. "
    "It is the third time in ten years that the piers have to be looked at; the mayor said "
    "that there was no other way. Drivers will have to go by the ring road, which is an hour more."
)
RIVAL = (
    "A cat that was lost in a storm came home after a year in the hills. It had a collar that no "
    "one of the family had bought for it. The owner said on the phone that he was as surprised as "
    "the cat was. It had also put on a lot of weight since it was last seen in the garden."
)
CUSTOMER = {"name": "Maria Antonia Lopez", "address": "12 Mill Lane, Ely", "phone": "01353 661290"}


def change(operation: str, row: dict[str, object] | None) -> dict[str, object]:
    return {"schema": {}, "payload": {"op": operation, "before": None, "after": row, "ts_ms": 1}}


FILES = {
    "customers": (
        [
            {"id": "0", **CUSTOMER},
            {"id": "1", **CUSTOMER, "name": "Maria Antonia Lopes"},
            {"id": "2", "name": "Mario Anton", "address": "Elm Street 4, Ely", "phone": "0135"},
        ],
        [0, 2],
    ),
    "cloudevents": (
        [
            {"specversion": "1.0", "type": "ticket", "source": "/desk", "id": str(number),
             "datacontenttype": "application/json", "data": {"text": text}}
            for number, text in enumerate((ARTICLE, f"{ARTICLE} Indeed.", RIVAL))
        ],
        [0, 2],
    ),
    "connect": (
        [
            {"schema": {"type": "struct", "fields": [{"field": "text", "type": "string"}]},
             "payload": {"id": number, "text": text}}
            for number, text in enumerate((ARTICLE, RIVAL, f"{ARTICLE} Indeed."))
        ],
        [0, 1],
    ),
    "debezium": (
        [
            change("c", {"id": 1, "title": "A bridge", "body": ARTICLE}),
            change("u", {"id": 1, "title": "A bridge", "body": f"{ARTICLE} Indeed."}),
            change("d", None),
            change("c", {"id": 2, "title": None, "body": RIVAL}),
            change("c", {"id": 3, "title": "A bridge", "body": ARTICLE}),
        ],
        [0, 1, 2, 3],
    ),
}  # fmt: skip
"""Records of each kind, and which of them pass."""


pytestmark = pytest.mark.usefixtures("no_settings")


def test_each_example_is_tried_here():
    examples = {path.stem for path in (ROOT / "config").glob("*.yaml")}
    tried = FILES.keys() | STREAMS.keys() | {"tenants"}
    assert examples - {"reference", "streamfilter"} == tried


def test_check_accepts_each_example(monkeypatch, capsys):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "broker:9092")
    shipped = ROOT / "streamfilter" / "config" / "examples"
    for path in sorted([*(ROOT / "config").glob("*.yaml"), *shipped.glob("*.yaml")]):
        assert cli.main(["check", "--config", str(path)]) == 0, (path, capsys.readouterr().out)


@pytest.mark.parametrize("name", FILES)
def test_an_example_lets_each_story_through_once(name, tmp_path, capsys):
    sent, passes = FILES[name]
    lines = [json.dumps(record) for record in sent]
    (tmp_path / "in.jsonl").write_text("".join(f"{line}\n" for line in lines))
    command = ["filter", str(tmp_path / "in.jsonl"), "-c", str(ROOT / f"config/{name}.yaml")]
    outputs = ["--unique", str(tmp_path / "out"), "--duplicates", str(tmp_path / "again")]
    assert cli.main([*command, *outputs]) == 0, capsys.readouterr().err
    assert (tmp_path / "out").read_text().splitlines() == [lines[number] for number in passes]


def test_events_in_binary_mode_are_read_by_their_headers_and_batches_reported_as_that():
    settings = ("input.text=/text", "input.id=header:ce_id")
    binary = reader_for(load_config([ROOT / "config/cloudevents.yaml"], {}, settings))
    headers = (("content-type", b"application/json"), ("ce_id", b"7"), ("ce_type", b"ticket"))
    record = Record(Source("in", 0, 1), None, json.dumps({"text": RIVAL}).encode(), headers)
    assert binary.read(record) == Document("7", RIVAL)
    structured = reader_for(load_config([ROOT / "config/cloudevents.yaml"], {}))
    batch = Record(Source("in", 0, 1), None, json.dumps(FILES["cloudevents"][0]).encode())
    found = structured.read(batch)
    why = "the value is an array, not an object; a record is one document, and no batch"
    assert found == Malformed(ErrorCode.WRONG_TYPE, why)


@pytest.mark.slow
def test_what_one_tenant_sent_is_no_duplicate_for_another(tmp_path):
    names = ("posts", "posts.unique", "posts.duplicates", "posts.dead-letter", "posts.changelog")
    port = free_ports(1)[0]
    with EmbeddedBroker() as broker:
        broker.create_topics(dict.fromkeys(names, 1))
        environment = {
            "KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap,
            "STREAMFILTER_INDEX__PATH": str(tmp_path / "state"),
            "STREAMFILTER_HTTP__PORT": str(port),
        }
        config, log = ROOT / "config/tenants.yaml", tmp_path / "log"
        running = FilterProcess(config, port=port, log=log, environment=environment)
        try:
            send_to_two_tenants(broker.bootstrap)
            found = {name: keys_of(broker.bootstrap, name, count) for name, count in OUT.items()}
        finally:
            assert running.terminate() == 0
    assert found == {"posts.unique": [b"tenant 0", b"tenant 1"], "posts.duplicates": [b"tenant 0"]}


OUT = {"posts.unique": 2, "posts.duplicates": 1}


def send_to_two_tenants(bootstrap: str) -> None:
    """Send an article twice as the first tenant, and once as the second."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, tenant in enumerate((0, 0, 1)):
        value = json.dumps({"id": str(number), "text": ARTICLE, "tenant": tenant}).encode()
        producer.produce("posts", value=value, key=f"tenant {tenant}".encode())
    producer.flush(30)


def keys_of(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(120)
        assert message is not None, f"{len(found)} of {count} in {topic}"
        if message.error() is None:
            found.append(message.key())
    consumer.close()
    return sorted(found)
