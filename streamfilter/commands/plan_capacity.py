"""How large a memory becomes: what ``plan --rate --retention --documents`` asks, and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Any, TypeVar

import click

from streamfilter.config.configuration import Config
from streamfilter.config.types import format_duration, format_size, parse_duration
from streamfilter.index.rocks.options import Memory
from streamfilter.monitoring.capacity import Capacity, capacity, remembered
from streamfilter.similarity.shape import Shape

PASSING_MUCH = 0.05
"""Share of the new keys above which the front costs more time than memory."""

Command = TypeVar("Command", bound=Callable[..., Any])


def duration_of(
    _context: click.Context, _option: click.Parameter, value: str | None
) -> timedelta | None:
    """Read a duration, such as ``30d``.

    Raises:
        click.BadParameter: it is none, or no time at all.
    """
    try:
        duration = None if value is None else parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from error
    if duration is not None and duration <= timedelta(0):
        raise click.BadParameter("it would remember nothing; write 30d, or leave it out")
    return duration


_OPTIONS = (
    click.option(
        "--rate",
        type=click.FloatRange(0, min_open=True),
        metavar="R",
        help="Documents a second: say what a memory of them takes.",
    ),
    click.option(
        "--retention",
        callback=duration_of,
        metavar="T",
        help="With --rate: how long a document is remembered, such as 30d.",
    ),
    click.option(
        "--documents",
        type=click.IntRange(1),
        metavar="N",
        help="At most so many are remembered, the last ones.",
    ),
    click.option(
        "--shingles",
        type=click.IntRange(1),
        default=170,
        metavar="K",
        show_default=True,
        help="Of a document, in the mean: more make larger records.",
    ),
)


def capacity_options(command: Command) -> Command:
    """Add ``--rate``, ``--retention``, ``--documents`` and ``--shingles``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def capacity_of(
    shape: Shape,
    config: Config,
    *,
    rate: float | None,
    retention: timedelta | None,
    documents: int | None,
    shingles: int,
) -> Capacity | None:
    """Return the capacity of the requested memory; None if none is requested.

    Raises:
        click.UsageError: it would grow for ever, or a rate is missing.
    """
    if retention is not None and rate is None:
        raise click.UsageError("--retention needs --rate: how many documents come in that time")
    if rate is not None and retention is None and documents is None:
        raise click.UsageError(
            "a memory of a --rate alone grows for ever; give --retention, or --documents"
        )
    most = remembered(rate=rate, retention=retention, most=documents)
    if most is None:
        return None
    bounds = config.memory
    memory = Memory(bounds.index_cache, bounds.memtable, bounds.miss_filter)
    return capacity(shape, most, shingles=shingles, memory=memory)


def as_fields(found: Capacity | None) -> dict[str, object]:
    """Return it for ``-o json``."""
    if found is None:
        return {}
    return {"memory": asdict(found) | {"restore": found.restore.total_seconds()}}


def report(found: Capacity | None) -> list[str]:
    """Return it as lines for a person."""
    if found is None:
        return []
    lines = [
        f"  remembers {found.documents:,} documents, if all that come are unique; a quarter more "
        "are stored (up to twice as many for a while after a limit was raised)",
        f"    disk: about {found.disk_bytes / 1e9:,.2f} GB (while files are merged, some of it "
        "twice)",
        f"    memory: about {found.memory_bytes / 1e9:,.2f} GB, clients and batches not counted",
        f"    changelog: about {found.changelog_bytes / 1e9:,.2f} GB, times its replication "
        "factor, from the oldest window on",
        f"    restore from it into an empty directory: about {_rough(found.restore)}",
    ]
    if found.front_passes > PASSING_MUCH:
        lines.append(
            f"    memory.miss_filter={format_size(found.front_bytes_advised)} would save time: as "
            f"configured, {found.front_passes:.0%} of the new keys are looked for on disk"
        )
    return lines


def _rough(duration: timedelta) -> str:
    """Return a duration that a person can compare."""
    seconds = duration.total_seconds()
    unit = next(each for each in (3_600, 60, 1) if seconds >= 2 * each or each == 1)
    return format_duration(timedelta(seconds=max(1, round(seconds / unit)) * unit))
