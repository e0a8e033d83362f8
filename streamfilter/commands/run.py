"""``streamfilter run``: the service; it runs until it is stopped."""

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path

import click

from streamfilter.assembly import reader_for, telemetry_for
from streamfilter.commands import options
from streamfilter.config.configuration import Config
from streamfilter.documents.codecs.schemas import SchemasAway
from streamfilter.model import Document, Record
from streamfilter.monitoring.metrics import Metrics
from streamfilter.monitoring.web.http import Server
from streamfilter.monitoring.web.pages import Pages
from streamfilter.monitoring.web.questions import Questions
from streamfilter.monitoring.web.showcase import Showcase, Shown
from streamfilter.preflight.disk import query_tokens, refuse_link
from streamfilter.process import standard
from streamfilter.process.health import Health
from streamfilter.process.limits import refuse_small_limits
from streamfilter.process.signals import Interruption
from streamfilter.process.systemd import Notifier
from streamfilter.process.watchdog import Watchdog
from streamfilter.stops import ExitCode

EXAMPLES = """\b
Examples:
  streamfilter run --config streamfilter.yaml
  streamfilter run --config streamfilter.yaml --set kafka.group=news --set http.port=0
  streamfilter run --config streamfilter.yaml --role judge      # with cluster.enabled
  streamfilter run --config streamfilter.yaml --rewrite-changelog   # once, then without
  streamfilter run --config new.yaml --dry-run      # what input.take_over would do
  streamfilter run --config old.yaml --take-over NEW    # back to the old settings
"""

logger = logging.getLogger("streamfilter.run")


@click.command("run", epilog=EXAMPLES)
@options.config_options
@click.option(
    "--accept-positions",
    is_flag=True,
    help="Continue although the group's offsets or the input disagree with the changelog.",
)
@click.option(
    "--rewrite-changelog",
    is_flag=True,
    help="If the changelog lost its beginning, write it again from this host's whole index.",
)
@click.option(
    "--take-over",
    metavar="GROUP",
    help="Go on where the stopped group GROUP ended, with other settings (input.take_over). It may "
    "be the one that took over from this group.",
)
@click.option("--dry-run", is_flag=True, help="With input.take_over: only show what it would do.")
@click.option(
    "--role",
    type=click.Choice(["edge", "judge"]),
    help="With cluster.enabled: what this process does.",
)
def command(
    files: tuple[Path, ...], overrides: tuple[str, ...], accept_positions: bool,
    rewrite_changelog: bool, take_over: str | None, dry_run: bool, role: str | None,
) -> int:  # fmt: skip
    """Filter between Kafka topics, exactly once, until stopped.

    At SIGTERM or Ctrl-C it commits the current batch and ends with 0. If a call to a broker does
    not return, it ends after 20 s with 75, as after a kill. A second process of the same group,
    with its own index.path and http.port, is a standby.
    """
    from streamfilter.kafka.lifecycle.take_over import prepared, preview
    from streamfilter.kafka.service_start import serve

    options.say_unread(files)
    named = () if take_over is None else (f"input.take_over={json.dumps(take_over)}",)
    config = options.load(files, (*overrides, *named))
    if dry_run:
        standard.say(preview(config, back=take_over is not None))
        return ExitCode.OK
    refuse_small_limits()
    refuse_link(config.index.path)
    health = Health(bound_seconds=config.http.stalled_after.total_seconds())
    metrics = Metrics(health)
    showcase = _showcase_for(config)
    questions = Questions.of(files, overrides, query_tokens(config))
    texts, threshold = config.http.show_payloads, config.similarity.threshold
    shown = Shown(config.input.name, config.kafka.group, threshold, config.output.mode, texts)
    pages = Pages(health, metrics, showcase, shown, questions)
    signals = Interruption()
    stalled = partial(metrics.count, "stalls_total")
    http, exit_after = config.http, config.http.exit_after.total_seconds()
    with (
        signals.listening(again=None),
        Server(http.host, http.port, pages=pages, allowed_hosts=http.allowed_hosts) as server,
        Notifier(health),
        Watchdog(health, exit_after=exit_after, stalled=stalled, stopping=signals.came),
        telemetry_for(config, metrics),
    ):
        logger.info("listening on http://%s:%d", *server.address)
        serve(
            config,
            health=health,
            metrics=metrics,
            showcase=showcase,
            stopping=signals.is_set,
            accept_positions=accept_positions,
            rewrite_changelog=rewrite_changelog,
            role=role,
            before=partial(prepared, back=take_over is not None),
        )
    logger.info("stopped; everything taken is committed")
    return ExitCode.OK


def _showcase_for(config: Config) -> Showcase:
    """Return the showcase of the latest near-duplicates, with texts if *config* allows it."""
    if not config.http.show_payloads:
        return Showcase()
    reader = reader_for(config, settle=True)  # with the schemas that the tasks have asked for

    def text_of(record: Record) -> str | None:
        try:
            reading = reader.read(record)
        except SchemasAway:
            return None  # what is shown is worth no pause
        return reading.text if isinstance(reading, Document) else None

    return Showcase(text_of)
