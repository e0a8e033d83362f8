"""Where a task's index lives, whose it is, and how it is opened, refused, wiped or begun anew.

The engine asks for an index by its identity and never touches a path; `DirectoryStore` is the
real `IndexStore`. What the index itself can do is `index.protocol.Index`.

Whoever needs the index of a changelog, a start or a standby, asks the same questions in the same
order (`Keeper`): whose changelog is it (its first record), does the configuration want that, does
the directory hold that very index, and has it applied nothing that the changelog does not hold.
An index that cannot be opened or made for want of room is waited for, as is one that cannot be
written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from streamfilter.assembly import note_policy
from streamfilter.engine import beginning, changelog
from streamfilter.engine.observer import Observer, Usage
from streamfilter.engine.ports import Log, Watermarks
from streamfilter.index.errors import IndexDamaged
from streamfilter.index.identity import Identity, decode_identity, differences, mismatch
from streamfilter.index.opening import open_index, read_identity, wipe_index
from streamfilter.index.options import Memory
from streamfilter.index.protocol import Index
from streamfilter.index.rocks import RocksIndex
from streamfilter.matching.policy import MatchPolicy
from streamfilter.process.health import State
from streamfilter.similarity.shape import Shape
from streamfilter.similarity.sketch import Sketcher
from streamfilter.similarity.sketchers import scheme_of
from streamfilter.tasks.plan import Plan, Script, with_room
from streamfilter.tasks.restore import READ_SECONDS, Replay


class IndexStore(Protocol):
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
    ids: bool
    """Whether it finds documents by their ids."""
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
        index = open_index(
            self.path, identity, bucket_cap=self.bucket_cap, memory=self.memory, ids=self.ids
        )
        note_policy(index, self.policy, Shape.of(scheme_of(identity.scheme)))
        return index

    def wipe(self) -> None:
        """Delete the index; the directory stays."""
        wipe_index(self.path)

    def usage(self, index: Index) -> Usage:
        """Return the bytes of the database's files, and those left on their file system."""
        assert isinstance(index, RocksIndex)
        figures = {name.replace("-", "_"): value for name, value in index.properties().items()}
        return Usage(*index.disk(), index.oldest_timestamp(), figures)


@dataclass(frozen=True, slots=True)
class Opened:
    """A task's open index, and what its changelog is read and written with."""

    index: Index
    identity: Identity
    sketcher: Sketcher
    writer: bytes
    """What our batches are named by."""


