"""The metrics: plain numbers under one lock, updated once per batch, exported at a scrape.

prometheus-client costs microseconds a call and locks each metric separately. A scrape could then
see a record without its verdict. Here one call counts a whole batch, and histograms add arrays at
once. A scrape sees all of a batch or nothing: consumed always equals the sum of the verdicts.
"""

from __future__ import annotations

import math
import platform
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import streamfilter
from streamfilter.entities.held_out import NO_POOLS, valid_share
from streamfilter.matching.verdict.counts import Counts
from streamfilter.model import Verdict
from streamfilter.monitoring.batch_report import BatchReport
from streamfilter.monitoring.catalogue import (
    CATALOGUE,
    INPUT_TOPICS,
    PAUSES,
    ROCKSDB,
    SIMILARITIES,
    VERIFICATIONS,
    WITHHELD,
    Metric,
    MetricKind,
)
from streamfilter.monitoring.exposition import Exposition, Family, Histogram, Key, Series
from streamfilter.monitoring.index_totals import IndexTotals
from streamfilter.process.health import Cause, Health, State
from streamfilter.quality.live.audit_sample import DOUBTS, doubts_of
from streamfilter.quality.live.audit_scan import Round
from streamfilter.quality.live.figures import RECORDS, SAMPLED, Figure, Quality
from streamfilter.similarity.estimators import Estimate
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.text.boilerplate import LEFT, table_of

Values = NDArray[np.float64]

__all__ = ["BatchReport", "Metrics"]


