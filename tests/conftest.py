"""Fixtures for all tests: one real broker a run, one stage a test.

What takes long to import is imported where it is used: xdist's first process runs no test, and
its workers begin after its imports.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import secrets
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamfilter.process.cures import CURES
from tests.support.s3 import new_bucket, s3_server  # noqa: F401 (fixtures)
from tests.support.session import bytecode, classes, needs
from tests.support.session.forge import Forge
from tests.support.session.lanes import arrange
from tests.support.session.shared_broker import (
    SHORT_CLOCKS,
    SharedKafka,
    locked,
    said_if_missing,
    shared,
)
from tests.support.session.trials import Trials, add_options, trials_of

if TYPE_CHECKING:
    from deploy.local.real import RealKafka
    from streamfilter.demo.running_filter import Child
    from tests.faults.causes.proxy import Proxy
    from tests.support.stage import Stage

# Some environments forbid bytecode: each child would compile everything anew, half a second each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

os.environ.setdefault(classes.VARIABLE, classes.options())

gc.disable()  # imports and collection make millions of objects, and none of them is garbage


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    if _runs_tests(session.config):
        from tests.support.session import examples

        examples.repeat()
        bytecode.share(session.config)
    try:
        return (yield)
    finally:
        gc.freeze()  # and no later search for garbage looks at them
        gc.enable()


def _runs_tests(config: pytest.Config) -> bool:
    """Return whether this is no process that leaves them to xdist's workers; xdist may be off."""
    return getattr(config.option, "dist", "no") == "no" or hasattr(config, "workerinput")


@pytest.fixture(autouse=True)
def seeds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the seeds that this process draws follow from the test's name; names stay random.

    Keys of another seed miss other pairs: one run in some hundred had a recall of .992.
    """
    drawn = random.Random(request.node.nodeid)
    monkeypatch.setattr(secrets, "token_bytes", lambda size=None: drawn.randbytes(size or 32))
    monkeypatch.setattr(secrets, "token_hex", lambda size=None: os.urandom(size or 32).hex())


@pytest.fixture(autouse=True)
def no_files() -> None:
    """Cures name no configuration that another test of this process has given."""
    CURES.remember([])


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of the user out."""
    for name in os.environ:
        if name.startswith("STREAMFILTER_"):
            monkeypatch.delenv(name)


@pytest.fixture
def alone(no_settings: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run in an empty directory, and without anybody's settings."""
    monkeypatch.chdir(tmp_path)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Mark what tests need, leave out the long run unless asked for by name, and order the rest."""
    needs.mark(items)
    if "long" not in config.getoption("-m"):
        config.hook.pytest_deselected(items=[each for each in items if needs.is_long(each)])
        items[:] = [each for each in items if not needs.is_long(each)]
    yield  # here those that -m and -k leave out go
    if workers := getattr(config, "workerinput", {}).get("workercount"):
        items[:] = arrange(items, workers)


@pytest.fixture
def trials(request: pytest.FixtureRequest) -> Iterator[Trials]:
    """How often a fault is tried here: see `tests.support.session.trials.short_and_long`."""
    yield from trials_of(request)


@pytest.fixture(scope="session")
def shared_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"


@pytest.fixture(scope="session")
def kafka(shared_directory: Path) -> Iterator[RealKafka | SharedKafka]:
    """Apache Kafka, one node for all workers: use topics and groups with random names.

    A test that kills or pauses a node starts its own.
    """
    with contextlib.ExitStack() as stack:
        with said_if_missing():
            broker = stack.enter_context(shared(shared_directory, _recorded_kafka))
        yield broker


def _recorded_kafka() -> RealKafka:
    from deploy.local.real import RealKafka

    classes.record()
    return RealKafka(properties=SHORT_CLOCKS)


@pytest.fixture
def proxy(kafka: RealKafka, shared_directory: Path) -> Iterator[Proxy]:
    """Return the proxy before the shared broker: one test of all workers has it at a time."""
    from tests.faults.causes.proxy import Proxy

    with locked(shared_directory / "proxy"), Proxy.of(kafka.nodes[0]) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def forge() -> Iterator[Forge]:
    """What filters are forked from: hundreds are started, and each would import for .7 s."""
    with Forge() as forge:
        yield forge


@pytest.fixture
def make_stage(kafka: RealKafka, forge: Forge, tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Return a maker of stages (``make_stage(partitions=4)``) whose filters end with the test."""
    from tests.support.stage import Stage

    stages: list[Stage] = []

    def make(*, partitions: int = 1) -> Stage:
        directory = tmp_path / f"stage-{len(stages)}"
        directory.mkdir()
        stages.append(Stage(kafka.bootstrap, directory, partitions=partitions, launch=forge.launch))
        return stages[-1]

    yield make
    for stage in stages:
        stage.close()


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    """Return a stage with one partition."""
    return make_stage()


@pytest.fixture
def embedded_stage(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., Stage]]:
    """Return a maker of stages on a broker inside of this process: for starts and checks.

    A filter works there, once and without faults: no committed offsets are kept.
    """
    from streamfilter.kafka.embedded import EmbeddedBroker
    from tests.support.stage import Stage

    def launch(*command: Any, **options: Any) -> Child:  # most start no filter, and need no forge
        return request.getfixturevalue("forge").launch(*command, **options)

    stages: list[Stage] = []
    with EmbeddedBroker() as broker:

        def make(*, partitions: int = 1) -> Stage:
            shape = {"partitions": partitions, "launch": launch, "embedded": broker}
            stages.append(Stage(broker.bootstrap, tmp_path, **shape))
            return stages[-1]

        yield make
        for stage in stages:
            stage.close()
