"""Turns plain numbers into a scrape: the only module that uses prometheus-client.

prometheus-client's own metrics cost microseconds a call, and each series has its own lock. Here its
objects are created only at a scrape, from numbers of one moment.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import nan
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

from streamfilter.monitoring.catalogue import CATALOGUE, TOPIC, Metric, MetricKind
from streamfilter.quality.live.figures import Figure
from streamfilter.similarity.estimators import Estimate

__all__ = ["Exposition", "Family", "Histogram", "Series"]

Values = NDArray[np.float64]
Key = tuple[str, str]  # (metric's name without prefix, value of its label or the empty string)


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


class Series:
    """All series of a process, each with its value; the caller holds a lock."""

    def __init__(self) -> None:
        self.numbers: dict[Key, float] = {}
        self.histograms: dict[Key, Histogram] = {}
        self.infos: dict[str, Sequence[str]] = {}  # label values of the INFO metrics that are known
        self._topics: tuple[str, ...] = ()
        for metric in CATALOGUE:
            if metric.label == TOPIC:
                continue  # see `read`
            for key in ((metric.name, value) for value in metric.values or ("",)):
                if metric.kind is MetricKind.HISTOGRAM:
                    self.histograms[key] = Histogram(metric.buckets)
                elif metric.kind is not MetricKind.INFO:
                    self.numbers[key] = nan if metric.kind is MetricKind.UNKNOWN_GAUGE else 0.0

    def read(self, topics: tuple[str, ...]) -> None:
        """Create the counters by topic; *topics* are names and patterns, none for one topic."""
        self._topics = topics
        named = [metric.name for metric in CATALOGUE if metric.label == TOPIC]
        self.numbers |= {(name, topic): 0.0 for name in named for topic in topics}

    def add(self, name: str, amount: float, value: str = "") -> None:
        """Add *amount* to a counter; a KeyError: the series is not declared."""
        self.numbers[name, value] += amount

    def add_each(self, name: str, amounts: Mapping[Any, float]) -> None:
        for value, amount in amounts.items():
            self.add(name, amount, value)

    def show(self, name: str, figure: Figure | Estimate) -> None:
        """Set a figure and its bounds; an unknown one is NaN, not its last value."""
        ends = {"": figure.value, "_lower": figure.lower, "_upper": figure.upper}
        for end, number in ends.items():
            self.numbers[name + end, ""] = nan if number is None else number

    def observe(self, name: str, values: NDArray[Any], value: str = "") -> None:
        if len(values):
            self.histograms[name, value].observe(np.asarray(values, np.float64))

    def families(self) -> list[Family]:
        """Return the metric families for prometheus-client, in the catalogue's order."""
        shown = (each for each in CATALOGUE if each.label != TOPIC or self._topics)
        return [self._family(metric) for metric in shown]

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
        for value in self._topics if metric.label == TOPIC else metric.values or ("",):
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
        yield from self._families()

    def text(self, accept: str = "") -> tuple[str, bytes]:
        """Return (content type, body) of a scrape in the format that *accept* asks for."""
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self.registry)
