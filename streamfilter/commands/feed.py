"""``streamfilter feed``: stories with known duplicates into the input topic, to see a service work.

It gives demonstrations and load tests news-like traffic at a chosen rate. Some records are broken
or empty, as in production.
"""

import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import click

from streamfilter.assembly import registry_for
from streamfilter.commands import options
from streamfilter.config.configuration import Config
from streamfilter.demo.wire import AVRO_SCHEMA, Encode, as_avro, as_json
from streamfilter.documents.codecs.schemas import subject_of
from streamfilter.preflight.schemas import schemas_awaited, waiting_of
from streamfilter.process import standard
from streamfilter.process.signals import Interruption
from streamfilter.stops import ConfigError, ExitCode, Problem, Temporary
from streamfilter.stories.stream import Story, stories

BROKEN_EVERY, EMPTY_EVERY, TOMBSTONE_EVERY = 150, 90, 400
"""Records for each one that is cut, has no text, has no value."""

TURN_SECONDS = 0.05
EXAMPLES = """\b
Examples:
  streamfilter feed --config demo.yaml --create 4 --seconds 0     only make the topics
  streamfilter feed --config demo.yaml --rate 200
"""


@click.command("feed", epilog=EXAMPLES)
@options.config_options
@click.option("--create", "partitions", type=click.IntRange(1, 1_000), metavar="PARTITIONS",
              help="Create the input and output topics that are missing.")  # fmt: skip
@click.option("--rate", type=options.Number(0.1, 20_000), default=100.0, show_default=True,
              help="Stories a second.")  # fmt: skip
@click.option(
    "--seconds", type=options.Number(0), help="How long it writes. Default: until it is stopped."
)
@click.option("--seed", type=int, default=1, show_default=True,
              help="Number that the stories are made from.")  # fmt: skip
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], partitions: int | None, rate: float,
    seconds: float | None, seed: int,
) -> int:  # fmt: skip
    """Write a news-like stream with planted near-duplicates to the configured input topic.

    Never use it on a topic with real data. About half of the stories are duplicates of an
    earlier one; some records are broken, empty or tombstones. The pointers of the
    configuration must be /text and /id. Records are JSON. They are Avro if the configuration
    has input.format: avro and names a registry; their schema is then added to the registry.
    """
    from streamfilter.kafka import topic_sample
    from streamfilter.kafka.brokers import topic_creation
    from streamfilter.kafka.connection.clients import plain_producer
    from streamfilter.kafka.traffic import FEEDING, Feed, TrafficError

    options.say_unread(files)
    config = options.load(files, overrides)
    if seconds != 0:
        _check_pointers(config)
    interruption = Interruption()
    if partitions is None:
        topic_sample.names(config)  # waits for a broker
    else:
        for name in topic_creation.create_all(config, partitions):
            standard.say(f"created {name}")
    topic = topic_sample.written_by_commands(config)
    try:
        feed = Feed(plain_producer(config, FEEDING), topic, partition=None)
        encode, sent = encoding(config, topic), 0
        with interruption.listening(again=None):
            for story in _paced(seed, rate, seconds, interruption):
                sent += 1
                feed.send(record_value(story, sent, encode), key=story.id.encode())
            feed.flush()
    except TrafficError as error:
        raise Temporary(str(error)) from error
    standard.say(f"sent {sent:,} stories to {topic}")
    return ExitCode.OK


def _check_pointers(config: Config) -> None:
    """Refuse a configuration that stories are not for: it is that of a topic that matters.

    Raises `ConfigError`: text and id are elsewhere.
    """
    given = config.input
    if given.format != "text" and (given.text, given.id) != (("/text",), "/id"):
        got = f"text at {', '.join(given.text)}, id at {given.id}; stories have /text and /id"
        cure = "use a topic of its own, with a configuration of its own"
        raise ConfigError([Problem("input.text", got, cure)])


def _paced(
    seed: int, rate: float, seconds: float | None, interruption: threading.Event
) -> Iterator[Story]:
    """Yield stories when they are due, until the time is over or a stop is requested."""
    begun, sent = time.monotonic(), 0
    stream, end = stories(seed), math.inf if seconds is None else seconds
    while not interruption.is_set() and (elapsed := time.monotonic() - begun) < end:
        while sent < elapsed * rate:
            sent += 1
            yield next(stream)
        interruption.wait(TURN_SECONDS)


def encoding(config: Config, topic: str) -> Encode:
    """Return what makes values for *topic*; of Avro, once the registry knows their schema."""
    registry = registry_for(config) if config.input.format == "avro" else None
    if registry is None:
        return as_json
    subject = subject_of(topic)
    id_ = schemas_awaited(
        waiting_of(config), lambda: registry.register(subject, "AVRO", AVRO_SCHEMA)
    )
    return as_avro(id_)


def record_value(story: Story, number: int, encode: Encode = as_json) -> bytes | None:
    """Return the record of the *number*-th story, but broken, empty or null now and then."""
    if number % TOMBSTONE_EVERY == 0:
        return None
    value = encode(story.id, "" if number % EMPTY_EVERY == 0 else story.text)
    return value[: len(value) // 2] if number % BROKEN_EVERY == 0 else value
