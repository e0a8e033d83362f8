"""A store of backups that all processes share, and what goes wrong with it.

The upload, the manifests, the pruning, the choice and the download are production's. What is in
memory is the store. The files of a database are its dictionaries, one file for each table.
"""

from __future__ import annotations

import pickle
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar
from unittest.mock import patch

from streamfilter.backup import manifest
from streamfilter.backup.download import BackupsFound, candidates, fetch
from streamfilter.backup.index_target import _about
from streamfilter.backup.manifest import Copied
from streamfilter.backup.stores import MissingObject, Stored, StoreFull, StoreUnreachable
from streamfilter.backup.upload import Throttle, Uploaded, upload
from streamfilter.engine.ports import NotReady
from streamfilter.index.directory.identity import decode_identity
from streamfilter.index.directory.lock_and_marker import DATABASE_NAME, Marker
from streamfilter.index.errors import CURRENT, DiskFull
from streamfilter.tasks.index_backups import BackupObserver
from tests.simulator.cluster.log import CHANGELOG, INPUT
from tests.simulator.cluster.membership import SimClock
from tests.simulator.dictionaries import Files
from tests.simulator.world import Crash, Life, World
from tests.support.values import replace
from tests.truth.changelog import BATCH, anew_at, read_batches

if TYPE_CHECKING:
    from tests.simulator.disk import Disk
    from tests.simulator.story import Story

BACKUPS = 1 << 56
EVERY, KEEP = 0.2, 3

T = TypeVar("T")


@dataclass(eq=False)
class Objects:
    """What the store holds, for the whole life of a world."""

    seed: int
    held: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    rng: random.Random = field(init=False)
    path: Path = field(init=False)
    tokens: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed ^ BACKUPS)
        self._made = tempfile.TemporaryDirectory(prefix="simulator-")
        self.path = Path(self._made.name)

    def token(self, size: int) -> str:
        """Return what makes the name of a manifest its own; the same in each run of a story."""
        self.tokens += 1
        return f"{self.tokens:0{2 * size}x}"


class SimObjects:
    """`backup.stores.Store` of one process."""

    where = "store"

    def __init__(self, world: World, life: Life, objects: Objects) -> None:
        self._world, self._life, self._objects = world, life, objects

    def _port(self, name: str, *, writes: bool = False) -> None:
        world, chance = self._world, self._objects.rng
        world.port(self._life, f"backup.{name}")
        if world.calm or (fate := chance.random()) >= 0.08:
            return
        if fate < 0.04:
            world.tell(self._life.name, f"CRASHES before backup.{name}")
            world.kill(self._life)
            raise Crash
        world.tell(self._life.name, f"the store fails at {name}")
        full = writes and chance.random() < 0.5
        raise StoreFull("the store is full") if full else StoreUnreachable("no answer")

    def listing(self, folder: str) -> dict[str, Stored]:
        self._port("listing")
        found: dict[str, Stored] = {}
        within = f"{folder}/" if folder else ""
        for name, (data, modified) in self._objects.held.items():
            if name.startswith(within):
                first, _, rest = name.removeprefix(within).partition("/")
                found[first] = Stored(0 if rest else len(data), modified, bool(rest))
        return found

    def put(self, name: str, blocks: Iterable[bytes]) -> None:
        data = b"".join(blocks)
        self._port("put", writes=True)
        self._objects.held[name] = data, self._world.now

    def get(self, name: str) -> Iterator[bytes]:
        self._port("get")
        if name not in self._objects.held:
            raise MissingObject(f"{name}: is missing")
        yield self._objects.held[name][0]

    def delete(self, name: str) -> None:
        self._port("delete")
        self._objects.held.pop(name, None)


