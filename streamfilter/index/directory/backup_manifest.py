"""``backup.json``: which indexes and files a backup holds. It is not trusted.

A restore writes files under the names in this file. So an index must be called "index" or like
"partition-7", and a file name must be a single component. Everything is checked before anything is
written.
"""

from __future__ import annotations

import json
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamfilter.index.directory.lock_and_marker import (
    DATABASE_NAME,
    Marker,
    canonical,
    finds_ids,
    ids_in,
)
from streamfilter.index.errors import IndexDamaged, IndexRefused, file_errors
from streamfilter.index.progress import Progress
from streamfilter.index.rocks.options import MIB
from streamfilter.stops import counted

CONTENTS_NAME = "backup.json"
VERSION = 1
CONTENTS_BYTES_MAX = 64 * MIB

_INDEX_NAME = re.compile(r"index|partition-(0|[1-9][0-9]{0,9})", re.ASCII)
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_NOT_OURS = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""Errors that fields of another shape raise (OverflowError: JSON's 1e999 is infinite)."""
_SUM = re.compile(r"[0-9a-f]{128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Copied:
    """One index of a backup."""

    name: str  # its directory in the backup
    index_id: str
    documents: int
    progress: Progress
    marker: Marker
    sums: dict[str, tuple[int, str]]  # size and BLAKE2b of each file of the database, by its name

    @property
    def files(self) -> int:
        """Return how many files the database has."""
        return len(self.sums)

    @property
    def bytes(self) -> int:
        """Return the bytes of all its files."""
        return sum(size for size, _ in self.sums.values())

    def as_json(self) -> dict[str, object]:
        """Return it for programs."""
        shown = {"name": self.name, "index_id": self.index_id, "documents": self.documents}
        offset = self.progress.changelog_offset
        return {**shown, "changelog_offset": offset, "files": self.files, "bytes": self.bytes}

    def __str__(self) -> str:
        held = f"{counted(self.documents, 'document')}, {self.bytes / 1e6:,.1f} MB"
        return f"{self.name}: {held}{self.progress.as_of}"


@dataclass(frozen=True, slots=True)
class CopiedIndexes:
    """The indexes that `backup` or `restore` copied."""

    role: str
    """``target``: copied into a backup; ``state``: out of one."""
    directory: Path
    copied: list[Copied]

    def as_json(self) -> dict[str, object]:
        """Return it for programs."""
        indexes = [each.as_json() for each in self.copied]
        return {self.role: str(self.directory), "indexes": indexes}

    def as_text(self) -> str:
        """Return it for people."""
        above = f"{self.directory}/" if self.role == "target" else ""
        return "\n".join(f"{above}{each}" for each in self.copied)


def encoded(copies: list[Copied]) -> bytes:
    """Return the file's text."""
    contents = {
        "about": "streamfilter backup; holds the seed of the index: keep it private",
        "version": VERSION,
        "indexes": [_fields(each) for each in copies],
    }
    return json.dumps(contents, indent=1).encode()


def _fields(copied: Copied) -> dict[str, Any]:
    marker = copied.marker
    return {
        "name": copied.name,
        "index_id": copied.index_id,
        "documents": copied.documents,
        "changelog_offset": copied.progress.changelog_offset,
        "next_batch": copied.progress.next_batch,
        "next_ordinal": copied.progress.next_ordinal,
        "marker": {
            "identity": json.loads(marker.identity),
            "bucket_cap": marker.bucket_cap,
            "ids": ids_in(json.loads(marker.identity)) if marker.ids else False,
        },
        "files": copied.sums,
    }


def contents(backup: Path) -> list[Copied]:
    """Return the contents of a *backup*, whose files all exist, or raise `IndexFault`."""
    path = backup / CONTENTS_NAME
    with file_errors(backup):
        if path.is_symlink() or not path.is_file():
            raise IndexRefused(f"{backup}: is no finished backup: it has no {CONTENTS_NAME}")
        with path.open("rb") as file:
            data = file.read(CONTENTS_BYTES_MAX)
        try:
            fields = json.loads(data, object_pairs_hook=_distinct)
            if fields["version"] != VERSION:
                raise IndexRefused(f"{path}: has version {fields['version']!r}, not {VERSION}")
            copies = [_copied(each) for each in fields["indexes"]]
            names = _distinct([(each.name, None) for each in copies])
            if "index" in names and len(names) > 1:
                raise ValueError("an index beside those of partitions")
        except (*_NOT_OURS, RecursionError) as error:
            raise IndexDamaged(f"{path}: cannot be read: {error!s:.200}") from error
        for copied in copies:
            _refuse_links(backup, copied)
    return copies


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return *pairs* as a dict, and refuse a name that stands there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _copied(fields: dict[str, Any]) -> Copied:
    marker = fields["marker"]
    progress = Progress(
        changelog_offset=int(fields["changelog_offset"]),
        next_batch=int(fields["next_batch"]),
        next_ordinal=int(fields["next_ordinal"]),
    )
    return Copied(
        name=_matching(_INDEX_NAME, fields["name"], "no index of a backup"),
        index_id=str(fields["index_id"]),
        documents=int(fields["documents"]),
        progress=progress,
        marker=Marker(
            identity=canonical(marker["identity"]),
            bucket_cap=int(marker["bucket_cap"]),
            complete=False,
            ids=finds_ids(marker),
        ),
        sums={
            _matching(_FILE_NAME, name, "no file of a backup"): (
                int(size),
                _matching(_SUM, total, "no sum"),
            )
            for name, (size, total) in fields["files"].items()
        },
    )


def _matching(wanted: re.Pattern[str], text: object, otherwise: str) -> str:
    if not isinstance(text, str) or not wanted.fullmatch(text):
        raise ValueError(f"{text!r:.100} is {otherwise}")
    return text


def _refuse_links(backup: Path, copied: Copied) -> None:
    """Refuse a backup whose directories or files are not its own, or not there."""
    database = backup / copied.name / DATABASE_NAME
    for directory in (database.parent, database):
        if not stat.S_ISDIR(_mode(directory)):
            raise IndexRefused(f"{directory}: is no directory of a backup; take another backup")
    for name in copied.sums:
        if not stat.S_ISREG(_mode(database / name)):
            raise IndexRefused(f"{database / name}: is no file of a backup; take another backup")


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        raise IndexDamaged(f"{path}: is missing from the backup; take another backup") from None
