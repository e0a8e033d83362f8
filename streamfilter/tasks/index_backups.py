"""The backups of a task's index: taken while it works, and restored if its directory is empty.

The store is used in a thread beside the loop, so a slow one delays neither the filter nor the
group's polls. The loop itself makes the checkpoint (links to files, about 50 ms). No failure of a
backup ends or stops the filter. It is counted, logged and shown, and the next try follows.

A restore takes a backup only if it is of this index and scheme. The changelog must also hold the
very record that the backup had applied last. Everything after that record is replayed.
So a backup that is older, or of a fenced owner, only makes the replay longer. One that is ahead of
the changelog, or of another history of it, is never chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from math import inf, nan
from typing import TypeVar

from streamfilter.backup.download import BackupsFound
from streamfilter.backup.index_target import IndexTarget
from streamfilter.backup.manifest import Copied
from streamfilter.backup.upload import Stopped, Uploaded
from streamfilter.engine.messages.changelog import record_hash
from streamfilter.engine.observer import Observer
from streamfilter.engine.ports import Changelog, NotReady, Watermarks, Worker
from streamfilter.index.directory.identity import Identity, differences
from streamfilter.index.errors import DiskFull, FormatError, IndexFault, IndexLocked
from streamfilter.index.protocol import Index
from streamfilter.process.health import State
from streamfilter.stops import counted
from streamfilter.tasks.plan import Plan, Script
from streamfilter.tasks.restore import READ_SECONDS


class BackupObserver:
    """Shows in metrics, health and log when the last whole backup was made, or why one failed."""

    def __init__(self, process: Observer) -> None:
        self.process = process
        self._made: dict[str, float] = {}  # Unix time of each task's newest whole backup

    def backed_up(self, task: str, made: int, sent: int) -> None:
        """Show when the newest whole backup of a *task* was made (ms); count the *sent* bytes."""
        self._made[task] = made / 1000
        self.process.metrics.count("backup_bytes_total", by=sent)
        self._show("")

    def failed(self, task: str, reason: str, message: str) -> None:
        self._made.setdefault(task, 0.0)
        self.process.metrics.count("backup_failures_total", reason)
        self._show(message)
        self.process.loudly(f"{task} is not backed up, and tries again: {message}")

    def ended(self, task: str) -> None:
        """Remove a *task* that this process lost: another one takes its backups now."""
        if self._made.pop(task, None) is not None:
            self._show("")

    def _show(self, failure: str) -> None:
        oldest = min(self._made.values(), default=None)
        shown = nan if oldest is None else oldest
        self.process.metrics.set(backup_last_timestamp_seconds=shown)
        self.process.health.report(backup_made=oldest, backup_failure=failure)


T = TypeVar("T")

RETRY_SECONDS = 60.0  # after a failure, or sooner if backups are taken more often
AGAIN_SECONDS = 5.0  # between two tries of a restore onto a full disk
LOCKED_SECONDS = 30.0
LISTED_SECONDS = 120.0
"""Longest time in which a store must list its backups. A client of S3 repeats a request without an
answer for ten minutes and more."""
PROGRESS_SECONDS = 30.0  # between two log lines of a long download


class IndexBackups:
    """Takes and restores the backups of one task."""

    def __init__(
        self, plan: Plan, target: IndexTarget, observer: BackupObserver, worker: Worker
    ) -> None:
        self._plan, self._target = plan, target
        self._shown, self._observer, self._worker = observer, observer.process, worker
        self._clock = observer.process.clock
        self._running: Callable[[], BackupsFound | Uploaded] | None = None
        self._due = 0.0
        self._known = False  # whether the time of the newest backup was looked up
        self._late = inf  # when a look-up that has not ended is a failure
        self._closed = False

    def tick(self, index: Index, index_id: str) -> None:
        """Take a backup when it is due, and report one that has ended. It never waits or raises."""
        fault: IndexFault | None = None
        waits = False
        try:
            if self._running is not None:
                self._report(self._running())
            elif self._clock.monotonic() >= self._due:
                self._running = self._worker.begin(self._next_call(index, index_id))
                self._late = inf if self._known else self._clock.monotonic() + LISTED_SECONDS
        except NotReady:
            waits = True
        except IndexFault as error:
            fault = error
        except Exception as error:  # an unexpected one does not end the filter either
            fault = IndexFault(f"{error!r:.500}")
        if fault is not None:
            self._failed(fault)
        elif waits and self._clock.monotonic() >= self._late:
            self._late = inf  # it is waited for all the same: a thread that hangs cannot be ended
            self._shown.failed(self._plan.label, "unreachable", str(self._silent()))

    def _silent(self) -> IndexFault:
        return IndexFault(
            f"{self._target.where} has not listed its backups for {LISTED_SECONDS:.0f} s"
        )

    def _next_call(self, index: Index, index_id: str) -> Callable[[], BackupsFound | Uploaded]:
        if not self._known:
            return lambda: self._target.candidates(index_id)
        return self._target.take(index, lambda: self._closed)

    def _report(self, done: BackupsFound | Uploaded) -> None:
        self._running, self._known = None, True
        label, where = self._plan.label, self._target.where
        if isinstance(done, Uploaded):
            made, copied = done.copied.made, done.copied
            self._observer.note(
                f"{label} is backed up to {where}/{copied.place}: "
                f"{counted(copied.documents, 'document')}{copied.progress.as_of}, "
                f"{done.sent / 1e6:,.1f} of {copied.bytes / 1e6:,.1f} MB uploaded"
            )
            for note in done.notes:
                self._observer.loudly(f"{label}: {note}")
            self._shown.backed_up(label, made, done.sent)
        else:
            made = done.made
            self._shown.backed_up(label, made, 0)
        age = max(0.0, (self._clock.wall_milliseconds() - made) / 1000)
        self._due = self._clock.monotonic() + max(0.0, self._target.every - age)

    def _failed(self, fault: IndexFault) -> None:
        self._running = None
        self._due = self._clock.monotonic() + min(self._target.every, RETRY_SECONDS)
        if not isinstance(fault, Stopped):
            reason = "disk" if isinstance(fault, DiskFull) else getattr(fault, "reason", "other")
            self._shown.failed(self._plan.label, reason, str(fault))

    def restore(
        self, identity: Identity, decode: Callable[[bytes], Identity], changelog: Changelog,
        bounds: Watermarks,
    ) -> Script[None]:  # fmt: skip
        """Restore the newest backup that fits *identity* and the changelog, if there is one."""
        note, where = self._observer.note, self._target.where
        found: BackupsFound | None = None
        trouble: IndexFault | None = None
        try:
            found = yield from self._waited(
                lambda: self._target.candidates(identity.index_id),
                lambda: f"waits up to {LISTED_SECONDS:.0f} s for the list of backups in {where}",
                seconds=LISTED_SECONDS,
            )
        except IndexFault as fault:
            trouble = fault
        if found is None:
            self._observer.loudly(
                f"{self._plan.label} is restored from the changelog alone, because the backups "
                f"cannot be listed: {trouble}"
            )
            return
        for why in found.notes:
            self._observer.loudly(f"{self._plan.label}: a backup is not taken: {why}")
        for copied in found.whole:
            unfit = self._unfit(copied, identity, decode, bounds)
            if not unfit and not (yield from self._is_in(changelog, copied, bounds)):
                offset = copied.progress.changelog_offset
                unfit = f"the changelog holds another record at offset {offset}"
            if unfit:
                note(f"{self._plan.label}: backup {copied.place} is not taken: {unfit}")
            elif (yield from self._fetched(copied)):
                return
        note(f"{self._plan.label}: no backup in {where} fits; the changelog restores all of it")

    def _unfit(
        self,
        copied: Copied,
        identity: Identity,
        decode: Callable[[bytes], Identity],
        bounds: Watermarks,
    ) -> str:
        try:
            named = differences(decode(copied.marker.identity), identity)
        except (IndexFault, FormatError) as error:
            return str(error)
        offset, cap = copied.progress.changelog_offset, self._plan.bucket_cap
        if copied.marker.bucket_cap != cap:
            named.append(f"index.bucket_cap: it has {copied.marker.bucket_cap}, wanted is {cap}")
        if self._target.ids and not copied.marker.ids:
            named.append("it has no ids to find documents by")
        if offset >= bounds.end:
            named.append(f"it is at offset {offset}, and the changelog ends at {bounds.end}")
        if offset < bounds.start:
            named.append(f"it is at offset {offset}, and the changelog begins at {bounds.start}")
        return "; ".join(named)

    def _is_in(self, changelog: Changelog, copied: Copied, bounds: Watermarks) -> Script[bool]:
        offset = copied.progress.changelog_offset
        with closing(changelog.read(offset, min(offset + 1, bounds.end))) as reader:
            while not reader.done:
                for entry in reader.read(1, READ_SECONDS):
                    same = record_hash(entry.value) == copied.progress.record_hash
                    return entry.offset == offset and same
                yield State.RESTORING, ""
        return False

    def _fetched(self, copied: Copied) -> Script[bool]:
        """Download a backup; wait for room while the disk is full. False: it cannot be used."""
        note, label = self._observer.note, self._plan.label
        note(f"{label} takes the backup {self._target.where}/{copied.place}: {copied.held}")
        locked_until = self._clock.monotonic() + LOCKED_SECONDS
        while True:
            full, trouble = "", ""
            locked = False
            try:
                yield from self._downloaded(copied)
                return True
            except DiskFull as fault:
                full = str(fault)
            except IndexFault as fault:
                trouble, locked = str(fault), isinstance(fault, IndexLocked)
            # An earlier download of ours, for a standby that is the owner now, may still end.
            if trouble and not (locked and self._clock.monotonic() < locked_until):
                self._observer.loudly(f"{label}: backup {copied.place} is not taken: {trouble}")
                return False
            again = self._clock.monotonic() + AGAIN_SECONDS
            while self._clock.monotonic() < again:
                yield (State.PAUSED_DISK, full) if full else (State.STARTING, trouble)

    def _downloaded(self, copied: Copied) -> Script[None]:
        done, ended, said = [0], [False], self._clock.monotonic()

        def advanced(count: int) -> None:
            done[0] += count

        def doing() -> str:
            nonlocal said
            share = done[0] / max(1, copied.bytes)
            text = f"downloads a backup: {share:.0%} of {copied.bytes / 1e6:,.1f} MB"
            if self._clock.monotonic() - said >= PROGRESS_SECONDS:
                said = self._clock.monotonic()
                self._observer.note(f"{self._plan.label} {text}")
            return text

        try:
            yield from self._waited(
                lambda: self._target.fetch(copied, advanced, lambda: ended[0]), doing
            )
        finally:
            ended[0] = True  # also if the task moves: what has come is removed

    def _waited(
        self, call: Callable[[], T], doing: Callable[[], str], *, seconds: float = inf
    ) -> Script[T]:
        """Return the result of *call*, made beside the loop; raise `IndexFault` if it is late."""
        result, late = self._worker.begin(call), self._clock.monotonic() + seconds
        while True:
            try:
                with suppress(NotReady):
                    return result()
            except IndexFault:
                raise
            except Exception as error:
                raise IndexFault(f"{error!r:.500}") from error
            if self._clock.monotonic() >= late:
                raise self._silent()
            yield State.RESTORING, doing()

    def close(self) -> None:
        """Let what runs beside the loop end; its result is dropped."""
        self._closed, self._running = True, None
        self._shown.ended(self._plan.label)