class SimTarget:
    """`IndexTarget` of one process and one index."""

    where, name, ids, every, keep = "store", "index", True, EVERY, KEEP

    def __init__(self, world: World, life: Life, disk: Disk) -> None:
        self._world, self._life, self._disk = world, life, disk
        self._objects: Objects = world.objects
        self._store = SimObjects(world, life, self._objects)

    def candidates(self, index_id: str) -> BackupsFound:
        return candidates(self._store, index_id)

    def take(self, index: Any, stopping: Callable[[], bool]) -> Callable[[], Uploaded]:
        disk = self._disk
        assert disk.identity is not None
        marker = Marker(disk.identity.encode(), index.bucket_cap, complete=False, ids=self.ids)
        wall = SimClock(self._world, self._life).wall_milliseconds()
        copied = replace(_about(index, self.name, marker), made=max(0, wall))
        files = {
            CURRENT: pickle.dumps((sorted(disk.files.families), disk.facts)),
            **{f"{n}.sst": pickle.dumps(rows) for n, rows in disk.files.families.items()},
        }
        self._world.tell(self._life.name, f"takes a backup at {copied.progress.changelog_offset}")

        def uploaded() -> Uploaded:
            path = Path(tempfile.mkdtemp(dir=self._objects.path))
            for name, data in files.items():
                (path / name).write_bytes(data)
            tokens = SimpleNamespace(token_hex=self._objects.token)
            with patch.object(manifest, "secrets", tokens):
                done = upload(self._store, path, copied, Throttle(stopping=stopping), keep=KEEP)
            shutil.rmtree(path)
            self._world.tell(self._life.name, f"has a backup at {copied.progress.changelog_offset}")
            return done

        return uploaded

    def fetch(
        self, copied: Copied, advanced: Callable[[int], None], stopping: Callable[[], bool]
    ) -> None:
        who, disk = self._life.name, self._disk
        if not self._world.calm and self._objects.rng.random() < 0.4:
            self._world.tell(who, "has no room for a backup")
            raise DiskFull(f"{disk.name}: full")
        path = self._objects.path / disk.name
        path.parent.mkdir(exist_ok=True)
        fetch(self._store, copied, path, advanced=advanced, stopping=stopping, threads=1)
        database = path / DATABASE_NAME
        names, facts = pickle.loads((database / CURRENT).read_bytes())
        rows = {n: pickle.loads((database / f"{n}.sst").read_bytes()) for n in names}
        shutil.rmtree(path)
        disk.forget()
        disk.identity, disk.facts = decode_identity(copied.marker.identity), facts
        disk.files = Files(rows, flushed={n: (0, dict(each)) for n, each in rows.items()})
        self._world.tell(who, f"restores a backup at {copied.progress.changelog_offset}")


class SimBackupObserver(BackupObserver):
    """Tells the story of backups; the filter goes on in any case."""

    def failed(self, task: str, reason: str, message: str) -> None:
        self.process.note(f"{task} is not backed up: {reason}: {message}")

    def _show(self, failure: str) -> None:
        """There are no metrics."""


class Beside:
    """`ports.Worker` in a thread: the result is there now, or after a few turns of the loop."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def begin(self, call: Callable[[], T]) -> Callable[[], T]:
        def result() -> T:
            if self._rng.random() < 0.5:
                raise NotReady
            return call()

        return result


def hosts_lost(story: Story) -> None:
    """All disks are lost, and new ones are empty."""
    story.world.tell("world", "loses all disks")
    for process in story.processes:
        for disk in process.disks:
            disk.forget()


def cluster_set_back(story: Story) -> None:
    """The brokers lose their last transactions, and the disks are lost with them: backups stay."""
    world, broker = story.world, story.world.broker
    turned = story.accept or any(story.turns.values()) or story.shape.corrections
    if story.shape.tasks > 1 or turned:
        return
    changelog = broker.topics[CHANGELOG][0]
    batches = [o for o, v in changelog.committed(changelog.start) if v[1] == BATCH]
    if len(batches) < 2 or changelog.start or anew_at(changelog, 0):
        return
    kept = batches[max(0, len(batches) - story.people.rng.randint(2, 6))]
    end = 1 + next(o for o in range(kept, changelog.end) if changelog.cells[o].marker)
    lost = {cell.txn for cell in changelog.cells[end:] if cell.txn is not None}
    spans = read_batches(changelog.copy(end))[-1].spans
    if any(broker.topics[INPUT][p].start > spans.get(p, (0, 0))[1] for p in story.inputs):
        return
    world.tell("brokers", f"lose the changelog from {end} on, and all that was committed with it")
    story.watcher.check_prefix()
    story.watcher.begin_again()
    del changelog.cells[end:]
    for txn in lost:
        txn.committed = False
    for p in story.inputs:
        broker.offsets.pop(p, None)
        if p in spans:
            broker.offsets[p] = spans[p][1]
    hosts_lost(story)
