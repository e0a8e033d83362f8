"""Settings of the changelog that an operator changes while a filter works: what is made of them."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamfilter.config.loading import load_config
from streamfilter.kafka import service_start
from streamfilter.kafka.brokers import topic_creation, topics
from streamfilter.kafka.brokers.changelog_topic import ASK_SECONDS, ChangelogWatch, refuse_changed
from streamfilter.kafka.brokers.cluster_topics import problems_of_cluster, range_bytes
from streamfilter.stops import ExitCode, Stop
from tests.engine.scripted import FakeClock

CONFIG = load_config((), {}, ["input.topic=documents"])
NAME = CONFIG.changelog_topic
GOOD = topics.CHANGELOG_SETTINGS | topics.BROKERS_TIME | {"max.message.bytes": "1000000"}
LIMIT = 1_000_000
GIVEN: Future[None] = Future()
GIVEN.set_result(None)


class Brokers:
    """They tell the settings of a topic; None: they do not answer."""

    def __init__(self, settings: dict[str, str] | None) -> None:
        self.settings = settings

    def describe_configs(self, wanted: list[Any], **_: Any) -> dict[Any, Future[Any]]:
        answer: Future[Any] = Future()
        if self.settings is None:
            answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        else:
            found = {k: SimpleNamespace(value=v, name=k) for k, v in self.settings.items()}
            answer.set_result(found)
        return dict.fromkeys(wanted, answer)

    def poll(self, _: float) -> int:
        return 0


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"cleanup.policy": "compact"}, ExitCode.CONFIG, "cleanup.policy=compact; expected delete"),
        ({"max.message.bytes": "6000"}, ExitCode.TEMPORARY, "it refuses larger batches of records"),
        ({"max.message.bytes": "1000"}, ExitCode.CONFIG, "=1000; expected at least 4096"),
    ],
)
def test_what_makes_the_changelog_refuse_records_ends_the_process_by_its_name(changed, code, words):
    """Its documents were blamed one by one: dead letters, two hours long."""
    with pytest.raises(Stop) as stop:
        refuse_changed(CONFIG, Brokers(GOOD | changed), {NAME: LIMIT})  # type: ignore[arg-type]
    said = str(stop.value)
    assert stop.value.exit_code == code
    assert words in said
    assert f"--alter --topic {NAME} --add-config {next(iter(changed))}=" in said


@pytest.mark.parametrize("settings", [GOOD, None], ids=["all is well", "no answer"])
def test_a_changelog_that_is_as_it_was_ends_nothing(settings):
    refuse_changed(CONFIG, Brokers(settings), {NAME: LIMIT, "out": LIMIT})  # type: ignore[arg-type]


def test_a_limit_of_an_output_that_was_lowered_ends_the_process_for_a_moment():
    """With a backlog, larger and smaller batches were blamed in turn, and nothing was committed."""
    brokers: Any = Brokers({"cleanup.policy": "compact", "max.message.bytes": "20000"})
    with pytest.raises(Stop) as stop:
        refuse_changed(CONFIG, brokers, {"out": LIMIT})
    assert stop.value.exit_code == ExitCode.TEMPORARY
    assert "'out' has max.message.bytes=20000 now, and had 1000000: it refuses" in str(stop.value)


def test_settings_that_let_brokers_delete_are_said_once_while_it_works_and_so_is_their_end():
    said, faults, clock = list[str](), list[bool](), FakeClock()
    observer: Any = SimpleNamespace(
        process=SimpleNamespace(loudly=said.append),
        changelog_fault=lambda kind, name, *, there: faults.append(there),
    )
    brokers: Any = Brokers(GOOD)
    watch = ChangelogWatch(CONFIG, brokers, clock, observer)

    def look_on() -> None:
        for _ in range(3):
            clock.sleep(ASK_SECONDS)
            watch.look()

    look_on()
    assert (said, faults) == ([], [])
    brokers.settings = GOOD | {"retention.ms": "86400000"}
    look_on()
    assert (len(said), faults) == (1, [True])
    assert "retention.ms=86400000; expected -1" in said[0]
    assert "nothing is wrong yet, and the next start refuses it" in said[0]
    brokers.settings = None
    look_on()
    brokers.settings = GOOD
    look_on()
    assert (len(said), faults) == (1, [True, False])


def test_a_changelog_that_is_made_takes_what_the_largest_output_takes() -> None:
    found = {name: topics.Topic(1, {}) for name in topics.outputs_of(CONFIG)}
    found[CONFIG.output.unique] = topics.Topic(1, {"max.message.bytes": "5000000"})
    assert service_start._destinations(CONFIG, found).changelog_limit == 5_000_000
    made = list[Any]()

    def create_topics(wanted: list[Any], **_: Any) -> dict[str, Future[None]]:
        made.extend(wanted)
        return {NAME: GIVEN}

    admin: Any = SimpleNamespace(create_topics=create_topics)
    topic_creation.create_changelog(CONFIG, admin, 1, message_bytes=5_000_000)
    assert made[0].config == GOOD | {"max.message.bytes": "5000000"}
    found[NAME] = topics.Topic(1, {"max.message.bytes": "5000"})
    assert service_start._destinations(CONFIG, found).changelog_limit == 5_000


@pytest.mark.parametrize(
    ("sketches", "verdicts", "own", "record", "range_"),
    [
        (1_048_588, 1_048_588, None, 1_048_076, 900_000),
        (300_000, 1_048_588, None, 299_488, 299_872),
        (1_048_588, 20_000, None, 1_048_076, 19_872),
        (1_048_588, 1_048_588, 100_000, 99_488, 99_872),
    ],
)
def test_what_edges_and_judge_send_fits_their_topics_and_their_own_producer(
    sketches, verdicts, own, record, range_
) -> None:
    """A range of one document is its changelog record and 512 bytes at most."""
    sets = ["input.topic=documents", "cluster.enabled=true"]
    sets += [f"kafka.producer.message.max.bytes={own}"] if own else []
    config = load_config((), {}, sets)
    found = {name: topics.Topic(1, {}) for name in topics.outputs_of(config)}
    found[config.sketches_topic] = topics.Topic(1, {"max.message.bytes": str(sketches)})
    found[config.verdicts_topic] = topics.Topic(1, {"max.message.bytes": str(verdicts)})
    assert service_start._destinations(config, found).changelog_limit == record
    assert range_bytes(config, found) == range_
    assert problems_of_cluster(config, found) == []
    found[config.verdicts_topic] = topics.Topic(1, {"max.message.bytes": "16383"})
    (problem,) = [each for each in problems_of_cluster(config, found) if "takes" in each.got]
    assert "takes messages of 16383 bytes at most" in problem.got
