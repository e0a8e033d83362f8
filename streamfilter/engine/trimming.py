"""Trims the changelog to the start of the oldest live window.

Only the owner trims, and only after its index has dropped the earlier windows. That is after the
commit of the batch that forgot them. An index that is further behind is wiped. It is restored from
the rest, which holds every live window. A failed trim is tried again later. An unanswered one is
checked again with the next batch. Neither delays a batch: a long changelog only costs disk space.
"""

from collections.abc import Sequence

from streamfilter.engine.filter_observer import FilterObserver
from streamfilter.engine.ports import Changelog, Clock, Denied, LogError
from streamfilter.killpoints import kill_point
from streamfilter.model import Window

AGAIN_SECONDS = 10.0
DENIED_SECONDS = 600.0  # after a denied trim: rights change seldom, brokers log each try


def said_of_lost_beginning(changelog: str, start: int) -> str:
    """Return the warning about a changelog whose records before *start* were deleted."""
    return (
        f"{changelog} begins at {start}: records that a restore needs were deleted. The index of "
        "this process is whole, and it is the only copy. Keep its directory, back it up "
        "(`streamfilter backup`), and restart this process once with `streamfilter run "
        "--rewrite-changelog`, which writes the changelog again"
    )


class Trimming:
    """Trims one task's changelog."""

    def __init__(
        self, changelog: Changelog, clock: Clock, observer: FilterObserver, name: str
    ) -> None:
        """Begin at offset 0; without a call of `begins` the first `look` trims once more."""
        self._changelog, self._clock, self._observer = changelog, clock, observer
        self._name = name
        self._start, self._again_at, self._denied = 0, 0.0, False
        self._shown = (-1, -1)
        self._lost = False
        self._anew = 0

    def begins(self, start: int) -> None:
        """Note the first offset of the changelog, as the brokers report it."""
        self._start = start

    def whole(self, anew: int) -> None:
        """Note that the changelog can restore its index, from offset *anew* on if that is not 0."""
        self._anew = anew
        if self._lost:
            self._lost = False
            self._observer.changelog_fault("beginning", self._name, there=False)

    def lost(self, message: str) -> None:
        """Warn once that records were deleted that a restore needs."""
        if not self._lost:
            self._lost = True
            self._observer.process.loudly(message)
            self._observer.changelog_fault("beginning", self._name, there=True)

    def close(self) -> None:
        """Remove the changelog from the metrics: another process may own it now."""
        self._lost = False
        self._observer.changelog_fault("beginning", self._name, there=False)
        self._observer.trimmed(self._name, None)

    def look(self, windows: Sequence[Window]) -> None:
        """Delete the records before the live *windows*, which are ordered from the oldest."""
        begin = max(windows[0].offset, self._anew)
        self._show(begin)
        start = self._changelog.start()
        if start > max(self._start, begin):
            self.lost(said_of_lost_beginning(self._name, start))
        if begin <= self._start or self._clock.monotonic() < self._again_at:
            return
        try:
            done = self._changelog.trim(begin)
        except Denied as error:
            self._again_at = self._clock.monotonic() + DENIED_SECONDS
            self._say_denied(error)
        except LogError as error:
            self._again_at = self._clock.monotonic() + AGAIN_SECONDS
            self._observer.process.note(f"{self._name} is not cut off yet: {error}")
        else:
            if done:
                self._start = begin
                self._observer.process.note(f"{self._name} begins at {begin} now")
                kill_point("changelog.trimmed")

    def _show(self, needed: int) -> None:
        if self._shown != (self._start, needed):
            self._shown = self._start, needed
            self._observer.trimmed(self._name, self._start, needed)

    def _say_denied(self, error: Denied) -> None:
        if not self._denied:
            self._denied = True
            self._observer.process.loudly(
                f"{self._name} is not cut off, and grows: {error}; nothing is wrong with the "
                "index. Grant DELETE on the topic to this principal"
            )
