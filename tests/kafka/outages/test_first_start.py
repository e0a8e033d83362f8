"""A first start on a busy cluster: topics that brokers do not know of yet are waited for."""

import pytest
from confluent_kafka import IsolationLevel, TopicPartition

from streamfilter.config.loading import load_config
from streamfilter.engine.ports import Moves, Retriable
from streamfilter.kafka.brokers import topic_creation
from streamfilter.kafka.brokers.broker_queries import OffsetSpec, list_offsets
from streamfilter.kafka.connection import clients
from streamfilter.kafka.ports.membership import GroupMembership
from streamfilter.kafka.service_start import MISSING_SECONDS, patient_look
from tests.engine.scripted import FakeClock
from tests.support.stage import Stage

POLLS = 300


def test_a_changelog_that_brokers_do_not_know_of_yet_is_joined_when_they_do(stage: Stage) -> None:
    config = load_config([stage.configuration()])
    admin = clients.admin_client(config)
    spots = {0: TopicPartition(stage.changelog, 0)}
    with pytest.raises(Retriable):
        list_offsets(admin, spots, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
    consumer = clients.consumer(config, clients.ownership_properties(config))
    membership = GroupMembership(consumer, stage.changelog)
    try:
        # Long enough for librdkafka to say that the topic is unknown.
        assert not any(membership.poll(0.1) for _ in range(30))
        topic_creation.create_changelog(config, admin, tasks=1)
        moves = next((m for _ in range(POLLS) if (m := membership.poll(0.2))), Moves())
        assert moves.gained == {0}
    finally:
        membership.close()


def test_a_missing_topic_is_looked_for_a_while_and_then_believed(embedded_stage) -> None:
    stage = embedded_stage()
    output = {"unique": f"{stage.unique}.late", "duplicates": stage.duplicates}
    config = load_config([stage.configuration(output=output)])
    admin, clock = clients.admin_client(config), FakeClock()
    look = patient_look(config, admin, clock)
    with pytest.raises(Retriable, match=r"unique\.late"):
        look()
    clock.sleep(MISSING_SECONDS)
    assert config.output.unique not in look()
    found = patient_look(load_config([stage.configuration()]), admin, FakeClock())()
    assert found[stage.unique].partitions == 1
