import subprocess
import sys

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter.kafka.embedded import EmbeddedBroker


@pytest.fixture
def broker():
    with EmbeddedBroker() as embedded:
        yield embedded


def test_a_topic_has_the_partitions_it_was_created_with(broker):
    broker.create_topics({"one": 1, "six": 6})
    topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).topics
    assert {name: len(topic.partitions) for name, topic in topics.items()} == {"one": 1, "six": 6}


def test_a_topic_that_exists_is_refused(broker):
    broker.create_topics({"twice": 1})
    with pytest.raises(RuntimeError, match="refused topic twice"):
        broker.create_topics({"twice": 1})


def test_it_carries_a_transaction_with_headers_from_a_group_to_another_topic(broker):
    broker.create_topics({"in": 1, "out": 1})
    group = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    group.subscribe(["in"])
    while not group.assignment():
        group.poll(0.1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("out", b"value", key=b"key", headers=[("h", b"1"), ("h", None)])
    producer.flush(10)
    producer.send_offsets_to_transaction(
        [TopicPartition("in", 0, 1)], group.consumer_group_metadata(), 10
    )
    producer.commit_transaction(10)
    group.close()
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "r"})
    reader.assign([TopicPartition("out", 0, 0)])
    message = reader.poll(10)
    assert (message.key(), message.value()) == (b"key", b"value")
    assert message.headers() == [("h", b"1"), ("h", None)]
    reader.close()


def test_another_process_can_use_it(broker):
    broker.create_topics({"shared": 3})
    story = (
        "import sys; from confluent_kafka.admin import AdminClient\n"
        "admin = AdminClient({'bootstrap.servers': sys.argv[1]})\n"
        "print(len(admin.list_topics('shared', timeout=10).topics['shared'].partitions))\n"
    )
    command = [sys.executable, "-c", story, broker.bootstrap]
    assert subprocess.run(command, capture_output=True, timeout=180).stdout.strip() == b"3"


def test_closing_twice_is_harmless():
    broker = EmbeddedBroker()
    broker.close()
    broker.close()
