"""The topics between edges and judge: created like the changelog, and checked like it.

| topic      | settings that it must have                                                     |
|------------|--------------------------------------------------------------------------------|
| `sketches` | not compacted; an hour of retention is enough, and nothing depends on it       |
| `verdicts` | not compacted; it keeps records as long as the input, or they are forwarded never |

Both have as many partitions as the input.
"""

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

from streamfilter.cluster.ranges import RANGE_BYTES, RANGE_BYTES_MIN
from streamfilter.config.configuration import Config
from streamfilter.engine.messages.forwarding import BATCH_OVERHEAD
from streamfilter.engine.ports import Retriable
from streamfilter.kafka.brokers.topic_creation import LATE, NewTopic, create_topic
from streamfilter.kafka.brokers.topics import (
    BROKERS_TIME,
    MESSAGE_BYTES,
    MESSAGE_LIMIT,
    Topics,
    describe,
    described,
    inputs_of,
    largest_output,
    sendable,
    widening,
)
from streamfilter.kafka.connection.clients import admin_client
from streamfilter.kafka.connection.one_shot_calls import asked_once
from streamfilter.stops import Problem

RETENTION, SIZE = "retention.ms", "retention.bytes"
HOUR_MS = 3_600_000
FOREVER = -1
DEFAULT_RETENTION = "604800000"


def create_missing(config: Config, admin: AdminClient, found: Topics) -> list[str]:
    """Create which of the two topics *found* lacks; return their names, or raise `LogError`."""
    sources = inputs_of(config, found).values()
    partitions = sum(each.partitions for each in sources)
    kept = max((_kept(each.settings) for each in sources), default=FOREVER)
    forever = any(_kept(each.settings) == FOREVER for each in sources)
    largest = max(MESSAGE_BYTES, largest_output(config, found))
    common = {"cleanup.policy": "delete", MESSAGE_LIMIT: str(largest), **BROKERS_TIME}
    settings = {
        config.sketches_topic: {RETENTION: str(HOUR_MS)},
        config.verdicts_topic: {RETENTION: str(FOREVER if forever else kept), SIZE: "-1"},
    }
    missing = [name for name in settings if name not in found]
    for name in missing:
        create_topic(
            admin, NewTopic(name, num_partitions=partitions, config=common | settings[name])
        )
    return missing


def with_cluster_topics(config: Config, admin: AdminClient) -> Topics:
    """Return our topics once brokers know both of them; create them if needed."""
    found = describe(config, admin)
    if missing := create_missing(config, admin, found):
        raise Retriable(f"{', '.join(missing)}: created, and brokers do not know of it yet")
    return found


def create(config: Config) -> list[str]:
    """Create the missing ones for `check --apply`; return their names, or raise `Stop`."""
    if not config.cluster.enabled:
        return []
    admin = admin_client(config)
    found = described(config, admin)
    if not inputs_of(config, found):
        return []
    with asked_once(cure=LATE):
        return create_missing(config, admin, found)


def range_bytes(config: Config, found: Topics) -> int:
    """Return the most bytes of a range: what both topics and our own producer take."""
    smallest = min(found[name].message_bytes for name in config.cluster_topics.values())
    return min(RANGE_BYTES, sendable(config, smallest) - BATCH_OVERHEAD)


def _kept(settings: Mapping[str, str]) -> int:
    return int(settings.get(RETENTION, DEFAULT_RETENTION))


def problems_of_cluster(config: Config, found: Topics) -> list[Problem]:
    """Return the settings of the two topics with which edges and judge cannot work."""
    sources = inputs_of(config, found).values()
    partitions = sum(each.partitions for each in sources)
    problems = []
    for role, name in config.cluster_topics.items():
        topic = found.get(name)
        if topic is None:
            continue
        if topic.compacted:
            got = f"topic {name!r} is compacted, and its records have no keys"
            cure = f"kafka-configs.sh --alter --topic {name} --add-config cleanup.policy=delete"
            problems.append(Problem(role, got, cure))
        if topic.message_bytes < RANGE_BYTES_MIN:
            got = f"topic {name!r} takes messages of {topic.message_bytes} bytes at most"
            cure = f"kafka-configs.sh --alter --topic {name} --add-config {MESSAGE_LIMIT}=1048588"
            problems.append(Problem(role, got, cure))
        if topic.partitions < partitions:
            got = f"topic {name!r} has {topic.partitions} partitions; the input has {partitions}"
            cure = f"{widening(name, partitions)}, then start the judges, then the edges"
            problems.append(Problem(role, got, cure))
    return problems


def warnings_of_cluster(config: Config, found: Topics) -> list[Problem]:
    """Return a warning if verdicts may be deleted before their records are."""
    verdicts = found.get(config.verdicts_topic)
    if not config.cluster.enabled or verdicts is None:
        return []
    kept = _kept(verdicts.settings)
    longest = [_kept(each.settings) for each in inputs_of(config, found).values()]
    short = kept != FOREVER and any(each == FOREVER or each > kept for each in longest)
    bounded = int(verdicts.settings.get(SIZE, "-1")) != FOREVER
    if not short and not bounded:
        return []
    setting = f"{RETENTION}={kept}" if short else f"{SIZE}={verdicts.settings[SIZE]}"
    got = (
        f"topic {config.verdicts_topic!r} has {setting}: verdicts may be deleted before they are "
        "used, and edges that were away for as long refuse to go on"
    )
    wanted = f"{RETENTION}={FOREVER if FOREVER in longest else max(longest, default=FOREVER)}"
    cure = (
        f"kafka-configs.sh --alter --topic {config.verdicts_topic} --add-config "
        f"{wanted if short else SIZE + '=-1'}"
    )
    return [Problem("cluster (verdicts)", got, cure, warning=True)]
