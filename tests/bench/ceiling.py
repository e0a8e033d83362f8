"""The ceiling: the same client copies the same records transactionally and does nothing else.

    python -m tests.bench.ceiling CONFIG RECORDS [rensa]

What this program reaches is what the broker and the client leave to any exactly-once filter; the
benchmark shows ours beside it. It copies the configured input to the topic of unique records,
one transaction a batch. It prints how long RECORDS took from the first commit to the last.

With ``rensa`` it is the loop of a rival that survives its process: rensa judges the texts, withheld
records go to the topic of duplicates, and kept ones also to a changelog, in the same transaction.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from streamfilter.config.configuration import Config
from streamfilter.config.loading import load_config
from streamfilter.kafka.brokers.topics import MESSAGE_BYTES
from streamfilter.kafka.connection.clients import Sizes, data_properties, producer_properties
from tests.bench.peers.loops import rensa_judge

SECONDS_MAX = 30.0
SIZES = Sizes(message=MESSAGE_BYTES, batch=MESSAGE_BYTES)

Judge = Callable[[Iterable[str]], Sequence[bool]]
"""Returns which of the texts are kept."""


def changelog_of(group: str) -> str:
    """Return the topic of the rival's changelog."""
    return f"{group}.rival"


def copy(config: Config, records: int, judge: Judge | None) -> dict[str, float]:
    """Copy *records*; return how many came after the first commit, and what they took."""
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
    done = first = _copy_batch(consumer, producer, config, judge)
    begun, used = time.perf_counter(), time.process_time()
    while done < records:
        done += _copy_batch(consumer, producer, config, judge)
    seconds, used = time.perf_counter() - begun, time.process_time() - used
    consumer.close()
    return {"records": done - first, "seconds": seconds, "processor_seconds": used}


def _copy_batch(consumer: Consumer, producer: Producer, config: Config, judge: Judge | None) -> int:
    """Copy one batch in one transaction, in the filter's own order of calls."""
    latency = config.batch.latency.total_seconds()
    unique, duplicates = str(config.output.unique), str(config.output.duplicates)
    while not (messages := consumer.consume(config.batch.documents, latency)):
        pass
    producer.begin_transaction()
    next_offsets: dict[int, int] = {}
    kept = [True] * len(messages)
    if judge is not None:
        kept = [*judge(json.loads(each.value() or b"")["text"] for each in messages)]
    for message, keep in zip(messages, kept, strict=True):
        if (error := message.error()) is not None:
            raise KafkaException(error)
        partition = message.partition() or 0
        value, key = message.value(), message.key()
        producer.produce(unique if keep else duplicates, value=value, key=key, partition=partition)
        if judge is not None and keep:
            producer.produce(changelog_of(config.kafka.group), value=value, key=key)
        next_offsets[partition] = (message.offset() or 0) + 1
    producer.flush(SECONDS_MAX)
    offsets = [TopicPartition(config.input.topic, p, o) for p, o in next_offsets.items()]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS_MAX)
    producer.commit_transaction(SECONDS_MAX)
    return len(messages)


def main(config_file: str, records: str, name: str = "") -> None:
    """Copy and print the result as JSON."""
    judge = rensa_judge() if name else None
    print(json.dumps(copy(load_config([Path(config_file)]), int(records), judge)))


if __name__ == "__main__":
    main(*sys.argv[1:])
