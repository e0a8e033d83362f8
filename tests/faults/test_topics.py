"""Topics that vanish, grow, shrink or are too small, while a filter works between them.

The first line of each: what the operator reads, and by which exit code.
"""

import random

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.kafka.recovery.test_standby import scraped
from tests.kafka.story import die_at, id_of, index_of, records, texts, wipe
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import Input, alter_topic, end_offsets

SEED = 20_261_125
SETTINGS = {
    "batch": {"documents": 25},
    "kafka": {
        "session_timeout": "6s",
        "transaction_timeout": "4s",
        "common": {"topic.metadata.refresh.interval.ms": 1000},
    },
}
PLAIN = {
    "batch": {"documents": 25},
    "kafka": {"session_timeout": "6s", "transaction_timeout": "4s"},
}
"""librdkafka looks at the topics by itself every five minutes."""
CONFIG, TEMPORARY = 78, 75


def settings(stage: Stage) -> dict[str, dict[str, object]]:
    common = {"bootstrap.servers": stage.bootstrap, "topic.metadata.refresh.interval.ms": 1000}
    return {**SETTINGS, "kafka": {**SETTINGS["kafka"], "common": common}}


def working(stage: Stage, count: int = 60) -> FilterProcess:
    """Return a filter that has judged *count* documents."""
    stage.produce(records(texts(random.Random(SEED), count)))
    process = stage.start(**settings(stage))
    stage.drain(process)
    return process


def ended_with(process: FilterProcess, *words: str) -> None:
    """Check that it ends with 78, and says all of *words* once it is over."""
    assert process.wait_for_exit() == CONFIG, process.with_log("ended otherwise")
    last = "\n".join(process.log.read_text().splitlines()[-4:])
    assert all(word in last for word in words), last


def widen(stage: Stage, partitions: int, *topics: str) -> None:
    """Give *topics* so many partitions."""
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    wanted = [NewPartitions(topic, partitions) for topic in topics]
    for future in admin.create_partitions(wanted).values():
        future.result(120)


def heard(process: FilterProcess, words: str) -> None:
    """Wait until the log of *process* has *words*."""
    process.wait_for(lambda _: words in process.log.read_text(), what=words)


def into(stage: Stage, partition: int, stories: list[str], first: int) -> None:
    """Produce *stories* to one partition of the input."""
    more = records(stories, first=first)
    stage.produce(Input(each.value, key=each.key, partition=partition) for each in more)


@pytest.mark.slow(40)
def test_partitions_added_to_the_input_are_read_from_their_beginning_by_the_one_index(stage):
    """It was exit 78. A copy of what came before is found; kills in each step change nothing."""
    stories = texts(random.Random(SEED + 2), 20)
    into(stage, 0, stories, 0)
    process = stage.start(**PLAIN)
    stage.drain(process)
    widen(stage, 2, stage.input, stage.unique, stage.duplicates, stage.dead_letter)
    into(stage, 1, stories[:10], 100)  # before it can have noticed
    stage.drain(process)
    assert "they are read from their beginning" in process.log.read_text()
    assert "has new partitions [1]" in process.log.read_text()
    process.kill()
    for number, point in enumerate(("start.bounds", "transaction.produced", "index.applied")):
        into(stage, 1, stories[10:12], 200 + 10 * number)
        die_at(stage, point, PLAIN)
    stage.run(**PLAIN, state="restored")
    copies = {id_of(each) for each in stage.outputs()["duplicates"] if each.source.partition == 1}
    assert len(copies) == sum(len(found) for found in stage.outputs().values()) - 20
    assert {f"d{n}" for n in range(100, 110)} <= copies


@pytest.mark.slow(30)
def test_a_changelog_that_is_compacted_or_lost_its_beginning_blames_no_document(stage):
    """Compacted: its documents were blamed one by one, dead letters for two hours.

    Without a beginning: it is written anew from the whole index.
    """
    process = working(stage)
    alter_topic(stage.bootstrap, stage.changelog, {"cleanup.policy": "compact"})
    into(stage, 0, texts(random.Random(SEED + 6), 20), 500)
    cure = f"kafka-configs.sh --alter --topic {stage.changelog} --add-config cleanup.policy=delete"
    ended_with(process, "has cleanup.policy=compact; expected delete", cure)
    assert not stage.outputs()["dead_letter"]
    alter_topic(stage.bootstrap, stage.changelog, {"cleanup.policy": "delete"})
    stage.run(**settings(stage))
    assert sum(map(len, stage.outputs().values())) == 80

    process = stage.start(**settings(stage))
    first = end_offsets(stage.bootstrap, stage.changelog)[0]
    into(stage, 0, texts(random.Random(SEED + 7), 20), 600)
    stage.drain(process)
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    for future in admin.delete_records([TopicPartition(stage.changelog, 0, first)]).values():
        future.result(120)
    heard(process, "restart this process once with `streamfilter run --rewrite-changelog`")
    assert process.terminate() == 0
    process = stage.start(**settings(stage), arguments=["--rewrite-changelog"])
    heard(process, "the changelog is written again, and whole")
    process.wait_for_state("running")
    heard(process, f"{stage.changelog}/0 begins at")  # and what came before is cut off
    assert scraped(process, 'changelog_faults{fault="beginning"}') == 0
    assert process.terminate() == 0
    lived = index_of(stage)
    wipe(stage.directory / "state")
    stage.run(**settings(stage))
    assert index_of(stage) == lived, "restored from what was written anew"
    process = stage.start(**settings(stage), arguments=["--rewrite-changelog"])
    into(stage, 0, texts(random.Random(SEED), 60), 700)  # copies of the first ones
    stage.drain(process)
    assert "is whole: nothing is written again" in process.log.read_text()
    assert scraped(process, 'changelog_faults{fault="beginning"}') == 0
    assert process.terminate() == 0
    unique = [id_of(each) for each in stage.outputs()["unique"]]
    assert not [name for name in unique if int(name[1:]) >= 700]
    assert sum(map(len, stage.outputs().values())) == 160
