"""Finds records in the outputs of a service that has judged none: another program writes them.

A unique record is forwarded byte for byte, so it does not say which program wrote it. Only before
the first batch of an index it is clear that this index wrote none. It is a warning and no refusal:
the service may have written them under another group, or with an index that was begun anew.
"""

from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.kafka.brokers.broker_queries import topic_bounds
from streamfilter.kafka.brokers.topics import Topics
from streamfilter.stops import Problem


def warnings_of_outputs(config: Config, admin: AdminClient, found: Topics) -> list[Problem]:
    """Return a warning for each output that has records before our first one, or raise `LogError`.

    The outputs of a group that is taken over are ours.
    """
    changelog = config.changelog_topic
    partitions = found[changelog].partitions if changelog in found else 0
    begun = partitions and any(each.end for each in topic_bounds(admin, changelog, partitions))
    if begun or config.input.take_over is not None:
        return []
    warnings = []
    for name in ("unique", "duplicates"):
        topic = getattr(config.output, name)
        if topic not in found:
            continue
        bounds = topic_bounds(admin, topic, found[topic].partitions)
        if (count := sum(each.end - each.start for each in bounds)) == 0:
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
