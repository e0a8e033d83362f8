"""Records that real brokers refuse for good; `tests/engine/test_refused_records.py` has the rules.

The input takes timestamps in microseconds, the outputs have Kafka's default and do not; or an
output is compacted and wants keys. Both were tried again for ever.
"""

import random
from collections.abc import Callable, Sequence

import pytest

from streamfilter.model import Record
from tests.kafka.story import STATIC, finish, records, texts, verdicts
from tests.support.stage import Stage
from tests.support.topics import ANY_TIME, Input, alter_topic, header
from tests.support.values import replace

SEED = 20_261_201
NARROW = {
    **STATIC,
    "batch": {"documents": 40, "latency": "1s"},
    "limits": {"dead_letter_share": 1.0},
}


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


@pytest.mark.slow(30)
def test_records_that_outputs_refuse_are_dead_letters_and_the_rest_is_judged_without_them(
    stage: Stage, make_stage: Callable[..., Stage]
):
    bad = {3, 4, 17, 77, 78, 79}
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
    plain.produce([each for number, each in enumerate(stories) if number not in bad])
    finish(plain, NARROW)
    assert verdicts(stage) == verdicts(plain)
    assert [each.value for each in stage.outputs()["unique"]] == [
        each.value for each in plain.outputs()["unique"]
    ]
    assert "go to the dead letters: INVALID_TIMESTAMP" in log
    assert log.count("transaction aborted") <= 12 * 2
