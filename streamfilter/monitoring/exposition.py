"""Turns plain numbers into a scrape: the only module that uses prometheus-client.

prometheus-client's own metrics cost microseconds a call, and each series has its own lock. Here its
objects are created only at a scrape, from numbers of one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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

from streamfilter.monitoring.catalogue import CATALOGUE, Metric, MetricKind

__all__ = ["Exposition", "Family", "Histogram", "Key", "Series"]

Values = NDArray[np.float64]
Key = tuple[str, str]
"""(metric's name without prefix, value of its label or the empty string)."""


class Histogram:
    """A histogram that adds a whole array at once."""

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
        """Return (upper edge, number at or below it), as the exposition format needs it."""
        names = [*map(str, self.edges.tolist()), "+Inf"]
        return list(zip(names, np.cumsum(self.counts).tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Series:
    """All series of one moment."""

    numbers: Mapping[Key, float]
    histograms: Mapping[Key, Histogram]
    infos: Mapping[str, Sequence[str]]
    """Label values of the INFO metrics that are known."""

    def families(self) -> list[Family]:
        """Return the metric families for prometheus-client, in the catalogue's order."""
        return [self._family(metric) for metric in CATALOGUE]

    def _family(self, metric: Metric) -> Family:
        labels = [metric.label] if metric.label else []
        if metric.kind is MetricKind.HISTOGRAM:
            histogram = HistogramMetricFamily(metric.full_name, metric.help, labels=labels)
            for value in metric.values or ("",):
                held = self.histograms[metric.name, value]
                histogram.add_metric([value] if labels else [], held.buckets(), held.sum)
            return histogram
        if metric.kind is MetricKind.INFO:
            info = GaugeMetricFamily(metric.full_name, metric.help, labels=metric.labels)
            if metric.name in self.infos:
                info.add_metric(self.infos[metric.name], 1)
            return info
        kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
        family = kind(metric.full_name, metric.help, labels=labels)
        for value in metric.values or ("",):
            family.add_metric([value] if labels else [], self.numbers[metric.name, value])
        return family


class Exposition(Collector):
    """Answers scrapes, including prometheus-client's metrics of the process."""

    def __init__(self, families: Callable[[], Sequence[Family]]) -> None:
        """Call *families* at each scrape for all metrics of one moment."""
        self._families = families
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def collect(self) -> Iterator[Family]:
        """Yield all families of one moment."""
        yield from self._families()

    def text(self, accept: str = "") -> tuple[str, bytes]:
        """Return (content type, body) of a scrape in the format that *accept* asks for."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self.registry)
