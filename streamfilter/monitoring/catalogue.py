"""All metrics, each declared once: name, kind, meaning, and all possible label values.

All series exist from the start, because ``rate`` misses the first error of a counter that appears
with it. No other series can appear, so the number of series is fixed.
"""

from enum import StrEnum
from functools import partial
from itertools import pairwise

from msgspec import Struct

from streamfilter.model import ErrorCode, Reason, Verdict
from streamfilter.process.health import Cause, State
from streamfilter.quality.live.audit_sample import DOUBTS
from streamfilter.quality.live.audit_scan import CAUSES
from streamfilter.quality.live.change import FIGURES
from streamfilter.similarity.text.boilerplate import LEFT

PREFIX = "streamfilter_"

STAGES = ("poll", "read", "sketch", "judge", "produce", "commit", "apply")
"""The steps of one batch, in order; ``judge`` looks up, verifies and decides."""

DESTINATIONS = ("unique", "duplicates", "dead_letter", "changelog")
DOUBT_LABELS = tuple(f"{edge:g}" for edge in DOUBTS)
POOLS = ("matched", "identical", "random")
VERIFICATIONS = ("confirmed", "rejected", "differs", "too_old", "skipped", "missing")
TRANSACTIONS = ("committed", "aborted", "fenced", "failed")
REBALANCES = ("assigned", "revoked", "lost")
ROLES = ("alone", "edge", "judge")
IDLE_ACTIVITIES = ("poll", "membership")
"""Activities in which the engine's thread waits for records, or stands by."""
RANGES_DROPPED = ("below", "gap", "beyond", "undecodable", "other_version", "other_index")
CHANGELOG_FAULTS = ("settings", "beginning")
BACKUP_FAILURES = ("refused", "full", "unreachable", "disk", "other")
INPUT_TOPICS = ("read", "missing")
TOPIC = "topic"
"""A label whose values are the names and patterns of input.topics, known at the start. Without
several topics no such series exist."""
PAUSES = ("disk", "dead_letters", "schemas")
WITHHELD = (Verdict.EXACT_DUPLICATE, Verdict.NEAR_DUPLICATE, Verdict.DROPPED)

AUDITED = ("true_positive", "false_positive", "false_negative", "true_negative", "not_known")
"""Results of an audited verdict; the docstring of `audit` defines each."""

ACTIVITIES = (
    "start", "restore", "membership", "poll", "prepare", "judge", "produce", "commit", "apply",
    "audit", "report", "stop",
)  # fmt: skip
"""Activities of the engine's thread. ``membership`` includes standby and pauses. ``prepare`` is
reading and sketching, or waiting for the worker that does it. ``report`` is counting."""

CLIENTS = ("owner", "data", "restore", "producer", "admin", "signer")
"""librdkafka's clients by their role (`kafka.clients`)."""

ROCKSDB = (
    ("estimate_num_keys", "Estimated keys in all column families; a key that was written twice counts twice."),
    ("live_sst_files_size", "Bytes of the table files in use."),
    ("cur_size_all_mem_tables", "Bytes in write buffers that are not flushed yet."),
    ("write_buffer_usage", "Bytes that the write buffer manager counts."),
    ("block_cache_usage", "Bytes in the block cache."),
    ("block_cache_pinned_usage", "Bytes in the block cache that cannot be evicted."),
    ("estimate_table_readers_mem", "Bytes of table readers outside of the block cache."),
    ("estimate_pending_compaction_bytes", "Bytes that compactions must rewrite before all levels have their size."),
    ("num_files_at_level0", "Files of the newest level; writers slow down from 20 on."),
    ("num_immutable_mem_table", "Write buffers waiting for their flush."),
    ("num_running_compactions", "Compactions that run now."),
    ("num_running_flushes", "Flushes that run now."),
    ("actual_delayed_write_rate", "Bytes a second to which RocksDB slows writers down; 0: not slowed."),
    ("is_write_stopped", "1 while RocksDB takes no writes."),
    ("background_errors", "Errors of background work since the index was opened."),
    ("front_bytes", "Bytes of the filter in RAM before RocksDB (memory.miss_filter)."),
    ("front_keys", "Keys that the filter knows."),
    ("front_density", "Bits of the filter for each key on disk: 16 or more while memory.miss_filter is large enough. Of several indexes, the least. NaN until a first run is on disk."),
    ("front_pass_rate", "Share of never-written keys that the filter lets through to RocksDB. Of several indexes, the largest."),
)  # fmt: skip
"""The properties of all open indexes together: name, meaning."""


