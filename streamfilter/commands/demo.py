"""``streamfilter demo``: the real filter on a stream of stories, with nothing installed but us."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from streamfilter.demo.board import Board
from streamfilter.demo.ledger import INPUT
from streamfilter.demo.running import THRESHOLD, DemoPlan, DemoRun, Wire
from streamfilter.demo.summary import judged, summary
from streamfilter.demo.terminal import fitted
from streamfilter.demo.wire import AVRO_SCHEMA, as_avro
from streamfilter.kafka.broker import Broker
from streamfilter.kafka.broker.node import free_ports, is_free
from streamfilter.process import standard
from streamfilter.process.signals import Interruption
from streamfilter.stops import ExitCode, Temporary

HTTP_PORT = 9464
EXAMPLES = """\b
Examples:
  streamfilter demo
  streamfilter demo --seconds 60 --http 127.0.0.1:9464
  streamfilter demo --broker kafka     the same on a real Apache Kafka, with a kill -9 half-way
  streamfilter demo --format avro      the stories as Avro; beside a real Kafka, a real registry
"""
EMBEDDED = (
    "The embedded broker is the mock cluster of librdkafka: good to watch, and proof of nothing "
    "(it knows no fencing and shows open transactions). `demo --broker kafka` is the real thing."
)
REAL = "Apache Kafka runs on this machine for as long as you watch; its data is deleted afterwards."


@click.command("demo", epilog=EXAMPLES)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 3_600),
    default=30.0,
    show_default=True,
    help="How long stories come in.",
)
@click.option(
    "--rate",
    type=click.FloatRange(1, 1_000),
    default=100.0,
    show_default=True,
    help="Stories a second.",
)
@click.option(
    "--stories", "count", type=click.IntRange(1), help="End after so many, if that is earlier."
)
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    help=f"Where the page and /metrics are.  [default: 127.0.0.1:{HTTP_PORT}, or a free port]",
)
@click.option(
    "--broker",
    type=click.Choice(["embedded", "kafka"]),
    default="embedded",
    show_default=True,
    help="kafka: a real one, by this machine's Java and Maven.",
)
@click.option(
    "--format",
    type=click.Choice(["json", "avro"]),
    default="json",
    show_default=True,
    help="What records are; with a real Kafka, Avro's schema is in a real schema registry.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Which stories come.")
def command(
    seconds: float,
    rate: float,
    count: int | None,
    address: str | None,
    broker: str,
    format: str,
    seed: int,
) -> int:
    """See it work: stories come back in disguise, and the filter finds them.

    A news-like stream (republished with headers, footers and adverts, cropped, updated,
    mirrored, spam, unrelated ones) runs through `streamfilter run` on a local broker. At the
    end: near-duplicates beside their originals, where every record is, and recall and precision
    against the exact similarities. Ctrl-C ends it early, with the summary.
    """
    real = broker == "kafka"
    http = _http(address)
    with ExitStack() as stack:
        interruption = Interruption()
        stack.enter_context(interruption.listening(again=signal.default_int_handler))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streamfilter-")))
        wire = _avro(stack, directory, real=real) if format == "avro" else Wire()
        plan = DemoPlan(seconds, rate, count, seed, http, crash=real, wire=wire)
        demo = _prepared(stack, plan, directory, real=real)
        where = f"Look at it: {demo.url}/   Metrics: {demo.url}/metrics"
        standard.answer(fitted(f"{REAL if real else EMBEDDED}\n{where}\n"))
        board = Board(demo)
        demo.run(stopped=interruption.is_set, show=board.show)
        board.last()
        standard.answer("\ncomparing all stories with each other …\n")
        report = judged(demo.ledger, threshold=THRESHOLD)
        standard.answer(fitted(summary(demo.ledger, report, threshold=THRESHOLD)))
        if real:
            verdict = f"and that with a kill -9 in the middle: {_verdict(report.sound)}"
            standard.answer(fitted(verdict))
    return ExitCode.OK if report.sound else ExitCode.BUG


def _verdict(sound: bool) -> str:
    return "nothing lost, nothing doubled" if sound else "and it did harm"


def _prepared(stack: ExitStack, plan: DemoPlan, directory: Path, *, real: bool) -> DemoRun:
    """Return a demo whose broker and filter are ready; *stack* ends both."""
    standard.answer("starting a broker and the filter …")
    broker = _broker(stack, real=real)
    demo = stack.enter_context(DemoRun(plan, broker, directory, changelog=not real))
    demo.wait_until_ready()
    return demo


def _broker(stack: ExitStack, *, real: bool) -> Broker:
    if not real:
        from streamfilter.kafka.broker.embedded import EmbeddedBroker

        return stack.enter_context(EmbeddedBroker())
    from streamfilter.kafka.broker.real import RealKafka

    with _available():
        return stack.enter_context(RealKafka())


def _avro(stack: ExitStack, directory: Path, *, real: bool) -> Wire:
    """Return stories as Avro: their schema is in a file, or in a registry that *stack* ends."""
    if not real:
        path = directory / "story.avsc"
        path.write_text(AVRO_SCHEMA)
        return Wire(as_avro(1), {"format": "avro", "schema_file": str(path)})
    from streamfilter.documents.schemas import subject_of
    from streamfilter.kafka.broker.registry import RealRegistry

    standard.answer("starting a schema registry …")
    with _available():
        registry = stack.enter_context(RealRegistry())
    known_as = registry.register(subject_of(INPUT), "AVRO", AVRO_SCHEMA)
    return Wire(as_avro(known_as), {"format": "avro", "registry": {"url": registry.url}})


@contextmanager
def _available() -> Iterator[None]:
    """Say what is missing on this machine."""
    from streamfilter.kafka.broker.jars import BrokerUnavailableError

    try:
        yield
    except BrokerUnavailableError as missing:
        raise Temporary(str(missing)) from missing


def _http(address: str | None) -> tuple[str, int]:
    """Return host and port; without a wish the usual port, or a free one if it is taken."""
    if address is None:
        return "127.0.0.1", HTTP_PORT if is_free(HTTP_PORT) else free_ports(1)[0]
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdigit() and 0 < int(port) < 2**16):
        raise click.BadParameter(f"{address!r} is not HOST:PORT, such as 127.0.0.1:{HTTP_PORT}")
    return host, int(port)
