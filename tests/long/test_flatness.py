"""A soak's looks: what is flat, what has grown, and whether sizes are what they say."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from deploy.local.real import RealKafka
from tests.faults.supervisor import Worker
from tests.long.flatness import GROWN_MAX, LOOKS_MIN, MIB, Look, grown, size_of, thirds
from tests.support.stage import Stage
from tests.support.topics import Input, create_topics, produce


def looked(*sizes: float, name: str = "disk_mib") -> list[Look]:
    """Return looks at something that was as large as that; each repeated."""
    return [{name: each} for each in sizes for _ in range(-(-LOOKS_MIN // len(sizes)))]


def test_what_fills_and_then_stays_is_flat_and_what_goes_on_growing_is_not():
    assert grown(looked(1, 4, 8, 10, 9, 10, 10, 11, 12)) == []
    assert grown(looked(1, 4, 8, 10, 9, 10, 10, 13, 14)) == ["disk_mib grew from 10.0 to 13.0"]
    just = 10 * GROWN_MAX
    assert grown(looked(0, 0, 0, 10, 10, 10, just, just, just)) == []
    assert grown([{"resident_mib": 10.0 * (n % 3 == 0)} for n in range(LOOKS_MIN)]) == []
    assert grown(looked(1, 1, 4, name="changelog_mib")) == []
    assert grown(looked(1, 1, 5, name="changelog_mib")) != []
    assert grown(looked(1)[1:]) == ["59 looks are too few to say"]
    assert thirds(looked(1, 3, 5, 7, 9)) == {"disk_mib": (5, 9)}


@pytest.mark.long
def test_sizes_are_those_of_files_processes_and_topics(kafka: RealKafka, tmp_path: Path):
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
    assert (size["disk_mib"], size["changelog_records"]) == (1.0, 6)
    assert 0.6 < size["changelog_mib"] < 0.7, "a segment stays until all of it was cut off"
    assert 10 < size["resident_mib"] < 10_000
