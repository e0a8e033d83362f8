"""Finds records in the outputs of a service that has judged none: another program writes them.

A unique record is forwarded byte for byte, so it does not say which program wrote it. Only before
the first batch of an index it is clear that this index wrote none. It is a warning and no refusal:
the service may have written them under another group, or with an index that was begun anew.
"""

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.kafka.brokers.broker_queries import OffsetSpec, list_offsets
from streamfilter.kafka.brokers.topics import Topics
from streamfilter.model import Positions
from streamfilter.stops import Problem


def warnings_of_outputs(config: Config, admin: AdminClient, found: Topics) -> list[Problem]:
    """Return a warning for each output that has records before our first one, or raise `LogError`.

    The outputs of a group that is taken over are ours.
    """
    changelog = config.changelog_topic
    begun = changelog in found and any(_offsets(admin, found, changelog).values())
    if begun or config.input.take_over is not None:
        return []
    warnings = []
    for name in ("unique", "duplicates"):
        topic = getattr(config.output, name)
        if topic not in found or (count := _held(admin, found, topic)) == 0:
            continue
        got = (
            f"topic {topic!r} has up to {count:,} records, and the group {config.kafka.group} has "
            "judged none: another program writes it, or an index before this one did"
        )
        cure = "if another program writes it, name a topic of this service only"
        if name == "unique":
            cure += (
                "; if they were forwarded before, `streamfilter seed --topic "
                f"{topic}` withholds later copies of them"
            )
        warnings.append(Problem(f"output.{name}", got, cure, warning=True))
    return warnings


def _held(admin: AdminClient, found: Topics, topic: str) -> int:
    starts, ends = (_offsets(admin, found, topic, spec=s) for s in ("earliest", "latest"))
    return sum(end - starts[p] for p, end in ends.items())


def _offsets(admin: AdminClient, found: Topics, topic: str, spec: str = "latest") -> Positions:
    spots = {p: TopicPartition(topic, p) for p in range(found[topic].partitions)}
    level = IsolationLevel.READ_UNCOMMITTED
    return list_offsets(admin, spots, getattr(OffsetSpec, spec)(), level)
