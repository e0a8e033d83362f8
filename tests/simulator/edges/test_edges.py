import numpy as np
import pytest

from streamfilter.cluster import edge
from streamfilter.cluster.ranges import SketchRange, VerdictRange, encode_sketches, encode_verdicts
from streamfilter.engine.ports import Outgoing
from streamfilter.tasks.task import StallDetector
from tests.simulator.cluster.log import CHANGELOG, INPUT, SimSource
from tests.simulator.edges.process import EdgeProcess
from tests.simulator.edges.story import EdgeStory, run
from tests.simulator.edges.world import EDGES, SKETCHES, VERDICTS
from tests.simulator.texts import scheme
from tests.truth.changelog import BATCH, Failure
from tests.truth.history import DEAD

QUICK, SLOW = 5, 45
NONE = np.zeros(0, np.int64)


def failures(seeds: range) -> list[str]:
    return [result.text() for result in map(run, seeds) if result.failure]


def test_all_is_well_in_the_first_stories_of_edges_and_judges():
    assert not failures(range(QUICK))


@pytest.mark.slow
def test_outputs_and_changelog_are_those_of_one_process_in_any_story_of_edges():
    assert not failures(range(QUICK, QUICK + SLOW))


def ended(seed: int) -> EdgeStory:
    story = EdgeStory(seed)
    story.run()
    story.watcher.refusals = []
    return story


def forget(story: EdgeStory, *, topic: str | None = None) -> None:
    """Let the edges' group lose its offsets of *topic*, or all."""
    offsets = story.world.broker.offsets
    for key in [key for key in offsets if isinstance(key, tuple) and key[0] == EDGES]:
        if topic in (None, key[1]):
            del offsets[key]


def refusal(story: EdgeStory) -> str:
    """Return why the first process does not go on after its start."""
    for _ in range(40):
        story.round()
    return story.watcher.refusals[0]


def test_an_edge_whose_consumer_hears_no_verdict_accuses_itself(monkeypatch):
    """It watched its input alone: it stood still as long as the alert was not seen."""
    consume, story, heard = SimSource.consume, EdgeStory(3), list[object]()

    def deaf(self, count, timeout):
        if (self._group, self._topic) != (EDGES, VERDICTS):
            return consume(self, count, timeout)
        if len(heard) > 20:
            self._world.advance(timeout)
            return []
        heard.extend(found := consume(self, count, timeout))
        return found

    monkeypatch.setattr(SimSource, "consume", deaf)
    monkeypatch.setattr(
        edge, "StallDetector", lambda *parts, seconds: StallDetector(*parts, seconds=1)
    )
    with pytest.raises(Failure, match=f"accuses itself.*{VERDICTS}/"):
        story.run()


@pytest.mark.slow
def test_edges_whose_offsets_have_expired_refuse_to_forward_all_again():
    story = ended(3)
    forget(story)
    assert "offsets have expired" in refusal(story)


@pytest.mark.slow
def test_edges_refuse_a_topic_of_verdicts_that_was_deleted():
    story = ended(3)
    forget(story, topic=VERDICTS)
    assert "the topic was deleted" in refusal(story)


def test_an_edge_that_another_one_overtakes_in_its_first_start_misses_no_offset(monkeypatch):
    """It froze between two questions, and said that the topic of verdicts was deleted."""
    committed, story, met = SimSource.committed, EdgeStory(3), set[tuple[str, int]]()

    def overtaken(self, partitions):
        found, offsets = committed(self, partitions), self._world.broker.offsets
        if self._group == EDGES:
            for p in partitions:
                if not found and not met & {(INPUT, p), (VERDICTS, p)}:
                    offsets[EDGES, VERDICTS, p] = offsets[EDGES, INPUT, p] = 0
                met.add((self._topic, p))
        return found

    monkeypatch.setattr(SimSource, "committed", overtaken)
    story.run()
    assert {topic for topic, _ in met} == {INPUT, VERDICTS}


