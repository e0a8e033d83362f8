"""Open, create or refuse an index.

| the directory                          | what happens                                         |
|----------------------------------------|------------------------------------------------------|
| missing or empty                       | made new and empty; the caller restores into it      |
| ours, same identity                    | opened                                               |
| ours, other scheme, format, id or seed | `IndexMismatch`, naming what differs                 |
| ours, database missing or broken       | `IndexDamaged`; the caller wipes and restores loudly |
| open in another process                | `IndexLocked`                                        |
| a link, another user's, other files    | `IndexRefused`                                       |
| refused by the system (open files)     | `IndexUnavailable`: no reason to wipe                |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from streamfilter.index.directory.identity import Identity, decode_identity, differences, mismatch
from streamfilter.index.directory.lock_and_marker import (
    DATABASE_NAME,
    IDS_WITHOUT_SCOPES,
    LAYOUT,
    Lock,
    Marker,
    check_ours,
    claim,
    clear,
    read_marker,
    write_marker,
)
from streamfilter.index.errors import CURRENT, FormatError, IndexDamaged, IndexRemoved, file_errors
from streamfilter.index.format import BUCKET_CAP, BUCKET_CAP_MAX
from streamfilter.index.rocks.database import Database
from streamfilter.index.rocks.options import Memory
from streamfilter.index.rocks.rocks_index import RocksIndex, end_full_runs
from streamfilter.index.rocks.wal_gaps import refuse_gaps
from streamfilter.similarity.scheme import Scheme

IDENTITY_FACT = "identity"


def open_index(
    path: Path,
    identity: Identity,
    *,
    bucket_cap: int = BUCKET_CAP,
    memory: Memory | None = None,
    ids: bool = False,
    temporary: bool = False,
) -> RocksIndex:
    """Return the index of *identity* in the directory *path*; it is created if there is none.

    With *ids*, documents can be found by id too. An index that was made with *ids* keeps them.
    A *temporary* index is never opened again: a crash, or its end, loses its last writes.
    Raises `IndexFault` by the table above, `ValueError` for an impossible *bucket_cap*.
    """
    if not 1 <= bucket_cap <= BUCKET_CAP_MAX:
        cure = f"use 1 to {BUCKET_CAP_MAX}, such as {BUCKET_CAP}"
        raise ValueError(f"index.bucket_cap is {bucket_cap}; {cure}")
    with _files_of(path):
        claim(path)
        lock = Lock(path)
        bounds = memory or Memory()

        def new(*, create: bool = False, ids: bool = False) -> RocksIndex:
            return RocksIndex(
                Database(
                    path / DATABASE_NAME,
                    memory=bounds,
                    create=create,
                    ids=ids,
                    logged=not temporary,
                ),
                widths=identity.widths,
                bucket_cap=bucket_cap,
                memory=bounds,
                on_close=lock.release,
            )

        try:
            marker = _current_marker(path)
            if marker is None:
                marker = Marker(identity.encode(), bucket_cap, complete=False, ids=ids)
                return _created(path, marker, new)
            _refuse_other(path, marker, identity, bucket_cap, ids=ids)
            return _reopened(path, marker, new)
        except BaseException:
            lock.release()
            raise


@contextmanager
def _files_of(path: Path) -> Iterator[None]:
    """Turn errors of the system into faults; a file that vanishes means a removed index."""
    with file_errors(path):
        try:
            yield
        except FileNotFoundError as error:
            raise IndexRemoved(f"{path}: was removed while it was opened ({error})") from error


def _current_marker(path: Path) -> Marker | None:
    """Return the marker of a finished database; None: nothing of value is in *path*."""
    marker = read_marker(path)
    if marker is None and (path / DATABASE_NAME).exists():
        raise IndexDamaged(f"{path}: there is a database, but its marker is missing")
    return marker if marker is not None and marker.complete else None


def _created(path: Path, marker: Marker, new: Callable[..., RocksIndex]) -> RocksIndex:
    clear(path)  # remove the rest of a database whose creation crashed
    write_marker(path, marker)
    index = new(create=True, ids=marker.ids)
    try:
        index.remember(IDENTITY_FACT, marker.identity)
        write_marker(path, replace(marker, complete=True))
    except BaseException:
        index.close()
        raise
    return index


def _reopened(path: Path, marker: Marker, new: Callable[..., RocksIndex]) -> RocksIndex:
    if not (path / DATABASE_NAME / CURRENT).exists():
        raise IndexDamaged(f"{path}: the database's files are missing")
    try:
        refuse_gaps(path / DATABASE_NAME)
        index = new()
    except FormatError as error:
        raise IndexDamaged(f"{path}: {error}") from error
    try:
        if index.ids and not marker.ids:
            raise IndexDamaged(f"{path}: {IDS_WITHOUT_SCOPES}")
        if index.ids is not marker.ids:
            raise IndexDamaged(f"{path}: what finds documents by their ids is missing")
        if index.fact(IDENTITY_FACT) != marker.identity:
            raise IndexDamaged(f"{path}: the database belongs to another index than its marker")
        if marker.older:  # before a write that an older version would not see
            write_marker(path, replace(marker, older=False))
        end_full_runs(index)
    except BaseException:
        index.close()  # otherwise RocksDB's lock stays held during the wipe that follows
        raise
    return index


def _refuse_other(
    path: Path, marker: Marker, identity: Identity, bucket_cap: int, *, ids: bool
) -> None:
    seed = identity.seed if identity.external_seed else None
    have = _identity_of(path, marker, seed)
    named = differences(have, identity)
    if marker.bucket_cap != bucket_cap:
        named.append(f"index.bucket_cap: it has {marker.bucket_cap}, wanted is {bucket_cap}")
    if ids and not marker.ids:
        named.append(
            "ids: it has none to find documents by (or not in their scopes), and "
            "input.tombstones: forget, input.known_id: update or duplicate and verify.also_same "
            "need them; they come where it is made anew"
        )
    if named:
        raise mismatch(str(path), named, have)


def _identity_of(path: Path, marker: Marker, seed: bytes | None) -> Identity:
    try:
        return decode_identity(marker.identity, seed=seed, known=LAYOUT)
    except FormatError as error:
        raise IndexDamaged(f"{path}: {error}") from error


def read_identity(path: Path, *, seed: bytes | None = None) -> Identity | None:
    """Return the identity of the index in *path* without opening it; None: there is no index.

    *seed* is what ``index.seed_file`` holds, if it is set. Raises `IndexFault`: the directory may
    not be used, or its marker is broken or of another format.
    """
    marker = _marker_in(path)
    return None if marker is None else _identity_of(path, marker, seed)


def refuse_unfit(
    path: Path, scheme: Scheme, *, seed: bytes | None, bucket_cap: int, ids: bool
) -> None:
    """Raise `IndexMismatch` where `open_index` would, without opening the index in *path*."""
    if (marker := _marker_in(path)) is not None:
        wanted = _identity_of(path, marker, seed).of_scheme(scheme)
        _refuse_other(path, marker, wanted, bucket_cap, ids=ids)


def _marker_in(path: Path) -> Marker | None:
    with _files_of(path):
        if not path.is_symlink() and not path.exists():
            return None
        check_ours(path)
        return _current_marker(path)


def wipe_index(path: Path) -> None:
    """Delete the index in *path*, no other files; raise `IndexFault` if it is open or not ours."""
    with file_errors(path), suppress(FileNotFoundError):  # another process removes it too
        if not path.is_symlink() and not path.exists():
            return
        check_ours(path)
        with Lock(path):
            clear(path)
