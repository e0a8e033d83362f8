"""Standby (hot replica): a process without a task tails the changelog, for a fast takeover.

A standby keeps its own index up to date with the committed changelog. It follows the rules of a
start (`index_storage.py`) and of a restore (`restore.py`). Its index is never ahead, never of
another changelog, and holds whole batches only. It reads and writes a bounded piece per turn, and
the membership is polled between two pieces. At a takeover the tail ends first. The task's start
then gets the open index and repeats every check, so a standby only saves reading time.

A refusal ends a standby as it would end an owner, because it could not take over. Temporary errors
are waited for: an unreachable broker, or a directory that another process holds. A process that
waits for a directory is not ready: the holder may be the owner, and then there is no standby.
"""

from collections.abc import Callable, Sequence
from contextlib import closing

from streamfilter.assembly import IndexDirectory
from streamfilter.engine.filter_observer import FilterObserver
from streamfilter.engine.ports import Changelog, Clock, Denied, LogError, Watermarks, without_frames
from streamfilter.engine.start_checks import refuse_future
from streamfilter.index.errors import IndexDamaged, IndexLocked
from streamfilter.index.protocol import Index
from streamfilter.process.health import State
from streamfilter.tasks.index_backups import IndexBackups
from streamfilter.tasks.index_storage import IndexKeeper, Opened
from streamfilter.tasks.plan import Doing, Plan, Script, patiently

ENDLESS = 1 << 62  # an end that no changelog reaches, so the tail's reader is never done
LOOK_SECONDS = 2.0  # time between two checks of the changelog's bounds, which show if it shrank
AGAIN_SECONDS = 1.0  # pause before a failed tail begins again


class Standby:
    """Tails one task's changelog into this process's own index."""

    def __init__(
        self,
        plan: Plan,
        changelog: Changelog,
        store: IndexDirectory,
        observer: FilterObserver,
        clock: Clock,
        backups: IndexBackups | None = None,
    ) -> None:
        self._plan, self._changelog = plan, changelog
        self._clock, self._backups = clock, backups
        self._observer, self._process = observer, observer.process
        self._keeper = IndexKeeper(plan, changelog, observer, store, None, backups)
        self._script = self._run()
        self._again_at = 0.0
        self._shut_out = ""  # the lock error if another process holds the directory
        self.state, self.detail = State.STANDBY, ""
        self.busy = False  # True while there is more to read at once

    def advance(self) -> None:
        """Do one piece, or raise `Stop`, `IndexFault` (not for a lock) or `Denied`."""
        self.busy = False
        if self._clock.monotonic() < self._again_at:
            return
        try:
            doing, detail = next(self._script)
            self._show(State.PAUSED_DISK if doing is State.PAUSED_DISK else State.STANDBY, detail)
            return
        except Denied:
            raise
        except (IndexDamaged, IndexLocked, LogError) as error:
            trouble = without_frames(error)
        self._recover(trouble)

    def _recover(self, trouble: IndexDamaged | IndexLocked | LogError) -> None:
        """Begin again after *trouble* that is temporary, or that a restore repairs."""
        why = str(trouble)
        if isinstance(trouble, IndexDamaged):
            self._keeper.wipe(why)
        elif isinstance(trouble, IndexLocked):
            if self._shut_out != why:
                self._process.loudly(f"{self._plan.label} cannot stand by: {why}")
            self._shut_out = why
        else:
            self._process.note(f"{self._plan.label} stands by, and tries again: {why}")
        self._show(State.STANDBY, why)
        self._again_at = self._clock.monotonic() + AGAIN_SECONDS
        self._script = self._run()

    def _show(self, state: State, detail: str) -> None:
        """Set state and detail; a locked directory is shown until it could be opened."""
        if self._keeper.index is not None:
            self._shut_out = ""
        self.state, self.detail = state, detail
        if self._shut_out:
            self.state, self.detail = State.STARTING, self._shut_out

    def _run(self) -> Script[None]:
        """Open the index as a start does, then follow the changelog."""
        while True:
            bounds = yield from patiently(State.STANDBY, self._changelog.bounds)
            header = yield from self._keeper.header(bounds)
            if header is not None:
                break
            yield State.STANDBY, "the changelog is empty still"
        opened = yield from self._keeper.opened(header, bounds)
        yield from self._tail(opened, bounds)

    def _tail(self, opened: Opened, bounds: Watermarks) -> Script[None]:
        """Apply new commits, and check from time to time that the changelog still fits."""
        names, index = self._plan.names, opened.index
        with closing(self._keeper.replay(opened, bounds, end=ENDLESS)) as replay:
            look_at = self._clock.monotonic() + LOOK_SECONDS
            for waiting in replay.follow():
                remaining = max(0, bounds.end - replay.position)
                self._process.restoring(remaining)
                self._observer.holding(index)
                self._process.followed(self._plan.label, replay.by)
                self.busy = remaining > 0 and not waiting
                yield State.PAUSED_DISK if waiting else State.STANDBY, waiting
                if self._clock.monotonic() >= look_at:
                    bounds = yield from patiently(State.STANDBY, self._changelog.bounds)
                    refuse_future(names, index.progress, bounds, empty=False)
                    look_at = self._clock.monotonic() + LOOK_SECONDS

    def release(self) -> Index | None:
        """End the tail; return the open index, or None if it was never opened."""
        self._script.close()
        self._end_backups()
        index, self._keeper.index = self._keeper.index, None
        return index

    def close(self) -> None:
        self._script.close()
        self._end_backups()
        self._keeper.close()

    def _end_backups(self) -> None:
        if self._backups is not None:
            self._backups.close()


class Standbys:
    """One standby for every task of the group, while this process owns none."""

    def __init__(self, numbers: Sequence[int] = (), new: Callable[[int], Standby] | None = None):
        self._numbers, self._new = tuple(numbers), new
        self._standbys: dict[int, Standby] = {}
        self._turn = 0

    @property
    def doing(self) -> Doing:
        worst = State.STANDBY, ""
        for each in self._standbys.values():
            if each.state is not State.STANDBY or (each.detail and not worst[1]):
                worst = each.state, each.detail
        return worst

    def advance(self) -> bool:
        """Let one standby do a piece; return True if it has more to do at once."""
        if self._new is None or not self._numbers:
            return False
        number = self._numbers[self._turn % len(self._numbers)]
        self._turn += 1
        if number not in self._standbys:
            self._standbys[number] = self._new(number)
        standby = self._standbys[number]
        standby.advance()
        return standby.busy

    def __len__(self) -> int:
        return len(self._numbers)

    def release(self, number: int) -> Index | None:
        """End the tail of a task that is ours now; return its open index, or None."""
        standby = self._standbys.pop(number, None)
        return None if standby is None else standby.release()

    def close(self) -> None:
        """End all tails: a process with a task keeps no standbys."""
        while self._standbys:
            self._standbys.popitem()[1].close()
