"""Starts a real Kafka of one node: `python -m deploy.local`. Ctrl-C ends it."""

from __future__ import annotations

import click

from deploy.local.jars import BrokerUnavailableError
from deploy.local.real import RealKafka
from streamfilter.process.signals import Interruption


@click.command()
@click.option("--port", type=click.IntRange(1, 65_535), help="Its port.  [default: a free one]")
def main(port: int | None) -> None:
    """Run Apache Kafka on this machine until Ctrl-C; its data is deleted then."""
    interruption = Interruption()
    try:
        with interruption.listening(again=None), RealKafka(port=port) as kafka:
            click.echo(f"{kafka.bootstrap}   Ctrl-C ends it. Try it in another terminal:")
            click.echo(f"    streamfilter demo --broker {kafka.bootstrap}")
            interruption.wait()
    except BrokerUnavailableError as missing:
        raise click.ClickException(str(missing)) from missing


if __name__ == "__main__":
    main()
