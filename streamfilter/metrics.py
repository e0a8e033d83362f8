"""The metrics: plain numbers under one lock, fed once per batch, turned into series at a scrape.

prometheus-client costs microseconds a call and locks each metric by itself, so a scrape could
see a record counted whose verdict is not. Here one call counts a whole batch, arrays go into
histograms at once, and a scrape sees all of a batch or none of it: consumed = the sum of the
verdicts, always.
"""

from __future__ import annotations

import math
import platform
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

import streamfilter
from streamfilter.batch_report import BatchReport
from streamfilter.catalogue import CATALOGUE, Kind, Metric
from streamfilter.health import Health, State
from streamfilter.model import Verdict
from streamfilter.pipeline import Counts
from streamfilter.similarity.scheme import Scheme

Values = NDArray[np.float64]

__all__ = ["BatchReport", "Metrics"]


class _Histogram:
    """Bucket counts that take a whole array at once."""

    def __init__(self, edges: tuple[float, ...]) -> None:
        self.edges = np.array(edges)
        self.counts = np.zeros(len(edges) + 1, np.int64)
        self.sum = 0.0

    def observe(self, values: Values) -> None:
        """Add *values*; a bucket holds what is less than or equal to its edge."""
        places = np.searchsorted(self.edges, values, side="left")
        self.counts += np.bincount(places, minlength=len(self.counts))
        self.sum += float(values.sum())

    def buckets(self) -> list[tuple[str, float]]:
        """Return (upper edge, number at or below it), as the exposition wants it."""
        names = [*map(str, self.edges.tolist()), "+Inf"]
        return list(zip(names, np.cumsum(self.counts).tolist(), strict=True))


