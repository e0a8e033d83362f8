"""Two that claim one identity, and one that slept: the broker tells them apart, and we hear it.

Rows 13, 21 and 22 of the fault matrix, and a static member that is started a second time.
"""

import random
import time

import pytest
from confluent_kafka.admin import AdminClient

from streamfilter.killpoints import VARIABLE
from tests.kafka.story import records, texts, verdicts
from tests.support.filter_process import FilterProcess
from tests.support.stage import Stage
from tests.support.topics import end_offsets

SEED = 20_261_126
FENCED = 76
PATIENCE_SECONDS = 120
SETTINGS = {
    "batch": {"documents": 25},
    # A transaction outlives every sleep here: the broker's own timeout would fence first.
    "kafka": {"session_timeout": "2s", "transaction_timeout": "3m"},
    "http": {"stalled_after": "30m"},
}
STATIC = {
    **SETTINGS,
    "kafka": {**SETTINGS["kafka"], "consumer": {"group.instance.id": "one-name-for-two"}},
}


def finish(stage: Stage, process: FilterProcess) -> dict[str, tuple[str, str | None]]:
    """Let *process* work everything off, end it, and return the verdicts."""
    stage.end(process)
    return verdicts(stage)


@pytest.fixture(scope="module")
def undisturbed(kafka, forge, tmp_path_factory):
    """The verdicts of one process on the story, with nothing in its way."""
    directory = tmp_path_factory.mktemp("undisturbed")
    stage = Stage(kafka.bootstrap, directory, launch=forge.launch)
    try:
        stage.produce(records(texts(random.Random(SEED), 300)))
        return finish(stage, stage.start(**SETTINGS))
    finally:
        stage.close()


def test_a_static_member_that_is_started_twice_ends_the_first_as_fenced(stage, undisturbed):
    stories = records(texts(random.Random(SEED), 300))
    stage.produce(stories[:150])
    first = stage.start(state="first", **STATIC)
    stage.drain(first)
    second = stage.start(state="second", **STATIC)
    assert first.wait_for_exit(PATIENCE_SECONDS) == FENCED, first.with_log("did not end as fenced")
    said = first.log.read_text().splitlines()[-1]
    assert "group.instance.id" in said
    assert "give each its own" in said
    stage.produce(stories[150:])
    assert finish(stage, second) == undisturbed


def stopped_at(stage: Stage, point: str) -> FilterProcess:
    """Return a process that has stopped itself inside of a transaction, as a machine that froze."""
    process = stage.start(environment={VARIABLE: f"{point}:4:stop"}, **SETTINGS)
    process.wait_until_stopped()
    return process


def wait_until_nobody_is_in_the_group(stage: Stage) -> None:
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        (future,) = admin.describe_consumer_groups([stage.group]).values()
        if not future.result(20).members:
            return
        assert time.monotonic() < deadline, "the group keeps a member that sleeps"
        time.sleep(0.2)


@pytest.mark.parametrize(
    "point", ["transaction.flushed", pytest.param("batch.member", marks=pytest.mark.long)]
)
def test_a_stalled_member_that_commits_with_its_old_generation_aborts_and_joins_again(
    stage: Stage, undisturbed: dict[str, tuple[str, str | None]], point: str
) -> None:
    stage.produce(records(texts(random.Random(SEED), 300)))
    process = stopped_at(stage, point)
    wait_until_nobody_is_in_the_group(stage)
    process.resume()
    assert finish(stage, process) == undisturbed
    said = process.log.read_text()
    assert "transaction aborted, to be tried again" in said
    assert "UNKNOWN_MEMBER_ID" in said or "ILLEGAL_GENERATION" in said


def test_a_worker_that_froze_in_a_transaction_wakes_up_fenced_and_writes_nothing(
    stage: Stage, undisturbed: dict[str, tuple[str, str | None]]
) -> None:
    stage.produce(records(texts(random.Random(SEED), 300)))
    frozen = stopped_at(stage, "transaction.offsets")
    heir = stage.start(state="heir", **SETTINGS)
    stage.drain(heir, timeout_seconds=PATIENCE_SECONDS)
    topics = (stage.unique, stage.duplicates, stage.changelog)
    before = {topic: end_offsets(stage.bootstrap, topic) for topic in topics}
    frozen.resume()
    assert frozen.wait_for_exit(PATIENCE_SECONDS) == FENCED, frozen.with_log(
        "did not end as fenced"
    )
    assert "was taken over by another process" in frozen.log.read_text()
    assert {topic: end_offsets(stage.bootstrap, topic) for topic in topics} == before
    assert finish(stage, heir) == undisturbed
