"""Reports the filter's work to metrics, health and the page: batches, audits and indexes.

A batch is reported after its commit, so that a scrape counts it whole or not at all.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import starmap
from math import nan
from operator import attrgetter

import numpy as np
from msgspec import Struct

from streamfilter.engine.messages.forwarding import Destinations
from streamfilter.engine.observer import Observer
from streamfilter.engine.ports import Outgoing
from streamfilter.index.protocol import Applied, Index, Usage
from streamfilter.matching.batch import Decided
from streamfilter.matching.blocking.retention import UNLIMITED, Retention
from streamfilter.model import Record
from streamfilter.monitoring.batch_report import BatchReport, BatchSpan, by_topic
from streamfilter.monitoring.capacity import expected_bytes
from streamfilter.monitoring.catalogue import ROCKSDB
from streamfilter.monitoring.web.showcase import Showcase
from streamfilter.quality.live.audit_scan import Round

_TOTALS = ("index_documents", "index_windows", "index_horizon_documents", "changelog_offset")
"""Gauges of all open indexes together."""
_WORST: Mapping[str, Callable[[Iterable[float]], float]] = {
    "front_density": min,
    "front_pass_rate": max,
}
"""RocksDB's properties that are not added up: of all open indexes, the worst counts."""


class Moved(Struct, frozen=True):
    """One batch that is committed and applied."""

    decided: Decided
    leaving: Sequence[Outgoing]
    changelog: Sequence[bytes]  # the batch's records in the changelog
    stages: Mapping[str, float]  # seconds by stage (`catalogue.STAGES`)
    first_ordinal: int  # ordinal of the batch's first document


class FilterObserver:
    """Updates the metrics of the filter's jobs; `process` is the observer of their process."""

    def __init__(
        self,
        process: Observer,
        destinations: Destinations,
        showcase: Showcase | None = None,
        retention: Retention = UNLIMITED,
        topic_name: Callable[[str], str] | None = None,
        *,
        forwards: bool = True,
    ) -> None:
        """Prepare; *topic_name* gives a topic's name or pattern, if there are several inputs.

        Without *forwards* the records of a batch are counted elsewhere: a judge has none.
        """
        self._topic_name = topic_name
        self._forwards = forwards
        self.process, self._metrics = process, process.metrics
        self._destinations, self._retention = destinations, retention
        self._showcase = showcase or Showcase()
        self._indexes: dict[Index, tuple[int, ...]] = {}  # by index: the figures of `_TOTALS`
        self._usages: dict[Index, Usage] = {}
        self._changelogs: dict[str, tuple[int, int]] = {}
        """By changelog: its first offset, and the number of records that are not needed."""
        self._faults: dict[str, set[str]] = {}  # by fault: the changelogs that have it

    def moved(self, moved: Moved, applied: Applied) -> None:
        """Count a batch, after its commit and its write to the index."""
        judgement, records = moved.decided.judgement, moved.decided.prepared.records
        name = self._topic_name
        self.process.committed(records)
        outcomes = moved.decided.outcomes if self._forwards else ()
        report = BatchReport.of(
            outcomes,
            by_topic={} if name is None else by_topic(records, moved.decided.outcomes, name),
            counts=[judgement.counts] if judgement else (),
            produced=self._by_destination(moved),
            consumed_bytes=sum(len(record.value or b"") for record in records),
            changelog_bytes=sum(map(len, moved.changelog)),
            applied=applied,
            forgotten=moved.decided.forgotten,
            ages_seconds=self._ages(records if self._forwards else ()),
        )
        self._metrics.batch(report)
        self._metrics.stages(moved.stages)
        ended, counted = self.process.clock.wall_milliseconds() / 1000, report.verdicts
        self._metrics.spans.append(BatchSpan(ended, len(records), counted, moved.stages))
        if not self._forwards:
            return
        prepared = moved.decided.prepared
        ids, rows = prepared.batch.ids, prepared.rows
        self._showcase.batch(
            records, moved.decided.outcomes, lambda row: ids[bisect_left(rows, row)]
        )

    def audited(self, found: Round) -> None:
        self._metrics.audited(found)

    def _by_destination(self, moved: Moved) -> dict[str, int]:
        counts = Counter[str](changelog=len(moved.changelog))
        leaving = moved.leaving if self._forwards else ()
        for topic, records in Counter(map(attrgetter("topic"), leaving)).items():
            counts[self._destinations.role_of(topic)] += records
        return counts

    def _ages(self, records: Sequence[Record]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        stamps = np.array([r.timestamp for r in records if r.timestamp > 0], np.float64)
        return (self.process.clock.wall_milliseconds() - stamps) / 1000

    def holding(self, index: Index) -> None:
        progress = index.progress
        held = len(index), len(index.windows)
        self._indexes[index] = (*held, progress.horizon, progress.changelog_offset)
        self._show_totals()

    def closed(self, index: Index) -> None:
        self._usages.pop(index, None)
        if self._indexes.pop(index, None) is not None:
            self._show_totals()

    def _show_totals(self) -> None:
        sums = map(sum, zip((0,) * len(_TOTALS), *self._indexes.values(), strict=True))
        totals = dict(zip(_TOTALS, sums, strict=True))
        self._metrics.set(**totals)
        self.process.health.report(documents=totals["index_documents"])

    def occupying(self, index: Index, usage: Usage) -> None:
        """Show the disk space that an index takes, and the free space."""
        self.holding(index)
        self._usages[index] = usage
        usages = list(self._usages.values())
        properties: Counter[str] = Counter()
        for each in usages:
            properties.update(each.properties)
        figures = properties | {name: worst(name, usages) for name in _WORST}
        stamps = [each.oldest for each in usages if each.oldest > 0]
        self._metrics.set(
            index_bytes=sum(each.index for each in usages),
            index_expected_bytes=sum(starmap(self._expected, self._usages.items())),
            disk_free_bytes=usage.free,
            index_oldest_timestamp_seconds=min(stamps, default=nan) / 1000,
            **{f"rocksdb_{name}": figures.get(name, nan) for name, _ in ROCKSDB},
        )

    def trimmed(self, changelog: str, start: int | None, needed: int = 0) -> None:
        """Show a changelog's *start* (None: not ours any more), and what its index needs."""
        if start is None:
            self._changelogs.pop(changelog, None)
        else:
            self._changelogs[changelog] = start, max(0, needed - start)
        known = self._changelogs.values()
        start_, surplus = map(sum, zip(*known, strict=True)) if known else (nan, nan)
        self._metrics.set(changelog_start_offset=start_, changelog_surplus_records=surplus)

    def changelog_fault(self, fault: str, changelog: str, *, there: bool) -> None:
        """Show whether a *changelog* cannot restore its index (`catalogue.CHANGELOG_FAULTS`)."""
        known = self._faults.setdefault(fault, set())
        (known.add if there else known.discard)(changelog)
        self._metrics.set(fault, changelog_faults=len(known))

    def _expected(self, index: Index, usage: Usage) -> float:
        progress = index.progress
        known = usage.oldest > 0 and progress.highest_timestamp > 0
        return expected_bytes(
            usage.index,
            self._retention,
            judged=progress.next_ordinal - progress.horizon,
            age=progress.highest_timestamp - usage.oldest if known else nan,
        )

    def identified(self, index_id: str, scheme: str) -> None:
        self.process.health.report(index_id=index_id, scheme=scheme)


def worst(name: str, usages: Sequence[Usage]) -> float:
    """Return the worst value of a property of `_WORST`; NaN: no index has it yet."""
    found = [each.properties[name] for each in usages if name in each.properties]
    return _WORST[name](found) if found else nan
