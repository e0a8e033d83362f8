"""``streamfilter run``: the service, until it is told to stop."""

from __future__ import annotations

import logging
import resource
from pathlib import Path

import click

from streamfilter.assembly import showcase_for, shown_of
from streamfilter.commands import options
from streamfilter.commands.signals import stop_signals
from streamfilter.health import Health
from streamfilter.http import Server
from streamfilter.metrics import Metrics
from streamfilter.pages import Pages
from streamfilter.stops import ConfigError, ExitCode, Problem
from streamfilter.systemd import Notifier
from streamfilter.watchdog import Watchdog

EXAMPLES = """\b
Examples:
  streamfilter run --config streamfilter.yaml
  streamfilter run --config streamfilter.yaml --set kafka.group=news --set http.port=0
"""

FILES_MIN = 128
"""Five clients of three sockets and pipes each, half of the limit for RocksDB's tables, HTTP."""

logger = logging.getLogger("streamfilter.run")


@click.command("run", epilog=EXAMPLES)
@options.config_options
@click.option(
    "--accept-positions",
    is_flag=True,
    help="Go on where the group's offsets or the input disagree with the changelog.",
)
def command(files: tuple[Path, ...], overrides: tuple[str, ...], accept_positions: bool) -> int:
    """Filter between Kafka topics, exactly once, until stopped.

    SIGTERM or Ctrl-C: the batch is finished and committed, then the process ends with 0. A
    second process of the same group (with its own index.path and http.port) stands by.
    """
    from streamfilter.kafka.serving import serve  # the wire takes a moment; a wrong file does not

    config = options.load(files, overrides)
    _refuse_few_files()
    health = Health(bound_seconds=config.http.stalled_after.total_seconds())
    metrics = Metrics(health)
    showcase = showcase_for(config)
    pages = Pages(health, metrics, showcase, shown_of(config))
    told = stop_signals()
    exit_after = config.http.exit_after.total_seconds()
    with (
        Server(config.http.host, config.http.port, pages=pages) as server,
        Notifier(health),
        Watchdog(health, exit_after=exit_after, stalled=metrics.stalled),
    ):
        logger.info("listening on http://%s:%d", *server.address)
        serve(
            config,
            health=health,
            metrics=metrics,
            showcase=showcase,
            stopping=told.is_set,
            accept_positions=accept_positions,
        )
    logger.info("stopped; everything taken is committed")
    return ExitCode.OK


def _refuse_few_files() -> None:
    """Stop where too few files may be open: clients would wait for sockets without end."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES_MIN:
        got = f"this process may open {soft} files; expected at least {FILES_MIN}"
        cure = "ulimit -n 1024, or LimitNOFILE= of the systemd unit"
        raise ConfigError([Problem("limit of open files", got, cure)])
