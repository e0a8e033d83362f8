"""Starts a real Kafka of one node: `python -m deploy.local`. Ctrl-C ends it."""

from __future__ import annotations

import click

from deploy.local.jars import BrokerUnavailableError
from deploy.local.node import is_free
from deploy.local.real import RealKafka
from streamfilter.process.signals import Interruption

PORT = 9092
"""Kafka's own, so that the examples of all READMEs can be typed as they are."""
BY_HAND = {"auto.create.topics.enable": "true"}
"""There is no tool beside it to create a topic with."""


@click.command()
@click.option(
    "--port", type=click.IntRange(1, 65_535), help=f"Its port.  [default: {PORT}, or a free one]"
)
def main(port: int | None) -> None:
    """Run Apache Kafka on this machine until Ctrl-C; its data is deleted then.

    A topic is created when the first record is written to it.
    """
    interruption = Interruption()
    if port is None and is_free(PORT):
        port = PORT
    try:
        with interruption.listening(again=None), RealKafka(port=port, properties=BY_HAND) as kafka:
            click.echo(f"{kafka.bootstrap}   Ctrl-C ends it. Try it in another terminal:")
            click.echo(f"    streamfilter demo --broker {kafka.bootstrap}")
            click.echo(f"    streamfilter init --broker {kafka.bootstrap} --topic TOPIC")
            interruption.wait()
    except BrokerUnavailableError as missing:
        raise click.ClickException(str(missing)) from missing


if __name__ == "__main__":
    main()
