"""``streamfilter demo``: the real filter on a stream of stories, with nothing installed but us.

With ``--feed``, the stories go to the input topic of a service: news-like traffic at a chosen rate.
Some records are broken or empty, as in production.
"""

import math
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import click
from click.core import ParameterSource

from streamfilter.assembly import registry_for
from streamfilter.commands import options
from streamfilter.config.configuration import Config
from streamfilter.demo.board import Board, fitted
from streamfilter.demo.running import THRESHOLD, DemoPlan, DemoRun, Wire, free_ports
from streamfilter.demo.summary import judged, summary
from streamfilter.demo.wire import AVRO_SCHEMA, Encode, as_avro, as_json
from streamfilter.documents.codecs.schemas import Schema, subject_of
from streamfilter.documents.decoding import outlines_of
from streamfilter.preflight.schemas import schemas_awaited, waiting_of
from streamfilter.process import standard
from streamfilter.process.signals import Interruption
from streamfilter.stops import ConfigError, ExitCode, Problem, Temporary
from streamfilter.stories.stream import Story, stories

BROKEN_EVERY, EMPTY_EVERY, TOMBSTONE_EVERY = 150, 90, 400
"""Records for each one that is cut, has no text, has no value: only in a service's topic."""

TURN_SECONDS = 0.05
SECONDS = 30.0  # of stories, without a configuration
HTTP_PORT = 9464
EXAMPLES = """\b
Examples:
  streamfilter demo
  streamfilter demo --seconds 60 --http 127.0.0.1:9464
  streamfilter demo --broker 127.0.0.1:9092   the same on a real Kafka, with a kill -9 half-way
  streamfilter demo --edges 2 --broker 127.0.0.1:9092   one index over three processes
  streamfilter demo --format avro             the stories as Avro
  streamfilter demo --feed --config demo.yaml --create 4 --seconds 0   only make the topics
  streamfilter demo --feed --config demo.yaml --rate 200               stories for your service
\b
With --feed, the stories go to the input topic of --config instead, until it is stopped. Never use
it on a topic with real data. About half of the stories are duplicates of an earlier one; some
records are broken, empty or tombstones. The pointers of the configuration must be /text and /id.
Records are JSON. They are Avro if the configuration has input.format: avro and names a registry;
their schema is then added to the registry.
"""
EMBEDDED = (
    "The embedded broker is the mock cluster of librdkafka: good to watch, and proof of nothing "
    "(it knows no fencing and shows open transactions). `--broker HOST:PORT` names a real Kafka."
)
REAL = "The demo's topics and its group are deleted from the broker afterwards."


@click.command("demo", epilog=EXAMPLES)
@click.option("--feed", is_flag=True,
              help="Write the stories to the input topic of --config instead.")  # fmt: skip
@options.config_options
@click.option("--create", "partitions", type=click.IntRange(1, 1_000), metavar="PARTITIONS",
              help="With --feed: create the topics that are missing.")  # fmt: skip
@click.option("--seconds", type=options.Number(0),
              help=f"How long stories arrive.  [default: {SECONDS:g}; --feed: no end]")  # fmt: skip
@click.option("--rate", type=options.Number(0.1, 20_000), default=100.0, show_default=True,
              help="Stories a second.")  # fmt: skip
@click.option("--stories", "count", type=click.IntRange(1),
              help="End after this many stories, if that is earlier.")  # fmt: skip
@click.option("--http", "address", metavar="HOST:PORT",
              help="Address of the page and of /metrics.  "
                   f"[default: 127.0.0.1:{HTTP_PORT}, or a free port]")  # fmt: skip
@click.option("--broker", metavar="HOST:PORT",
              help="A running Kafka, without a password.  "
                   "[default: an embedded broker]")  # fmt: skip
@click.option("--edges", type=click.IntRange(0, 8), default=0, show_default="one process",
              help="Edges around one judge; with --broker, an edge and the judge are "
                   "killed.")  # fmt: skip
@click.option("--format", type=click.Choice(["json", "avro"]), default="json", show_default=True,
              help="Format of the records.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True,
              help="Number that the stories are made from.")  # fmt: skip
