"""Steps 1 to 6 of a task, a little at a time.

    1   a producer of our own: fences every predecessor, ends its transaction
    2   the group's committed offsets, stable only
    3   after 2: the changelog's bounds, read uncommitted
    4   do they and the index fit together (`beginning.py`), and whose index is it
    5   the index catches up with the changelog (`restore.py`)
    6   consume from the positions; a fresh task first opens its changelog

It is a script because a long restore must not cost us the task it restores: between two pieces
the membership is polled. What it yields is what the process is doing, and, if it waits for
something, for what. It is run whole for every new producer: one that was replaced may have been
replaced by somebody else meanwhile, and whatever we counted ourselves is then wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from streamfilter.health import State
from streamfilter.index.errors import IndexDamaged
from streamfilter.index.identity import Identity, differences, mismatch
from streamfilter.index.protocol import Index
from streamfilter.kafka import beginning, changelog
from streamfilter.kafka.beginning import Names
from streamfilter.kafka.ports import Bounds, Retriable, StartAt
from streamfilter.kafka.restore import READ_SECONDS, Replay
from streamfilter.kafka.standing import Standing
from streamfilter.kafka.store import Store
from streamfilter.kafka.transactor import Parts, Step, Transactor
from streamfilter.killpoints import kill_point
from streamfilter.model import Positions
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.sketch import Sketcher

P = ParamSpec("P")
T = TypeVar("T")
Doing = tuple[State, str]
"""What the process is doing; what it waits for, or the empty string."""
Script = Generator[Doing, None, T]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a task works on."""

    number: int
    names: Names
    partitions: tuple[int, ...]
    scheme: Scheme
    start: StartAt
    accept_positions: bool
    new_identity: Callable[[], Identity]
    """Draws an id, a seed and the time, for an index that begins."""

    @property
    def label(self) -> str:
        """Return the task's name, as its transactional id has it."""
        return f"{self.names.group}.{self.number}"