class Metrics:
    """All metrics of one process, with a registry of its own."""

    def __init__(self, health: Health | None = None) -> None:
        """Create every series; *health* is asked for the state at each scrape."""
        self._lock = threading.Lock()
        self._health = health
        self._infos: dict[str, tuple[str, ...]] = {}
        self._numbers: dict[tuple[str, str], float] = {}
        self._histograms: dict[tuple[str, str], _Histogram] = {}
        for metric in CATALOGUE:
            for value in metric.values or ("",):
                self._create(metric, value)
        self._infos["build_info"] = (streamfilter.__version__, platform.python_version())
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(_Scrape(self))
        ProcessCollector(registry=self.registry)

    def _create(self, metric: Metric, value: str) -> None:
        if metric.kind is Kind.HISTOGRAM:
            self._histograms[metric.name, value] = _Histogram(metric.buckets)
        elif metric.kind is not Kind.INFO:
            start = math.nan if metric.kind is Kind.UNKNOWN_GAUGE else 0.0
            self._numbers[metric.name, value] = start

    def _add(self, name: str, amount: float, value: str = "") -> None:
        self._numbers[name, value] += amount  # a KeyError is a series that was never declared

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
    ) -> None:
        """Export what shapes the index, and how duplicates leave (`config_sections.Output`)."""
        shape = (scheme.fingerprint, scheme.slots, scheme.bands, scheme.rows, f"{threshold:g}")
        with self._lock:
            self._infos["scheme_info"] = tuple(map(str, shape))
            self._infos["output_info"] = (mode, duplicates_mode)

    def batch(self, report: BatchReport) -> None:
        """Count one batch, after its commit: all of it in one scrape, or nothing."""
        records = sum(report.verdicts.values())
        with self._lock:
            self._add("records_consumed_total", records)
            self._add("consumed_bytes_total", report.consumed_bytes)
            self._add_each("documents_total", report.verdicts)
            self._add_each("passthrough_total", report.passthrough)
            self._add_each("dropped_total", report.dropped)
            self._add_each("dead_letters_total", report.dead_letters)
            self._add_each("records_produced_total", report.produced)
            self._add("matches_total", report.matches)
            self._add("false_positive_probability_sum_total", report.false_positive_probability)
            self._add("bucket_overflows_total", report.overflows)
            self._observe("batch_documents", np.array([records], np.float64))
            if report.ages_seconds is not None:
                self._observe("end_to_end_seconds", np.maximum(report.ages_seconds, 0.0))
            for counts in report.counts:
                self._judged(counts)

    def _judged(self, counts: Counts) -> None:
        self._add("candidates_total", int(counts.candidates.sum()))
        self._observe("candidates_per_document", counts.candidates.astype(np.float64))
        self._observe("candidate_similarity", counts.confirmed, "confirmed")
        self._observe("candidate_similarity", counts.rejected, "rejected")
        verified = {"confirmed": len(counts.confirmed), "rejected": len(counts.rejected)}
        others = {"skipped": counts.skipped, "missing": counts.missing}
        self._add_each("verifications_total", verified | others)

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

    def lag(self, records: int, seconds: float) -> None:
        """Set how far the input's end is ahead, in offsets and in age."""
        self._set(consumer_lag_records=records, consumer_lag_seconds=seconds)

    def partitions(self, assigned: int, *, disk: int = 0, dead_letters: int = 0) -> None:
        """Set the number of partitions read, and how many of them are paused, by reason."""
        with self._lock:
            self._numbers["assigned_partitions", ""] = assigned
            self._numbers["paused_partitions", "disk"] = disk
            self._numbers["paused_partitions", "dead_letters"] = dead_letters

    def rebalance(self, event: str) -> None:
        """Count a change of ownership (`catalogue.REBALANCES`)."""
        with self._lock:
            self._add("rebalances_total", 1, event)

    def restoring(self, remaining: int) -> None:
        """Set the changelog records still to be applied."""
        self._set(restore_remaining_records=remaining)

    def index(
        self,
        documents: int,
        *,
        bytes: int | None = None,
        changelog_offset: int | None = None,
        disk_free: int | None = None,
    ) -> None:
        """Set the index's size; what is None keeps its last value."""
        known = {"index_bytes": bytes, "changelog_offset": changelog_offset,
                 "disk_free_bytes": disk_free}  # fmt: skip
        measured = {name: value for name, value in known.items() if value is not None}
        self._set(index_documents=documents, **measured)

    def _set(self, **numbers: float) -> None:
        with self._lock:
            for name, number in numbers.items():
                self._numbers[name, ""] = number

    def value(self, name: str, label: str = "") -> float:
        """Return one counter or gauge by its name without prefix: for the live table, and tests."""
        with self._lock:
            return self._numbers[name, label]

    def verdicts(self) -> dict[str, int]:
        """Return the records since the start by verdict, from one moment."""
        with self._lock:
            return {v.value: int(self._numbers["documents_total", v]) for v in Verdict}

    def families(self) -> list[Family]:
        """Return everything as of one moment."""
        state = self._health.status.state if self._health else State.STARTING
        with self._lock:
            for each in State:
                self._numbers["state", each] = float(each is state)
            return [self._family(metric) for metric in CATALOGUE]

    def _family(self, metric: Metric) -> Family:
        labels = [metric.label] if metric.label else []
        if metric.kind is Kind.HISTOGRAM:
            histogram = HistogramMetricFamily(metric.full_name, metric.help, labels=labels)
            for value in metric.values or ("",):
                held = self._histograms[metric.name, value]
                histogram.add_metric([value] if labels else [], held.buckets(), held.sum)
            return histogram
        if metric.kind is Kind.INFO:
            info = GaugeMetricFamily(metric.full_name, metric.help, labels=metric.labels)
            if metric.name in self._infos:
                info.add_metric(self._infos[metric.name], 1)
            return info
        kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
        family = kind(metric.full_name, metric.help, labels=labels)
        for value in metric.values or ("",):
            family.add_metric([value] if labels else [], self._numbers[metric.name, value])
        return family

    def expose(self, accept: str = "") -> tuple[str, bytes]:
        """Return (content type, body) of a scrape in the format that *accept* asks for."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self.registry)


class _Scrape(Collector):
    """Hands the metrics to the registry."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Family]:
        """Yield all families of one moment."""
        yield from self._metrics.families()