def command(
    feed: bool, files: tuple[Path, ...], overrides: tuple[str, ...], partitions: int | None,
    seconds: float | None, rate: float, count: int | None, address: str | None,
    broker: str | None, edges: int, format: str, seed: int,
) -> int:  # fmt: skip
    """Watch the filter work on a generated stream of news.

    Stories come again with headers, footers or adverts, cropped, updated or copied; others are spam
    or unrelated. They run through `streamfilter run` on a broker. At the end the demo prints
    near-duplicates beside their originals, the place of every record, and recall and precision
    against the exact similarities. Ctrl-C ends it early, with the summary.
    """
    if feed:
        if count or address or broker or edges or format != "json":
            raise click.UsageError(
                "--stories, --http, --broker, --edges and --format do not go with --feed"
            )
        options.say_unread(files)
        return _feed(options.load(files, overrides), partitions, rate, seconds, seed)
    source = click.get_current_context().get_parameter_source
    if partitions or overrides or source("files") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--create, --config and --set belong to --feed")
    seconds = SECONDS if seconds is None else seconds
    if not (1 <= seconds <= 3_600 and 1 <= rate <= 1_000):
        raise click.BadParameter("a demo takes 1 to 3600 --seconds, and a --rate of 1 to 1000")
    http = _address(address) if address else ("127.0.0.1", _free_port())
    if broker:
        _address(broker)
    with ExitStack() as stack:
        interruption = Interruption()
        stack.enter_context(interruption.listening(again=signal.default_int_handler))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streamfilter-")))
        wire = _avro(directory) if format == "avro" else Wire()
        standard.answer("starting a broker and the filter …")
        plan = DemoPlan(seconds, rate, count, seed, http, broker, wire, edges)
        demo = DemoRun(plan, directory, stack)
        demo.wait_until_ready()
        where = f"Look at it: {demo.url}/   Metrics: {demo.url}/metrics"
        where += f"\nThe judge: {demo.judge_url}/" if edges else ""
        standard.answer(fitted(f"{REAL if broker else EMBEDDED}\n{where}\n"))
        board = Board(demo)
        demo.run(stopped=interruption.is_set, show=board.show)
        board.last()
        standard.answer("\ncomparing all stories with each other …\n")
        report = judged(demo.ledger, threshold=THRESHOLD)
        standard.answer(fitted(summary(demo.ledger, report, threshold=THRESHOLD)))
        if broker:
            verdict = "nothing lost, nothing doubled" if report.sound else "and it did harm"
            what = "of an edge and of the judge" if edges else "in the middle"
            standard.answer(fitted(f"and that with a kill -9 {what}: {verdict}"))
    return ExitCode.OK if report.sound else ExitCode.BUG


def _avro(directory: Path) -> Wire:
    outlines_of("avro", Schema("AVRO", AVRO_SCHEMA))  # the filter, a child, needs the library
    path = directory / "story.avsc"
    path.write_text(AVRO_SCHEMA)
    return Wire(as_avro(1), {"format": "avro", "schema_file": str(path)})


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdigit() and 0 < int(port) < 2**16):
        raise click.BadParameter(f"{text!r} is not HOST:PORT, such as 127.0.0.1:{HTTP_PORT}")
    return host, int(port)


def _free_port() -> int:
    """Return the usual port, or a free one if it is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        with suppress(OSError):
            probe.bind(("127.0.0.1", HTTP_PORT))
            return HTTP_PORT
    return free_ports(1)[0]


def _feed(
    config: Config, partitions: int | None, rate: float, seconds: float | None, seed: int
) -> ExitCode:
    """Write a news-like stream with planted near-duplicates to the configured input topic."""
    from streamfilter.kafka import topic_sample
    from streamfilter.kafka.brokers import topic_creation
    from streamfilter.kafka.connection.clients import plain_producer
    from streamfilter.kafka.traffic import FEEDING, Feed, TrafficError

    if seconds != 0:
        # A configuration with other pointers is that of a topic that matters.
        given = config.input
        if given.format != "text" and (given.text, given.id) != (("/text",), "/id"):
            got = f"text at {', '.join(given.text)}, id at {given.id}; stories have /text and /id"
            cure = "use a topic of its own, with a configuration of its own"
            raise ConfigError([Problem("input.text", got, cure)])
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


def _paced(
    seed: int, rate: float, seconds: float | None, interruption: Interruption
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