def test_an_edge_that_froze_before_it_asked_for_offsets_takes_verdicts_of_another_for_no_loss(
    monkeypatch,
):
    """It was revoked meanwhile, and ended with 78: the offsets had expired."""
    start_positions, committed, known = SimSource.start_positions, SimSource.committed, set[int]()

    def frozen(self, partitions, start):
        found = start_positions(self, partitions, start)
        if start == "earliest":
            known.discard(id(self))
        before = (self._group, self._topic) == (EDGES, VERDICTS) and id(self) not in known
        return dict.fromkeys(found, 0) if before else found

    def asked(self, partitions):
        known.add(id(self))
        return committed(self, partitions)

    story = ended(3)
    forget(story)
    monkeypatch.setattr(SimSource, "start_positions", frozen)
    monkeypatch.setattr(SimSource, "committed", asked)
    for _ in range(40):
        story.round()
    assert known
    assert story.watcher.refusals == []


def test_edges_refuse_verdicts_that_were_deleted_before_they_were_used():
    story = ended(3)
    offsets, topics = story.world.broker.offsets, story.world.broker.topics
    p = next(key[2] for key in offsets if isinstance(key, tuple) and key[1] == VERDICTS)
    offsets[EDGES, VERDICTS, p] = 0
    topics[VERDICTS][p].start = 1
    assert "were deleted before they were used" in refusal(story)


def test_an_edge_with_another_scheme_than_the_judges_is_refused(monkeypatch):
    story = ended(3)
    monkeypatch.setattr(EdgeProcess, "_scheme", scheme(("also /url",)))
    assert "changelog/0 does not fit the configuration" in refusal(story)


@pytest.mark.slow
def test_a_judge_refuses_a_rewind_of_its_group():
    story = ended(3)
    offsets = story.world.broker.offsets
    p = next(key for key, offset in offsets.items() if isinstance(key, int) and offset > 0)
    offsets[p] -= 1
    assert "was rewound" in refusal(story)


def test_rewound_edges_forward_the_same_again():
    story = ended(3)
    offsets, broker = story.world.broker.offsets, story.world.broker
    before = {name: len(broker.topics[name][0].cells) for name in ("unique", "duplicates")}
    forget(story)
    for p in story.inputs:
        offsets[EDGES, VERDICTS, p] = 0
    for _ in range(200):
        story.round()
    assert not story.watcher.refusals
    for name, end in before.items():
        values = [v for _, v in broker.topics[name][0].committed(0)]
        assert values[len(values) // 2 :] == values[: len(values) // 2], (name, end)


@pytest.mark.slow
def test_an_edge_refuses_verdicts_beyond_the_end_of_the_input():
    """It waited for ever, without a word: so a truncated topic looks."""
    story = ended(3)
    rounds(story)  # judge and edges have begun
    end = story.position(0)
    beyond = VerdictRange(mark_of(story), end, end + 9, NONE)
    story.world.broker.topics[VERDICTS][0].append(
        Outgoing(VERDICTS, 0, None, encode_verdicts(beyond))
    )
    rounds(story)
    assert "ends before its verdicts" in story.watcher.refusals[0]


def mark_of(story: EdgeStory) -> bytes:
    changelog = story.world.broker.topics[CHANGELOG][0]
    return next(value[2:18] for _, value in changelog.committed(0) if value[1] == BATCH)


def rounds(story: EdgeStory) -> None:
    for _ in range(200):
        story.world.advance(1.0)
        story.round()


def forge(story: EdgeStory, end: int) -> None:
    """Write a range of partition 0 that has no record, and that ends there."""
    lie = SketchRange(mark_of(story), 0, story.position(0), end, NONE, NONE)
    story.world.broker.topics[SKETCHES][0].append(encode_sketches(lie))


@pytest.mark.slow
def test_a_range_beyond_the_input_loses_no_record():
    """The judge believed it, and dropped what came after it as judged before."""
    story = ended(3)
    forge(story, story.position(0) + 9)
    rounds(story)
    story.left = 12
    while story.left:
        story.append()
    rounds(story)
    assert (story.done, story.watcher.refusals, story.world.drops["beyond"]) == (True, [], 1)


@pytest.mark.slow
def test_a_record_that_a_range_left_out_stops_the_edges_until_it_may_be_a_letter():
    story = ended(3)
    story.left = 1
    story.append(into=0)
    forge(story, story.world.broker.topics[INPUT][0].end)
    rounds(story)
    assert "did not list all of them" in story.watcher.refusals[0]
    assert not story.done
    story.accept = True
    rounds(story)
    assert story.done
    *_, (_, letter) = story.world.broker.topics[DEAD][0].committed(0)
    assert dict(letter.headers)["__streamfilter.error.code"] == b"internal"
