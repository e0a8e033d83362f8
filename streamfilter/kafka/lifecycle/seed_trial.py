"""`seed --dry-run`: the same task on a copy of the index, with a changelog that is not written.

No process joins the group, no topic is made, and no producer is opened. The copy has links to the
index's files. It is removed at the end, and after a kill by the next dry run.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from streamfilter.config.configuration import Config
from streamfilter.engine.parts import StepResult
from streamfilter.engine.ports import (
    Changelog,
    ChangelogReader,
    Entry,
    LogError,
    Member,
    Watermarks,
    as_stop,
)
from streamfilter.engine.writer_check import MARKER
from streamfilter.index.directory.closed_copy import copy_closed
from streamfilter.index.directory.lock_and_marker import LOCK_NAME, Lock
from streamfilter.index.directory.opening import read_identity
from streamfilter.index.directory.seed_file import seed_at
from streamfilter.index.errors import IndexRefused, file_errors
from streamfilter.kafka.task_factory import TaskFactory
from streamfilter.process.health import State
from streamfilter.stops import Temporary
from streamfilter.tasks.task import Task

NO_MEMBER = Member(0, "dry run", b"")
STEP_SECONDS = 0.1


class Unwritten(Struct):
    """`ports.Sink` and `ports.Changelog`: what is there is read, and nothing is added."""

    there: Changelog | None  # None: there is no changelog yet
    end: int = 0
    added: int = 0  # bytes
    _open: int = 0  # records of the open transaction

    def bounds(self) -> Watermarks:
        found = Watermarks(0, 0) if self.there is None else self.there.bounds()
        self.end = max(self.end, found.end)
        return found

    def read(self, start: int, end: int) -> ChangelogReader:
        return Nothing(end) if self.there is None else self.there.read(start, end)

    def produce_changelog(self, values: Sequence[bytes]) -> None:
        self._open += len(values)
        self.added += sum(map(len, values))

    def flush(self) -> int:
        return self.end + self._open - 1 if self._open else -1

    def commit(self) -> None:
        self.end, self._open = self.end + self._open + MARKER, 0

    def start(self) -> int:
        return -1

    def trim(self, before: int) -> bool:
        return True

    def compacted(self, topics: Iterable[str]) -> list[str]:
        return []

    def begin(self, *_: Any, **__: Any) -> None:
        """Do nothing: there is no producer."""

    open = produce = send_offsets = refuse_changed = abort = serve = close = begin


class Nothing(Struct, frozen=True):
    """`ports.ChangelogReader` of a changelog that does not exist."""

    position: int
    done = True

    def read(self, count: int, timeout: float) -> Sequence[Entry]:
        return ()

    def close(self) -> None:
        """Close nothing."""


class DryRun(Struct):
    """How much disk a seed would take: of the index, and of the changelog."""

    before: int = 0  # bytes of the index
    after: int = 0
    changelog: int = 0  # bytes by which the changelog would grow

    def run(self, factory: TaskFactory, ended: Callable[[], bool]) -> None:
        """Judge the seeds until *ended*, or raise `Stop`."""
        config, plan = factory.config, factory.plan(0)
        there = config.changelog_topic in factory.topics
        log = Unwritten(factory.changelog(0) if there else None)
        source = factory.source(factory.topics_of(0, plan.names.inputs))
        parts = factory.parts(plan, source, log, log, lambda: NO_MEMBER)
        task = Task(plan, factory.adapted(replace(parts, trimming=None)), factory.store(0))
        self.before = _size(config.index.path)
        try:
            while not ended():
                if _advanced(task) is StepResult.RETRY:
                    factory.clock.sleep(STEP_SECONDS)
        finally:
            task.close()
        self.after, self.changelog = _size(config.index.path), log.added

    def as_json(self) -> dict[str, int | bool]:
        return {
            "dry_run": True,
            "index_bytes": self.before,
            "index_bytes_after": self.after,
            "changelog_bytes_more": self.changelog,
        }

    def __str__(self) -> str:
        index = f"the index takes {_mb(self.before)} now and about {_mb(self.after)} then"
        return f"nothing was written; {index}, the changelog about {_mb(self.changelog)} more"


def _advanced(task: Task) -> StepResult:
    try:
        step = task.advance(STEP_SECONDS)
    except LogError as error:
        raise as_stop(error) from error
    state, why = task.doing
    if state is State.PAUSED_DISK:
        raise Temporary(
            f"{why}\n    cure: a dry run works on a copy of the index: make room for it"
        )
    return step


@contextmanager
def trial_copy(config: Config) -> Iterator[Config]:
    """Yield *config* for a copy of the closed index beside it, and remove the copy at the end.

    Raises `IndexFault`: another dry run works there, or the directory is not ours.
    """
    path = config.index.path.resolve()
    there = read_identity(config.index.path, seed=seed_at(config.index.seed_file)) is not None
    with _place_beside(path) as copy:
        if there:
            copy_closed(path, copy)
        backup = config.index.backup.model_copy(update={"target": None})
        index = config.index.model_copy(update={"path": copy, "backup": backup})
        yield config.model_copy(update={"index": index})


@contextmanager
def _place_beside(path: Path) -> Iterator[Path]:
    """Yield an empty directory inside ``<path>.dry-run``, which this process locks and removes."""
    room = path.with_name(f"{path.name}.dry-run")
    copy, made = room / "copy", []
    with file_errors(room):
        made = [each for each in room.parents if not each.exists()]
        room.mkdir(mode=0o700, parents=True, exist_ok=True)
        if others := {each.name for each in room.iterdir()} - {copy.name, LOCK_NAME}:
            raise IndexRefused(
                f"{room}: holds {min(others)!r}, and a dry run needs the place for its copy; "
                "move that elsewhere"
            )
        lock = Lock(room)
    try:
        with file_errors(room):
            shutil.rmtree(copy, ignore_errors=True)
            copy.mkdir(mode=0o700)
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)
        with suppress(OSError):  # another dry run may have come meanwhile
            (room / LOCK_NAME).unlink()
            for each in (room, *made):
                each.rmdir()
        lock.release()


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