class Metrics:
    """All metrics of one process, with a registry of its own."""

    def __init__(
        self,
        health: Health | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Create every series; each scrape reads the state from *health*.

        Args:
            health: the health of the process.
            clock: a monotonic clock, for the time of activities.
            wall: Unix time, for the age of waiting records.
        """
        self._lock = threading.Lock()
        self._health = health
        self._clock, self._wall = clock, wall
        self._lapped = clock()
        self._waiting: float | None = None
        """Unix time since which the partition with the greatest lag waits."""
        self._shadow = False
        self._quality = Quality()
        self._held_out = NO_POOLS
        self._infos: dict[str, tuple[str, ...]] = {}
        self._numbers: dict[Key, float] = {}
        self._histograms: dict[Key, Histogram] = {}
        for metric in CATALOGUE:
            for value in metric.values or ("",):
                self._create(metric, value)
        self._infos["build_info"] = (streamfilter.__version__, platform.python_version())
        self._exposition = Exposition(self.families)

    def _create(self, metric: Metric, value: str) -> None:
        if metric.kind is MetricKind.HISTOGRAM:
            self._histograms[metric.name, value] = Histogram(metric.buckets)
        elif metric.kind is not MetricKind.INFO:
            start = math.nan if metric.kind is MetricKind.UNKNOWN_GAUGE else 0.0
            self._numbers[metric.name, value] = start

    def _add(self, name: str, amount: float, value: str = "") -> None:
        self._numbers[name, value] += amount  # KeyError: the series is not declared

    def _add_each(self, name: str, amounts: Mapping[Any, int]) -> None:
        for value, amount in amounts.items():
            self._add(name, amount, value)

    def _observe(self, name: str, values: Values, value: str = "") -> None:
        if len(values):
            self._histograms[name, value].observe(np.asarray(values, np.float64))

    def describe(
        self,
        scheme: Scheme,
        *,
        threshold: float,
        mode: str = "divert",
        duplicates_mode: str = "annotate",
        on_sets: bool = True,
    ) -> None:
        """Export the index scheme, and where duplicates go (`config.sections.Output`).

        *on_sets*: near-duplicates are verified on their sets (`MatchPolicy.on_sets`).
        """
        shape = (scheme.fingerprint, scheme.slots, scheme.bands, scheme.rows, f"{threshold:g}")
        with self._lock:
            self._infos["scheme_info"] = tuple(map(str, shape))
            self._infos["output_info"] = (mode, duplicates_mode)
            if digest := scheme.normalisation.boilerplate:
                shares = zip(LEFT, table_of(digest).sample.shares, strict=True)
                for left, share in shares:
                    self._numbers["boilerplate_sample_share", left] = share
            self._shadow = mode == "shadow"
            # Records become candidates by equal fields: there is no curve of probabilities.
            self._quality.exact = on_sets
            sampled = SAMPLED if scheme.shingling.sample_modulus > 1 else ""
            self._quality.blind = RECORDS if scheme.fields else sampled

    def batch(self, report: BatchReport) -> None:
        """Count one batch, after its commit; a scrape sees all of it or nothing."""
        records = sum(report.verdicts.values())
        with self._lock:
            self._add("records_consumed_total", records)
            self._add("consumed_bytes_total", report.consumed_bytes)
            self._add("changelog_bytes_total", report.changelog_bytes)
            self._add_each("documents_total", report.verdicts)
            self._add_each("passthrough_total", report.passthrough)
            self._add_each("dropped_total", report.dropped)
            self._add_each("dead_letters_total", report.dead_letters)
            self._add_each("records_produced_total", report.produced)
            self._judge_quality(report)
            self._add("longer_keys_total", report.applied.longer)
            self._add("bucket_overflows_total", report.applied.overflows)
            self._add("faintly_listed_documents_total", report.applied.faint)
            self._add("unlisted_documents_total", report.applied.unlisted)
            self._add("expired_documents_total", report.applied.expired)
            forgotten = report.forgotten.own + report.applied.removed
            self._add("forgotten_documents_total", forgotten)
            self._add("unknown_tombstones_total", report.forgotten.unknown)
            self._add("updates_total", report.forgotten.updates)
            self._add("same_id_duplicates_total", report.same_id)
            self._observe("batch_documents", np.array([records], np.float64))
            if report.ages_seconds is not None:
                self._observe("end_to_end_seconds", np.maximum(report.ages_seconds, 0.0))
            for counts in report.counts:
                self._judged(counts)

    def _judge_quality(self, report: BatchReport) -> None:
        if self._shadow:
            verdicts = report.verdicts
            self._add_each("shadow_withheld_total", {v: verdicts.get(v, 0) for v in WITHHELD})
        self._add("matches_total", len(report.matched))
        self._add("false_positive_probability_sum_total", report.wrong)

    def audited(self, found: Round) -> None:
        """Count a round of the audit, and export the figures of the latest rounds."""
        with self._lock:
            self._add("audit_arrivals_total", len(found.hashes))
            self._add("audit_comparisons_total", found.comparisons)
            self._add_each("audit_results_total", found.results)
            self._add_each("audit_missed_total", found.by_cause)
            self._reliability(found)
            self._quality.audited(found)
            window = self._quality.window()
            self._show("audit_recall", window.recall())
            self._show("audit_recall_equal", window.recall_equal())
            self._show("audit_precision", window.precision())
            for figure, watch in self._quality.changes.items():
                score = math.nan if watch.share is None else watch.share
                self._numbers["audit_change_score", figure] = score
                self._numbers["audit_changes_total", figure] = watch.changes

    def _reliability(self, found: Round) -> None:
        """Count how often near-duplicates were wrong, by their stated probability of it."""
        known = found.doubting
        doubts, wrong = found.doubts[known], found.named[known] == 0
        ranges = doubts_of(doubts)
        for name, weights in (("verdicts", None), ("told", doubts), ("wrong", wrong)):
            sums = np.bincount(ranges, weights, minlength=len(DOUBTS)).tolist()
            for edge, amount in zip(DOUBTS, sums, strict=True):
                self._add(f"reliability_{name}_total", amount, f"{edge:g}")

    def _show(self, name: str, figure: Figure | Estimate) -> None:
        """Export a figure; an unknown bound is NaN, not its last value."""
        ends = {"": figure.value, "_lower": figure.lower, "_upper": figure.upper}
        for end, number in ends.items():
            self._numbers[name + end, ""] = math.nan if number is None else number

    def _judged(self, counts: Counts) -> None:
        self._add("candidates_total", int(counts.candidates.sum()))
        self._observe("candidates_per_document", counts.candidates.astype(np.float64))
        self._observe("candidate_similarity", counts.confirmed, "confirmed")
        self._observe("candidate_similarity", counts.rejected, "rejected")
        verified = {"confirmed": len(counts.confirmed), "rejected": len(counts.rejected)}
        others = {
            "skipped": counts.skipped, "missing": counts.missing, "differs": counts.differing,
            "too_old": counts.too_old,
        }  # fmt: skip
        self._add_each("verifications_total", verified | others)
        self._add_each("boilerplate_documents_total", counts.left)
        self._held_out += counts.held_out
        for name, pool in counts.held_out.pools.items():
            self._add("held_out_pairs_total", pool.pairs, name)
            self._add("held_out_difference_total", pool.total, name)
        self._show("held_out_valid_share", valid_share(self._held_out) or Figure())

    def stages(self, seconds: Mapping[str, float]) -> None:
        """Observe one batch's time in each of `catalogue.STAGES`."""
        with self._lock:
            for stage, duration in seconds.items():
                self._observe("stage_seconds", np.array([duration]), stage)

    def transaction(self, outcome: str, seconds: float, *, now: float | None = None) -> None:
        """Count a transaction (`catalogue.TRANSACTIONS`); *now* is its commit's Unix time."""
        with self._lock:
            self._add("transactions_total", 1, outcome)
            self._observe("transaction_seconds", np.array([seconds]))
            if now is not None:
                self._numbers["last_commit_timestamp_seconds", ""] = now

    def spent(self, activity: str) -> None:
        """Add the time since the last call to *activity* (`catalogue.ACTIVITIES`).

        An activity appears in a scrape only after it ends.
        """
        with self._lock:
            now = self._clock()
            self._add("activity_seconds_total", now - self._lapped, activity)
            self._lapped = now

    def lag(self, records: float, waiting_since: float | None) -> None:
        """Set the consumer lag in offsets, and since when (Unix time) records wait.

        NaN means unknown. The age is computed at each scrape, so that a stuck loop cannot freeze
        it.
        """
        with self._lock:
            self._numbers["consumer_lag_records", ""] = records
            self._waiting = waiting_since
            age = math.nan if records else 0.0
            self._numbers["consumer_lag_seconds", ""] = age

    def partitions(self, assigned: int, *, topics: tuple[int, int], **paused: int) -> None:
        """Set the number of partitions read, and how many of them are paused, by reason.

        *topics* are several topics by state (`catalogue.INPUT_TOPICS`).
        """
        with self._lock:
            for state, count in zip(INPUT_TOPICS, topics, strict=True):
                self._numbers["input_topics", state] = count
            self._numbers["assigned_partitions", ""] = assigned
            for reason in PAUSES:
                self._numbers["paused_partitions", reason] = paused.get(reason, 0)

    def rebalance(self, event: str) -> None:
        """Count a change of ownership (`catalogue.REBALANCES`)."""
        with self._lock:
            self._add("rebalances_total", 1, event)

    def stalled(self, cause: Cause) -> None:
        """Count that the process stopped being live."""
        with self._lock:
            self._add("stalls_total", 1, cause)

    def restoring(self, remaining: int) -> None:
        """Set the number of changelog records still to be applied."""
        self._set(restore_remaining_records=remaining)

    def index(self, held: IndexTotals) -> None:
        """Set how many documents all indexes of the process hold, and their position."""
        self._set(
            index_documents=held.documents,
            index_windows=held.windows,
            index_horizon_documents=held.horizon,
            changelog_offset=held.changelog_offset,
        )

    def changelog(self, start: float, surplus: float) -> None:
        """Set the start offset and the surplus records of all changelogs; NaN if unknown."""
        self._set(changelog_start_offset=start, changelog_surplus_records=surplus)

    def changelog_faults(self, fault: str, count: int) -> None:
        """Set the number of changelogs with this *fault*."""
        with self._lock:
            self._numbers["changelog_faults", fault] = count

    def occupied(
        self,
        bytes: int,
        *,
        expected: float,
        free: int,
        oldest: float,
        properties: Mapping[str, float],
    ) -> None:
        """Set the disk usage of the indexes.

        Args:
            bytes: On disk, now.
            expected: Once their retention is reached, or NaN.
            free: Left on the file system.
            oldest: A Unix time, or NaN.
            properties: RocksDB's.
        """
        known = {f"rocksdb_{name}": properties.get(name, math.nan) for name, _ in ROCKSDB}
        self._set(
            index_bytes=bytes,
            index_expected_bytes=expected,
            disk_free_bytes=free,
            index_oldest_timestamp_seconds=oldest,
            **known,
        )

    def kafka(self, client: str, added: Mapping[str, float], levels: Mapping[str, float]) -> None:
        """Add librdkafka's statistics of one role: growth of counters, and gauges."""
        with self._lock:
            for name, amount in added.items():
                self._add(f"kafka_{name}_total", amount, client)
            for name, level in levels.items():
                self._numbers[f"kafka_{name}", client] = level

    def _set(self, **numbers: float) -> None:
        with self._lock:
            for name, number in numbers.items():
                self._numbers[name, ""] = number

    def value(self, name: str, label: str = "") -> float:
        """Return one counter or gauge by its name without prefix; for the live table and tests."""
        with self._lock:
            return self._numbers[name, label]

    def verdicts(self) -> dict[str, int]:
        """Return the number of records since the start by verdict, at one moment."""
        with self._lock:
            return {v.value: int(self._numbers["documents_total", v]) for v in Verdict}

    def quality(self) -> dict[str, Any]:
        """Return the quality figures for ``/status``."""
        with self._lock:
            listed = {
                name: int(self._numbers[f"{name}_total", ""])
                for name in ("faintly_listed_documents", "unlisted_documents")
            }
            left = {each: int(self._numbers["boilerplate_documents_total", each]) for each in LEFT}
            return self._quality.as_dict() | listed | {"boilerplate_left": left}

    def similarities(self) -> dict[str, list[float]]:
        """Return the histogram of verified similarities: upper edges and counts."""
        with self._lock:
            held = {o: self._histograms["candidate_similarity", o] for o in VERIFICATIONS[:2]}
            counted = {outcome: each.counts[:-1].tolist() for outcome, each in held.items()}
        return {"edges": list(SIMILARITIES), **counted}

    def families(self) -> list[Family]:
        """Return all metrics of one moment."""
        state = self._health.status.state if self._health else State.STARTING
        with self._lock:
            for each in State:
                self._numbers["state", each] = float(each is state)
            if self._waiting is not None and self._numbers["consumer_lag_records", ""] > 0:
                age = max(0.0, self._wall() - self._waiting)
                self._numbers["consumer_lag_seconds", ""] = age
            return Series(self._numbers, self._histograms, self._infos).families()

    def expose(self, accept: str = "") -> tuple[str, bytes]:
        """Return (content type, body) of a scrape in the format that *accept* asks for."""
        return self._exposition.text(accept)
