"""Storage of a task's index: its owner, and how it is opened, refused, wiped or created.

The engine asks for an index by its identity and never uses a path. The index has the interface
`index.protocol.Index`.

A start and a standby both open the index through `IndexKeeper`, with the same checks in this order:

1. Does the changelog belong to this group? (its first record)
2. Does the configuration fit the index's identity?
3. Does the directory hold the index of this changelog?
4. Does the changelog hold every record that the index has applied?

If the disk is full, opening or creating an index waits for space, as a write does.
"""

from contextlib import closing

from msgspec import Struct

from streamfilter.assembly import IndexDirectory, sketcher_for
from streamfilter.engine import start_checks
from streamfilter.engine.filter_observer import FilterObserver
from streamfilter.engine.messages.changelog import writer_of
from streamfilter.engine.messages.changelog_header import (
    BEGIN,
    END,
    GROWN,
    HEADER,
    Header,
    decode_header,
    kind_of,
    part_of,
)
from streamfilter.engine.ports import Changelog, Watermarks
from streamfilter.index.directory.identity import Identity, differences, mismatch
from streamfilter.index.errors import IndexDamaged
from streamfilter.index.protocol import Index
from streamfilter.process.health import State
from streamfilter.similarity.sketch import Sketcher
from streamfilter.tasks.index_backups import IndexBackups
from streamfilter.tasks.plan import Plan, Script, with_room
from streamfilter.tasks.restore import READ_RECORDS, READ_SECONDS, Replay


class Opened(Struct, frozen=True):
    """A task's open index, with the settings to read and write its changelog."""

    index: Index
    identity: Identity
    sketcher: Sketcher
    writer: bytes  # the writer's name in our batches


