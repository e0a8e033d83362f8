"""Repeated checks of a service, beside its tasks: topics, changelog settings, clients."""

from confluent_kafka.admin import AdminClient

from streamfilter.config.configuration import Config
from streamfilter.engine.filter_observer import FilterObserver
from streamfilter.engine.ports import Clock, Layout
from streamfilter.kafka.brokers.changelog_topic import ChangelogWatch
from streamfilter.kafka.brokers.partition_counts import PartitionCounts
from streamfilter.kafka.brokers.topic_watch import TopicsWatch, refuse_stranded
from streamfilter.kafka.brokers.topics import outputs_of
from streamfilter.kafka.brokers.weak_partitions import WeakPartitions
from streamfilter.kafka.connection.unreachable import Reach


class Watches:
    """All watches of one process; the service calls `look` once a turn."""

    def __init__(
        self,
        config: Config,
        admin: AdminClient,
        partitions: PartitionCounts,
        clock: Clock,
        observer: FilterObserver,
        input_id: str,
    ) -> None:
        """Begin; the topic of one input is treated as recreated if its id is not *input_id*."""
        self._statistics, self._partitions = observer.process.statistics, partitions
        self.reach = Reach(config, lambda: self._statistics.away_since)
        written = [*outputs_of(config), *config.made_topics]
        self.weak = WeakPartitions(admin, written, observer.process.loudly)
        self._topics = TopicsWatch(config, admin, partitions, clock, self.weak)
        self._topics.expect(config.input.topic, input_id)
        self._settings = ChangelogWatch(config, admin, clock, observer)

    def look(self) -> Layout:
        """Return the topics' numbers of partitions that are known now, or raise `Stop`."""
        self._topics.look()
        self._settings.look()
        refuse_stranded(self._statistics)
        return self._partitions.layout
