"""The rights that `run` needs, and what to say when one is missing.

A broker names the kind of resource that it refuses, seldom the resource and never the operation.
So whoever is refused is shown the whole list, which is short.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError

from streamfilter.config.configuration import Config
from streamfilter.engine.ports import LogError
from streamfilter.kafka import clients, unreachable
from streamfilter.kafka.topics import roles
from streamfilter.stops import Refused, Stop, Temporary


def needed(config: Config) -> list[str]:
    """Return the least rights of the user that `run` works as, one a line."""
    outputs = [name for role, name in roles(config).items() if role.startswith("output.")]
    changelog, group = config.changelog_topic, config.kafka.group
    return [
        f"READ on topic {config.input.topic}",
        *(f"WRITE on topic {name}" for name in dict.fromkeys(outputs)),
        f"READ and WRITE on topic {changelog}, and CREATE unless it exists",
        f"READ on group {group}",
        f"WRITE on transactional id {group}.0"
        + (" and its like (prefixed)" if config.index.scope == "partition" else ""),
    ]


@contextmanager
def explained(config: Config) -> Iterator[None]:
    """Add to a refusal inside the block what the user needs."""
    try:
        yield
    except Refused as refused:
        lines = "\n".join(f"    {right}" for right in needed(config))
        raise Refused(f"{refused}\n    the user of kafka.common needs:\n{lines}") from refused


def too_late(error: LogError) -> Stop:
    """Return the end of a process that no broker answered in time, with the reason if known.

    A wrong password is for the operator. A certificate that is refused may be the broker's own,
    and is mended there: trying again later is right.
    """
    told = clients.refusal()
    if told is None:
        message = f"the cluster was not ready within kafka.start_timeout: {error}"
        return Temporary(f"{message}\n    cure: {unreachable.cure()}")
    if told.code() == KafkaError._AUTHENTICATION:
        return Refused(f"no broker let us in: {told.str()} ({error}); mend the credentials")
    return Temporary(f"no broker could be trusted: {told.str()} ({error})")
