"""`run --take-over`: each record is judged by exactly one of two groups, whatever is killed."""

import json
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from streamfilter.engine.messages.changelog import decode_batch
from streamfilter.engine.messages.changelog_header import BATCH, kind_of
from streamfilter.killpoints import VARIABLE
from streamfilter.model import SEEDS_FROM
from tests.kafka.story import CUT, STATIC, Settings, die_at, records, texts, verdicts
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import read_committed

STORIES = texts(random.Random(36_000), 240)
PLAIN: Settings = {"batch": CUT, "kafka": {"session_timeout": "6s"}}
BEFORE = ["takeover.fenced", "takeover.read", "start.assigned"] + [
    f"transaction.{step}" for step in ("begun", "outputs", "produced", "flushed", "offsets")
]
"""A kill there leaves the old group as it was: the transaction that takes its positions is open."""


def new(stage: Stage, settings: Settings = STATIC) -> dict[str, Any]:
    """Return the settings of the new group: another threshold, other shingles, bands and text."""
    return {
        **settings,
        "kafka": {**settings["kafka"], "group": f"{stage.group}.new"},
        "similarity": {
            "threshold": 0.6,
            "shingle": {"kind": "char", "size": 7},
            "normalise": {"mask": ["url", "number"]},
        },
    }


def start_new(stage: Stage, point: str = "") -> FilterProcess:
    environment = {VARIABLE: point} if point else None
    arguments = ["--take-over", stage.group]
    return stage.start(state="new", arguments=arguments, environment=environment, **new(stage))


@contextmanager
def traffic(stage: Stage, first: int) -> Iterator[None]:
    """Produce the stories from *first* on, some at a time, until the block ends; then the rest."""
    ended = threading.Event()

    def work() -> None:
        for at in range(first, len(STORIES), 4):
            ended.wait(0.2)
            stage.produce(records(STORIES[at : at + 4], first=at))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def judged_by(stage: Stage) -> dict[str, list[tuple[int, int]]]:
    """Return the offsets that each group has judged, from and to, by its changelog."""
    found: dict[str, list[tuple[int, int]]] = {}
    for group in (stage.group, f"{stage.group}.new"):
        values = [r.value or b"" for r in read_committed(stage.bootstrap, f"{group}.changelog")]
        spans = [decode_batch(v).mark.spans for v in values if kind_of(v) == BATCH]
        found[group] = [
            (s.start, s.end)
            for each in spans
            for s in each
            if s.start < s.end and s.partition < SEEDS_FROM
        ]
    return found


def seeded(stage: Stage) -> int:
    """Run `seed --topic UNIQUE` for the new group; return how many records it read."""
    config = stage.configuration(state="new", **new(stage))
    command = [sys.executable, "-m", "streamfilter", "seed", "--config", str(config)]
    command += ["--topic", stage.unique, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout)["records"])


def die_taking(stage: Stage, point: str, *, seeding: bool = False) -> None:
    """Let the new group die at *point*: while it is *seeding* the tail, or after that."""
    count = 2 if point == "start.assigned" and not seeding else 1
    process = start_new(stage, f"{point}:{count}")
    assert process.wait_for_exit() == -9, process.told(f"did not die at {point}")
    assert (f"{stage.unique} is in the index" in process.log.read_text()) is not seeding


