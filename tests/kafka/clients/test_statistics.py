"""librdkafka's reports: real ones become metrics, and no report can do harm."""

import json
import secrets
import time
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, Producer

from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.batches.pace import Patience
from streamfilter.engine.clock_and_worker import SystemClock
from streamfilter.kafka.brokers.partition_counts import TaskTopics
from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.kafka.ports.sink import KafkaSink
from streamfilter.monitoring.catalogue import CATALOGUE, CLIENTS
from streamfilter.monitoring.client_statistics import Statistics


class Heard:
    def __init__(self) -> None:
        self.added: Counter[str] = Counter()
        self.levels: dict[str, float] = {}
        self.slowest = 0.0
        self.times = 0

    def __call__(self, role, added, levels) -> None:
        assert role in CLIENTS
        self.added.update(added)
        self.levels = dict(levels)
        self.slowest = max(self.slowest, levels["round_trip_seconds"])
        self.times += 1


def report(name: str, seconds: float, **fields) -> str:
    return json.dumps({"name": name, "ts": int(seconds * 1e6), **fields})


def test_a_replaced_producer_adds_what_it_sent_and_the_old_one_has_no_levels_any_more():
    heard = Heard()
    statistics = Statistics(heard)
    statistics.heard("producer", report("a", 1, tx=10, msg_cnt=3))
    statistics.heard("producer", report("a", 6, tx=15, msg_cnt=4))
    statistics.heard("producer", report("b", 7, tx=2, msg_cnt=1))
    assert heard.added["requests"] == 17
    assert heard.levels["queued_records"] == 5
    statistics.heard("producer", report("b", 40, tx=2, msg_cnt=1))
    assert heard.levels["queued_records"] == 1


def test_a_report_that_cannot_be_read_is_dropped():
    heard = Heard()
    for strange in ("", "[]", "{}", '{"name": 1, "ts": 2}', '{"name": "a", "ts": 1, "tx": "x"}'):
        Statistics(heard).heard("data", strange)
    assert heard.times == 0


def test_real_clients_report_every_metric_of_the_catalogue():
    wanted = {m.name.removeprefix("kafka_").removesuffix("_total") for m in CATALOGUE
              if m.name.startswith("kafka_")}  # fmt: skip
    heard = {"producer": Heard(), "data": Heard()}
    with EmbeddedBroker() as broker:
        broker.create_topics({"t": 1})
        brokers = {"bootstrap.servers": broker.bootstrap, "statistics.interval.ms": 50}
        producer = Producer(Statistics(heard["producer"]).watched(brokers, "producer"))
        for number in range(100):
            producer.produce("t", str(number).encode())
        assert producer.flush(30) == 0
        group = {"group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer(Statistics(heard["data"]).watched(brokers | group, "data"))
        consumer.subscribe(["t"])
        deadline, records = time.monotonic() + 180, 0
        while time.monotonic() < deadline and not (
            heard["data"].added["received_messages"] >= 100
            and heard["data"].levels["brokers_up"]
            and heard["producer"].added["sent_messages"] >= 100
        ):
            records += len(consumer.consume(100, 0.2))
            producer.poll(0)
        consumer.close()
    assert records == 100
    assert heard["producer"].added["sent_messages"] == 100
    assert 0 < heard["producer"].slowest < 60
    for each in heard.values():
        assert each.added.keys() | each.levels.keys() == wanted


def test_a_producer_that_has_nothing_to_write_is_heard_too(embedded_stage):
    """Its reports were left in its queue: after an outage it looked cut off until the next one."""
    heard, statistics = Heard(), {"statistics.interval.ms": 50}
    brokers = {"bootstrap.servers": embedded_stage().bootstrap}
    ours = Statistics(heard).watched(brokers | statistics, "producer")
    name = f"idle-{secrets.token_hex(4)}"
    nothing: Any = None
    sink = KafkaSink(
        TaskTopics(Inputs("in"), "changelog", 0),
        nothing,
        nothing,
        lambda _: Producer(ours | {"transactional.id": name}),
        seconds=30.0,
    )
    Patience(SystemClock(), 180).call(sink.open)
    before, deadline = heard.times, time.monotonic() + 180
    while heard.times < before + 3 and time.monotonic() < deadline:
        sink.serve()
        time.sleep(0.05)
    times, up = heard.times, heard.levels["brokers_up"]
    sink.close()
    assert times >= before + 3  # not what the close brought, whose connections are gone
    assert up == 1
