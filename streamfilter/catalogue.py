"""Every metric, declared once: name, kind, meaning, and all the label values it can ever have.

The series exist from the start (a counter that appears with its first error hides that error
from every ``rate``), and there can be no others: the number of series is known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from streamfilter.health import State
from streamfilter.model import ErrorCode, Reason, Verdict

PREFIX = "streamfilter_"

STAGES = ("poll", "read", "sketch", "judge", "produce", "commit", "apply")
"""The steps of one batch, in their order; ``judge`` probes, verifies and decides."""

DESTINATIONS = ("unique", "duplicates", "dead_letter", "changelog")
VERIFICATIONS = ("confirmed", "rejected", "skipped", "missing")
TRANSACTIONS = ("committed", "aborted", "fenced", "failed")
REBALANCES = ("assigned", "revoked", "lost")
PAUSES = ("disk", "dead_letters")


class Kind(StrEnum):
    """How a value behaves."""

    COUNTER = "counter"
    GAUGE = "gauge"
    UNKNOWN_GAUGE = "unknown gauge"
    """A gauge that is NaN until it was measured: a lag of 0 would be a lie."""
    HISTOGRAM = "histogram"
    INFO = "info"
    """A gauge that is always 1; its labels are the information."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; ``values`` are all values of its single label, or empty."""

    name: str
    kind: Kind
    help: str
    label: str = ""
    values: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    """Label names of an INFO metric."""

    @property
    def full_name(self) -> str:
        """Return the name as it is scraped."""
        return PREFIX + self.name


def _counter(name: str, help: str, label: str = "", values: tuple[str, ...] = ()) -> Metric:
    return Metric(name, Kind.COUNTER, help, label, values)


def _gauge(name: str, help: str, label: str = "", values: tuple[str, ...] = ()) -> Metric:
    return Metric(name, Kind.GAUGE, help, label, values)


def _unknown(name: str, help: str) -> Metric:
    return Metric(name, Kind.UNKNOWN_GAUGE, help)


def _histogram(
    name: str, help: str, buckets: tuple[float, ...], label: str = "", values: tuple[str, ...] = ()
) -> Metric:
    assert all(low < high for low, high in pairwise(buckets)), name
    return Metric(name, Kind.HISTOGRAM, help, label, values, buckets)


SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
AGES = (0.01, 0.03, 0.06, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0, 600.0, 3600.0)
COUNTS = (0.0, 1.0, 2.0, 5.0, 10.0, 50.0, 200.0)
SIMILARITIES = tuple(step / 20 for step in range(1, 21))
BATCHES = (1.0, 10.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0)

# fmt: off
# ruff: noqa: E501 (a table: one metric, one line)
CATALOGUE: tuple[Metric, ...] = (
    # flow: records_consumed = the sum of documents over all verdicts, in every scrape
    _counter("records_consumed_total", "Input records whose transaction was committed."),
    _counter("consumed_bytes_total", "Bytes of their values."),
    _counter("documents_total", "Input records by verdict.", "verdict", tuple(Verdict)),
    _counter("passthrough_total", "Records forwarded unjudged, by reason.", "reason", tuple(Reason)),
    _counter("dropped_total", "Records withheld unjudged by configuration, by reason.", "reason", tuple(Reason)),
    _counter("dead_letters_total", "Unreadable records by error code.", "code", tuple(ErrorCode)),
    _counter("records_produced_total", "Records written, by destination.", "destination", DESTINATIONS),
    # candidates and their verification
    _counter("candidates_total", "Earlier documents that share a band with a new one."),
    _histogram("candidates_per_document", "Candidates of one document; a rising tail means bands are too loose.", COUNTS),
    _counter("verifications_total", "Candidates by outcome; rejected = a false positive of the LSH step.", "outcome", VERIFICATIONS),
    _histogram("candidate_similarity", "Verified similarity of candidates.", SIMILARITIES, "outcome", VERIFICATIONS[:2]),
    _counter("matches_total", "Confirmed matches of documents that were withheld as near-duplicates."),
    _counter("false_positive_probability_sum_total", "Expected number of wrong duplicate verdicts."),
    _counter("bucket_overflows_total", "Documents counted but not listed in a full bucket: matches may be missed."),
    # time
    _histogram("batch_documents", "Records in a batch.", BATCHES),
    _histogram("stage_seconds", "Time of one batch in each stage.", SECONDS, "stage", STAGES),
    _histogram("end_to_end_seconds", "From a record's timestamp to its committed output.", AGES),
    # consumer and transactions
    _unknown("consumer_lag_records", "Offsets behind the end of the input, all partitions together."),
    _unknown("consumer_lag_seconds", "Age of the oldest record of the last batch; 0 when caught up."),
    _gauge("assigned_partitions", "Input partitions this process reads."),
    _gauge("paused_partitions", "Input partitions paused, by reason.", "reason", PAUSES),
    _counter("rebalances_total", "Ownership changes.", "event", REBALANCES),
    _unknown("last_commit_timestamp_seconds", "Unix time of the last committed transaction."),
    _counter("transactions_total", "Transactions by outcome.", "outcome", TRANSACTIONS),
    _histogram("transaction_seconds", "From begin to the commit's return.", SECONDS),
    # index
    _gauge("index_documents", "Documents in the index."),
    _unknown("index_bytes", "Bytes of the index on disk."),
    _unknown("changelog_offset", "Changelog offset the index has applied."),
    _gauge("restore_remaining_records", "Changelog records still to be applied before work starts."),
    _unknown("disk_free_bytes", "Free bytes on the index's disk."),
    # meta
    _gauge("state", "1 for what the process is doing now.", "state", tuple(State)),
    Metric("build_info", Kind.INFO, "Versions.", labels=("version", "python")),
    Metric("scheme_info", Kind.INFO, "What shapes the index.", labels=("scheme", "slots", "bands", "rows", "threshold")),
)
# fmt: on
