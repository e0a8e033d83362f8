"""A first start on a busy cluster: topics that brokers do not know of yet are waited for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, TopicPartition

from deploy.local.real import RealKafka
from streamfilter.config.loading import load_config
from streamfilter.engine.ports import Moves, Retriable
from streamfilter.kafka.brokers import topic_creation, topics
from streamfilter.kafka.brokers.broker_queries import OffsetSpec, list_offsets
from streamfilter.kafka.connection import clients
from streamfilter.kafka.ports.membership import GroupMembership
from streamfilter.kafka.service_start import MISSING_SECONDS, patient_look
from tests.engine.scripted import FakeClock
from tests.kafka.story import records
from tests.support.session.forge import Forge
from tests.support.stage import Stage
from tests.support.topics import create_topics

TEMPORARY = 75
POLLS = 300


def test_a_changelog_that_brokers_do_not_know_of_yet_is_joined_when_they_do(stage: Stage) -> None:
    config = load_config([stage.configuration()])
    consumer = clients.consumer(config, clients.ownership_properties(config))
    membership = GroupMembership(consumer, stage.changelog)
    try:
        # Long enough for librdkafka to say that the topic is unknown.
        assert not any(membership.poll(0.1) for _ in range(30))
        topic_creation.create_changelog(config, clients.admin_client(config), tasks=1)
        moves = next((m for _ in range(POLLS) if (m := membership.poll(0.2))), Moves())
        assert moves.gained == {0}
    finally:
        membership.close()


def test_offsets_of_a_topic_that_brokers_do_not_know_of_yet_are_asked_for_again(stage):
    admin = clients.admin_client(load_config([stage.configuration()]))
    spots = {0: TopicPartition(stage.changelog, 0)}
    with pytest.raises(Retriable):
        list_offsets(admin, spots, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)


def test_a_missing_topic_is_looked_for_a_while_and_then_believed(stage: Stage) -> None:
    output = {"unique": f"{stage.unique}.late", "duplicates": stage.duplicates}
    config = load_config([stage.configuration(output=output)])
    admin, clock = clients.admin_client(config), FakeClock()
    look = patient_look(config, admin, clock)
    with pytest.raises(Retriable, match=r"unique\.late"):
        look()
    clock.sleep(MISSING_SECONDS)
    assert config.output.unique not in look()
    create_topics(stage.bootstrap, {config.output.unique: 1})
    found = patient_look(config, admin, FakeClock())()
    assert found[config.output.unique].partitions == 1


@pytest.fixture
def sparse(kafka: RealKafka) -> Iterator[RealKafka]:
    """One broker of a cluster that wants three copies of each topic: the others are not up yet."""
    with RealKafka(properties={"default.replication.factor": "3"}) as sparse:
        yield sparse


def test_a_cluster_with_too_few_brokers_yet_is_waited_for_and_ends_as_temporary(
    sparse: RealKafka, forge: Forge, tmp_path: Path
) -> None:
    stage = Stage(sparse.bootstrap, tmp_path, replication=1, launch=forge.launch)
    try:
        process = stage.start(kafka={"start_timeout": "15s"})
        process.wait_for_state("starting")
        assert process.wait_for_exit() == TEMPORARY, process.told("did not end as temporary")
        said = "\n".join(process.log.read_text().splitlines()[-3:])
        assert "start_timeout" in said
        assert "INVALID_REPLICATION_FACTOR" in said
        create_topics(stage.bootstrap, {stage.changelog: 1}, config=CHANGELOG, replication=1)
        stage.produce(records(["a story of a cluster that came up late"]))
        stage.run()
    finally:
        stage.close()


CHANGELOG = topics.CHANGELOG_SETTINGS
