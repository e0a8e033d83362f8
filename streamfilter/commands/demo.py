"""``streamfilter demo``: the real filter on a stream of stories, with nothing installed but us."""

import signal
import socket
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import click

from streamfilter.demo.board import Board, fitted
from streamfilter.demo.running import THRESHOLD, DemoPlan, DemoRun, Wire
from streamfilter.demo.summary import judged, summary
from streamfilter.demo.wire import AVRO_SCHEMA, as_avro
from streamfilter.documents.codecs.schemas import Schema
from streamfilter.documents.decoding import outlines_of
from streamfilter.process import standard
from streamfilter.process.signals import Interruption
from streamfilter.stops import ExitCode

HTTP_PORT = 9464
EXAMPLES = """\b
Examples:
  streamfilter demo
  streamfilter demo --seconds 60 --http 127.0.0.1:9464
  streamfilter demo --broker 127.0.0.1:9092   the same on a real Kafka, with a kill -9 half-way
  streamfilter demo --format avro             the stories as Avro
"""
EMBEDDED = (
    "The embedded broker is the mock cluster of librdkafka: good to watch, and proof of nothing "
    "(it knows no fencing and shows open transactions). `--broker HOST:PORT` names a real Kafka."
)
REAL = "The demo's topics and its group are deleted from the broker afterwards."


@click.command("demo", epilog=EXAMPLES)
@click.option("--seconds", type=click.FloatRange(1, 3_600), default=30.0, show_default=True,
              help="How long stories arrive.")  # fmt: skip
@click.option("--rate", type=click.FloatRange(1, 1_000), default=100.0, show_default=True,
              help="Stories a second.")  # fmt: skip
@click.option("--stories", "count", type=click.IntRange(1),
              help="End after this many stories, if that is earlier.")  # fmt: skip
@click.option("--http", "address", metavar="HOST:PORT",
              help="Address of the page and of /metrics.  "
                   f"[default: 127.0.0.1:{HTTP_PORT}, or a free port]")  # fmt: skip
@click.option("--broker", metavar="HOST:PORT",
              help="A running Kafka, without a password.  "
                   "[default: an embedded broker]")  # fmt: skip
@click.option("--format", type=click.Choice(["json", "avro"]), default="json", show_default=True,
              help="Format of the records.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True,
              help="Number that the stories are made from.")  # fmt: skip
def command(
    seconds: float, rate: float, count: int | None, address: str | None, broker: str | None,
    format: str, seed: int,
) -> int:  # fmt: skip
    """Watch the filter work on a generated stream of news.

    Stories come again with headers, footers or adverts, cropped, updated or copied; others are spam
    or unrelated. They run through `streamfilter run` on a broker. At the end the demo prints
    near-duplicates beside their originals, the place of every record, and recall and precision
    against the exact similarities. Ctrl-C ends it early, with the summary.
    """
    http = _address(address) if address else ("127.0.0.1", _free_port())
    if broker:
        _address(broker)
    with ExitStack() as stack:
        interruption = Interruption()
        stack.enter_context(interruption.listening(again=signal.default_int_handler))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streamfilter-")))
        wire = _avro(directory) if format == "avro" else Wire()
        standard.answer("starting a broker and the filter …")
        demo = DemoRun(DemoPlan(seconds, rate, count, seed, http, broker, wire), directory, stack)
        demo.wait_until_ready()
        where = f"Look at it: {demo.url}/   Metrics: {demo.url}/metrics"
        standard.answer(fitted(f"{REAL if broker else EMBEDDED}\n{where}\n"))
        board = Board(demo)
        demo.run(stopped=interruption.is_set, show=board.show)
        board.last()
        standard.answer("\ncomparing all stories with each other …\n")
        report = judged(demo.ledger, threshold=THRESHOLD)
        standard.answer(fitted(summary(demo.ledger, report, threshold=THRESHOLD)))
        if broker:
            verdict = "nothing lost, nothing doubled" if report.sound else "and it did harm"
            standard.answer(fitted(f"and that with a kill -9 in the middle: {verdict}"))
    return ExitCode.OK if report.sound else ExitCode.BUG


def _avro(directory: Path) -> Wire:
    """Return stories as Avro, with their schema in a file."""
    outlines_of("avro", Schema("AVRO", AVRO_SCHEMA))  # the filter, a child, needs the library
    path = directory / "story.avsc"
    path.write_text(AVRO_SCHEMA)
    return Wire(as_avro(1), {"format": "avro", "schema_file": str(path)})


def _address(text: str) -> tuple[str, int]:
    """Return host and port of *text*."""
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
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
