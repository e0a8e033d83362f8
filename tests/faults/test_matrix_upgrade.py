"""Row 43, an upgrade: an old version is killed in a batch, and this one goes on as after any kill.

It finds the old one's state directory, or only its changelog, and the group's offsets.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streamfilter.kafka.broker.real import RealKafka
from streamfilter.killpoints import VARIABLE
from tests.kafka.story import bytes_of, index_of, records, texts, wipe
from tests.support.old_version import old_version
from tests.support.stage import Stage

SEED = 20_261_131
DOCUMENTS, BATCH = 90, 6  # only full batches, so that every run cuts them alike
STORY = records(texts(random.Random(SEED), DOCUMENTS))
SETTINGS: dict[str, dict[str, Any]] = {
    "batch": {"documents": BATCH, "latency": "10s"},
    # A static member takes its place again at once: no session timeout to wait for.
    "kafka": {"session_timeout": "6s", "consumer": {"group.instance.id": "one"}},
}
SHORT = [("transaction.offsets:4", False), ("transaction.committed:5", True)]
POINTS = (
    "start.assigned", "batch.consumed", "batch.decided", "transaction.begun",
    "transaction.producing", "transaction.produced", "transaction.flushed",
    "transaction.offsets", "transaction.committed", "index.applied",
)  # fmt: skip
LONG = [
    (f"{point}:{1 if point.startswith('start.') else number}", wiped)
    for number, wiped in ((2, False), (9, True))
    for point in POINTS
]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which `streamfilter` is an old version."""
    return old_version(tmp_path_factory.mktemp("old-version"))


@pytest.fixture(scope="module")
def undisturbed(kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage on which this version did everything."""
    stage = Stage(kafka.bootstrap, tmp_path_factory.mktemp("undisturbed"))
    stage.produce(STORY)
    try:
        finish(stage)
        yield stage
    finally:
        stage.close()


def finish(stage: Stage) -> str:
    """Let this version work everything off; return its log."""
    process = stage.start(**SETTINGS)
    stage.drain(process)
    assert process.terminate() == 0, process.told("did not end well")
    return process.log.read_text()


@pytest.mark.parametrize(
    ("point", "wiped"),
    [*SHORT, *(pytest.param(*each, marks=pytest.mark.long) for each in LONG)],
)
def test_this_version_goes_on_where_an_old_one_was_killed(
    make_stage: Callable[..., Stage],
    undisturbed: Stage,
    old: dict[str, str],
    point: str,
    wiped: bool,
) -> None:
    stage = make_stage()
    stage.produce(STORY)
    killed = stage.start(environment={**old, VARIABLE: point}, **SETTINGS)
    assert killed.wait_for_exit() == -9, killed.told(f"did not die at {point} (seed {SEED})")
    if wiped:
        wipe(stage.directory / "state")
    finish(stage)
    assert bytes_of(stage) == bytes_of(undisturbed)
    assert index_of(stage) == index_of(undisturbed)
