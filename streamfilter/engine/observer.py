"""Reports the events of a process to metrics, health and the log: one call per event.

No decision depends on this module. `Observer` is for any kind of job; `filter_observer.py` adds the
batches and indexes of the filter.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import nan

from streamfilter.engine.ports import Clock, Moves
from streamfilter.model import OUTPUTS, Record, Verdict
from streamfilter.monitoring.client_statistics import Statistics
from streamfilter.monitoring.metrics import Metrics
from streamfilter.process.health import Health, State
from streamfilter.stops import counted

logger = logging.getLogger("streamfilter.run")

START_SECONDS = 5.0  # a start's waits are logged after so long: coordinators load
SUMMARY_SECONDS = 60.0  # between two lines of totals
WARN_EVERY_SECONDS = 60.0  # shortest time between two log lines of one pause whose details change


class Observer:
    """Updates the metrics and health of a process, whatever its jobs do."""

    def __init__(
        self,
        metrics: Metrics,
        health: Health,
        clock: Clock,
        statistics: Statistics | None = None,
        *,
        summary: bool = True,
    ) -> None:
        """Begin; with *summary*, a line a minute holds the totals (`log.summary`)."""
        self.metrics, self.health, self.clock = metrics, health, clock
        self._positions: dict[str, int] = {}
        self._lag: dict[str, int] = {}
        self._stuck: dict[str, str] = {}
        self._stamps: dict[str, int] = {}  # of the last committed record, by partition
        self._partitions, self._topics = 0, (0, 0)
        self._warned = 0.0
        self._totals = Totals(metrics, clock.monotonic()) if summary else None
        self._begun, self._said = clock.monotonic(), True
        """The time at which the start began, and whether the present state was logged."""
        self._behind = True  # until the end of the input is reached, after each start
        self.statistics = statistics or Statistics(metrics.kafka)
        self.spent = metrics.spent  # counts the time since its last call (`ACTIVITIES`)

    def committed(self, records: Sequence[Record]) -> None:
        """Note the timestamps of committed records, for the lag in seconds."""
        newest = {each.source.number: each for each in records}.values()
        self._stamps |= {f"{o.source.topic}/{o.source.partition}": o.timestamp for o in newest}

    def at(
        self, positions: Mapping[str, int], lag: Mapping[str, int] | None, newest: int = -1
    ) -> None:
        """Show a task's positions by ``topic/partition``; without a new *lag* the last one stays.

        While no broker is reachable no lag is shown, because the client's end offsets are old.
        Before the first batch, the lag in seconds is counted from the timestamp *newest*.
        """
        self._positions |= positions
        if self.health.status.state is not State.UNREACHABLE:
            self._lag |= lag or {}
        self.health.report(positions=dict(self._positions), lag=dict(self._lag))
        if self._lag:
            self.metrics.lag(sum(self._lag.values()), self._waiting_since(newest))
            running = self.health.status.state is State.RUNNING
            if self._behind and running and not any(self._lag.values()):
                self._behind = False
                logger.info("caught up with the input", extra=self._counts())
        self.spent("report")

    def _waiting_since(self, otherwise: int) -> float | None:
        """Return the Unix time of the last record before the oldest waiting one, if it is known.

        A waiting record is younger than the one before it, so this time can only be too early.
        Before the first batch of a process it is the index's latest timestamp.
        """
        behind = [where for where, count in self._lag.items() if count]
        stamps = [self._stamps.get(where, otherwise) for where in behind]
        oldest = min((stamp for stamp in stamps if stamp > 0), default=None)
        return None if oldest is None else oldest / 1000

    def left(self, partitions: Iterable[str]) -> None:
        """Remove the positions and the lag of *partitions* that are no longer read here."""
        for each in partitions:
            self._positions.pop(each, None)
            self._lag.pop(each, None)
            self._stamps.pop(each, None)
        self.health.report(positions=dict(self._positions), lag=dict(self._lag))
        if not self._lag:  # the last one: the lag of a standby would stay, and age for ever
            self.metrics.lag(nan, None)

    def transaction(self, outcome: str, seconds: float) -> None:
        now = self.clock.wall_milliseconds() / 1000 if outcome == "committed" else None
        self.metrics.transaction(outcome, seconds, now=now)

    def alive(self) -> None:
        """Send a heartbeat: a call has returned or raised, so the loop is not stuck in it."""
        self.health.beat()

    def stuck(self, task: str, reason: str) -> None:
        """Show why a task moves no record although records wait; '' when it moves them."""
        self._stuck[task] = f"{task}: {reason}" if reason else ""
        self.health.stall(next(filter(None, self._stuck.values()), ""))

    def rebalanced(self, moves: Moves) -> None:
        if moves.gone:
            self.metrics.count("rebalances_total", "lost" if moves.lost else "revoked")
        if moves.gained:
            self.metrics.count("rebalances_total", "assigned")

    def owning(self, tasks: Sequence[str], partitions: int) -> None:
        if tasks and tuple(tasks) != self.health.status.tasks:
            logger.info("initialising %s", counted(len(tasks), "task"))
        self.health.report(tasks=tuple(tasks), owners={})
        self._partitions = partitions
        self._show_partitions(self.health.status.state)

    def reading(self, topics: int, missing: int) -> None:
        """Show how many of several *topics* are read, and how many are gone."""
        self._topics = topics, missing
        self._show_partitions(self.health.status.state)

    def restoring(self, remaining: int) -> None:
        """Show how many changelog records are still to be applied."""
        self.metrics.set(restore_remaining_records=remaining)
        self.health.report(restore_remaining=remaining)

    def followed(self, task: str, by: str) -> None:
        """Show the process that owns a standby's *task*, once it is known: *by*."""
        owners = self.health.status.owners
        if by and owners.get(task) != by:
            self.health.report(owners={**owners, task: by})

    def enter(self, state: State, detail: str = "") -> None:
        """Show the state of the process; log a change."""
        before, now = self.health.status, self.clock.monotonic()
        if self._totals is not None:
            self._totals.log(now, self._counts)
        if state is not State.STARTING or before.state is not State.STARTING:
            self._begun = now
        worth = not detail or state is not State.STARTING or now - self._begun >= START_SECONDS
        if (before.state, before.detail) == (state, detail):
            self.health.beat()
            if worth is self._said:
                return
        else:
            self.health.enter(state, detail)
            self._show_partitions(state)
            if state is State.UNREACHABLE:
                self._lag.clear()
                self.health.report(lag={}, owners={})
                self.metrics.lag(nan, None)
        if state in _TROUBLE and before.state is state and now - self._warned < WARN_EVERY_SECONDS:
            return  # the details change: RocksDB names another file in each error of a full disk
        self._warned = now
        self._said = worth
        self._behind = self._behind or (state is State.RUNNING and before.state is not state)
        usual = logging.WARNING if state in _TROUBLE else logging.INFO
        level = usual if worth else logging.DEBUG
        logger.log(level, "%s%s", state, f": {detail}" if detail else "", extra=self._counts())

    def _counts(self) -> dict[str, int]:
        lag = {"lag_records": sum(self._lag.values())} if self._lag else {}
        return {"index_documents": self.health.status.documents, **lag}

    def _show_partitions(self, state: State) -> None:
        # A paused start does not know the number of partitions yet, so it shows at least one.
        paused = {_PAUSES[state]: max(1, self._partitions)} if state in _PAUSES else {}
        self.metrics.partitions(self._partitions, topics=self._topics, **paused)

    def loudly(self, message: str) -> None:
        """Log a warning for the operator; the work goes on."""
        logger.warning("%s", message)

    def note(self, message: str) -> None:
        """Log an event that helps to understand the log."""
        logger.info("%s", message)


