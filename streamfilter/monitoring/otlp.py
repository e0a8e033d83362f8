"""Sends the metrics and a span for each batch by OTLP over HTTP: the only user of OpenTelemetry.

A thread of its own sends. The filter's loop only appends to a bounded queue, so an endpoint that is
away, slow or hostile costs spans and nothing else. Headers, certificates and time limits are
OpenTelemetry's own variables, such as ``OTEL_EXPORTER_OTLP_HEADERS``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from itertools import groupby
from math import isnan
from typing import Any

import numpy as np
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import export as otel
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags
from requests import RequestException, Response, Session
from requests.exceptions import InvalidHeader

import streamfilter
from streamfilter.monitoring.batch_report import BatchSpan
from streamfilter.monitoring.exposition import Family
from streamfilter.monitoring.metrics import Metrics
from streamfilter.process.health import instance

EVERY_SECONDS = 15.0
SPANS_MAX = 2_048  # that wait; the newest stay. At 136 batches a second none is lost
PAUSE_MAX_SECONDS = 600.0  # the longest pause that an endpoint may ask for
LAST_SECONDS = 2.0  # how long the end of the process waits for the last export
CUMULATIVE = otel.AggregationTemporality.CUMULATIVE
SCOPE = InstrumentationScope("streamfilter", streamfilter.__version__)

logger = logging.getLogger("streamfilter.otel")


class Telemetry(logging.Handler):
    """Sends metrics and spans while it is entered; it logs once what the exporters log often."""

    def __init__(self, endpoint: str, metrics: Metrics, group: str) -> None:
        """Prepare to send *metrics* to the base address *endpoint*."""
        super().__init__()
        exporters = logging.getLogger("opentelemetry")
        exporters.propagate = False  # they log a malformed header with its secret
        exporters.handlers = [self]
        self._heard: list[str] = []  # why an attempt failed: the first line has the cause
        self._failing: set[str] = set()
        self._metrics, self._began = metrics, time.time_ns()
        ours = {
            "service.name": "streamfilter",
            "service.version": streamfilter.__version__,
            "service.instance.id": instance(),
            "messaging.consumer.group.name": group,
        }
        self._resource = Resource(ours).merge(OTELResourceDetector().detect())
        base, self._session = endpoint.rstrip("/"), _Connection(self._heard.append)
        self._of_metrics = OTLPMetricExporter(f"{base}/v1/metrics", session=self._session)
        self._of_spans = OTLPSpanExporter(f"{base}/v1/traces", session=self._session)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otel", daemon=True)

    def __enter__(self) -> Telemetry:
        self._metrics.spans = deque(maxlen=SPANS_MAX)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Send once more, if that is quick. A thread that hangs ends with the process."""
        self._stop.set()
        self._thread.join(LAST_SECONDS)

    def emit(self, record: logging.LogRecord) -> None:
        self._heard.append(record.getMessage())

    def _run(self) -> None:
        ending = False
        while not ending:
            ending = self._stop.wait(EVERY_SECONDS)
            if not self._session.pause():
                self._attempt("metrics", self._send_metrics)
            # An attempt without any spans would say that they arrive again.
            if self._metrics.spans and not self._session.pause():
                self._attempt("spans", self._send_spans)

    def _attempt(self, what: str, send: Callable[[], bool]) -> None:
        """Send; log the first failure of a row with its reason, and the end of the row."""
        self._heard.clear()
        try:
            sent = send()
        except Exception as error:  # whatever it is, the thread goes on
            sent, self._heard = False, [repr(error)]
        if not sent and what not in self._failing:
            self._failing.add(what)
            why, pause = next(iter(self._heard), "no reason given"), self._session.pause()
            again = f"in {pause:.0f} s" if pause else f"every {EVERY_SECONDS:g} s"
            logger.warning("otel.endpoint gets no %s, and is tried again %s: %s", what, again, why)
        elif sent and what in self._failing:
            self._failing.remove(what)
            logger.info("otel.endpoint gets %s again", what)

    def _send_metrics(self) -> bool:
        now = time.time_ns()
        found = (_metric(each, self._began, now) for each in self._metrics.collected())
        metrics = [each for each in found if each.data.data_points]
        of_scope = otel.ResourceMetrics(self._resource, [otel.ScopeMetrics(SCOPE, metrics, "")], "")
        sent = self._of_metrics.export(otel.MetricsData([of_scope]))
        return sent is otel.MetricExportResult.SUCCESS

    def _send_spans(self) -> bool:
        """Send the batches that wait; those of a failure are lost."""
        waiting = self._metrics.spans
        spans = [self._span(waiting.popleft()) for _ in range(len(waiting))]
        return bool(self._of_spans.export(spans).name == "SUCCESS")

    def _span(self, batch: BatchSpan) -> ReadableSpan:
        ids, flags = RandomIdGenerator(), TraceFlags(TraceFlags.SAMPLED)
        ended = round(batch.ended * 1e9)
        documents = {f"streamfilter.documents.{v}": count for v, count in batch.verdicts.items()}
        seconds = {f"streamfilter.seconds.{stage}": each for stage, each in batch.stages.items()}
        return ReadableSpan(
            "batch",
            SpanContext(ids.generate_trace_id(), ids.generate_span_id(), False, flags),
            resource=self._resource,
            attributes={"streamfilter.records": batch.records, **documents, **seconds},
            start_time=ended - round(sum(batch.stages.values()) * 1e9),
            end_time=ended,
            instrumentation_scope=SCOPE,
        )