class MetricKind(StrEnum):
    """How a value behaves."""

    COUNTER = "counter"
    GAUGE = "gauge"
    UNKNOWN_GAUGE = "unknown gauge"
    """A gauge that is NaN until it is measured: a lag of 0 would be wrong."""
    HISTOGRAM = "histogram"
    INFO = "info"  # a gauge that is always 1; its labels are the information


class Metric(Struct, frozen=True):
    """One metric; ``values`` are all values of its single label, or empty."""

    kind: MetricKind
    name: str
    help: str
    label: str = ""
    values: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()  # label names of an INFO metric

    @property
    def full_name(self) -> str:
        return PREFIX + self.name


_counter = partial(Metric, MetricKind.COUNTER)
_gauge = partial(Metric, MetricKind.GAUGE)
_unknown = partial(Metric, MetricKind.UNKNOWN_GAUGE)
_info = partial(Metric, MetricKind.INFO)


def _histogram(
    name: str, help: str, buckets: tuple[float, ...], label: str = "", values: tuple[str, ...] = ()
) -> Metric:
    assert all(low < high for low, high in pairwise(buckets)), name
    return Metric(MetricKind.HISTOGRAM, name, help, label, values, buckets)


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
    _counter("consumed_bytes_total", "Bytes of the values of consumed records."),
    _counter("documents_total", "Input records by verdict.", "verdict", tuple(Verdict)),
    _counter("passthrough_total", "Records forwarded unjudged, by reason.", "reason", tuple(Reason)),
    _counter("dropped_total", "Records withheld unjudged by configuration, by reason.", "reason", tuple(Reason)),
    # by topic: topic_consumed = the sum of the other four, in every scrape
    _counter("topic_consumed_total", "With input.topics: input records of one name or pattern; the sum of the next four.", TOPIC),
    _counter("topic_unique_total", "Of these, records that were judged unique.", TOPIC),
    _counter("topic_duplicates_total", "Of these, exact and near-duplicates.", TOPIC),
    _counter("topic_unjudged_total", "Of these, records forwarded or dropped without a verdict.", TOPIC),
    _counter("topic_dead_letters_total", "Of these, dead letters.", TOPIC),
    _counter("dead_letters_total", "Unreadable records by error code.", "code", tuple(ErrorCode)),
    _counter("records_produced_total", "Records written, by destination.", "destination", DESTINATIONS),
    _counter("shadow_withheld_total", "Records that were forwarded only because output.mode is shadow; divert would withhold them.", "verdict", WITHHELD),
    # candidates and their verification
    _counter("candidates_total", "Earlier documents that share a band with a new one."),
    _histogram("candidates_per_document", "Candidates of one document; an exact copy has one, its original. A rising tail means that the bands are too loose.", COUNTS),
    _counter("verifications_total", "Candidates by outcome. rejected: not similar, a false positive of the LSH step; differs: not equal in a field of verify.agree_on; too_old: older than verify.within allows; skipped: not compared, because a match was found or there were too many; missing: not in the index any more.", "outcome", VERIFICATIONS),
    _histogram("candidate_similarity", "Verified similarity of candidates.", SIMILARITIES, "outcome", VERIFICATIONS[:2]),
    _counter("matches_total", "Confirmed matches of near-duplicates."),
    _counter("false_positive_probability_sum_total", "Expected number of wrong duplicate verdicts."),
    _counter("longer_keys_total", "Band keys of forwarded documents that were listed under a longer key: the bucket was full."),
    _counter("bucket_overflows_total", "Keys of forwarded documents that were listed nowhere: the bucket was full, and those of all longer keys."),
    _counter("faintly_listed_documents_total", "Forwarded documents that are listed under fewer than four of their bands: many of their copies will be missed."),
    _counter("unlisted_documents_total", "Forwarded documents that are listed under none of their bands: all their near-duplicates will be missed."),
    # boilerplate (similarity.normalise.boilerplate)
    _counter("boilerplate_documents_total", "Documents by how many of their shingles the table of boilerplate leaves: all, enough, or few (under 8, or none).", "left", LEFT),
    _unknown("boilerplate_sample_share", "Share of the documents in the sample of the table of boilerplate, by how many shingles it leaves; NaN without a table.", "left", LEFT),
    # known ids (input.known_id) and forgetting by id (input.tombstones: forget)
    _counter("same_field_duplicates_total", "Exact duplicates by an equal field alone, of any text; under verify.also_same only."),
    _counter("same_id_duplicates_total", "Exact duplicates by their id alone, of any text; under input.known_id: duplicate only."),
    _counter("updates_total", "Records that replaced the earlier version of their document; under input.known_id: update only."),
    _counter("unknown_tombstones_total", "Tombstones for which nothing was forgotten, because no document of that id was remembered; under input.tombstones: forget only."),
    # the audit: sampled arrivals against the whole index, by brute force on the sets
    _counter("audit_arrivals_total", "Arrivals that were audited."),
    _counter("audit_comparisons_total", "Pairs of an audited arrival and a document remembered before it that were compared."),
    _counter("audit_results_total", "Audited verdicts by result; not_known: the sets were cut or sampled, so the audit reads the same sample as the verdict.", "result", AUDITED),
    _counter("audit_missed_total", "Audited arrivals that are known to be missed duplicates, by cause.", "cause", CAUSES),
    _counter("audit_changes_total", "Changes in quality that the audit detected: recall fell, or more verdicts are wrong.", "figure", FIGURES),
    _unknown("audit_change_score", "Evidence for a change in quality, 0 to 1 (CUSUM of the audited pairs). At 1 an alarm is counted. NaN before the first pair, and if sample_modulus leaves no whole sets.", "figure", FIGURES),
    _counter("reliability_verdicts_total", "Audited near-duplicates, by the probability of being wrong in their evidence; the label is its upper limit.", "told", DOUBT_LABELS),
    _counter("reliability_told_total", "Sum of the probabilities of reliability_verdicts_total: the expected number of wrong verdicts.", "told", DOUBT_LABELS),
    _counter("reliability_wrong_total", "Wrong verdicts among reliability_verdicts_total: the match in the evidence is not similar enough.", "told", DOUBT_LABELS),
    # records only (input.format: fields, input.held_out)
    _counter("held_out_pairs_total", "Pairs of records by pool: near-duplicates, records with all fields equal, random ones.", "pool", POOLS),
    _counter("held_out_difference_total", "Sum of the differences of held_out_pairs_total in the held-out field (for dates in days).", "pool", POOLS),
    _unknown("held_out_valid_share", "Estimated share of true matches among the near-duplicate records, since the start; NaN while a pool has under two pairs, or the pools contradict each other (random ones closer than identical or matched ones). Too low where identical records are one submission sent twice."),
    _unknown("held_out_valid_share_lower", "Lower end of the 95 % interval of held_out_valid_share."),
    _unknown("held_out_valid_share_upper", "Upper end of the 95 % interval of held_out_valid_share."),
    _unknown("audit_recall", "Recall of the latest rounds: the share withheld of the arrivals that had an original with another text. NaN too if only a bound is known, and with a sample_modulus."),
    _unknown("audit_recall_lower", "Lower end of the 95 % interval of audit_recall; NaN where tombstones or updates forget, because misses may be overlooked."),
    _unknown("audit_recall_upper", "Upper end of the 95 % interval of audit_recall."),
    _unknown("audit_recall_equal", "Recall of the latest rounds: the share withheld of the arrivals whose exact text was remembered."),
    _unknown("audit_recall_equal_lower", "Lower end of the 95 % interval of audit_recall_equal; NaN where tombstones or updates forget."),
    _unknown("audit_recall_equal_upper", "Upper end of the 95 % interval of audit_recall_equal."),
    _unknown("audit_precision", "Precision of the latest rounds: the share of audited near-duplicate verdicts that are right. NaN when audit_recall is NaN."),
    _unknown("audit_precision_lower", "Lower end of the 95 % interval of audit_precision."),
    _unknown("audit_precision_upper", "Upper end of the 95 % interval of audit_precision."),
    # time
    _histogram("batch_documents", "Records in a batch.", BATCHES),
    _histogram("stage_seconds", "Time of one batch in each stage.", SECONDS, "stage", STAGES),
    _counter("activity_seconds_total", "Time of the engine's thread by activity; the sum grows by 1 s a second.", "activity", ACTIVITIES),
    _histogram("end_to_end_seconds", "From a record's timestamp to its committed output.", AGES),
    # consumer and transactions
    _unknown("consumer_lag_records", "Offsets between the committed positions and the end of the input, summed over partitions."),
    _unknown("consumer_lag_seconds", "Seconds since the timestamp of the last committed record, in the partition that is furthest behind; 0 when caught up."),
    _gauge("assigned_partitions", "Input partitions this process reads."),
    _gauge("input_topics", "Topics of input.topics by state. missing: the index has numbers for it, and it does not exist now, or is not in the list any more.", "state", INPUT_TOPICS),
    _gauge("paused_partitions", "Input partitions paused, by reason.", "reason", PAUSES),
    _counter("rebalances_total", "Ownership changes.", "event", REBALANCES),
    _unknown("last_commit_timestamp_seconds", "Unix time of the last committed transaction."),
    _counter("transactions_total", "Transactions by outcome.", "outcome", TRANSACTIONS),
    _histogram("transaction_seconds", "From begin to the commit's return.", SECONDS),
    # edges and judge (cluster.enabled)
    _gauge("role", "1 for the role of this process. alone: it does everything.", "role", ROLES),
    _unknown("judge_busy_ratio", "At a judge: share of the last 15 s in which its loop worked, commits included; 0 while it stands by."),
    _counter("sketch_ranges_dropped_total", "At a judge: sketch ranges that were not used, by reason. below: judged before; gap: a range before it was lost, and the edge signs again; beyond: it ends behind the input.", "reason", RANGES_DROPPED),
    _counter("edge_signed_again_total", "At an edge: times that records were sketched again, because the judge lacks their range."),
    _counter("edge_gone_records_total", "At an edge: records that were judged and did not exist any more when they were to be forwarded."),
    _unknown("edge_waiting_records", "At an edge: records in memory that wait for their verdicts; cluster.pending bounds them."),
    _unknown("edge_waiting_seconds", "At an edge: seconds without a verdict while records wait for one; 0: none waits."),
    # index
    _gauge("index_documents", "Documents in the index."),
    _unknown("index_bytes", "Bytes of the index on disk."),
    _unknown("index_expected_bytes", "Bytes that the index will take when its retention or documents_max is reached, at the rate so far. NaN without such a limit, and in its first hundredth."),
    _unknown("index_oldest_timestamp_seconds", "Timestamp of the first document that the index remembers."),
    _gauge("index_windows", "Windows of the index that are not forgotten; each index has at most five."),
    _gauge("index_horizon_documents", "Position of the horizon: the number of documents that were judged before it. All of them are forgotten."),
    _counter("expired_documents_total", "Documents that the horizon has passed."),
    _counter("forgotten_documents_total", "Documents that were forgotten one by one: a tombstone had their id, or a record replaced them."),
    _unknown("changelog_offset", "Changelog offset the index has applied."),
    _unknown("changelog_start_offset", "First offset of the changelog; with several changelogs it is the sum, as for changelog_offset."),
    _unknown("changelog_surplus_records", "Changelog offsets that no restore needs and that are not trimmed yet. If it stays over 0, DELETE on the changelog is missing, or a replica of it is down."),
    _gauge("changelog_faults", "Changelogs that could not restore their index. settings: brokers may delete its records, or refuse new ones; beginning: needed records were deleted.", "fault", CHANGELOG_FAULTS),
    _counter("changelog_bytes_total", "Bytes of batches in the changelog, before compression."),
    _gauge("restore_remaining_records", "Changelog records still to be applied before work starts."),
    _unknown("backup_every_seconds", "index.backup.every of a process that takes backups."),
    _unknown("backup_last_timestamp_seconds", "Unix time of the newest whole backup of the index (of several indexes, the oldest such time); 0: there is none."),
    _counter("backup_bytes_total", "Bytes uploaded for backups."),
    _counter("backup_failures_total", "Backups that failed. refused: the target denies access; full: it has no room; unreachable: it does not answer; disk: ours has no room.", "reason", BACKUP_FAILURES),
    _unknown("disk_free_bytes", "Free bytes on the index's disk."),
    *(_unknown(f"rocksdb_{name}", help) for name, help in ROCKSDB),
    # librdkafka's own statistics, every kafka.common statistics.interval.ms (5 s)
    _counter("kafka_requests_total", "Requests sent to brokers.", "client", CLIENTS),
    _counter("kafka_responses_total", "Responses received from brokers.", "client", CLIENTS),
    _counter("kafka_sent_bytes_total", "Bytes sent to brokers.", "client", CLIENTS),
    _counter("kafka_received_bytes_total", "Bytes received from brokers.", "client", CLIENTS),
    _counter("kafka_sent_messages_total", "Records sent, as librdkafka counts them.", "client", CLIENTS),
    _counter("kafka_received_messages_total", "Records received, as librdkafka counts them.", "client", CLIENTS),
    _counter("kafka_request_errors_total", "Requests and responses that failed in transmission.", "client", CLIENTS),
    _counter("kafka_request_retries_total", "Requests that were sent again.", "client", CLIENTS),
    _counter("kafka_request_timeouts_total", "Requests that no broker answered in time.", "client", CLIENTS),
    _counter("kafka_connects_total", "Connections tried.", "client", CLIENTS),
    _counter("kafka_disconnects_total", "Connections that ended, on either side.", "client", CLIENTS),
    _gauge("kafka_brokers_up", "Brokers with a working connection.", "client", CLIENTS),
    _gauge("kafka_queued_records", "Records in local queues: fetched or to be sent.", "client", CLIENTS),
    _gauge("kafka_queued_bytes", "Bytes in local queues.", "client", CLIENTS),
    _gauge("kafka_requests_in_flight", "Requests that wait for their response.", "client", CLIENTS),
    _gauge("kafka_round_trip_seconds", "Mean round trip of the slowest broker in the last interval; 0: nothing was asked.", "client", CLIENTS),
    _gauge("kafka_round_trip_p99_seconds", "99th percentile of the round trip of the slowest broker in the last interval.", "client", CLIENTS),
    _gauge("kafka_throttle_seconds", "Mean time for which a quota delayed the responses of the slowest broker.", "client", CLIENTS),
    # meta
    _counter("stalls_total", "Times that the process stopped being live: its loop did not turn, or committed nothing although records waited.", "cause", tuple(Cause)),
    _counter("questions_total", "Questions to /explain and /query by result. refused: malformed, or without the token; busy: another one was being answered; failed: no answer in time.", "result", ("answered", "refused", "busy", "failed")),
    _gauge("state", "1 for what the process is doing now.", "state", tuple(State)),
    _info("build_info", "Versions.", labels=("version", "python")),
    _info("scheme_info", "Settings that shape the index.", labels=("scheme", "slots", "bands", "rows", "threshold")),
    _info("output_info", "Where duplicates go.", labels=("mode", "duplicates_mode")),
)
# fmt: on