class IndexKeeper:
    """Opens the index of one task. `index` is open as soon as it is not None."""

    def __init__(
        self,
        plan: Plan,
        changelog: Changelog,
        observer: FilterObserver,
        store: IndexDirectory,
        index: Index | None,
        backups: IndexBackups | None = None,
    ) -> None:
        self._plan, self._changelog = plan, changelog
        self._observer, self._store = observer, store
        self.index, self._backups = index, backups
        self._was_damaged = False  # a backup may be a copy of the damage
        self.index_id = ""  # of the open index
        self._header: Header | None = None  # None: no record was ever committed to it
        self.lost = -1
        """First offset of a changelog whose beginning was deleted; then the index is the only copy.
        -1: it is whole."""
        self.anew = 0  # offset of the BEGIN of a complete rewrite; 0: there is none
        self._searched, self._begun = 0, -1  # where to search for a rewrite; last BEGIN, or -1

    def header(self, bounds: Watermarks) -> Script[Identity | None]:
        """Return the identity in the changelog's header; None: no record was ever committed."""
        self._header, self.lost = None, -1
        self.anew = self.anew if self.anew >= bounds.start else 0
        reader = self._changelog.read(max(bounds.start, self.anew), bounds.end)
        try:
            while not reader.done:
                for entry in reader.read(1, READ_SECONDS):
                    try:
                        headed = kind_of(entry.value) == HEADER
                        if bounds.start > 0 and not headed:
                            return (yield from self._without_header(bounds))
                        header = decode_header(entry.value)
                        if header.anew in (END, GROWN):  # the records before it are lost
                            return (yield from self._without_header(bounds))
                        self._header = header
                        if header.group not in ("", self._plan.names.group):
                            raise start_checks.refuse_other_group(self._plan.names, header.group)
                        return self._store.decode(self._header.identity)
                    except ValueError as error:
                        why = f"it must begin with a header record, but {error}"
                        names = self._plan.names
                        raise start_checks.refuse_broken(names, entry.offset, why) from error
                yield State.RESTORING, ""
        finally:
            reader.close()
        return None

    @property
    def begins_anew(self) -> bool:
        """Return whether the first record begins a rewrite, whether or not the rewrite ended."""
        return self._header is not None and bool(self._header.anew)

    def is_cut_off(self, index: Index) -> bool:
        """Return whether the changelog could not restore the oldest window of a whole *index*."""
        window = self._header.window if self._header else None
        return self.lost >= 0 or (window.number if window else 0) > index.windows[0].number

    def find_anew(self, bounds: Watermarks) -> Script[bool]:
        """Find the last rewrite with its END; the next search reads only later records."""
        if not bounds.start <= self._searched <= bounds.end:
            self._searched = bounds.start
        if not bounds.start <= self._begun < self._searched:
            self._begun = -1
        with closing(self._changelog.read(self._searched, bounds.end)) as reader:
            while not reader.done:
                for entry in reader.read(READ_RECORDS, READ_SECONDS):
                    part = part_of(entry.value)
                    if part == BEGIN:
                        self._begun = entry.offset
                    elif part == END and self._begun >= 0:
                        self.anew, self.lost = self._begun, -1
                self._searched = reader.position
                yield State.RESTORING, ""
        return self.anew > 0

    def _without_header(self, bounds: Watermarks) -> Script[Identity | None]:
        """Return the identity from a rewrite, or the stored index, or raise `Refusal`."""
        if (yield from self.find_anew(bounds)):
            return (yield from self.header(bounds))
        start = self.lost = bounds.start
        try:
            stored = self._store.identity()
        except IndexDamaged:
            stored = None
        if stored is None:
            raise start_checks.refuse_lost_beginning(self._plan.names, start)
        return stored

    def identity(self, header: Identity | None) -> Script[Identity]:
        """Return the index's identity, checked; raise `IndexMismatch` or `Refusal`."""
        stored, damage = None, ""
        try:
            stored = self._store.identity()
        except IndexDamaged as error:
            damage = str(error)
        if damage:
            self.wipe(damage)
        identity = header or stored or self._plan.new_identity()
        wanted, cap = identity.of_scheme(self._plan.scheme), self._plan.bucket_cap
        named = differences(identity, wanted)
        if self._header is not None and self._header.bucket_cap not in (0, cap):
            named.append(f"index.bucket_cap: it has {self._header.bucket_cap}, wanted is {cap}")
        if named:
            where = self._plan.names.changelog if header else self._plan.names.where
            raise mismatch(where, named, identity)
        present = self._plan.new_identity().unicode_version
        if identity.unicode_version != present:
            self._observer.process.loudly(
                f"the index was begun with Unicode {identity.unicode_version}, this Python has "
                f"{present}: texts with characters assigned since may normalise differently"
            )
        if stored is None and self._header is not None and not self._header.bucket_cap:
            self._observer.process.loudly(
                f"{self._plan.names.changelog} was begun by a version that did not write down "
                f"index.bucket_cap: it is restored with {self._plan.bucket_cap}; if it was another "
                "before, set that and remove the directory, or records that are read again may get "
                "another verdict"
            )
        if stored is not None and stored.index_id != identity.index_id:
            yield from self._give_up(stored)
        return identity

    def _give_up(self, stored: Identity) -> Script[None]:
        """Remove another changelog's index, if it was never used: two processes began at once."""
        if self.index is None:
            self.index = yield from with_room(self._store.open, stored)
        unused = self.index.progress.changelog_offset < 0
        self.close()
        if not unused:
            raise start_checks.refuse_foreign(self._plan.names)
        self._store.wipe()

    def open(self, identity: Identity, bounds: Watermarks, *, empty: bool) -> Script[Index]:
        """Return the open index; an empty one if the stored index is damaged or too old."""
        names = self._plan.names
        damage = ""
        if self.index is None:
            try:
                self.index = yield from self._open(identity, bounds, empty=empty)
            except IndexDamaged as error:
                damage = str(error)
        if damage:
            self.wipe(damage)
        if self.index is None:
            self.index = yield from self._open(identity, bounds, empty=empty)
        start_checks.refuse_future(names, self.index.progress, bounds, empty=empty)
        if self.index.progress.changelog_offset < 0 and self.begins_anew and not self.anew:
            # The first record may begin a rewrite without an end. Nothing is restored from that.
            self.lost = bounds.start
            yield from self.find_anew(bounds)
        if self.index.progress.changelog_offset < self.lost:
            # The record at that offset would show whose index it is, but it was deleted.
            raise start_checks.refuse_lost_beginning(names, self.lost)
        if start_checks.is_behind_start(self.index.progress, bounds):
            offset = self.index.progress.changelog_offset
            why = f"it stands at {offset} and {names.changelog} begins at {bounds.start}"
            self.wipe(why, damaged=False)
            self.index = yield from self._open(identity, bounds, empty=empty)
        return self.index

    def _open(self, identity: Identity, bounds: Watermarks, *, empty: bool) -> Script[Index]:
        """Open the stored index, or a backup's if there is none, or make an empty one."""
        usable = self._backups is not None and not self._was_damaged and not empty
        if self._backups is not None and usable and self._store.identity() is None:
            yield from self._backups.restore(identity, self._store.decode, self._changelog, bounds)
        return (yield from with_room(self._store.open, identity))

    def opened(self, header: Identity | None, bounds: Watermarks) -> Script[Opened]:
        """Return the open index that belongs to the *header*; None: the changelog is empty."""
        identity = yield from self.identity(header)
        index = yield from self.open(identity, bounds, empty=header is None)
        self.index_id = identity.index_id
        self._observer.identified(identity.index_id, identity.scheme_fingerprint)
        sketcher = sketcher_for(self._plan.scheme, seed=identity.seed)
        writer = writer_of(identity.index_id, self._plan.names.group)
        return Opened(index, identity, sketcher, writer)

    def replay(self, opened: Opened, bounds: Watermarks, *, end: int) -> Replay:
        """Return a replay from the index's offset up to *end*; the caller must close it."""
        known = opened.index.progress.changelog_offset
        from_known = known >= bounds.start
        start = bounds.start if known >= 0 else max(bounds.start, self.anew)
        reader = self._changelog.read(known if from_known else start, end)
        return Replay(
            opened.index,
            opened.sketcher,
            reader,
            self._plan.names,
            writer=opened.writer,
            from_known=from_known,
        )

    def wipe(self, why: str, *, damaged: bool = True) -> None:
        """Remove the index, with a warning; raise `Refusal` if it cannot be restored.

        After one that was *damaged* no backup is taken.
        """
        self.close()
        self._was_damaged |= damaged and not self._is_removed()
        if self.lost >= 0:
            raise start_checks.refuse_lost_beginning(self._plan.names, self.lost)
        self._observer.process.loudly(
            f"the index in {self._plan.names.where} is removed and restored from "
            f"{self._plan.names.changelog} from its beginning: {why}"
        )
        self._store.wipe()

    def _is_removed(self) -> bool:
        """Return whether the directory was removed, which says nothing about backups."""
        try:
            return self._store.identity() is None
        except IndexDamaged:
            return False

    def close(self) -> None:
        """Close the index, if one is open, and remove it from the metrics."""
        index, self.index = self.index, None
        if index is not None:
            self._observer.closed(index)
            index.close()
