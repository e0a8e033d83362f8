"""A manifest names the files of one backup, with their sums. It is not trusted.

A restore writes files under the names in it. So an index must be called "index" or like
"partition-7", and a file name must be a single component. Everything is checked before anything is
written. Version 1 was one file, ``backup.json``, of all indexes of a directory; it is still read.
"""

import json
import re
import secrets
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from streamfilter.backup.stores import Store
from streamfilter.index.directory.lock_and_marker import (
    DATABASE_NAME,
    Marker,
    marker_fields,
    marker_of,
)
from streamfilter.index.errors import CURRENT, IndexDamaged, IndexRefused
from streamfilter.index.progress import Progress
from streamfilter.stops import counted

VERSION = 2
OF_VERSION_1 = "backup.json"
FILES = "files"
BYTES_MAX, NAMES_MAX, SIZE_MAX = 64 << 20, 200_000, 1 << 50
"""Largest manifest, most files that it may name, and most bytes of one of them."""

NAME = re.compile(r"([0-9]{13})-([0-9]{12})-[0-9a-f]{8}\.json", re.ASCII)
INDEX_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_INDEX_NAME = re.compile(r"index|partition-(0|[1-9][0-9]{0,9})", re.ASCII)
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_SUM = re.compile(r"[0-9a-f]{128}", re.ASCII)
_NOT_OURS = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""Errors that fields of another shape raise (OverflowError: JSON's 1e999 is infinite)."""


class Copied(Struct, frozen=True):
    """One backup of one index."""

    name: str  # its directory in the state directory, or "index": that directory itself
    index_id: str
    documents: int
    progress: Progress
    marker: Marker
    sums: dict[str, tuple[int, str]]  # size and BLAKE2b of each file of the database, by its name
    made: int = 0  # milliseconds since the epoch; 0 in version 1
    place: str = ""  # the manifest's own name in the store

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self.sums.values())

    def object_of(self, file: str) -> str:
        if self.place == OF_VERSION_1:
            return f"{self.name}/{DATABASE_NAME}/{file}"
        return f"{self.index_id}/{FILES}/{self.sums[file][1]}"

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "index_id": self.index_id,
            "documents": self.documents,
            "changelog_offset": self.progress.changelog_offset,
            "files": len(self.sums),
            "bytes": self.bytes,
            "backup": self.place,
        }

    @property
    def held(self) -> str:
        size = f"{self.bytes / 1e6:,.1f} MB"
        return f"{counted(self.documents, 'document')}, {size}{self.progress.as_of}"

    def __str__(self) -> str:
        return f"{self.name}: {self.held}"


class CopiedIndexes(Struct, frozen=True):
    """The indexes that `backup` or `restore` copied."""

    role: str  # ``target``: copied into a backup; ``state``: out of one
    where: str
    copied: list[Copied]

    def as_json(self) -> dict[str, object]:
        return {self.role: self.where, "indexes": [each.as_json() for each in self.copied]}

    def as_text(self) -> str:
        above = f"{self.where}/" if self.role == "target" else ""
        return "\n".join(f"{above}{each}" for each in self.copied)


def new_place(copied: Copied) -> str:
    """Return a name for the manifest of *copied* that no other process makes, too."""
    token = secrets.token_hex(4)
    batch = min(copied.progress.next_batch, 10**12 - 1)
    return f"{copied.index_id}/{copied.made:013d}-{batch:012d}-{token}.json"


def encoded(copied: Copied) -> bytes:
    progress = copied.progress
    index = {
        "name": copied.name,
        "index_id": copied.index_id,
        "documents": copied.documents,
        "changelog_offset": progress.changelog_offset,
        "record_hash": progress.record_hash.hex(),
        "next_batch": progress.next_batch,
        "next_ordinal": progress.next_ordinal,
        "marker": marker_fields(copied.marker),
        "files": copied.sums,
    }
    about = "streamfilter backup; holds the seed of the index: keep it private"
    whole = {"about": about, "version": VERSION, "made": copied.made, "indexes": [index]}
    return json.dumps(whole, indent=1).encode()


def index_ids(store: Store) -> list[str]:
    found = store.listing("").items()
    return sorted(name for name, each in found if each.folder and INDEX_ID.fullmatch(name))


def places(store: Store, index_id: str) -> list[str]:
    return [f"{index_id}/{name}" for name in newest_first(store.listing(index_id))]


def newest_first(names: Iterable[str]) -> list[str]:
    """Return the names of manifests among *names*, by how far their indexes are.

    The time counts only between equals: a clock may have been wrong, and an owner that is about to
    be fenced uploads late what is old.
    """
    found = [(match[2], match[1], name) for name in names if (match := NAME.fullmatch(name))]
    return [name for _, _, name in sorted(found, reverse=True)]


def read(store: Store, place: str) -> list[Copied]:
    """Return the backups in a manifest, or raise `IndexFault`: it cannot be read as one."""
    data = bytearray()
    for block in store.get(place):
        data += block
        if len(data) > BYTES_MAX:
            raise IndexDamaged(f"{store.where}/{place}: is too large for a manifest")
    try:
        fields = json.loads(bytes(data), object_pairs_hook=_distinct)
        version = fields["version"]
        if version != (1 if place == OF_VERSION_1 else VERSION):
            raise IndexRefused(f"{store.where}/{place}: has version {version!r:.20}, which this "
                               f"version cannot read; it writes {VERSION}")  # fmt: skip
        copies = [_copied(each, fields, place) for each in fields["indexes"]]
        names = _distinct([(each.name, None) for each in copies])
        if not copies or (len(names) > 1 and ("index" in names or version > 1)):
            raise ValueError("it must have one index, or those of partitions")
    except _NOT_OURS as error:
        raise IndexDamaged(f"{store.where}/{place}: cannot be read: {error!s:.200}") from None
    return copies


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return *pairs* as a dict, and refuse a name that stands there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _copied(fields: dict[str, Any], whole: dict[str, Any], place: str) -> Copied:
    if len(fields["files"]) > NAMES_MAX:
        raise ValueError(f"it names {len(fields['files']):,} files, more than {NAMES_MAX:,}")
    if CURRENT not in fields["files"]:
        raise ValueError(f"it names no file {CURRENT}, which every database has")
    index_id = _matching(INDEX_ID, fields["index_id"], "no id of an index")
    marker = marker_of(fields["marker"])
    if json.loads(marker.identity)["index_id"] != index_id or (
        place != OF_VERSION_1 and not place.startswith(f"{index_id}/")
    ):
        raise ValueError(f"it names the index {index_id}, and is another's")
    return Copied(
        name=_matching(_INDEX_NAME, fields["name"], "no index of a backup"),
        index_id=index_id,
        documents=_count(fields["documents"]),
        progress=Progress(
            changelog_offset=max(-1, int(fields["changelog_offset"])),
            record_hash=bytes.fromhex(fields.get("record_hash", "")),
            next_batch=_count(fields["next_batch"]),
            next_ordinal=_count(fields["next_ordinal"]),
        ),
        marker=marker,
        sums={
            _matching(_FILE_NAME, name, "no file of a backup"): (
                _count(size),
                _matching(_SUM, total, "no sum"),
            )
            for name, (size, total) in fields["files"].items()
        },
        made=_count(whole.get("made", 0)),
        place=place,
    )


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= SIZE_MAX:
        raise ValueError(f"{value!r:.40} is no count")
    return value


def _matching(wanted: re.Pattern[str], text: object, otherwise: str) -> str:
    if not isinstance(text, str) or not wanted.fullmatch(text):
        raise ValueError(f"{text!r:.100} is {otherwise}")
    return text