@pytest.mark.slow(60)
@pytest.mark.parametrize(
    ("before", "after"),
    [(BEFORE[::2], "transaction.committed"), (BEFORE[1::2], "takeover.done")],
    ids=["even", "odd"],
)
def test_each_record_is_judged_once_whatever_is_killed(stage: Stage, before, after) -> None:
    stage.produce(records(STORIES[:60]))
    with traffic(stage, 60):
        die_at(stage, "transaction.offsets:9")
        assert seeded(stage) > 0
        for n, point in enumerate(before):
            die_taking(stage, point)
            if n % 2:
                die_at(stage, "transaction.offsets:2")  # the old group goes on meanwhile
                die_taking(stage, "transaction.offsets", seeding=True)
                assert seeded(stage) > 0, "the next one dies behind the tail"
        spans = judged_by(stage)[f"{stage.group}.new"]
        assert not spans, "nothing was taken so far"
        die_taking(stage, after)
        said = stage.refused(**STATIC)
        assert f"the group '{stage.group}.new' took over the input of the group" in said
    log = stage.end(start_new(stage))
    assert f"took over from {stage.group} already" in log
    assert verdicts(stage).keys() == {f"d{n}" for n in range(len(STORIES))}
    old, taken = judged_by(stage).values()
    assert taken, "the new group has judged"
    edges = [*old, *taken]
    assert all(a[1] == b[0] for a, b in pairwise(edges)), edges
    forwarded = Counter(
        json.loads(each.value or b"{}")["text"] for each in stage.outputs()["unique"]
    )
    assert max(forwarded.values()) == 1, "the new index has all that the old group forwarded"


def refused(stage: Stage, *arguments: str, **sections: Any) -> str:
    given = {**new(stage, PLAIN), **sections}
    return stage.refused(state="new", arguments=["--take-over", *arguments], **given)


@pytest.mark.slow(60)
def test_what_cannot_be_taken_over_is_refused_by_name(stage: Stage) -> None:
    old = stage.group
    stage.produce(records(STORIES[:30]))
    assert "there is no such group" in refused(stage, old)
    process = stage.start(**PLAIN)
    stage.drain(process)
    said = refused(stage, old)
    assert f"--take-over: the group '{old}': it works: " in said
    assert "stop every process of it, standbys too" in said
    assert process.terminate() == 0
    assert "it is this group itself" in refused(stage, f"{old}.new")
    assert f"it reads {stage.input}, and this configuration reads {stage.unique}: no group" in (
        refused(stage, old, input={"topic": stage.unique}, output={"unique": f"{old}.else"})
    )
    assert "index.scope is partition" in refused(stage, old, index={"scope": "partition"})
    with closing(Consumer({"bootstrap.servers": stage.bootstrap, "group.id": old})) as consumer:
        for offset in (7, 30):
            moved = [TopicPartition(stage.input, 0, offset)]
            consumer.commit(offsets=moved, asynchronous=False)
            if offset == 7:
                assert "it was rewound or skipped" in refused(stage, old)
    # A group that has judged already cannot take over; the other order is refused, too.
    assert stage.run(state="new", **new(stage, PLAIN))
    assert "has judged records of" in refused(stage, old)


@pytest.mark.slow(40)
def test_the_old_group_takes_the_input_back(stage: Stage) -> None:
    stage.produce(records(STORIES[:40]))
    stage.run(**PLAIN)
    stage.produce(records(STORIES[40:60], first=40))
    shown = stage.refused(
        0, state="new", arguments=["--take-over", stage.group, "--dry-run"], **new(stage, PLAIN)
    )
    assert f"{stage.input}/0 from 40 on; 20 offsets wait" in shown
    assert f"{stage.group} is stopped\nnothing was changed" in shown
    assert f"of {stage.unique} would enter the index before" in shown
    stage.end(stage.start(state="new", arguments=["--take-over", stage.group], **new(stage, PLAIN)))
    other = {**new(stage, PLAIN), "kafka": {**PLAIN["kafka"], "group": f"{stage.group}.third"}}
    took = f"the group '{stage.group}.new' took it over already"
    third = ["--take-over", stage.group]
    assert took in stage.refused(state="third", arguments=third, **other)
    asked = ["--take-over", f"{stage.group}.new", "--dry-run"]
    assert f"copies of what {stage.group}.new has forwarded" in stage.refused(0, arguments=asked)
    stage.produce(records(STORIES[60:80], first=60))
    back = stage.start(arguments=["--take-over", f"{stage.group}.new"], **PLAIN)
    stage.end(back)
    assert "took over the input of the group" in stage.refused(state="new", **new(stage, PLAIN))
    stage.produce(records(STORIES[80:90], first=80))
    assert stage.run(**PLAIN), "without --take-over, too"
    assert verdicts(stage).keys() == {f"d{n}" for n in range(90)}
