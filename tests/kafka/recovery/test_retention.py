"""An index that forgets, on real Kafka: lived through, restored from what is left, and killed."""

import json
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from tests.kafka.outages.test_kill_points import WINDOWS
from tests.kafka.story import (
    BATCH,
    CUT,
    STATIC,
    TIMESTAMP,
    die_at,
    finish,
    index_of,
    verdicts,
    wipe,
)
from tests.support.stage import Stage
from tests.support.topics import Input

STEP = 5 * 3_600_000
"""Milliseconds of the stream between two waves, a batch each; on a slow machine a batch may hold
the end of one and the beginning of the next, which the retention leaves room for."""
DAY = 24 * 3_600_000
SETTINGS = {**STATIC, "batch": CUT, "index": {"retention": "81000s"}}
BEGUN = TIMESTAMP - 200 * STEP


def text(number: int, row: int) -> str:
    """Return a story; the number of a wave that is none, too, makes one like no other."""
    return f"a story {number + 10} {row} of its own {(number + 10) * 7 + row}"


def wave(number: int) -> list[Input]:
    """Return a batch: what is new, and a text of 10 h before (even ones) or 30 h before."""
    texts = {f"{number}-{row}": text(number, row) for row in range(5)}
    texts[f"{number}-again"] = text(number - 2, 0) if number % 2 == 0 else text(number - 6, 1)
    return [
        Input(json.dumps({"id": id_, "text": each}).encode(), timestamp=BEGUN + number * STEP)
        for id_, each in texts.items()
    ]


def first_offset(stage: Stage) -> int:
    consumer = Consumer({"bootstrap.servers": stage.bootstrap, "group.id": "looks"})
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(stage.changelog, 0), timeout=30)
        return low
    finally:
        consumer.close()


def test_what_is_older_than_the_retention_is_forgotten_by_the_owner_and_by_whoever_restores(
    make_stage: Callable[..., Stage],
) -> None:
    stage = make_stage()
    state = stage.directory / "state"
    for begin in (0, 12, 24):
        stage.produce([each for number in range(begin, begin + 12) for each in wave(number)])
        for point in WINDOWS if begin == 12 else ():
            die_at(stage, f"{point}:1", SETTINGS)
        log = finish(stage, SETTINGS)
        lived = index_of(stage)
        if begin == 0:
            assert first_offset(stage) > 0, log
        wipe(state)
    process = stage.start(**SETTINGS)
    stage.drain(process)
    process.wait_for(lambda s: s["index_expected_bytes"], what="how large it will become")
    assert process.terminate() == 0
    assert index_of(stage) == lived, "restored from a changelog that was cut off"
    assert len(wave(0)) == BATCH
    found = verdicts(stage)
    for number in range(2, 36):
        met = f"{number - 2}-0" if number % 2 == 0 else None
        verdict = "exact_duplicate" if met else "unique"
        assert found[f"{number}-again"] == (verdict, met), number
    kept = [key for kind, key in lived if kind == "document"]
    assert len(kept) <= (5 + DAY // STEP + 1) * BATCH, "of 36 waves five, and a window of a day"
