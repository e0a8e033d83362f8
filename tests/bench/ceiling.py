"""The ceiling: the same client copies the same records transactionally and does nothing else.

    python -m tests.bench.ceiling CONFIG RECORDS

What this program reaches is what the broker and the client leave to any exactly-once filter; the
benchmark shows ours beside it. It copies the configured input to the topic of unique records,
one transaction a batch. It prints how long RECORDS took from the first commit to the last.
"""

import json
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from streamfilter.config.configuration import Config
from streamfilter.config.loading import load_config
from streamfilter.kafka.brokers.topics import MESSAGE_BYTES
from streamfilter.kafka.connection.clients import Sizes, data_properties, producer_properties

SECONDS_MAX = 30.0
SIZES = Sizes(message=MESSAGE_BYTES, batch=MESSAGE_BYTES)


def copy(config: Config, records: int) -> tuple[int, float]:
    """Copy *records*; return how many came after the first commit, and the seconds they took."""
    ours = {"auto.offset.reset": "earliest", "enable.partition.eof": False}
    properties = {**data_properties(config), **ours}
    consumer = Consumer(properties)
    producer = Producer(
        {
            name: value
            for name, value in producer_properties(
                config, transactional_id=f"{config.kafka.group}.ceiling", sizes=SIZES
            ).items()
            if name != "allow.auto.create.topics"
        }
    )
    producer.init_transactions(SECONDS_MAX)
    consumer.subscribe([config.input.topic])
    done = first = _copy_batch(consumer, producer, config)
    begun = time.perf_counter()
    while done < records:
        done += _copy_batch(consumer, producer, config)
    seconds = time.perf_counter() - begun
    consumer.close()
    return done - first, seconds


def _copy_batch(consumer: Consumer, producer: Producer, config: Config) -> int:
    """Copy one batch in one transaction, in the filter's own order of calls."""
    latency = config.batch.latency.total_seconds()
    output = str(config.output.unique)
    while not (messages := consumer.consume(config.batch.documents, latency)):
        pass
    producer.begin_transaction()
    next_offsets: dict[int, int] = {}
    for message in messages:
        if (error := message.error()) is not None:
            raise KafkaException(error)
        partition = message.partition() or 0
        producer.produce(output, value=message.value(), key=message.key(), partition=partition)
        next_offsets[partition] = (message.offset() or 0) + 1
    producer.flush(SECONDS_MAX)
    offsets = [TopicPartition(config.input.topic, p, o) for p, o in next_offsets.items()]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS_MAX)
    producer.commit_transaction(SECONDS_MAX)
    return len(messages)


def main(config_file: str, records: str) -> None:
    """Copy and print the result as JSON."""
    copied, seconds = copy(load_config([Path(config_file)]), int(records))
    print(json.dumps({"records": copied, "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
