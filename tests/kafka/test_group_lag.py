"""What other tools see of the group's lag at rest: a transaction's marker counts as a record."""

import random

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from tests.kafka.story import records, texts
from tests.support.topics import end_offsets


def test_at_rest_the_group_is_one_behind_on_its_changelog_and_not_on_the_input(stage):
    stage.produce(records(texts(random.Random(30), 50)))
    process = stage.start()
    stage.drain(process)
    nothing = {f"{stage.input}/0": 0}
    process.wait_for(lambda status: status.get("lag") == nothing, what="the end of the input")
    assert process.terminate() == 0
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    wanted = [ConsumerGroupTopicPartitions(stage.group)]
    found = admin.list_consumer_group_offsets(wanted)[stage.group].result(20).topic_partitions
    lag = {
        each.topic: end_offsets(stage.bootstrap, each.topic)[each.partition] - each.offset
        for each in found
    }
    assert lag == {stage.input: 0, stage.changelog: 1}
    log = process.log.read_text()
    assert "caught up with the input" in log
    assert "initialising 1 tasks" in log