class Keeper:
    """Opens the index of one task. `index` is open as soon as it is not None."""

    def __init__(
        self, plan: Plan, log: Log, observer: Observer, store: IndexStore, index: Index | None
    ) -> None:
        """Prepare to open; an *index* that is still open from before is used again."""
        self._plan, self._log, self._observer, self._store = plan, log, observer, store
        self.index = index
        self._header: changelog.Header | None = None
        """What the changelog says of itself; None: nothing was ever committed to it."""
        self.lost = -1
        """Where the changelog begins if its beginning was deleted. The index is all there is."""

    def header(self, bounds: Watermarks) -> Script[Identity | None]:
        """Return whose changelog it is; None if nothing was ever committed to it."""
        reader = self._log.read_changelog(bounds.start, bounds.end)
        try:
            while not reader.done:
                for entry in reader.read(1, READ_SECONDS):
                    try:
                        if bounds.start > 0 and changelog.kind_of(entry.value) != changelog.HEADER:
                            return self._without_header(bounds.start)
                        self._header = changelog.decode_header(entry.value)
                        self._refuse_other_group(self._header.group)
                        return self._store.decode(self._header.identity)
                    except ValueError as error:
                        why = f"it must begin with a header record, but {error}"
                        names = self._plan.names
                        raise beginning.refuse_broken(names, entry.offset, why) from error
                yield State.RESTORING, ""
        finally:
            reader.close()
        return None

    def _without_header(self, start: int) -> Identity:
        """Return the identity of the index that is there: the changelog does not say it any more.

        Raises:
            Refusal: there is none.
        """
        self.lost = start
        try:
            stored = self._store.identity()
        except IndexDamaged:
            stored = None
        if stored is None:
            raise beginning.refuse_lost_beginning(self._plan.names, start)
        return stored

    def _refuse_other_group(self, group: str) -> None:
        if group not in ("", self._plan.names.group):
            raise beginning.refuse_other_group(self._plan.names, group)

    def identity(self, header: Identity | None) -> Script[Identity]:
        """Return the index's identity, held against the configuration.

        Raises:
            IndexMismatch: the configuration wants another scheme, or other buckets.
            Refusal: the directory holds the index of another changelog.
        """
        stored, damage = None, ""
        try:
            stored = self._store.identity()
        except IndexDamaged as error:
            damage = str(error)
        if damage:
            self.wipe(damage)
        identity = header or stored or self._plan.new_identity()
        scheme = self._plan.scheme
        wanted = replace(identity, scheme=scheme.as_json(), scheme_fingerprint=scheme.fingerprint)
        if named := differences(identity, wanted) + list(self._other_cap()):
            where = self._plan.names.changelog if header else self._plan.names.where
            raise mismatch(where, named, identity)
        present = self._plan.new_identity().unicode_version
        if identity.unicode_version != present:
            self._observer.loudly(
                f"the index was begun with Unicode {identity.unicode_version}, this Python has "
                f"{present}: texts with characters assigned since may normalise differently"
            )
        if stored is None and self._header is not None and not self._header.bucket_cap:
            self._observer.loudly(
                f"{self._plan.names.changelog} was begun by a version that did not write down "
                f"index.bucket_cap: it is restored with {self._plan.bucket_cap}; if it was another "
                "before, set that and remove the directory, or records that are read again may get "
                "another verdict"
            )
        if stored is not None and stored.index_id != identity.index_id:
            yield from self._give_up(stored)
        return identity

    def _other_cap(self) -> Iterator[str]:
        """Say if the changelog was written by an index with other buckets than are wanted."""
        have, want = self._header.bucket_cap if self._header else 0, self._plan.bucket_cap
        if have not in (0, want):
            yield f"index.bucket_cap: it has {have}, wanted is {want}"

    def _give_up(self, stored: Identity) -> Script[None]:
        """Remove a stored index that is not this changelog's, if it was never used.

        Two processes that start at once both make an identity; one of them comes too late.
        """
        if self.index is None:
            self.index = yield from with_room(self._store.open, stored)
        unused = self.index.progress.changelog_offset < 0
        self.close()
        if not unused:
            raise beginning.refuse_foreign(self._plan.names)
        self._store.wipe()

    def open(self, identity: Identity, bounds: Watermarks, *, empty: bool) -> Script[Index]:
        """Return the open index, empty if the one that is there is damaged or too old."""
        names = self._plan.names
        damage = ""
        if self.index is None:
            try:
                self.index = yield from with_room(self._store.open, identity)
            except IndexDamaged as error:
                damage = str(error)
        if damage:
            self.wipe(damage)
        if self.index is None:
            self.index = yield from with_room(self._store.open, identity)
        beginning.refuse_future(names, self.index.progress, bounds, empty=empty)
        if self.index.progress.changelog_offset < self.lost:
            # What stands at that offset says whose index it is, and there it says nothing.
            raise beginning.refuse_lost_beginning(names, self.lost)
        if beginning.is_behind_start(self.index.progress, bounds):
            offset = self.index.progress.changelog_offset
            self.wipe(f"it stands at {offset} and {names.changelog} begins at {bounds.start}")
            self.index = yield from with_room(self._store.open, identity)
        return self.index

    def opened(self, header: Identity | None, bounds: Watermarks) -> Script[Opened]:
        """Return the index that belongs to the *header*, open; None: a changelog that is empty."""
        identity = yield from self.identity(header)
        index = yield from self.open(identity, bounds, empty=header is None)
        self._observer.identified(identity.index_id, identity.scheme_fingerprint)
        sketcher = Sketcher(self._plan.scheme, seed=identity.seed, spread=self._plan.spread)
        writer = changelog.writer_of(identity.index_id, self._plan.names.group)
        return Opened(index, identity, sketcher, writer)

    def replay(self, opened: Opened, bounds: Watermarks, *, end: int) -> Replay:
        """Return what brings an index from where it stands up to *end*; it wants to be closed."""
        known = opened.index.progress.changelog_offset
        from_known = known >= bounds.start
        reader = self._log.read_changelog(known if from_known else bounds.start, end)
        return Replay(
            opened.index,
            opened.sketcher,
            reader,
            self._plan.names,
            writer=opened.writer,
            from_known=from_known,
        )

    def wipe(self, why: str) -> None:
        """Remove the index that is there, loudly: the changelog has it all.

        Raises:
            Refusal: it has not.
        """
        self.close()
        if self.lost >= 0:
            raise beginning.refuse_lost_beginning(self._plan.names, self.lost)
        self._observer.loudly(
            f"the index in {self._plan.names.where} is removed and restored from "
            f"{self._plan.names.changelog} from its beginning: {why}"
        )
        self._store.wipe()

    def close(self) -> None:
        """Close the index, if one is open, and report it: it holds nothing any more."""
        index, self.index = self.index, None
        if index is not None:
            self._observer.closed(index)
            index.close()
