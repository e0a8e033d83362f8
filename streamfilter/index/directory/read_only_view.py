"""A read-only view of an index that another process may be writing: for queries, not a service.

RocksDB opens the database a second time as a *secondary*. It takes no lock and does not disturb
the owner. The view shows a whole number of the owner's batches, at the moment of opening. The
view's own files go into a temporary directory. One exception: at every opening rocksdict writes
its settings file again (40 bytes, the same content), which RocksDB itself does not use.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import numpy as np

from streamfilter.index.directory.identity import Identity
from streamfilter.index.directory.lock_and_marker import (
    DATABASE_NAME,
    IDS_WITHOUT_SCOPES,
    read_marker,
)
from streamfilter.index.directory.opening import IDENTITY_FACT, read_identity
from streamfilter.index.errors import (
    FormatError,
    IndexDamaged,
    IndexMismatch,
    IndexRefused,
    file_errors,
)
from streamfilter.index.format import decode_documents, name_of, names_of
from streamfilter.index.protocol import Documents
from streamfilter.index.rocks.column_families import families_of
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.options import MIB, Memory
from streamfilter.index.rocks.stored_index import StoredIndex
from streamfilter.index.rocks.window_tables import ANY, WindowTables

ATTEMPTS = 5  # the owner may replace a file between our reading its name and opening it

SCAN_DOCUMENTS = 1_000


class IndexView(StoredIndex):
    """The contents of an index: `protocol.Readable`."""

    def __init__(self, store: Database, identity: Identity, *, bucket_cap: int) -> None:
        self.identity, self.bucket_cap = identity, bucket_cap
        self._store, self._widths = store, identity.widths
        self._standing = store.standing
        self._tables = [WindowTables(store, window) for window in self._standing.windows]

    def scan(self) -> Iterator[Documents]:
        """Yield all documents that are remembered in the order of judgement, many at a time."""
        for tables in self.tables:
            yield from self.scan_window(tables, self.progress.horizon)

    def scan_window(self, tables: WindowTables, start: int = 0) -> Iterator[Documents]:
        """Yield the documents of one window from ordinal *start* on."""
        entries = tables.entries(start)
        while chunk := list(islice(entries, SCAN_DOCUMENTS)):
            ordinals = np.array([ordinal for ordinal, _ in chunk], np.int64)
            yield decode_documents(ordinals, [value for _, value in chunk], self._widths)

    @property
    def families(self) -> list[str]:
        """Return the names of all families; the facts, which describe the others, come last."""
        facts, *others = families_of([each.number for each in self.windows], ids=self.ids)
        return [*others, facts]

    def entries(self, family: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield keys and values of a family, in rising order, or raise `IndexDamaged`."""
        return self._store.items(family)

    def ordinals_of(self, document_id: str, scope: bytes = b"") -> list[int]:
        """Return the ordinals of *document_id*, in one *scope* if given.

        An index without ids is read as a whole.
        """
        name = name_of(document_id, scope)
        if self.ids:
            (found,) = self.named([name], ANY)
            remembered: list[int] = found[found >= self.progress.horizon].tolist()
            return remembered
        return [
            int(documents.ordinals[row])
            for documents in self.scan()
            for row, known in enumerate(names_of(documents))
            if known[0].startswith(name)
        ]


@contextmanager
def viewed(path: Path, *, seed: bytes | None = None) -> Iterator[IndexView]:
    """Yield a view of the index in *path*, by ``index.seed_file``, or raise `IndexFault`."""
    identity = read_identity(path, seed=seed)
    marker = read_marker(path) if identity is not None else None
    if identity is None or marker is None:
        raise IndexRefused(f"{path}: there is no index in this directory")
    with file_errors(Path(os.environ.get("TMPDIR") or "/tmp")):
        made = tempfile.TemporaryDirectory(prefix="streamfilter-view-")
    with made as notes:
        store = _opened(path / DATABASE_NAME, Path(notes))
        try:
            if store.ids and not marker.ids:
                raise IndexMismatch(f"{path}: {IDS_WITHOUT_SCOPES}")
            try:
                view = IndexView(store, identity, bucket_cap=marker.bucket_cap)
                whose = view.fact(IDENTITY_FACT)
            except FormatError as error:
                raise IndexDamaged(f"{path}: {error}") from error
            if whose != marker.identity:
                raise IndexDamaged(f"{path}: its first files are damaged, or another index's")
            yield view
        finally:
            store.close()


def _opened(path: Path, notes: Path) -> Database:
    memory = Memory(cache_bytes=32 * MIB, memtable_bytes=8 * MIB, front_bytes=0)
    own = notes / "own"
    own.mkdir()
    for left in reversed(range(ATTEMPTS)):
        try:
            readable = _linked(path, notes / f"links-{left}") if _read_only(path) else path
            return Database(readable, memory=memory, create=False, notes=own)
        except IndexDamaged:
            if not left:
                raise
    raise AssertionError("the last attempt raises")


def _read_only(path: Path) -> bool:
    with suppress(FileNotFoundError):  # opening it says what is missing
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return False


def _linked(path: Path, links: Path) -> Path:
    """Fill the new directory *links* with the database in *path*; return it.

    rocksdict's settings file is copied, because it is written again.
    """
    links.mkdir()
    for each in path.iterdir():
        if each.suffix == ".json":
            shutil.copyfile(each, links / each.name)
        else:
            (links / each.name).symlink_to(each.absolute())
    return links