class _Connection(Session):  # type: ignore[misc]  # requests has no types
    """Sends the requests of both exporters, and notes why one failed, and until when to pause.

    An exporter waits for ``Retry-After`` within the time of one attempt only. So a longer pause is
    kept here, for both: spans wait meanwhile, and metrics are sums that lose nothing.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note
        self._until = 0.0

    def pause(self) -> float:
        """Return how many seconds the endpoint does not want to be asked; 0: it may be asked."""
        return max(0.0, self._until - time.monotonic())

    def request(self, *address: Any, **settings: Any) -> Response:
        # Said here, as REQUESTS_CA_BUNDLE otherwise wins over OTEL_EXPORTER_OTLP_CERTIFICATE. The
        # body of an answer is not read: it may have no end.
        settings = {"verify": self.verify, "stream": True} | settings
        try:
            answer = super().request(*address, **settings)
            if answer.is_redirect:  # the exporters take it for a success
                raise RequestException(f"it redirects to {answer.headers['Location']}")
        except InvalidHeader:  # its text has the header's value, a secret
            self._note("OTEL_EXPORTER_OTLP_HEADERS has a line break or leading blank in a value")
            raise
        except RequestException as error:
            self._note(str(error))
            raise
        if not answer.ok:
            later = answer.headers.get("Retry-After")
            asked = f", Retry-After: {later}" if later else ""
            self._until = time.monotonic() + min(_seconds(later or ""), PAUSE_MAX_SECONDS)
            self._note(f"{answer.status_code} {answer.reason}{asked}")
        return answer


def _seconds(later: str) -> float:
    """Return the seconds that a header ``Retry-After`` asks for, as a number or as a date."""
    if later.isdecimal():
        return float(later)
    try:
        return parsedate_to_datetime(later).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0  # none, or no such time


def _metric(family: Family, began: int, now: int) -> otel.Metric:
    """Return *family* under the name that it has in a scrape; unknown values are left out."""
    name, points = family.name, list[otel.NumberDataPoint]()
    if family.type == "histogram":
        histogram = otel.Histogram(list(_histograms(family, began, now)), CUMULATIVE)
        return otel.Metric(name, family.documentation, "", histogram)
    for each in family.samples:
        name = each.name
        if not isnan(each.value):
            points.append(otel.NumberDataPoint(each.labels, began, now, each.value))
    counter = family.type == "counter"
    data = otel.Sum(points, CUMULATIVE, is_monotonic=True) if counter else otel.Gauge(points)
    return otel.Metric(name, family.documentation, "", data)


def _histograms(family: Family, began: int, now: int) -> Iterator[otel.HistogramDataPoint]:
    """Yield a point for each label: buckets "≤ 1: 2, ≤ 2: 5, all: 6" become the counts 2, 3, 1."""

    def labels(sample: Any) -> dict[str, str]:
        return {name: value for name, value in sample.labels.items() if name != "le"}

    for named, samples in groupby(family.samples, labels):
        *buckets, count, total = samples
        counts = np.diff([0, *(each.value for each in buckets)]).astype(int).tolist()
        edges = [float(each.labels["le"]) for each in buckets[:-1]]
        point: Any = otel.HistogramDataPoint  # it is typed without the None of unknown extremes
        yield point(named, began, now, int(count.value), total.value, counts, edges, None, None)
