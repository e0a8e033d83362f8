"""The backups of an index directory in a target: taken by a task or a command, listed, fetched.

A command also copies while a process works. Its copy is written anew from a view of the index
(`read_only_view.py`), entry by entry. That checks every block's checksum, does not disturb the
running process, and gives the state of one moment. RocksDB's own checkpoint cannot be used on a
view: it silently leaves out data that is only in the log. A task copies its own open index by a
checkpoint instead (`snapshot`).
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from msgspec import Struct

from streamfilter.backup.download import BackupsFound, candidates, fetch
from streamfilter.backup.manifest import Copied
from streamfilter.backup.stores import DirectoryStore, Store
from streamfilter.backup.targets import store_at
from streamfilter.backup.upload import Throttle, Uploaded, upload
from streamfilter.index.directory.index_paths import indexes_in
from streamfilter.index.directory.lock_and_marker import (
    DATABASE_NAME,
    Marker,
    read_marker,
    refuse_inside,
)
from streamfilter.index.directory.read_only_view import IndexView, viewed
from streamfilter.index.errors import IndexDamaged, IndexRefused, file_errors
from streamfilter.index.format import Entries
from streamfilter.index.protocol import Index
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.options import MIB, Memory

CHUNK = 5_000
DAY_SECONDS = 86_400
_STAGING = "staging-"


def back_up(state: Path, store: Store, *, seed: bytes | None = None) -> list[Copied]:
    """Copy every index in *state*, which may be in use, into *store*.

    *seed* is what ``index.seed_file`` holds, if it is set. Raises `IndexFault`: there is no index,
    it is damaged, or *store* is not usable.
    """
    sources = indexes_in(state)
    if any(path == state / "index" for path in sources):
        raise IndexRefused(
            f"{state}: belongs to `filter`, which keeps more than an index there\n"
            "    cure: copy the directory while no filter runs on it"
        )
    if isinstance(store, DirectoryStore):
        refuse_inside(store.root, state, what="the index")
    names = ["index" if path == state else path.name for path in sources]
    pairs = zip(sources, names, strict=True)
    return [_copied(path, name, store, seed).copied for path, name in pairs]


def _copied(path: Path, name: str, store: Store, seed: bytes | None) -> Uploaded:
    with viewed(path, seed=seed) as view, _staging(store) as staging:
        marker = Marker(view.identity.encode(), view.bucket_cap, complete=False, ids=view.ids)
        with file_errors(staging):
            _write_anew(view, staging / DATABASE_NAME)
        return upload(store, staging / DATABASE_NAME, _about(view, name, marker), Throttle())


@contextmanager
def _staging(store: Store) -> Iterator[Path]:
    """Yield a directory for a copy: in a store that is one, else where temporary files are."""
    root = store.root if isinstance(store, DirectoryStore) else None
    with file_errors(root or Path(tempfile.gettempdir())):
        if root is not None:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in root.glob(f"{_STAGING}*"):  # a kill leaves it
                if time.time() - left.lstat().st_mtime > DAY_SECONDS and not left.is_symlink():
                    shutil.rmtree(left, ignore_errors=True)
        made = tempfile.TemporaryDirectory(prefix=_STAGING, dir=root, ignore_cleanup_errors=True)
    with made as path:
        yield Path(path)


def _write_anew(view: IndexView, path: Path) -> None:
    memory = Memory(cache_bytes=32 * MIB, memtable_bytes=64 * MIB, front_bytes=0)
    numbers = [window.number for window in view.windows]
    store = Database(path, memory=memory, create=True, windows=numbers, ids=view.ids)
    try:
        for family in view.families:  # the progress, which describes all others, comes last
            source = view.entries(family)
            while chunk := list(islice(source, CHUNK)):
                entries = Entries()
                entries.put(family, [key for key, _ in chunk], [value for _, value in chunk])
                store.write(entries)
        store.flush()
    finally:
        store.close()


def snapshot(index: Index, path: Path, name: str) -> tuple[Path, Copied]:
    """Return a checkpoint of the open *index* in the directory *path*, and what it holds.

    The checkpoint has links to the table files, inside the database's directory. It takes about
    50 ms, and room only for what compaction replaces meanwhile. Delete it after use.
    """
    marker = read_marker(path)
    if marker is None:
        raise IndexDamaged(f"{path}: the marker is missing")
    return index.checkpoint(), _about(index, name, marker)


def _about(index: Index | IndexView, name: str, marker: Marker) -> Copied:
    """Return what the copy of *index* that is made now holds; its files are summed later."""
    return Copied(
        name=name,
        index_id=str(json.loads(marker.identity)["index_id"]),
        documents=len(index),
        progress=index.progress,
        marker=marker,
        sums={},
        made=time.time_ns() // 1_000_000,
    )


class IndexTarget(Struct, frozen=True):
    """Where the index in the directory *path* has its backups."""

    where: str
    path: Path
    name: str  # of the index in a state directory: ``index`` or ``partition-N``
    ids: bool  # whether the index must find documents by their ids
    every: float  # seconds
    keep: int
    rate: int  # bytes a second

    def candidates(self, index_id: str) -> BackupsFound:
        return candidates(store_at(self.where), index_id)

    def fetch(
        self, copied: Copied, advanced: Callable[[int], None], stopping: Callable[[], bool]
    ) -> None:
        """Restore a backup into the directory, or leave no index there and raise `IndexFault`."""
        fetch(store_at(self.where), copied, self.path, advanced=advanced, stopping=stopping)

    def take(self, index: Index, stopping: Callable[[], bool]) -> Callable[[], Uploaded]:
        """Make a checkpoint of the open *index* now; return the call that uploads it."""
        checkpoint, copied = snapshot(index, self.path, self.name)

        def uploaded() -> Uploaded:
            try:
                throttle = Throttle(self.rate, stopping)
                return upload(store_at(self.where), checkpoint, copied, throttle, keep=self.keep)
            finally:
                if not stopping():  # else the index may be open again, with a copy of its own there
                    shutil.rmtree(checkpoint, ignore_errors=True)

        return uploaded
