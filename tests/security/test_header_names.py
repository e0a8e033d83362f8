"""What the client makes of a header's name that is no text."""

from confluent_kafka import Consumer, TopicPartition

from streamfilter.kafka.embedded import EmbeddedBroker
from streamfilter.kafka.ports.source import record_of
from streamfilter.model import Record, Source
from tests.security.test_poison_on_kafka import RawProducer


def test_a_header_name_ends_at_its_nul_and_no_one_can_tell() -> None:
    """librdkafka has the whole name, and hands it out as a C string; the binding takes that.

    If this fails, a client has learnt to do better: keep such names whole then, or make them
    `bad_header`, and mend the README's "Guarantees, and their limits".
    """
    with EmbeddedBroker() as broker:
        producer = RawProducer(broker.bootstrap)
        headers = (("a\0b", b"1"), ("\0", b"2"), ("whole", b"3"))
        producer.send("names", Record(Source("names", 0, 0), b"k", b"v", headers))
        producer.flush()
        producer.close()
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("names", p, 0) for p in range(4)])
        message = None
        while message is None or message.error():
            message = consumer.poll(60)
        record = record_of(message)
        consumer.close()
    assert record.headers == (("a", b"1"), ("", b"2"), ("whole", b"3"))
    assert record.headers_error is None
