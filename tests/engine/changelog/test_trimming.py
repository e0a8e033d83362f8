"""The changelog is cut off without anybody waiting for the brokers' answer."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter.engine.batches.inputs import Inputs
from streamfilter.engine.filter_observer import FilterObserver
from streamfilter.engine.ports import Denied, Retriable
from streamfilter.engine.trimming import AGAIN_SECONDS, DENIED_SECONDS, Trimming
from streamfilter.kafka.brokers.partition_counts import TaskTopics
from streamfilter.kafka.ports.changelog import KafkaChangelog
from streamfilter.model import Window
from tests.engine.scripted import FakeClock


class Brokers:
    """Answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answer: Future[object] = Future()

    def delete_records(self, spots: list[TopicPartition], **_: Any) -> dict[Any, Future[object]]:
        self.asked += [spot.offset for spot in spots]
        self.answer = Future()
        return dict.fromkeys(spots, self.answer)


def changelog_on(brokers: Brokers) -> KafkaChangelog:
    none: Any = None
    return KafkaChangelog(
        TaskTopics(Inputs("in"), "changelog", 0), cast("AdminClient", brokers), none, none
    )


def test_an_answer_that_takes_its_time_is_looked_at_again_and_no_one_asks_twice() -> None:
    brokers = Brokers()
    changelog = changelog_on(brokers)
    assert [changelog.trim(7) for _ in range(3)] == [False] * 3
    assert changelog.trim(9) is False, "meanwhile the next window has gone"
    brokers.answer.set_result(None)
    assert changelog.trim(9) is False, "that was the answer to the first"
    assert (changelog.trim(9), brokers.asked) == (False, [7, 9])
    brokers.answer.set_result(None)
    assert (changelog.trim(9), brokers.asked) == (True, [7, 9])


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (KafkaError.REQUEST_TIMED_OUT, Retriable),  # a replica is catching up
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Denied),
    ],
)
def test_a_refusal_is_reported_once_and_the_next_look_asks_anew(code: int, raised: type) -> None:
    brokers = Brokers()
    changelog = changelog_on(brokers)
    assert changelog.trim(7) is False
    brokers.answer.set_exception(KafkaException(KafkaError(code)))
    with pytest.raises(raised, match="deleting the records of changelog/0 before 7"):
        changelog.trim(7)
    assert (changelog.trim(7), brokers.asked) == (False, [7, 7])


class Notes(FilterObserver):
    def __init__(self) -> None:
        self.process = SimpleNamespace(note=self.note, loudly=self.note)  # type: ignore[assignment]
        self.notes: list[str] = []
        self.shown: list[tuple[int | None, int]] = []

    def trimmed(self, changelog: str, start: int | None, needed: int = 0) -> None:
        self.shown.append((start, needed))

    def changelog_fault(self, fault: str, changelog: str, *, there: bool) -> None:
        self.faults = (fault, changelog, there)

    def note(self, message: str) -> None:
        self.notes.append(message)


def test_a_cut_counts_as_done_when_the_brokers_say_so_and_is_tried_again_when_they_do_not() -> None:
    brokers, clock, notes = Brokers(), FakeClock(), Notes()
    trimming = Trimming(changelog_on(brokers), clock, notes, "changelog/0")
    trimming.begins(2)
    trimming.look([Window(1, 10, 1, 2)])
    assert brokers.asked == [], "it begins there"
    windows = [Window(3, 30, 3, 7)]
    trimming.look(windows)
    brokers.answer.set_exception(KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT)))
    trimming.look(windows)
    trimming.look(windows)
    assert (brokers.asked, len(notes.notes)) == ([7], 1), "not again at once"
    assert "is not cut off yet" in notes.notes[0]
    clock.sleep(AGAIN_SECONDS)
    trimming.look(windows)
    trimming.look(windows)
    assert (brokers.asked, len(notes.notes)) == ([7, 7], 1)
    brokers.answer.set_result(None)
    for _ in range(2):
        trimming.look(windows)
    assert notes.notes[1:] == ["changelog/0 begins at 7 now"]
    assert brokers.asked == [7, 7]
    trimming.close()
    assert notes.shown == [(2, 2), (2, 7), (7, 7), (None, 0)]


def test_a_right_that_is_missing_is_said_once_with_its_cure_and_asked_for_now_and_then() -> None:
    brokers, clock, notes = Brokers(), FakeClock(), Notes()
    trimming = Trimming(changelog_on(brokers), clock, notes, "changelog/0")
    refused = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    for _ in range(3):
        trimming.look([Window(3, 30, 3, 7)])
        brokers.answer.set_exception(refused)
        trimming.look([Window(3, 30, 3, 7)])
        clock.sleep(DENIED_SECONDS)
    (note,) = notes.notes
    assert "is not cut off, and grows" in note
    assert "Grant DELETE on the topic" in note
    assert brokers.asked == [7] * 3


def test_records_that_somebody_deleted_are_said_once_and_our_own_cut_is_none() -> None:
    brokers, clock, notes = Brokers(), FakeClock(), Notes()
    changelog = changelog_on(brokers)
    trimming = Trimming(changelog, clock, notes, "changelog/0")
    trimming.begins(2)
    windows = [Window(3, 30, 3, 7)]
    for start in (2, 7):  # ours, which the brokers report before they answer
        changelog.start = lambda start=start: start
        trimming.look(windows)
    assert notes.notes == []
    changelog.start = lambda: 8
    for _ in range(3):
        trimming.look(windows)
    (note,) = notes.notes
    assert "changelog/0 begins at 8: records that a restore needs were deleted" in note
    assert notes.faults == ("beginning", "changelog/0", True)
    trimming.close()
    assert notes.faults == ("beginning", "changelog/0", False)
