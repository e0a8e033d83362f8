"""An index that forgets, on real Kafka: lived through, restored from what is left, and killed."""

import json
import shutil
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.directory.seed_file import seed_at
from tests.kafka.outages.test_kill_points import WINDOWS
from tests.kafka.recovery.test_beginnings import commit
from tests.kafka.recovery.test_standby import scraped, wait_until_abreast
from tests.kafka.story import (
    BATCH,
    CUT,
    STATIC,
    TIMESTAMP,
    die_at,
    finish,
    id_of,
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
EVERYTHING = {"batch": CUT, "kafka": {"session_timeout": "6s"}}
LIMITED = {**EVERYTHING, "index": SETTINGS["index"]}
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


def waves(numbers: Iterable[int]) -> list[Input]:
    return [each for number in numbers for each in wave(number)]


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


def test_a_limit_comes_and_goes_and_neither_a_standby_nor_a_backup_nor_a_rewind_errs(make_stage):
    stage = make_stage()
    state, copy = stage.directory / "state", stage.directory / "copy"
    for begin, settings in ((0, EVERYTHING), (6, LIMITED), (12, EVERYTHING)):
        stage.produce(waves(range(begin, begin + 6)))
        finish(stage, settings)
        if begin == 6:
            shutil.copytree(state, copy)
    worker = stage.start(**LIMITED)
    worker.wait_for_state("running")
    waiting = stage.start(state="waits", **LIMITED)
    waiting.wait_for_state("standby")
    stage.produce(waves(range(18, 24)))
    stage.drain(worker)
    wait_until_abreast(worker, waiting)
    worker.wait_for(
        lambda _: scraped(worker, "changelog_surplus_records") == 0, what="a changelog cut off"
    )
    assert (waiting.terminate(), worker.terminate()) == (0, 0)
    assert index_of(stage, "waits") == index_of(stage), "cut off while it was read"
    wipe(state)
    copy.rename(state)  # a backup, that stands where the changelog does not reach back to
    stage.produce(waves((150, 151, 152)))  # after a rest, which forgets everything at once
    assert "is removed and restored from" in finish(stage, LIMITED)
    lived = index_of(stage)
    wipe(state)
    finish(stage, LIMITED)
    assert index_of(stage) == lived
    found = verdicts(stage)
    met = {number: f"{number - 2}-0" for number in (*range(2, 24, 2), 152)}
    # What came before the limit counts as come when it was given; then all that is left is kept.
    met |= {number: f"{number - 6}-1" for number in (7, 9, 13, 15, 17)}
    for number in (*range(24), 150, 151, 152):
        verdict = "exact_duplicate" if number in met else "unique"
        assert found[f"{number}-again"] == (verdict, met.get(number)), number
    commit(stage, {0: 0})  # to before what is left
    finish(stage, LIMITED)
    assert index_of(stage) == lived
    outputs = stage.outputs()
    again = {name: [id_of(each) for each in outputs[name]] for name in ("unique", "duplicates")}
    assert sorted(again["unique"] + again["duplicates"]) == sorted([*found, *found])
    assert again["unique"].count("4-again") == 1, "what it met has gone with its window"
    assert again["duplicates"].count("152-again") == 2


def test_a_changelog_that_was_cut_off_in_a_live_window_is_no_shorter_memory(stage: Stage) -> None:
    """It began with a later window's header, and half of what is remembered was gone in silence."""
    for number in range(0, 24, 6):
        stage.produce(waves(range(number, number + 6)))
        finish(stage, SETTINGS)
    with viewed(stage.directory / "state", seed=seed_at(stage.directory / "seed")) as view:
        oldest, later, *_ = view.windows
    assert oldest.offset < later.offset
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    spots = [TopicPartition(stage.changelog, 0, later.offset)]
    for future in admin.delete_records(spots).values():
        future.result(60)
    for _ in range(2):  # and not after half of it was restored either
        process = stage.start(state="bare", **SETTINGS)
        assert process.wait_for_exit() == 78, process.told("was not refused")
        assert "its first records were deleted" in process.log.read_text()
    finish(stage, SETTINGS)  # the whole one goes on