_TROUBLE = frozenset({State.UNREACHABLE, State.FENCED, State.PAUSED_DISK,
                      State.PAUSED_DEAD_LETTERS, State.PAUSED_SCHEMAS})  # fmt: skip
"""States in which a person may have to act: logged as a warning."""
_PAUSES = {
    State.PAUSED_DISK: "disk",
    State.PAUSED_DEAD_LETTERS: "dead_letters",
    State.PAUSED_SCHEMAS: "schemas",
}


class Totals:
    """Logs once a minute how many records were read since the start, and where they went."""

    def __init__(self, metrics: Metrics, now: float) -> None:
        self._metrics, self._at, self._read = metrics, now, 0

    def log(self, now: float, others: Callable[[], Mapping[str, int]]) -> None:
        """Log the totals and *others* if a minute has passed and records were read at all."""
        if now - self._at < SUMMARY_SECONDS:
            return
        totals: Counter[str] = Counter()
        for verdict, count in self._metrics.verdicts().items():
            totals[OUTPUTS.get(Verdict(verdict), "dropped")] += count
        read, before = totals.total(), self._read
        self._at, self._read = now, read
        if read:
            fields = {
                "read": read,
                "read_since_last": read - before,
                "unique": totals["unique"],
                "duplicates": totals["duplicates"],
                "dead_letters": totals["dead_letter"],
                "dropped": totals["dropped"],
                **others(),
            }
            words = ", ".join(f"{name} {count:,}" for name, count in fields.items())
            logger.info("totals: %s", words.replace("_", " "), extra=fields)
