"""Reports the engine's events to metrics, health and the log: one call per event.

The engine's decisions never depend on this module. A batch is reported after its commit, so that a
scrape counts it whole or not at all.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from math import nan

import numpy as np

from streamfilter.engine.outgoing import Destinations
from streamfilter.engine.ports import Clock, Moves, Outgoing
from streamfilter.index.protocol import Applied, Index
from streamfilter.matching.batch import Decided
from streamfilter.matching.retention import UNLIMITED, Retention
from streamfilter.model import Positions, Record
from streamfilter.monitoring.batch_report import BatchReport
from streamfilter.monitoring.capacity import expected_bytes
from streamfilter.monitoring.client_statistics import Statistics
from streamfilter.monitoring.index_totals import IndexTotals
from streamfilter.monitoring.metrics import Metrics
from streamfilter.monitoring.showcase import Showcase
from streamfilter.process.health import Health, State
from streamfilter.quality.audit_scan import Round

logger = logging.getLogger("streamfilter.run")

START_SECONDS = 5.0
"""Waits of a start are logged only after so long: a coordinator that is loading is normal."""
WARN_EVERY_SECONDS = 60.0
"""Shortest time between two log lines of one pause whose details change."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One batch that is committed and applied."""

    decided: Decided
    leaving: Sequence[Outgoing]
    changelog: Sequence[bytes]
    """The batch's records in the changelog."""
    stages: Mapping[str, float]
    """Seconds by stage (`catalogue.STAGES`)."""
    first_ordinal: int
    """Ordinal of the batch's first document."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The disk usage of an index, and its own figures."""

    index: int
    """Bytes on disk."""
    free: int
    """Free bytes on its file system."""
    oldest: int = -1
    """Timestamp of the first remembered document, in milliseconds; -1: unknown."""
    properties: Mapping[str, float] = field(default_factory=dict)
    """RocksDB's own figures, by the names of `catalogue.ROCKSDB`."""


