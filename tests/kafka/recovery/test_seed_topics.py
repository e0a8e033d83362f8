"""`seed --topic` of topics with gaps: compacted, cut off at the beginning, empty, or growing."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from deploy.local.real import RealKafka
from streamfilter.config.loading import load_config
from streamfilter.kafka.topic_sample import first_of
from tests.kafka.recovery.test_seed import STORIES, counts, index_of, restarting, seed
from tests.kafka.story import TIMESTAMP, Settings
from tests.support.session.forge import Forge
from tests.support.stage import Stage
from tests.support.topics import create_topics, read_committed

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "500",
    "retention.ms": "-1",
}
VERSIONS: Settings = {"input": {"known_id": "update", "tombstones": "forget"}}


@pytest.fixture
def stage(kafka: RealKafka, forge: Forge, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(kafka.bootstrap, tmp_path, launch=forge.launch)
    yield stage
    stage.close()


def beside(stage: Stage, name: str) -> Stage:
    """Return a stage of its own group, with the same seed of the hashes."""
    other = Stage(stage.bootstrap, stage.directory / name, launch=stage.launch)
    other.directory.mkdir()
    return other


class Writer:
    """Writes transactions to a topic, of one document for each key; None is a tombstone."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic, self._time = topic, TIMESTAMP - 3_600_000
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
        self._producer.init_transactions(60)

    def write(self, partition: int, texts: dict[str, str | None], *, commit: bool = True) -> None:
        self._producer.begin_transaction()
        for key, text in texts.items():
            value = None if text is None else json.dumps({"id": key, "text": text})
            self._time += 1
            self._producer.produce(self._topic, value, key, partition, timestamp=self._time)
        self._producer.flush(60)
        (self._producer.commit_transaction if commit else self._producer.abort_transaction)(60)


def compacted(stage: Stage) -> str:
    """Return a compacted topic: the last versions, tombstones, gaps, and markers at the ends.

    Its third partition has markers only, and the fourth one nothing.
    """
    topic, rng = f"{stage.group}.compacted", random.Random(1)
    create_topics(stage.bootstrap, {topic: 4}, config=COMPACTED)
    writer = Writer(stage.bootstrap, topic)
    for step in range(1, 7):
        for p in (0, 1):
            versions = {f"p{p}-{n}": rng.choice(STORIES) for n in range(0, 12, step)}
            dead = {f"p{p}-1": None, f"p{p}-77": None} if step == 5 else {}
            writer.write(p, versions | dead)
        time.sleep(0.6)  # each is a segment: the newest one is never compacted
    for p in (0, 2):
        writer.write(p, dict.fromkeys("abc", "an aborted one"), commit=False)
    until = time.monotonic() + 120
    while len(read_committed(stage.bootstrap, topic)) > 26:
        assert time.monotonic() < until, "the broker does not compact"
        time.sleep(0.5)
    return topic


@pytest.mark.slow(60)
def test_a_compacted_topic_is_seeded_once_with_its_last_versions(stage, monkeypatch, capsys):
    asked = ("--topic", topic := compacted(stage))
    calm = beside(stage, "calm")
    assert seed(calm, *asked, **VERSIONS) == 0
    found = counts(capsys)
    assert (found["records"], found["added"] + found["duplicates"]) == (26, 22)
    assert found["not_judged"] == 4, "its tombstones"
    with restarting(monkeypatch):
        assert seed(stage, *asked, **VERSIONS) == 0
    assert index_of(stage) == index_of(calm)
    capsys.readouterr()
    assert seed(stage, *asked, **VERSIONS) == 0
    assert counts(capsys)["records"] == 0
    firsts = first_of(load_config((stage.configuration(),)), topic)
    begins = {each.source.partition: each.source.offset for each in firsts}
    assert begins[0] > 0 < begins[1], "`reset` sees whose it is, behind what was compacted away"


@pytest.mark.slow(30)
def test_a_topic_may_be_empty_grow_and_lose_its_beginning_between_two_seeds(stage, capsys):
    topic = f"{stage.group}.growing"
    create_topics(stage.bootstrap, {topic: 2}, config={"retention.ms": "-1"})
    asked, writer = ("--topic", topic), Writer(stage.bootstrap, topic)

    def seeded() -> int:
        assert seed(stage, *asked) == 0
        return int(counts(capsys)["records"])

    assert seeded() == 0
    writer.write(0, {"aborted": STORIES[0]}, commit=False)
    assert seeded() == 0, "markers only"
    for begin in (0, 10):
        writer.write(1, {f"d{n}": STORIES[n] for n in range(begin, begin + 10)})
        assert seeded() == 10
    writer.write(1, {f"d{n}": STORIES[n] for n in range(20, 30)})
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    for done in admin.delete_records([TopicPartition(topic, 1, 25)]).values():
        done.result(60)
    assert seed(stage, *asked) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["records"] == 7
    assert f"{topic}/1: offsets 21 to 24 were deleted before they were read" in said.err
    assert seeded() == 0
