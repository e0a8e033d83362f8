"""The check of existing records (`check --connect`): whether they can be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from streamfilter.commands.peek import Seen, advice, look, proposed
from streamfilter.config.configuration import Config
from streamfilter.kafka import sampling
from streamfilter.model import Malformed
from streamfilter.stops import ConfigError, Problem

RECORDS = 200
"""Looked at, the latest of all partitions; a service would pause by a share of some hundred."""


def check_records(config: Config) -> list[Problem]:
    """Return how many of the input's latest records would be dead letters, and why.

    Raises:
        Stop: the brokers do not answer (`Temporary`), or refuse us.
    """
    try:
        records = sampling.latest(config, RECORDS)
    except ConfigError:
        return []  # there is no such topic, which is said elsewhere
    seen = look(config, records)
    broken = [each for each in seen if isinstance(each.reading, Malformed)]
    return [_problem(config, seen, broken)] if broken else []


def _problem(config: Config, seen: Sequence[Seen], broken: Sequence[Seen]) -> Problem:
    codes = Counter(str(each.as_json()["error_code"]) for each in broken)
    counted = ", ".join(f"{count:,} {code}" for code, count in codes.most_common())
    example = broken[-1].record.source
    pauses = sampling.would_pause(config, len(seen), len(broken))
    advised = "; ".join(advice(config, proposed(config, seen)))
    return Problem(
        "input.text" if not config.input.records else "input.fields",
        f"{len(broken):,} of the latest {len(seen):,} records of {config.input.topic} cannot be "
        f"read and would be dead letters: {counted}; such as partition {example.partition}, "
        f"offset {example.offset}",
        f"{f'{advised}; ' if advised else ''}`streamfilter peek` shows what they have instead",
        warning=not pauses and len(broken) < len(seen),
    )
