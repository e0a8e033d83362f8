"""Every way in which offsets, changelog and index can disagree when a task begins."""

import random
import shutil
from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.kafka.story import id_of, index_of, records, texts, verdicts, wipe
from tests.support.stage import Stage
from tests.support.topics import header, read_committed

SEED = 20_261_124
Settings = Mapping[str, Mapping[str, Any]]
SETTINGS: Settings = {"batch": {"documents": 10}, "kafka": {"session_timeout": "6s"}}
EVEN: Settings = {**SETTINGS, "batch": {"documents": 10, "latency": "10s"}}
"""Only full batches, where indexes are compared: every run then cuts them alike."""
REFUSED = 78


def admin(stage: Stage) -> AdminClient:
    return AdminClient({"bootstrap.servers": stage.bootstrap})


def run(stage: Stage, settings: Settings = SETTINGS) -> str:
    """Start, drain and stop; return the log."""
    return stage.run(**settings)


def refused(stage: Stage) -> str:
    """Start a process that must refuse to work; return what it says."""
    return stage.refused(**SETTINGS)


def commit(stage: Stage, offsets: Mapping[int, int]) -> None:
    """Set the group's offsets, as kafka-consumer-groups.sh --reset-offsets does."""
    consumer = Consumer({"bootstrap.servers": stage.bootstrap, "group.id": stage.group})
    places = [TopicPartition(stage.input, p, o) for p, o in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def delete_offsets(stage: Stage) -> None:
    """Delete the group, which has no members now: its offsets might as well have expired."""
    client = admin(stage)
    for future in client.delete_consumer_groups([stage.group]).values():
        future.result(20)


def outputs(stage: Stage) -> int:
    return sum(len(found) for found in stage.outputs().values())


@pytest.fixture
def worked(stage: Stage) -> Stage:
    """A stage on which sixty documents were filtered."""
    stage.produce(records(texts(random.Random(SEED), 60)))
    run(stage)
    return stage


def more(stage: Stage) -> None:
    """Produce sixty more that continue the same story."""
    stage.produce(records(texts(random.Random(SEED), 120)[60:], first=60))


def test_a_lost_directory_and_an_older_copy_are_restored_and_the_future_is_refused(make_stage):
    undisturbed, stage = make_stage(), make_stage()
    stories = records(texts(random.Random(SEED), 120))
    undisturbed.produce(stories)
    run(undisturbed, EVEN)

    state, copy = stage.directory / "state", stage.directory / "copy"
    stage.produce(stories[:60])
    run(stage, EVEN)
    shutil.copytree(state, copy)
    stage.produce(stories[60:90])
    run(stage, EVEN)
    wipe(state)
    shutil.copytree(copy, state)  # thirty documents behind
    stage.produce(stories[90:])
    run(stage, EVEN)
    assert index_of(stage) == index_of(undisturbed)
    wipe(state)
    assert " changelog offsets" in run(stage, EVEN)
    assert index_of(stage) == index_of(undisturbed)
    assert verdicts(stage) == verdicts(undisturbed)

    # Another stage's changelog is shorter, and another's: this directory is from its future.
    other = make_stage()
    other.produce(stories[:20])
    run(other)
    wipe(other.directory / "state")
    shutil.copytree(state, other.directory / "state")
    assert "belongs to another changelog" in refused(other)
    assert outputs(other) == 20


def test_a_changelog_that_was_recreated_is_refused_and_nothing_is_written(worked: Stage) -> None:
    client = admin(worked)
    for future in client.delete_topics([worked.changelog]).values():
        future.result(20)
    said = refused(worked)
    assert "changelog" in said
    assert "empty or missing" in said
    assert "ways out" in said
    # With the offsets gone too, the directory still knows more than the new changelog.
    delete_offsets(worked)
    said = refused(worked)
    assert "truncated or recreated" in said
    assert outputs(worked) == 60


def test_a_restore_with_another_bucket_cap_is_refused_with_the_ways_out(worked: Stage) -> None:
    """Only the directory knew of it: without one, other buckets were written, and judged by."""
    for state in ("another", "state"):
        process = worked.start(**SETTINGS, state=state, index={"bucket_cap": 4})
        assert process.wait_for_exit() == REFUSED, process.told(f"{state} was not refused")
        said = process.log.read_text()
        assert f"{worked.changelog}/0 does not fit the configuration" in said
        assert "index.bucket_cap: it has 8, wanted is 4" in said
        assert "same scheme, seed and index.bucket_cap only" in said


def test_a_group_rewound_over_two_partitions_gives_every_record_its_verdict_again(make_stage):
    stage = make_stage(partitions=2)
    stage.produce(records(texts(random.Random(SEED + 1), 300), partitions=2))
    run(stage)
    first = verdicts(stage)
    entries = len(read_committed(stage.bootstrap, stage.changelog))
    index = index_of(stage)
    commit(stage, {0: 30, 1: 90})
    stage.produce(records(texts(random.Random(SEED + 1), 320)[300:], partitions=2, first=300))
    said = run(stage)
    assert "was rewound" in said
    assert "reading again from" in said
    again: dict[str, list[tuple[str, str | None]]] = {}
    for name in ("unique", "duplicates"):
        for each in stage.outputs()[name]:
            verdict = header(each, "__streamfilter.verdict") or "unique"
            match = header(each, "__streamfilter.match.id")
            again.setdefault(id_of(each), []).append((verdict, match))
    reread = {n for n in range(300) if n // 2 >= (30, 90)[n % 2]}
    for n in range(300):
        assert again[f"d{n}"] == [first[f"d{n}"]] * (2 if n in reread else 1), f"d{n}"
    assert all(len(again[f"d{n}"]) == 1 for n in range(300, 320))
    # Nothing was added for what was read again: two batches of new records, and their documents.
    marks_and_documents = len(read_committed(stage.bootstrap, stage.changelog)) - entries
    new_unique = sum(again[f"d{n}"][0][0] == "unique" for n in range(300, 320))
    assert marks_and_documents <= new_unique + 4
    assert index.items() <= {**index_of(stage), ("progress", b""): index["progress", b""]}.items()
