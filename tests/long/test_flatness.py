"""A soak's looks: what is flat, what has grown, and whether sizes are what they say."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from deploy.local.real import RealKafka
from tests.faults.supervisor import Worker
from tests.long.flatness import (
    GROWN_MAX,
    LOOK_SECONDS,
    LOOKS_MIN,
    MIB,
    Flatness,
    Look,
    Size,
    size_of,
)
from tests.support.stage import Stage
from tests.support.topics import Input, create_topics, produce


def looked(*disk: float, resident: Sequence[float] = (5.0,)) -> Flatness:
    """Return the looks at filters that took so much, two a period; each repeated."""
    flatness = Flatness(2 * LOOK_SECONDS)
    each = -(-LOOKS_MIN // len(disk))
    for number in range(each * len(disk)):
        size = Size(disk[number // each], resident[number % len(resident)], 100, 1.0)
        flatness.looks.append(Look(number * LOOK_SECONDS / each, number, {"wronged": size}))
    return flatness


def test_what_fills_and_then_stays_is_flat_and_what_goes_on_growing_is_not() -> None:
    assert looked(1, 4, 8, 10, 9, 10, 10, 11, 12).grown() == []
    assert looked(1, 4, 8, 10, 9, 10, 10, 13, 14).grown() == [
        "wronged disk_mib grew from 10.0 to 13.0"
    ]
    just = 10 * GROWN_MAX
    assert looked(0, 0, 0, 10, 10, 10, just, just, just).grown() == []


def test_a_moment_when_everybody_is_dead_says_nothing_of_memory() -> None:
    assert looked(1.0, resident=[0.0, 0.0, 10.0]).grown() == []


def test_a_segment_on_each_broker_more_is_no_growth_of_a_changelog() -> None:
    flatness = looked(1.0)
    for number, more, grown in (
        (40, 2.5, []),
        (41, 4.0, ["wronged changelog_mib grew from 1.0 to 5.0"]),
    ):
        for place in range(number, len(flatness.looks)):
            look = flatness.looks[place]
            look.sizes["wronged"] = replace(look.sizes["wronged"], changelog_mib=1.0 + more)
        assert flatness.grown() == grown


def test_too_few_looks_say_nothing() -> None:
    flatness = looked(1.0)
    flatness.looks.pop()
    assert flatness.grown() == ["59 looks are too few to say"]
    assert Flatness(1.0).latest() == "after 0.0 periods: "


def test_figures_are_medians_of_thirds() -> None:
    told = looked(1, 3, 5, 7, 9).as_json()
    assert told["thirds"]["wronged disk_mib"] == {"second": 5, "last": 9}


def test_sizes_are_those_of_files_processes_and_topics(kafka: RealKafka, tmp_path: Path) -> None:
    stage = Stage(kafka.bootstrap, tmp_path)
    create_topics(kafka.bootstrap, {stage.changelog: 1})
    produce(kafka.bootstrap, stage.changelog, [Input(os.urandom(1 << 16)) for _ in range(10)])
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for cut in admin.delete_records([TopicPartition(stage.changelog, 0, 4)]).values():
        cut.result()
    state = tmp_path / "state"
    (state / "partition-0").mkdir(parents=True)
    (state / "partition-0" / "file").write_bytes(bytes(MIB))
    process = SimpleNamespace(child=SimpleNamespace(pid=os.getpid()))
    workers = [
        Worker("a", tmp_path, 0, state, process),  # type: ignore[arg-type]
        Worker("b", tmp_path, 0, tmp_path / "none"),
    ]
    size = size_of(kafka, stage, workers)
    assert (size.disk_mib, size.changelog_records) == (1.0, 6)
    assert 0.6 < size.changelog_mib < 0.7, "a segment stays until all of it was cut off"
    assert 10 < size.resident_mib < 10_000
