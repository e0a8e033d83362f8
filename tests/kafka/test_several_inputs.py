"""Several topics in one index: conserved one by one, taken up and let go while it runs."""

import random
import time
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from streamfilter.index.directory.read_only_view import viewed
from streamfilter.index.directory.seed_file import read_seed
from streamfilter.index.input_table import FACT, origins_of, table_of
from tests.kafka.story import records, texts
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import create_topics, end_offsets, header, produce

NUMBER = 20_261_125
REFUSED = 78


def settings(*topics: str) -> dict[str, dict[str, object]]:
    return {
        "input": {"topics": list(topics)},
        "batch": {"documents": 10},
        "kafka": {"session_timeout": "6s"},
    }


def keys(stage: Stage) -> list[str]:
    return sorted((r.key or b"").decode() for found in stage.outputs().values() for r in found)


def named(count: int, first: int = 0) -> list[str]:
    return sorted(f"k{number}" for number in range(first, first + count))


def drain(stage: Stage, process: FilterProcess, *topics: str) -> None:
    ends = {
        f"{topic}/{p}": end
        for topic in topics
        for p, end in end_offsets(stage.bootstrap, topic).items()
    }

    def drained(status: Mapping[str, Any]) -> bool:
        positions = status.get("positions", {})
        return all(positions.get(p, -1) >= end for p, end in ends.items())

    process.wait_for(drained, what=f"the ends {ends}", timeout_seconds=90)


def delete(stage: Stage, topic: str) -> None:
    client = AdminClient({"bootstrap.servers": stage.bootstrap})
    for future in client.delete_topics([topic]).values():
        future.result(20)
    deadline = time.monotonic() + 60
    while topic in client.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline, "the topic is still there"
        time.sleep(0.1)


@pytest.mark.slow(30)
def test_a_service_of_one_topic_goes_on_with_a_list_and_evidence_names_the_topic(stage):
    first, second = texts(random.Random(NUMBER), 40), texts(random.Random(NUMBER + 1), 40)
    stage.produce(records(first))
    process = stage.start(batch={"documents": 10})
    stage.drain(process)
    assert process.terminate() == 0
    other = f"{stage.group}.a-first-by-name"
    create_topics(stage.bootstrap, {other: 2})
    copies = records(first, first=100)
    own = records(second, first=200)
    produce(stage.bootstrap, other, copies)
    produce(stage.bootstrap, other, [each.__class__(each.value, each.key, 1) for each in own])
    process = stage.start(**settings(other, stage.input))
    process.wait_for(lambda status: bool(status.get("positions")), what="a start")
    process.kill()
    stage.produce(records(second, first=300))
    process = stage.start(**settings(other, stage.input))
    drain(stage, process, stage.input, other)
    assert process.terminate() == 0
    assert keys(stage) == sorted(named(40) + named(40, 100) + named(40, 200) + named(40, 300))
    withheld = {(r.key or b"").decode(): r for r in stage.outputs()["duplicates"]}
    of_the_other = withheld["k100"]
    assert header(of_the_other, "__streamfilter.source.topic") == other
    assert header(of_the_other, "__streamfilter.match.topic") == stage.input
    known_in_the_other = withheld["k300"]
    assert header(known_in_the_other, "__streamfilter.source.topic") == stage.input
    assert header(known_in_the_other, "__streamfilter.match.topic") == other
    assert header(known_in_the_other, "__streamfilter.match.partition") == "1"
    path = stage.directory / "state"
    with viewed(path, seed=read_seed(stage.directory / "seed")) as view:
        assert table_of(view.fact(FACT)).spots == [(stage.input, 0), (other, 0), (other, 1)]
        assert origins_of(view.fact(FACT)).described(2, 7) == {
            "topic": other, "partition": 1, "offset": 7
        }  # fmt: skip
    alone = stage.start()
    assert alone.wait_for_exit() == REFUSED
    assert "input.topics: [" in alone.log.read_text()


@pytest.mark.slow(30)
def test_topics_that_fit_a_pattern_come_and_go(stage: Stage) -> None:
    pattern, later = f"{stage.group}.in*", f"{stage.group}.in-later"
    stories = texts(random.Random(NUMBER), 30)
    stage.produce(records(stories))
    process = stage.start(**settings(pattern))
    drain(stage, process, stage.input)
    create_topics(stage.bootstrap, {later: 1})
    produce(stage.bootstrap, later, records(stories, first=100))
    drain(stage, process, later)
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    admin.create_partitions([NewPartitions(later, 2)])[later].result(20)
    drain(stage, process, later)
    delete(stage, later)
    process.wait_for(
        lambda status: f"{later}/0" not in status["positions"], what="the topic is gone"
    )
    stage.produce(records(stories, first=200))
    drain(stage, process, stage.input)
    said = process.get("/metrics") or ""
    assert 'input_topics{state="missing"} 1.0' in said
    assert f'topic_consumed_total{{topic="{pattern}"}} 90.0' in said
    assert process.terminate() == 0
    assert keys(stage) == sorted(named(30) + named(30, 100) + named(30, 200))
    create_topics(stage.bootstrap, {later: 2})
    process = stage.start(**settings(pattern))
    assert process.wait_for_exit() == REFUSED
    assert f"{later} was recreated" in process.log.read_text()
