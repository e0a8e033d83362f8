"""The oracle over a whole stage: what it wrote, and every index directory that it left."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from streamfilter.index.directory.seed_file import read_seed
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from tests.faults.judging.expected import history_of
from tests.faults.judging.oracle import Finding, judge, judge_index
from tests.faults.judging.recording import Watcher, record_run
from tests.support.stage import Stage
from tests.truth.history import History


def tasks_of(
    stage: Stage, scope: str, partitions: int, retention: Retention = UNLIMITED
) -> dict[int, History]:
    """Return a model for each task of a group whose index has *scope*."""
    secret = read_seed(stage.directory / "seed")
    count = partitions if scope == "partition" else 1
    return {number: history_of(stage.scheme(), secret, retention) for number in range(count)}


def judge_stage(
    stage: Stage,
    watcher: Watcher,
    tasks: Mapping[int, History],
    *,
    scope: str,
    states: Iterable[Path],
) -> list[Finding]:
    """Return every broken promise: of what came out, and if that is right, of the indexes."""
    recording = record_run(stage, watcher)
    found = judge(recording, tasks, whole=True)
    if found:
        return found
    secret = read_seed(stage.directory / "seed")
    for state in states:
        for number, task in tasks.items():
            path = state if scope == "topic" else state / f"partition-{number}"
            start = recording.starts.get(number, 0)
            found += judge_index(path, secret, task, start) if path.exists() else []
    return found
