"""The store port: where a task's index lives, who it belongs to, and how to begin it anew.

The engine asks for an index by its identity and never touches a path; `DirectoryStore` is the
real one. What the index itself can do is `index.protocol.Index`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from streamfilter.assembly import note_policy
from streamfilter.index.identity import Identity, decode_identity
from streamfilter.index.opening import open_index, read_identity, wipe_index
from streamfilter.index.options import Memory
from streamfilter.index.protocol import Index
from streamfilter.index.rocks import RocksIndex
from streamfilter.matching.verification import MatchPolicy


@dataclass(frozen=True, slots=True)
class Usage:
    """What an index occupies, and what it tells of itself."""

    index: int
    """Bytes on disk."""
    free: int
    """Bytes left on its file system."""
    oldest: int = -1
    """Timestamp of the first document that is remembered, in milliseconds; -1: unknown."""
    properties: Mapping[str, float] = field(default_factory=dict)
    """RocksDB's own figures, by the names of `catalogue.ROCKSDB`."""


class Store(Protocol):
    """A place for one index. What it raises are the faults of `index.errors`."""

    @property
    def where(self) -> str:
        """Return the place's name, for messages."""

    def identity(self) -> Identity | None:
        """Return whose index is there; None if there is none."""

    def decode(self, encoded: bytes) -> Identity:
        """Return the identity in a changelog's header, with the operator's own seed if any."""

    def open(self, identity: Identity) -> Index:
        """Return the index of *identity*, new and empty if there was none."""

    def wipe(self) -> None:
        """Remove the index that is there."""

    def usage(self, index: Index) -> Usage:
        """Return what the open *index* occupies."""


@dataclass(frozen=True, slots=True)
class DirectoryStore:
    """An index in a directory of its own."""

    path: Path
    seed: bytes | None
    """What ``index.seed_file`` gives, None without one."""
    bucket_cap: int
    memory: Memory
    policy: MatchPolicy
    """By which it is decided what enters the index; a change is said loudly."""

    @property
    def where(self) -> str:
        """Return the directory."""
        return str(self.path)

    def identity(self) -> Identity | None:
        """Return whose index is in the directory."""
        return read_identity(self.path, seed=self.seed)

    def decode(self, encoded: bytes) -> Identity:
        """Return the identity in a changelog's header."""
        return decode_identity(encoded, seed=self.seed)

    def open(self, identity: Identity) -> Index:
        """Open the index, made new if there is none."""
        index = open_index(self.path, identity, bucket_cap=self.bucket_cap, memory=self.memory)
        note_policy(index, self.policy)
        return index

    def wipe(self) -> None:
        """Delete the index; the directory stays."""
        wipe_index(self.path)

    def usage(self, index: Index) -> Usage:
        """Return the bytes of the database's files, and those left on their file system."""
        assert isinstance(index, RocksIndex)
        figures = {name.replace("-", "_"): value for name, value in index.properties().items()}
        return Usage(*index.disk(), index.oldest_timestamp(), figures)
