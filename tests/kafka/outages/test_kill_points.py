"""SIGKILL between any two steps, then a restart: as if nothing had happened.

A life has many kills, each after some progress, and is compared once it is over: outputs byte
for byte, and everything that the index holds.
"""

import os
import random
import signal
from collections.abc import Iterator

import pytest

from deploy.local.real import RealKafka
from streamfilter.killpoints import KILL_POINTS, VARIABLE
from tests.kafka.story import (
    STATIC,
    assert_as_undisturbed,
    bytes_of,
    die_at,
    finish,
    index_of,
    records,
    texts,
    undisturbed_run,
    wipe,
)
from tests.support import small_runs
from tests.support.machine.processes import children_of
from tests.support.session.forge import Forge
from tests.support.stage import Stage

SEED = 20_261_122
DOCUMENTS = 120
STORY = records(texts(random.Random(SEED), DOCUMENTS))
BACKUPS = [point for point in KILL_POINTS if point.startswith("backup.")]
WINDOWS = [point for point in KILL_POINTS if point.startswith(("window.", "changelog."))]
FORGET = [point for point in KILL_POINTS if point.startswith("forget.")]
RUNS = [point for point in KILL_POINTS if point.startswith(("run.", "merge."))]
TAKE_OVER = [point for point in KILL_POINTS if point.startswith("takeover.")]
UNREACHED = {
    "transaction.aborted",  # needs an error: see test_takeover.py
    *WINDOWS,  # need an index that forgets: see test_retention.py
    *FORGET,  # and test_forgetting.py
    *RUNS,  # need more documents, or smaller runs
    *TAKE_OVER,  # need two groups: see recovery/test_take_over.py
    *BACKUPS,  # need a target of backups: see tests/backup/test_trouble.py
}
START = [point for point in KILL_POINTS if point.startswith("start.")]
RESTORE = [point for point in KILL_POINTS if point.startswith("restore.")]
CLOSE = [point for point in KILL_POINTS if point.startswith("close.")]
OPENING = (*START, "transaction.begun", "transaction.flushed", "transaction.committed")
"""Before anything is committed, and in the transaction that opens the changelog."""
LOOP = [p for p in KILL_POINTS if p not in {*UNREACHED, *START, *RESTORE, *CLOSE}]


@pytest.fixture(scope="module")
def undisturbed(
    kafka: RealKafka, forge: Forge, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """A stage on which nothing went wrong, its filter stopped."""
    directory = tmp_path_factory.mktemp("undisturbed")
    with undisturbed_run(kafka.bootstrap, directory, STORY, forge.launch) as stage:
        outputs = stage.outputs()
        assert min(len(outputs["unique"]), len(outputs["duplicates"])) > DOCUMENTS / 5
        yield stage


@pytest.mark.parametrize(
    ("first", "points"), [(OPENING, LOOP[::2]), ((), LOOP[1::2])], ids=["even", "odd"]
)
@pytest.mark.slow(30)
def test_a_kill_between_any_two_steps_of_the_loop_changes_nothing(
    stage, undisturbed, first, points
):
    stage.produce(STORY)
    for point in first:
        die_at(stage, f"{point}:1")
    die_at(stage, "index.applied:3")
    for point in points:
        die_at(stage, f"{point}:2")
    assert " changelog offsets" in finish(stage)
    assert_as_undisturbed(stage, undisturbed)


def test_a_kill_at_each_step_of_writing_and_merging_runs_changes_nothing(forge, stage, undisturbed):
    stage.launch = small_runs.forged(forge)
    stage.produce(STORY)
    for point in RUNS:
        die_at(stage, f"{point}:1")
    finish(stage)
    assert_as_undisturbed(stage, undisturbed)


def test_kills_in_restore_and_while_closing_change_nothing(
    stage: Stage, undisturbed: Stage
) -> None:
    stage.produce(STORY)
    die_at(stage, "index.applied:12")
    for point in (*START, *RESTORE):
        wipe(stage.directory / "state")
        die_at(stage, f"{point}:1")
    for point in CLOSE:
        process = stage.start(environment={VARIABLE: point}, **STATIC)
        stage.drain(process)
        assert process.terminate() == -9, process.with_log(f"did not die at {point}")
    finish(stage)
    assert_as_undisturbed(stage, undisturbed)


@pytest.mark.slow
def test_kills_of_workers_change_nothing(embedded_stage) -> None:
    long = records([" ".join([text] * 6) for text in texts(random.Random(SEED), DOCUMENTS)])
    found = []
    for workers in (0, 2):
        stage = embedded_stage()
        batch = {"documents": 30, "latency": "10s", "workers": workers}  # 60 kB: cut for two
        stage.produce(long[:60])
        process = stage.start(state=f"state-{workers}", batch=batch)
        stage.drain(process)
        killed = children_of(process.child.pid)
        assert bool(killed) is bool(workers), process.with_log("has other workers")
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        stage.produce(long[60:])
        log = stage.end(process)
        assert ("a worker failed: it was killed by signal 9" in log) is bool(workers)
        found.append((bytes_of(stage), index_of(stage, f"state-{workers}")))
    assert found[0] == found[1]