class Observer:
    """Updates the metrics and health of one process."""

    def __init__(
        self,
        metrics: Metrics,
        health: Health,
        clock: Clock,
        destinations: Destinations,
        showcase: Showcase | None = None,
        retention: Retention = UNLIMITED,
        statistics: Statistics | None = None,
    ) -> None:
        self._metrics, self._health, self._clock = metrics, health, clock
        self._destinations = destinations
        self._showcase = showcase or Showcase()
        self._retention = retention
        self._positions: dict[str, int] = {}
        self._lag: dict[str, int] = {}
        self._stuck: dict[str, str] = {}
        self._stamps: dict[str, int] = {}
        """Timestamp of the last committed record, by ``topic/partition``."""
        self._partitions = 0
        self._warned = 0.0
        self._begun, self._said = clock.monotonic(), True
        """The time at which the start began, and whether the present state was logged."""
        self._behind = True
        """True until the end of the input is reached, each time that work begins."""
        self._indexes: dict[Index, IndexTotals] = {}
        self._usages: dict[Index, Usage] = {}
        self._changelogs: dict[str, tuple[int, int]] = {}
        """By changelog: its first offset, and the number of records that are not needed."""
        self._faults: dict[str, set[str]] = {}
        """By fault: the changelogs that have it."""
        self.statistics = statistics or Statistics(metrics.kafka)
        self.spent = metrics.spent
        """Counts the time since its last call under an activity (`catalogue.ACTIVITIES`)."""

    def moved(self, moved: Moved, applied: Applied) -> None:
        """Count a batch, after its commit and its write to the index."""
        judgement, records = moved.decided.judgement, moved.decided.prepared.records
        latest = {each.source.partition: each.timestamp for each in records}
        self._stamps |= {str(partition): stamp for partition, stamp in latest.items()}
        report = BatchReport.of(
            moved.decided.outcomes,
            counts=[judgement.counts] if judgement else (),
            produced=self._by_destination(moved),
            consumed_bytes=sum(len(record.value or b"") for record in records),
            changelog_bytes=sum(map(len, moved.changelog)),
            applied=applied,
            forgotten=moved.decided.forgotten,
            ages_seconds=self._ages(records),
        )
        self._metrics.batch(report)
        self._metrics.stages(moved.stages)
        prepared = moved.decided.prepared
        ids, rows = prepared.batch.ids, prepared.rows
        self._showcase.batch(
            records, moved.decided.outcomes, lambda row: ids[bisect_left(rows, row)]
        )

    def audited(self, found: Round) -> None:
        """Count the findings of a round of the audit."""
        self._metrics.audited(found)

    def _by_destination(self, moved: Moved) -> dict[str, int]:
        counts = Counter[str](changelog=len(moved.changelog))
        for topic, records in Counter(out.topic for out in moved.leaving).items():
            counts[self._destinations.role_of(topic)] += records
        return counts

    def _ages(self, records: Sequence[Record]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        stamps = np.array([r.timestamp for r in records if r.timestamp > 0], np.float64)
        return (self._clock.wall_milliseconds() - stamps) / 1000

    def standing(
        self,
        index: Index,
        positions: Positions,
        lag: Positions | None,
        topic: str,
    ) -> None:
        """Show a task's positions; without a new *lag* the last one stays.

        While no broker is reachable no lag is shown, because the client's end offsets are old.
        """
        self._positions |= {f"{topic}/{p}": offset for p, offset in positions.items()}
        if self._health.status.state is not State.UNREACHABLE:
            self._lag |= {f"{topic}/{p}": behind for p, behind in (lag or {}).items()}
        self._health.report(positions=dict(self._positions), lag=dict(self._lag))
        self._hold(index)
        if self._lag:
            since = self._waiting_since(index.progress.highest_timestamp)
            self._metrics.lag(sum(self._lag.values()), since)
            self._see_caught_up()
        self.spent("report")

    def _waiting_since(self, otherwise: int) -> float | None:
        """Return the Unix time of the last record before the oldest waiting one, if it is known.

        A waiting record is younger than the one before it, so this time can only be too early.
        Before the first batch of a process it is the index's latest timestamp.
        """
        behind = [where.rpartition("/")[2] for where, count in self._lag.items() if count]
        stamps = [self._stamps.get(partition, otherwise) for partition in behind]
        oldest = min((stamp for stamp in stamps if stamp > 0), default=None)
        return None if oldest is None else oldest / 1000

    def _hold(self, index: Index) -> None:
        progress = index.progress
        self._indexes[index] = IndexTotals(
            documents=len(index),
            windows=len(index.windows),
            horizon=progress.horizon,
            changelog_offset=progress.changelog_offset,
        )
        self._show_totals()

    def closed(self, index: Index) -> None:
        """Remove an index that is about to be closed."""
        self._usages.pop(index, None)
        if self._indexes.pop(index, None) is not None:
            self._show_totals()

    def _show_totals(self) -> None:
        totals = IndexTotals.together(self._indexes.values())
        self._metrics.index(totals)
        self._health.report(documents=totals.documents)

    def occupying(self, index: Index, usage: Usage) -> None:
        """Show the disk space that an index takes, and the free space."""
        self._hold(index)
        self._usages[index] = usage
        usages = list(self._usages.values())
        properties: Counter[str] = Counter()
        for each in usages:
            properties.update(each.properties)
        stamps = [each.oldest for each in usages if each.oldest > 0]
        self._metrics.occupied(
            sum(each.index for each in usages),
            expected=sum(starmap(self._expected, self._usages.items())),
            free=usage.free,
            oldest=min(stamps, default=nan) / 1000,
            properties=properties,
        )

    def trimmed(self, changelog: str, start: int | None, needed: int = 0) -> None:
        """Show the *start* of a task's changelog, and the first offset that its index needs.

        Without a *start* the changelog is removed, because another process may own it now.
        """
        if start is None:
            self._changelogs.pop(changelog, None)
        else:
            self._changelogs[changelog] = start, max(0, needed - start)
        known = self._changelogs.values()
        self._metrics.changelog(*(map(sum, zip(*known, strict=True)) if known else (nan, nan)))

    def changelog_fault(self, fault: str, changelog: str, *, there: bool) -> None:
        """Show whether a *changelog* cannot restore its index (`catalogue.CHANGELOG_FAULTS`)."""
        known = self._faults.setdefault(fault, set())
        (known.add if there else known.discard)(changelog)
        self._metrics.changelog_faults(fault, len(known))

    def _expected(self, index: Index, usage: Usage) -> float:
        progress = index.progress
        known = usage.oldest > 0 and progress.highest_timestamp > 0
        return expected_bytes(
            usage.index,
            self._retention,
            judged=progress.next_ordinal - progress.horizon,
            age=progress.highest_timestamp - usage.oldest if known else nan,
        )

    def left(self, partitions: Sequence[int], topic: str) -> None:
        """Remove the positions and the lag of a task that is gone."""
        for partition in partitions:
            self._positions.pop(f"{topic}/{partition}", None)
            self._lag.pop(f"{topic}/{partition}", None)
            self._stamps.pop(str(partition), None)
        self._health.report(positions=dict(self._positions), lag=dict(self._lag))

    def transaction(self, outcome: str, seconds: float) -> None:
        """Count a transaction by its outcome."""
        now = self._clock.wall_milliseconds() / 1000 if outcome == "committed" else None
        self._metrics.transaction(outcome, seconds, now=now)

    def alive(self) -> None:
        """Send a heartbeat: a call has returned or raised, so the loop is not stuck in it."""
        self._health.beat()

    def stuck(self, task: str, reason: str) -> None:
        """Show why a task moves no record although records wait; '' when it moves them."""
        self._stuck[task] = f"{task}: {reason}" if reason else ""
        self._health.stall(next(filter(None, self._stuck.values()), ""))

    def rebalanced(self, moves: Moves) -> None:
        """Count a rebalance of the group."""
        if moves.gone:
            self._metrics.rebalance("lost" if moves.lost else "revoked")
        if moves.gained:
            self._metrics.rebalance("assigned")

    def owning(self, tasks: Sequence[str], partitions: int) -> None:
        """Show the tasks of this process."""
        if tasks and tuple(tasks) != self._health.status.tasks:
            logger.info("initialising %d tasks", len(tasks))
        self._health.report(tasks=tuple(tasks), owners={})
        self._partitions = partitions
        self._show_partitions(self._health.status.state)

    def restoring(self, remaining: int) -> None:
        """Show how many changelog records are still to be applied."""
        self._metrics.restoring(remaining)
        self._health.report(restore_remaining=remaining)

    def tailing(self, index: Index, remaining: int) -> None:
        """Show a standby's index, and how much of the changelog it still has to read."""
        self.restoring(remaining)
        self._hold(index)

    def followed(self, task: str, by: str) -> None:
        """Show the process that owns a standby's *task*, once it is known: *by*."""
        owners = self._health.status.owners
        if by and owners.get(task) != by:
            self._health.report(owners={**owners, task: by})

    def identified(self, index_id: str, scheme: str) -> None:
        """Show the id and the scheme of the open index."""
        self._health.report(index_id=index_id, scheme=scheme)

    def enter(self, state: State, detail: str = "") -> None:
        """Show the state of the process; log a change."""
        before, now = self._health.status, self._clock.monotonic()
        if state is not State.STARTING or before.state is not State.STARTING:
            self._begun = now
        worth = not detail or state is not State.STARTING or now - self._begun >= START_SECONDS
        if (before.state, before.detail) == (state, detail):
            self._health.beat()
            if worth is self._said:
                return
        else:
            self._health.enter(state, detail)
            self._show_partitions(state)
            if state is State.UNREACHABLE:
                self._forget_lag()
        if state in _TROUBLE and before.state is state and now - self._warned < WARN_EVERY_SECONDS:
            return  # the details change: RocksDB names another file in each error of a full disk
        self._warned = now
        self._said = worth
        self._behind = self._behind or (state is State.RUNNING and before.state is not state)
        usual = logging.WARNING if state in _TROUBLE else logging.INFO
        level = usual if worth else logging.DEBUG
        logger.log(level, "%s%s", state, f": {detail}" if detail else "", extra=self._counts())

    def _forget_lag(self) -> None:
        """Show that the lag and the tasks' owners are unknown."""
        self._lag.clear()
        self._health.report(lag={}, owners={})
        self._metrics.lag(nan, None)

    def _counts(self) -> dict[str, int]:
        """Return the figures for a log line about the state, if they are known."""
        lag = {"lag_records": sum(self._lag.values())} if self._lag else {}
        return {"index_documents": self._health.status.documents, **lag}

    def _see_caught_up(self) -> None:
        """Log that the end of the input is reached, once for each time that work begins."""
        running = self._health.status.state is State.RUNNING
        if self._behind and running and not any(self._lag.values()):
            self._behind = False
            logger.info("caught up with the input", extra=self._counts())

    def _show_partitions(self, state: State) -> None:
        # A paused start does not know the number of partitions yet, so it shows at least one.
        paused = {_PAUSES[state]: max(1, self._partitions)} if state in _PAUSES else {}
        self._metrics.partitions(self._partitions, **paused)

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
