"""The metrics: plain numbers under one lock, updated once per batch, exported at a scrape.

prometheus-client costs microseconds a call and locks each metric separately. A scrape could then
see a record without its verdict. Here one call counts a whole batch, and histograms add arrays at
once. A scrape sees all of a batch or nothing: consumed always equals the sum of the verdicts.
"""

import math
import platform
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import streamfilter
from streamfilter.entities.held_out import NO_POOLS, valid_share
from streamfilter.matching.verdict.counts import Counts
from streamfilter.model import Verdict
from streamfilter.monitoring.batch_report import BatchReport, BatchSpan
from streamfilter.monitoring.catalogue import (
    IDLE_ACTIVITIES,
    INPUT_TOPICS,
    PAUSES,
    SIMILARITIES,
    VERIFICATIONS,
    WITHHELD,
)
from streamfilter.monitoring.exposition import Exposition, Family, Series
from streamfilter.process.health import Health, State
from streamfilter.quality.live.audit_sample import DOUBTS, doubts_of
from streamfilter.quality.live.audit_scan import Round
from streamfilter.quality.live.figures import SAMPLED, Figure, Quality
from streamfilter.similarity.scheme import Scheme
from streamfilter.similarity.text.boilerplate import LEFT, table_of

__all__ = ["BatchReport", "Metrics"]

BUSY_SECONDS = 15.0


