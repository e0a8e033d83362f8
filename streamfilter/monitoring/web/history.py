"""The last hour of the process as a bounded ring: traffic, lag, share of duplicates, recall.

The HTTP server's thread takes a sample every ten seconds, so a loop that is stuck leaves no gap. A
restarted process begins again; Prometheus keeps more.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from math import isnan, nan
from typing import Any

from msgspec import Struct

from streamfilter.model import DUPLICATES
from streamfilter.monitoring.metrics import Metrics

EVERY_SECONDS = 10.0
SAMPLES_MAX = 361  # one hour, with both of its ends
RATE_SECONDS, SPAN_SECONDS_MIN = 1.0, 5.0
"""Least time that makes a rate, and a point of a line: a short one shows only batches."""


class _Sample(Struct, frozen=True):
    """The counters and gauges at one time; NaN: unknown."""

    at: float  # monotonic seconds
    records: int
    duplicates: int
    lag: float
    recall: float


class History:
    """Samples of `Metrics`; filled by the server's thread, read by any thread."""

    def __init__(self, metrics: Metrics, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the first sample now, so that the first page already has a rate."""
        self._metrics, self._clock = metrics, clock
        self._lock = threading.Lock()
        self._ring: deque[_Sample] = deque([self._sample()], maxlen=SAMPLES_MAX)

    def look(self) -> None:
        """Add a sample if the last one is old enough; called many times a second."""
        if self._clock() - self._ring[-1].at < EVERY_SECONDS:
            return
        with self._lock:
            self._ring.append(self._sample())

    def as_dict(self) -> dict[str, Any]:
        """Return the lines for the page, oldest first. null: unknown, or nothing was read.

        A line has a value for each span between two samples; the last span ends now.
        Two samples with 100 and 300 records, 10 s apart: 20.0 records a second.
        """
        with self._lock:
            samples = list(self._ring)
        now = self._sample()
        rate = _rate(samples[-2:][0], now)
        if now.at - samples[-1].at >= (SPAN_SECONDS_MIN if samples[1:] else RATE_SECONDS):
            samples.append(now)
        spans = list(pairwise(samples))
        return {
            "records_a_second": rate,
            "seconds_ago": [round(now.at - end.at, 1) for _, end in spans],
            "rate": [_rate(*span) for span in spans],
            "duplicates": [_share(*span) for span in spans],
            "lag": [_known(end.lag) for _, end in spans],
            "recall": [_known(end.recall) for _, end in spans],
        }

    def _sample(self) -> _Sample:
        verdicts, value = self._metrics.verdicts(), self._metrics.value
        return _Sample(
            self._clock(),
            sum(verdicts.values()),
            sum(verdicts[each] for each in DUPLICATES),
            value("consumer_lag_records"),
            value("audit_recall"),
        )


def _rate(begin: _Sample, end: _Sample) -> float | None:
    """Return the records a second between two samples; None if they are too close."""
    seconds = end.at - begin.at
    return round((end.records - begin.records) / seconds, 1) if seconds >= RATE_SECONDS else None


def _share(begin: _Sample, end: _Sample) -> float | None:
    """Return the share of duplicates among the records between two samples."""
    records = end.records - begin.records
    return _known((end.duplicates - begin.duplicates) / records if records else nan)


def _known(number: float) -> float | None:
    return None if isnan(number) else round(number, 4)