class Starter:
    """One start of one task. `index` is open as soon as it is not None, whoever stops the start."""

    def __init__(self, plan: Plan, parts: Parts, store: Store, index: Index | None) -> None:
        """Prepare a start; an *index* that is still open from the last one is used again."""
        self._plan, self._parts, self._store = plan, parts, store
        self._log, self._observer = parts.log, parts.observer
        self.index = index

    def run(self) -> Script[Transactor]:
        """Do all six steps; return what does the others."""
        log, names = self._log, self._plan.names
        yield from self._patiently(log.open_producer)
        kill_point("start.producer")
        committed = yield from self._patiently(log.committed)
        kill_point("start.committed")
        # Only now: what was committed before those offsets lies before this end.
        bounds = yield from self._patiently(log.changelog_bounds)
        kill_point("start.bounds")
        header = yield from self._header(bounds)
        if header is None:
            beginning.refuse_lost_changelog(names, committed)
        identity = self._identity(header)
        index = self._open(identity, bounds, empty=header is None)
        sketcher = Sketcher(self._plan.scheme, seed=identity.seed)
        self._observer.identified(identity.index_id, identity.scheme_fingerprint)
        kill_point("start.identity")
        if header is None:
            positions = yield from self._patiently(log.start_positions, self._plan.start)
            standing = Standing(positions, positions)
        else:
            yield from self._catch_up(index, sketcher, bounds)
            standing = yield from self._standing(index, committed)
        log.assign(standing.positions)
        kill_point("start.assigned")
        transactor = Transactor(self._parts, index, sketcher, standing)
        if header is None:
            # Abortable as any other: the membership is polled, and it is tried again.
            while transactor.open_changelog(identity.encode()) is Step.RETRY:
                yield State.STARTING, "the first transaction was aborted"
        return transactor

    def _patiently(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Script[T]:
        """Return what *call* returns, repeated as long as it is retriable."""
        while True:
            try:
                return call(*args, **kwargs)
            except Retriable as error:
                yield State.STARTING, str(error)

    def _header(self, bounds: Bounds) -> Script[Identity | None]:
        """Return whose changelog it is; None if nothing was ever committed to it."""
        reader = self._log.read_changelog(bounds.start, bounds.end)
        try:
            while not reader.done:
                for entry in reader.read(1, READ_SECONDS):
                    try:
                        return self._store.decode(changelog.decode_header(entry.value))
                    except ValueError as error:
                        why = f"it must begin with a header record, but {error}"
                        names = self._plan.names
                        raise beginning.refuse_broken(names, entry.offset, why) from error
                yield State.RESTORING, ""
        finally:
            reader.close()
        return None

    def _identity(self, header: Identity | None) -> Identity:
        """Return the index's identity, held against the configuration.

        Raises:
            IndexMismatch: the configuration wants another scheme.
        """
        try:
            stored = self._store.identity()
        except IndexDamaged as error:
            self._wipe(str(error))
            stored = None
        identity = header or stored or self._plan.new_identity()
        scheme = self._plan.scheme
        wanted = replace(identity, scheme=scheme.as_json(), scheme_fingerprint=scheme.fingerprint)
        if named := differences(identity, wanted):
            where = self._plan.names.changelog if header else self._plan.names.where
            raise mismatch(where, named)
        present = self._plan.new_identity().unicode_version
        if identity.unicode_version != present:
            self._observer.loudly(
                f"the index was begun with Unicode {identity.unicode_version}, this Python has "
                f"{present}: texts with characters assigned since may normalise differently"
            )
        if stored is not None and self.index is None and stored.index_id != identity.index_id:
            self._give_up(stored)
        return identity

    def _give_up(self, stored: Identity) -> None:
        """Remove a stored index that is not this changelog's, if it was never used.

        Two processes that start at once both make an identity; one of them comes too late.
        """
        index = self._store.open(stored)
        unused = index.progress.changelog_offset < 0
        index.close()
        if not unused:
            raise beginning.refuse_foreign(self._plan.names)
        self._store.wipe()

    def _open(self, identity: Identity, bounds: Bounds, *, empty: bool) -> Index:
        """Open the index, empty if the one that is there is damaged or too old."""
        names = self._plan.names
        if self.index is None:
            try:
                self.index = self._store.open(identity)
            except IndexDamaged as error:
                self._wipe(str(error))
                self.index = self._store.open(identity)
        beginning.refuse_future(names, self.index.progress, bounds, empty=empty)
        if beginning.is_behind_start(self.index.progress, bounds):
            offset = self.index.progress.changelog_offset
            self._wipe(f"it stands at {offset} and {names.changelog} begins at {bounds.start}")
            self.index = self._store.open(identity)
        return self.index

    def _wipe(self, why: str) -> None:
        if self.index is not None:
            self.index.close()
            self.index = None
        self._observer.loudly(
            f"the index in {self._plan.names.where} is removed and restored from "
            f"{self._plan.names.changelog} from its beginning: {why}"
        )
        self._store.wipe()

    def _catch_up(self, index: Index, sketcher: Sketcher, bounds: Bounds) -> Script[None]:
        """Do step 5."""
        known = index.progress.changelog_offset
        from_known = known >= bounds.start
        reader = self._log.read_changelog(known if from_known else bounds.start, bounds.end)
        replay = Replay(index, sketcher, reader, self._plan.names, from_known=from_known)
        begun = bounds.end - reader.position
        self._observer.note(f"{self._plan.label} restores {begun} changelog offsets")
        try:
            for waiting in replay.run():
                self._observer.restoring(max(0, bounds.end - reader.position))
                state = State.PAUSED_DISK if waiting else State.RESTORING
                yield state, waiting
        finally:
            reader.close()
        self._observer.restoring(0)
        self._observer.note(f"{self._plan.label} restored: {len(index)} documents")

    def _standing(self, index: Index, committed: Positions) -> Script[Standing]:
        """Return where to go on, by the group's offsets and the changelog's positions."""
        plan = self._plan
        begin = beginning.reconcile(
            plan.names,
            committed,
            dict(index.progress.positions or {}),
            plan.partitions,
            accept=plan.accept_positions,
        )
        earliest = yield from self._patiently(self._log.start_positions, "earliest")
        latest = yield from self._patiently(self._log.start_positions, "latest")
        positions = beginning.refuse_lost_input(
            plan.names, begin.positions, earliest, latest, accept=plan.accept_positions
        )
        for message in begin.loudly:
            self._observer.loudly(message)
        known = {p: max(offset, positions[p]) if plan.accept_positions else offset
                 for p, offset in begin.known.items()}  # fmt: skip
        return Standing.of(index.progress, positions=positions, known=known)
