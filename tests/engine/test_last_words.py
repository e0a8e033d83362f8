"""The words that an operator reads last, where no other test asks for them: they are README's."""

import re
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamfilter.config.configuration import Config
from streamfilter.config.loading import load_config
from streamfilter.engine.ports import Layout, Retriable
from streamfilter.index.errors import IndexDamaged, translated
from streamfilter.kafka import service_start
from streamfilter.kafka.brokers.partition_counts import PartitionCounts
from streamfilter.kafka.brokers.topic_watch import ASK_SECONDS, TopicsWatch
from streamfilter.kafka.brokers.topics import Topic, outputs_of
from streamfilter.kafka.brokers.weak_partitions import WeakPartitions
from streamfilter.kafka.connection import one_shot_calls
from streamfilter.process.health import State
from streamfilter.stops import ExitCode, Refused, SchemeMismatch, Stop
from streamfilter.tasks.standby import AGAIN_SECONDS
from tests.engine.scripted import FakeClock
from tests.engine.world import FullIndex, MemoryStore, World, assert_as_undisturbed

CONFIG = load_config((), {}, ["input.topic=documents"])
APART = load_config((), {}, ["input.topic=documents", "index.scope=partition"])


class Brokers:
    """They answer as they should; tests/faults/test_topics.py asks the real ones."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.partitions = 2
        self.gone: set[str] = set()

    def poll(self, _: float) -> int:
        return 0

    def describe_topics(self, wanted: Any, *, request_timeout: float) -> dict[str, Future[Any]]:
        return {topic: self._answer(topic) for topic in wanted.topic_names}

    def _answer(self, topic: str) -> Future[Any]:
        answer: Future[Any] = Future()
        if topic in self.gone:
            answer.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        else:
            id_ = self.ids.get(topic, "first")
            partitions = [partition(number) for number in range(self.partitions)]
            answer.set_result(SimpleNamespace(topic_id=id_, partitions=partitions))
        return answer

    def describe_configs(self, wanted: Any) -> dict[Any, Future[Any]]:
        return {}


def partition(number: int, *, leader: str | None = "a", in_sync: int = 3) -> Any:
    return SimpleNamespace(id=number, leader=leader, replicas=[*"abc"], isr=[*"abc"[:in_sync]])


def watching(config: Config, partitions: PartitionCounts) -> tuple[Brokers, FakeClock, TopicsWatch]:
    brokers, clock = Brokers(), FakeClock()
    admin: Any = brokers
    weak = WeakPartitions(admin, (), lambda _: None)
    return brokers, clock, TopicsWatch(config, admin, partitions, clock, weak)


def counted(config: Config = CONFIG) -> PartitionCounts:
    topics = [*outputs_of(config), config.input.topic, config.changelog_topic]
    return PartitionCounts(config, dict.fromkeys(topics, Topic(2, {})))


def looked(change: Any, config: Config = CONFIG, code: ExitCode = ExitCode.CONFIG) -> str:
    """Watch, then let *change* happen; return how the process ends."""
    brokers, clock, watch = watching(config, counted(config))
    watch.look()
    watch.look()
    change(brokers)

    def look_on() -> None:
        for _ in range(9):
            clock.sleep(ASK_SECONDS)
            watch.look()

    with pytest.raises(Stop) as stop:
        look_on()
    assert stop.value.exit_code == code
    return str(stop.value)


@pytest.mark.parametrize("topic", ["documents", CONFIG.output.unique])
def test_a_topic_that_is_gone_or_another_or_wider_is_told_as_that(topic: str) -> None:
    said = looked(lambda brokers: brokers.gone.add(topic))
    made = "`streamfilter check --connect --apply` makes it"
    assert f"topic '{topic}' does not exist any more; nothing further is judged" in said
    assert (made in said) is (topic != "documents")
    said = looked(lambda brokers: brokers.ids.update({topic: "second"}))
    assert (made in said) is (topic != "documents")
    assert f"topic '{topic}' was deleted and created again while we worked with it" in said
    said = looked(lambda brokers: setattr(brokers, "partitions", 3), APART)
    assert "keys that moved to another partition are not compared with what came before" in said
    assert f"kafka-topics.sh --alter --topic {APART.changelog_topic} --partitions 3" in said


def test_a_deleted_topic_of_sketches_ends_a_process_for_a_moment_only() -> None:
    """It ended with 78, which supervisors do not restart, although edges sign again."""
    config = load_config((), {}, ["input.topic=documents", "cluster.enabled=true"])
    topic, said = config.sketches_topic, "edges sign again what it held"
    for change in (
        lambda brokers: brokers.gone.add(topic),
        lambda brokers: brokers.ids.update({topic: "second"}),
    ):
        assert said in looked(change, config, ExitCode.TEMPORARY)
    assert said not in looked(lambda brokers: brokers.gone.add(config.verdicts_topic), config)


def test_partitions_are_counted_and_an_old_answer_takes_none_away(caplog):
    partitions = counted()
    brokers, clock, watch = watching(CONFIG, partitions)
    for brokers.partitions in (3, 2, 2):
        clock.sleep(ASK_SECONDS)
        watch.look()
        watch.look()
    assert partitions.layout == Layout(3, dict.fromkeys(outputs_of(CONFIG), 3))
    said = "\n".join(caplog.messages)
    assert said.count("has 3 partitions now") == len(CONFIG.topics)
    assert "they are read from their beginning" in said
    assert "they stay unused" in said
    assert "they are used from now on, and keys may move between partitions" in said


def test_new_partitions_of_an_output_are_used_at_once(caplog) -> None:
    caplog.set_level("INFO", "streamfilter.run")
    world = World()
    world.until(20)
    assert {out.partition for out in world.log.outputs} == {0}
    world.outputs = {**world.outputs, "unique": 4}
    world.until(40)
    assert "topics have more partitions" in caplog.text
    later = [out.partition for out in world.log.outputs[20:] if out.topic == "unique"]
    assert len(set(later)) > 1


def test_partitions_that_a_start_heard_of_first_are_reported_all_the_same() -> None:
    """With an index for each they were read by nothing, without a word, until the next start."""
    partitions = counted(APART)
    brokers, _, watch = watching(APART, partitions)
    brokers.partitions = 3
    admin: Any = brokers
    partitions.ask(admin)
    watch.look()
    with pytest.raises(Stop, match="documents' has 3 partitions now, 1 of them new"):
        watch.look()


def test_who_is_not_let_in_is_told_whose_fault_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Retriable("timed out")
    for code, words, exit_code in (
        (KafkaError._AUTHENTICATION, "no broker let us in: ", 78),
        (KafkaError._SSL, "no broker could be trusted: ", 75),
    ):
        monkeypatch.setattr(one_shot_calls, "refusal", lambda code=code: KafkaError(code))
        stop = service_start.too_late(late)
        assert str(stop).startswith(words)
        assert stop.exit_code == exit_code


def test_who_lacks_a_right_is_told_all_that_are_needed() -> None:
    with pytest.raises(Refused) as refused, service_start.explained(CONFIG):
        raise Refused("no")
    assert "the user of kafka.common needs:" in str(refused.value)
    assert "`streamfilter check --connect --principal User:NAME`" in str(refused.value)
    assert "READ on topic documents" in str(refused.value)


def test_an_index_that_is_damaged_is_restored_loudly_and_misjudges_nothing(monkeypatch, caplog):
    apply = FullIndex.apply

    def damaged(index: FullIndex, changes: object) -> None:
        monkeypatch.setattr(FullIndex, "apply", apply)
        raise IndexDamaged("a block is broken")

    world = World()
    world.until(20)
    monkeypatch.setattr(FullIndex, "apply", damaged)
    assert_as_undisturbed(world)
    said = "is removed and restored from changelog/0 from its beginning: a block is broken"
    assert caplog.text.count(said) == 1


def test_a_standby_whose_directory_is_open_elsewhere_says_so_once_and_waits(caplog) -> None:
    world = World()
    world.until(40)
    calm = list(world.store.index.dump())
    world.store = MemoryStore()
    world.store.locked = True
    standby = world.standby()

    def advance() -> None:
        for _ in range(20):
            standby.advance()
            world.clock.sleep(AGAIN_SECONDS)

    advance()
    assert (standby.state, standby.detail) == (State.STARTING, "process 7 has this index open")
    assert caplog.text.count("group.0 cannot stand by: process 7 has this index open") == 1
    world.store.locked = False
    advance()
    assert (standby.state, standby.detail) == (State.STANDBY, "")
    assert list(world.store.index.dump()) == calm


def test_an_index_that_is_damaged_again_after_its_restore_needs_a_person(monkeypatch):
    def damaged(index: FullIndex, changes: object) -> None:
        raise IndexDamaged("a block is broken")

    world = World()
    world.until(10)
    monkeypatch.setattr(FullIndex, "apply", damaged)
    with pytest.raises(SchemeMismatch, match="it was restored once already: look at the disk"):
        world.turn(50)


def test_a_disk_that_refuses_is_told_from_one_that_is_full(tmp_path: Any) -> None:
    refused = translated(Exception("IO error: While fsync: Input/output error"), tmp_path)
    assert "the database cannot be used now" in str(refused)
    full = translated(Exception("IO error: No space left on device"), tmp_path)
    named = tmp_path / "No space left" / "disk quota exceeded"
    assert type(translated(Exception(f"IO error: {named}/1.sst: Bad"), named)) is type(refused)
    assert re.search(
        r"free some space, at least 256 MiB \(\d+ are left\): a service then goes on", str(full)
    )
