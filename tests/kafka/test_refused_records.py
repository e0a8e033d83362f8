"""Records that an output refuses for good: they are dead letters, and all else goes on.

The input takes timestamps in microseconds, the outputs have Kafka's default and do not; or an
output is compacted and wants keys. Both were tried again for ever.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from streamfilter.model import Record
from tests.kafka.story import CUT, STATIC, finish, records, texts, verdicts
from tests.support.stage import Stage
from tests.support.topics import ANY_TIME, Input, alter_topic, header

SEED = 20_261_201
MANY = 10_000
"""Records that take longer to produce than a broker to refuse the first of them."""
NARROW = {**STATIC, "batch": {**CUT, "documents": 40}, "limits": {"dead_letter_share": 1.0}}


def alter(stage: Stage, topic: str, settings: dict[str, str]) -> None:
    """Change settings of a topic."""
    alter_topic(stage.bootstrap, topic, settings)


def in_microseconds(record: Input) -> Input:
    return replace(record, timestamp=record.timestamp * 1_000)


def letters(stage: Stage) -> list[Record]:
    return stage.outputs()["dead_letter"]


def codes(found: Sequence[Record]) -> set[str | None]:
    return {header(each, "__streamfilter.error.code") for each in found}


def positions_of(found: Sequence[Record]) -> list[int]:
    return [int(header(each, "__streamfilter.error.offset") or -1) for each in found]


def without(stories: Sequence[Input], bad: set[int]) -> list[Input]:
    return [each for number, each in enumerate(stories) if number not in bad]


@pytest.mark.parametrize("bad", [{3, 4, 17, 77, 78, 79}, set(range(80))], ids=["some", "all"])
def test_records_that_outputs_refuse_are_dead_letters_and_the_rest_is_judged_without_them(
    stage: Stage, make_stage: Callable[..., Stage], bad: set[int]
):
    stories = records(texts(random.Random(SEED), 80))
    alter(stage, stage.input, ANY_TIME)
    stage.produce([in_microseconds(s) if n in bad else s for n, s in enumerate(stories)])
    log = finish(stage, NARROW)
    found = letters(stage)
    assert codes(found) == {"refused"}
    assert positions_of(found) == sorted(bad)
    assert [each.value for each in found] == [stories[number].value for number in sorted(bad)]
    for each, number in zip(found, sorted(bad), strict=True):
        assert header(each, "__streamfilter.error.timestamp") == str(
            stories[number].timestamp * 1000
        )
        assert "INVALID_TIMESTAMP" in (header(each, "__streamfilter.error.message") or "")
        assert each.key == stories[number].key
    plain = make_stage()
    if rest := without(stories, bad):
        plain.produce(rest)
        finish(plain, NARROW)
    assert verdicts(stage) == verdicts(plain)
    assert [each.value for each in stage.outputs()["unique"]] == [
        each.value for each in plain.outputs()["unique"]
    ]
    assert "go to the dead letters: INVALID_TIMESTAMP" in log
    assert log.count("transaction aborted") <= 12 * 2


def test_a_dead_letter_that_its_topic_refuses_is_sent_again_with_the_present_time(stage: Stage):
    stories = records(texts(random.Random(SEED), 20))
    broken = Input(b"{", key=b"b", timestamp=stories[0].timestamp * 1_000)
    alter(stage, stage.input, ANY_TIME)
    stage.produce([*stories[:10], broken, *stories[10:]])
    finish(stage, NARROW)
    (letter,) = letters(stage)
    assert letter.value == b"{"
    assert codes([letter]) == {"refused"}
    assert "invalid_json" in (header(letter, "__streamfilter.error.message") or "")
    assert len(verdicts(stage)) == len(stories)


def test_a_compacted_output_gets_no_record_without_a_key(stage: Stage):
    stories = records(texts(random.Random(SEED), 60))
    keyless = {5, 6, 40}
    stage.produce([replace(s, key=None) if n in keyless else s for n, s in enumerate(stories)])
    for topic in (stage.unique, stage.duplicates, stage.dead_letter):
        alter(stage, topic, {"cleanup.policy": "compact"})
    log = finish(stage, NARROW)
    found = letters(stage)
    assert codes(found) == {"refused"}
    assert positions_of(found) == sorted(keyless)
    assert [each.key for each in found] == [
        f"{stage.input}/0/{number}".encode() for number in sorted(keyless)
    ]
    assert "transaction aborted" not in log
    assert "cleanup.policy=compact" in log
    assert len(verdicts(stage)) == len(stories) - len(keyless)


def test_topics_that_are_compacted_later_cost_a_transaction_each_however_many_have_no_key(stage):
    """Each of them cost one, and a new producer: a stream without keys stood for hours.

    Here the unique topic is found out, and then that of the letters.
    """
    rng = random.Random(SEED)
    stories = records([" ".join(f"w{rng.randrange(10**6)}" for _ in range(12)) for _ in range(200)])
    keyless = [replace(each, key=None) for each in stories[50:]]
    stage.produce(stories[:50])
    process = stage.start(**{**NARROW, "batch": {"documents": 40}})
    stage.drain(process)
    for topic in (stage.unique, stage.duplicates, stage.dead_letter):
        alter(stage, topic, {"cleanup.policy": "compact"})
    stage.produce([*keyless[:100], *stories[:10], *keyless[100:]])
    log = stage.end(process)
    assert log.count("transaction aborted") == 2, process.told("learned one by one")
    assert "became compacted: no record without a key goes there any more" in log
    assert "deliveries are watched" not in log
    found = letters(stage)
    assert [each.value for each in found] == [each.value for each in keyless]
    assert codes(found) == {"refused"}
    assert len({each.key for each in found}) == len(keyless)
    assert len(stage.outputs()["unique"]) == 50
    assert len(stage.outputs()["duplicates"]) == 10


def test_a_refusal_that_comes_while_we_still_produce_is_learned_from(stage: Stage):
    """The client took no more records, "Erroneous state": 70 at the fourth, and at each start."""
    rng = random.Random(SEED + 1)
    stories = records(
        [" ".join(f"w{rng.randrange(10**6)}" for _ in range(12)) for _ in range(MANY)]
    )
    alter(stage, stage.input, ANY_TIME)
    stage.produce([in_microseconds(s) if n < 3 else s for n, s in enumerate(stories)])
    log = finish(stage, {**NARROW, "batch": {**CUT, "documents": MANY}})
    assert positions_of(letters(stage)) == [0, 1, 2]
    assert codes(letters(stage)) == {"refused"}
    assert "Erroneous state" not in log
    assert len(stage.outputs()["unique"]) == MANY - 3
