"""Row 43, an upgrade: an old version is killed in a batch, and this one goes on as after any kill.

It finds the old one's state directory, or only its changelog, and the group's offsets. One of
another format, and other hashes, it refuses by name, and changes nothing.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.local.real import RealKafka
from streamfilter.killpoints import VARIABLE
from streamfilter.similarity.scheme import ALGORITHM
from streamfilter.stops import ExitCode
from tests.kafka.story import (
    BATCH,
    STATIC,
    assert_as_undisturbed,
    finish,
    records,
    texts,
    undisturbed_run,
    wipe,
)
from tests.support.old_version import ALGORITHM_2, OLD, SAME_HASHES, old_version
from tests.support.stage import Stage

SEED = 20_261_131
DOCUMENTS = 15 * BATCH
STORY = records(texts(random.Random(SEED), DOCUMENTS))
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
    """The environment in which `streamfilter` is an older version of the same format."""
    return old_version(tmp_path_factory.mktemp("old-version"), SAME_HASHES)


@pytest.fixture(scope="module")
def undisturbed(kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage on which this version did everything."""
    directory = tmp_path_factory.mktemp("undisturbed")
    with undisturbed_run(kafka.bootstrap, directory, STORY) as stage:
        yield stage


@pytest.mark.parametrize(
    ("point", "wiped"), [*SHORT, *(pytest.param(*each, marks=pytest.mark.long) for each in LONG)]
)
def test_this_version_goes_on_where_an_old_one_was_killed(
    make_stage, undisturbed, old, point, wiped
):
    stage = make_stage()
    stage.produce(STORY)
    killed = stage.start(environment={**old, VARIABLE: point}, **STATIC)
    assert killed.wait_for_exit() == -9, killed.told(f"did not die at {point} (seed {SEED})")
    if wiped:
        wipe(stage.directory / "state")
    finish(stage)
    assert_as_undisturbed(stage, undisturbed)


@pytest.mark.parametrize(
    ("commit", "named", "wiped"),
    [
        (OLD, "format: it has 1, this version 2", True),
        (ALGORITHM_2, f"scheme.algorithm: it has 2, wanted is {ALGORITHM}", False),
    ],
    ids=["the changelog", "the index"],
)
def test_an_index_and_a_changelog_of_other_hashes_are_refused_by_name(
    make_stage: Callable[..., Stage], tmp_path: Path, commit: str, named: str, wiped: bool
) -> None:
    other_hashes = old_version(tmp_path / "old-version", commit)
    stage = make_stage()
    stage.produce(STORY)
    killed = stage.start(environment={**other_hashes, VARIABLE: "index.applied:2"}, **STATIC)
    assert killed.wait_for_exit() == -9, killed.told("did not die")
    before = stage.outputs()
    if wiped:
        wipe(stage.directory / "state")
    refused = stage.start(**STATIC)
    assert refused.wait_for_exit() == ExitCode.CONFIG, refused.told("was not refused")
    said = refused.told("")
    assert named in said
    assert "ways out: " in said
    assert stage.outputs() == before