class Metrics:
    """All metrics of one process, with a registry of its own."""

    def __init__(
        self,
        health: Health | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Create every series; *clock* is monotonic seconds, *wall* is Unix time."""
        self._lock = threading.Lock()
        self._series = Series()
        self._series.infos["build_info"] = (streamfilter.__version__, platform.python_version())
        self._numbers = self._series.numbers
        self._health = health
        self._clock, self._wall = clock, wall
        self._lapped = clock()
        self._judges = False
        self._elapsed = self._worked = 0.0  # seconds of the judge's loop since the last ratio
        self._waiting: float | None = None
        """Unix time since which the partition with the greatest lag waits."""
        self._shadow = False
        self._quality = Quality()
        self._held_out = NO_POOLS
        self._exposition = Exposition(self.families)
        self.spans: deque[BatchSpan] = deque(maxlen=0)
        """Batches that `otlp` sends; it has no room without an `otel.endpoint`."""

    def describe(
        self,
        scheme: Scheme,
        *,
        threshold: float,
        mode: str = "divert",
        duplicates_mode: str = "annotate",
        on_sets: bool = True,
        topics: tuple[str, ...] = (),
        role: str = "alone",
    ) -> None:
        """Export the index scheme, and where duplicates go (`OutputSection`).

        *on_sets*: near-duplicates are verified on their sets (`MatchPolicy.on_sets`). *topics*:
        the names and patterns of several inputs, counted by topic. *role*: of `catalogue.ROLES`.
        """
        shape = (scheme.fingerprint, scheme.slots, scheme.bands, scheme.rows, f"{threshold:g}")
        with self._lock:
            self._series.infos["scheme_info"] = tuple(map(str, shape))
            self._series.infos["output_info"] = (mode, duplicates_mode)
            if digest := scheme.normalisation.boilerplate:
                shares = zip(LEFT, table_of(digest).sample.shares, strict=True)
                for left, share in shares:
                    self._numbers["boilerplate_sample_share", left] = share
            self._series.read(topics)
            self._numbers["role", role] = 1.0
            self._judges = role == "judge"
            self._shadow = mode == "shadow"
            self._quality.exact = on_sets
            self._quality.blind = SAMPLED if scheme.shingling.sample_modulus > 1 else ""

    def batch(self, report: BatchReport) -> None:
        """Count one batch, after its commit; a scrape sees all of it or nothing."""
        records, applied = sum(report.verdicts.values()), report.applied
        series, forgotten = self._series, report.forgotten
        with self._lock:
            series.add("records_consumed_total", records)
            series.add("consumed_bytes_total", report.consumed_bytes)
            series.add("changelog_bytes_total", report.changelog_bytes)
            series.add_each("documents_total", report.verdicts)
            series.add_each("passthrough_total", report.passthrough)
            series.add_each("dropped_total", report.dropped)
            series.add_each("dead_letters_total", report.dead_letters)
            series.add_each("records_produced_total", report.produced)
            for name, amounts in report.by_topic.items():
                series.add_each(name, amounts)
            if self._shadow:
                withheld = {verdict: report.verdicts.get(verdict, 0) for verdict in WITHHELD}
                series.add_each("shadow_withheld_total", withheld)
            series.add("matches_total", len(report.matched))
            series.add("false_positive_probability_sum_total", report.wrong)
            series.add("longer_keys_total", applied.longer)
            series.add("bucket_overflows_total", applied.overflows)
            series.add("faintly_listed_documents_total", applied.faint)
            series.add("unlisted_documents_total", applied.unlisted)
            series.add("expired_documents_total", applied.expired)
            series.add("forgotten_documents_total", forgotten.own + applied.removed)
            series.add("unknown_tombstones_total", forgotten.unknown)
            series.add("updates_total", forgotten.updates)
            series.add("same_id_duplicates_total", report.same_id)
            series.add("same_field_duplicates_total", report.same_field)
            series.observe("batch_documents", np.array([records]))
            if report.ages_seconds is not None:
                series.observe("end_to_end_seconds", np.maximum(report.ages_seconds, 0.0))
            for counts in report.counts:
                self._judged(counts)

    def _judged(self, counts: Counts) -> None:
        series = self._series
        series.add("candidates_total", int(counts.candidates.sum()))
        series.observe("candidates_per_document", counts.candidates)
        series.observe("candidate_similarity", counts.confirmed, "confirmed")
        series.observe("candidate_similarity", counts.rejected, "rejected")
        verified = {"confirmed": len(counts.confirmed), "rejected": len(counts.rejected)}
        others = {
            "skipped": counts.skipped, "missing": counts.missing, "differs": counts.differing,
            "too_old": counts.too_old,
        }  # fmt: skip
        series.add_each("verifications_total", verified | others)
        series.add_each("boilerplate_documents_total", counts.left)
        self._held_out += counts.held_out
        for name, pool in counts.held_out.pools.items():
            series.add("held_out_pairs_total", pool.pairs, name)
            series.add("held_out_difference_total", pool.total, name)
        series.show("held_out_valid_share", valid_share(self._held_out) or Figure())

    def audited(self, found: Round) -> None:
        """Count a round of the audit, and export the figures of the latest rounds."""
        series = self._series
        with self._lock:
            series.add("audit_arrivals_total", len(found.hashes))
            series.add("audit_comparisons_total", found.comparisons)
            series.add_each("audit_results_total", found.results)
            series.add_each("audit_missed_total", found.by_cause)
            _add_reliability(series, found)
            self._quality.audited(found)
            window = self._quality.window()
            series.show("audit_recall", window.recall())
            series.show("audit_recall_equal", window.recall_equal())
            series.show("audit_precision", window.precision())
            for figure, watch in self._quality.changes.items():
                score = math.nan if watch.share is None else watch.share
                self._numbers["audit_change_score", figure] = score
                self._numbers["audit_changes_total", figure] = watch.changes

    def stages(self, seconds: Mapping[str, float]) -> None:
        """Observe one batch's time in each of `catalogue.STAGES`."""
        with self._lock:
            for stage, duration in seconds.items():
                self._series.observe("stage_seconds", np.array([duration]), stage)

    def transaction(self, outcome: str, seconds: float, *, now: float | None = None) -> None:
        """Count a transaction (`catalogue.TRANSACTIONS`); *now* is its commit's Unix time."""
        with self._lock:
            self._series.add("transactions_total", 1, outcome)
            self._series.observe("transaction_seconds", np.array([seconds]))
            if now is not None:
                self._numbers["last_commit_timestamp_seconds", ""] = now

    def spent(self, activity: str) -> None:
        """Add the time since the last call to *activity* (`catalogue.ACTIVITIES`).

        An activity appears in a scrape only after it ends.
        """
        with self._lock:
            now = self._clock()
            self._series.add("activity_seconds_total", now - self._lapped, activity)
            if self._judges:
                seconds = now - self._lapped
                self._elapsed += seconds
                self._worked += seconds if activity not in IDLE_ACTIVITIES else 0.0
                if self._elapsed >= BUSY_SECONDS:
                    self._numbers["judge_busy_ratio", ""] = self._worked / self._elapsed
                    self._elapsed = self._worked = 0.0
            self._lapped = now

    def lag(self, records: float, waiting_since: float | None) -> None:
        """Set the consumer lag in offsets (NaN: unknown), and since when (Unix time) records wait.

        The age is computed at each scrape, so that a stuck loop cannot freeze it.
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

    def count(self, name: str, label: str = "", *, by: int = 1) -> None:
        """Add to the counter *name*, such as ``stalls_total`` by its cause."""
        with self._lock:
            self._series.add(name, by, label)

    def set(self, label: str = "", /, **numbers: float) -> None:
        """Set gauges by their names; NaN: unknown."""
        with self._lock:
            for name, number in numbers.items():
                if (name, label) not in self._numbers:
                    raise KeyError(f"{name} {label} is not declared")
                self._numbers[name, label] = number

    def kafka(self, client: str, added: Mapping[str, float], levels: Mapping[str, float]) -> None:
        """Add librdkafka's statistics of one role: growth of counters, and gauges."""
        with self._lock:
            for name, amount in added.items():
                self._series.add(f"kafka_{name}_total", amount, client)
            for name, level in levels.items():
                self._numbers[f"kafka_{name}", client] = level

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
            held = {
                o: self._series.histograms["candidate_similarity", o] for o in VERIFICATIONS[:2]
            }
            counted = {outcome: each.counts[:-1].tolist() for outcome, each in held.items()}
        return {"edges": list(SIMILARITIES), **counted}

    def families(self) -> list[Family]:
        state = self._health.status.state if self._health else State.STARTING
        with self._lock:
            for each in State:
                self._numbers["state", each] = float(each is state)
            if self._waiting is not None and self._numbers["consumer_lag_records", ""] > 0:
                age = max(0.0, self._wall() - self._waiting)
                self._numbers["consumer_lag_seconds", ""] = age
            return self._series.families()

    def collected(self) -> list[Family]:
        """Return all families of a scrape, those of the process included."""
        return list(self._exposition.registry.collect())

    def expose(self, accept: str = "") -> tuple[str, bytes]:
        """Return (content type, body) of a scrape in the format that *accept* asks for."""
        return self._exposition.text(accept)


def _add_reliability(series: Series, found: Round) -> None:
    """Count how often near-duplicates were wrong, by their stated probability of it."""
    known = found.doubting
    doubts, wrong = found.doubts[known], found.named[known] == 0
    for name, weights in (("verdicts", None), ("told", doubts), ("wrong", wrong)):
        sums = np.bincount(doubts_of(doubts), weights, minlength=len(DOUBTS)).tolist()
        amounts = {f"{edge:g}": amount for edge, amount in zip(DOUBTS, sums, strict=True)}
        series.add_each(f"reliability_{name}_total", amounts)
