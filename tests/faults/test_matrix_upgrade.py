"""Row 43, an upgrade: an old version is killed in a batch, and this one goes on as after any kill.

It finds the old one's state directory, or only its changelog, and the group's offsets. One of
another format, and other hashes, it refuses by name, and changes nothing.
"""

import random
from collections.abc import Iterator

import pytest

from deploy.local.real import RealKafka
from streamfilter.killpoints import VARIABLE
from tests.kafka.story import (
    BATCH,
    STATIC,
    assert_as_undisturbed,
    die_at,
    finish,
    records,
    texts,
    undisturbed_run,
    wipe,
)
from tests.support.old_version import SAME_HASHES, old_version
from tests.support.session.forge import Forge
from tests.support.stage import Stage

SEED = 20_261_131
DOCUMENTS = 15 * BATCH
STORY = records(texts(random.Random(SEED), DOCUMENTS))
SHORT = "transaction.offsets:4"
POINTS = (
    "start.assigned", "batch.consumed", "batch.decided", "transaction.begun",
    "transaction.producing", "transaction.produced", "transaction.flushed",
    "transaction.offsets", "transaction.committed", "index.applied",
)  # fmt: skip
LONG = [f"{point}:{1 if point.startswith('start.') else 5}" for point in POINTS]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which `streamfilter` is an older version of the same format."""
    return old_version(tmp_path_factory.mktemp("old-version"), SAME_HASHES)


@pytest.fixture(scope="module")
def undisturbed(
    kafka: RealKafka, forge: Forge, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """A stage on which this version did everything."""
    directory = tmp_path_factory.mktemp("undisturbed")
    with undisturbed_run(kafka.bootstrap, directory, STORY, forge.launch) as stage:
        yield stage


@pytest.mark.parametrize(
    "point", [SHORT, *(pytest.param(each, marks=pytest.mark.long) for each in LONG)]
)
def test_this_version_goes_on_where_an_old_one_was_killed(stage, undisturbed, old, point):
    """First on the old one's directory, then from its changelog alone."""
    stage.produce(STORY)
    killed = stage.start(environment={**old, VARIABLE: point}, **STATIC)
    assert killed.wait_for_exit() == -9, killed.with_log(f"did not die at {point} (seed {SEED})")
    die_at(stage, "index.applied:2")
    wipe(stage.directory / "state")
    finish(stage)
    assert_as_undisturbed(stage, undisturbed)
