"""The dashboard *internals*: Kafka client, transactions, RocksDB, index, process."""

from __future__ import annotations

from deploy.grafana.expressions import (
    RANGE,
    known,
    largest,
    mean,
    quantile,
    rate,
    series,
    share,
    since,
    smallest,
    summed,
)
from deploy.grafana.panels import Chart, Form, Query, Row
from streamfilter.monitoring import colours


def _each(name: str, legend: str = "{{instance}}") -> tuple[Query, ...]:
    return (Query(summed(series(name), "instance"), legend),)


def _clients(name: str) -> tuple[Query, ...]:
    return (Query(rate(name, "client"), "{{client}}"),)


TRANSACTIONS = Row("Batches and transactions", (
    Chart("What the loop does", "Seconds a second that the engine's one thread spends on each "
          "activity. Much poll is idle; membership is also standing by.", "percentunit",
          (Query(rate("activity_seconds_total", "instance", "activity"),
                 "{{instance}} {{activity}}"),), Form.STACKED, width=12),
    Chart("Time of a batch by stage", "Mean seconds of each step. prepare overlaps the commit "
          "before, so that the sum is more than the time between two batches.", "s",
          (Query(mean("stage_seconds", "stage"), "{{stage}}"),), Form.STACKED, width=12),
    Chart("Records of a batch", "Mean; small ones at a trickle, batch.documents under load.",
          "short", (Query(mean("batch_documents"), "records"),)),
    Chart("Transactions", "By outcome. aborted ones are judged again; many of them cost.",
          "cps", (Query(rate("transactions_total", "outcome"), "{{outcome}}"),)),
    Chart("Duration of a transaction", "From begin to the commit's return.", "s",
          tuple(Query(quantile(q, "transaction_seconds"), f"{q:.0%}") for q in (0.5, 0.95, 0.99))),
))  # fmt: skip

CLIENT = Row("Kafka client", (
    Chart("Partitions", "Input partitions that are read, and paused ones by reason.", "short",
          (Query(summed(series("assigned_partitions"), "instance"), "{{instance}}"),
           Query(summed(series("paused_partitions"), "reason"), "paused: {{reason}}"),
           Query(summed(series("input_topics"), "state"), "topics: {{state}}"))),
    Chart("Rebalances", "Changes of ownership over the time shown. lost: a session timed out.",
          "short", (Query(summed(f"increase({series('rebalances_total')}[{RANGE}])", "event"),
                          "{{event}}"),), Form.NUMBER, decimals=0, tall=True),
    Chart("Brokers connected", "By client. Fewer than the cluster has may be normal: only "
          "brokers that are needed are connected to.", "short",
          (Query(summed(series("kafka_brokers_up"), "client"), "{{client}}"),), Form.NUMBER,
          tall=True),
    Chart("Round trips", "99th percentile of the slowest broker.", "s",
          (Query(largest(series("kafka_round_trip_p99_seconds"), "client"), "{{client}}"),),
          width=6),
    Chart("Received", "Bytes from brokers, by client.", "Bps",
          _clients("kafka_received_bytes_total"), width=6),
    Chart("Sent", "Bytes to brokers, by client.", "Bps",
          _clients("kafka_sent_bytes_total"), width=6),
    Chart("Requests", "Requests to brokers, by client.", "cps",
          _clients("kafka_requests_total"), width=6),
    Chart("Trouble on the wire", "Errors, repeats and timeouts. Some after a broker's restart "
          "are normal.", "cps",
          (Query(rate("kafka_request_errors_total"), "errors"),
           Query(rate("kafka_request_retries_total"), "repeats"),
           Query(rate("kafka_request_timeouts_total"), "timeouts"),
           Query(rate("kafka_disconnects_total"), "disconnects"))),
    Chart("Local queues", "Bytes fetched or to be sent; bounded by librdkafka's own settings.",
          "bytes", (Query(summed(series("kafka_queued_bytes"), "client"), "{{client}}"),)),
    Chart("Throttled", "Time that a quota of the broker held responses back.", "s",
          (Query(largest(series("kafka_throttle_seconds"), "client"), "{{client}}"),)),
))  # fmt: skip

EDGES = Row("Edges", (
    Chart("Waiting for verdicts", "Records in an edge's memory; at cluster.pending it stops "
          "reading. – for processes that are no edges.", "short",
          (Query(largest(known("edge_waiting_records"), "instance"), "{{instance}}"),)),
    Chart("Time without a verdict", "While records wait for one. A minute is an alert: no judge "
          "answers.", "s",
          (Query(largest(known("edge_waiting_seconds"), "instance"), "{{instance}}"),)),
    Chart("Signed again, and gone", "Records that the judge lacked and that were sketched again; "
          "records that were judged and did not exist any more.", "cps",
          (Query(rate("edge_signed_again_total"), "signed again"),
           Query(rate("edge_gone_records_total"), "gone"))),
), "cluster.enabled")  # fmt: skip

JUDGE = Row("Judge", (
    Chart("Busy", "Share of the judge's time in which its loop works. Above .8 is an alert: more "
          "edges do not help then.", "percentunit",
          (Query(largest(known("judge_busy_ratio"), "instance"), "{{instance}}"),), ceiling=1.0),
    Chart("Ranges not used", "Sketch ranges that the judge dropped, by reason. below: judged "
          "before; gap: signed again. Others are an edge of another version or index.", "cps",
          (Query(rate("sketch_ranges_dropped_total", "reason"), "{{reason}}"),)),
    Chart("Roles", "What each process is. alone: it does everything.", "none",
          (Query(largest(f"{series('role')} == 1", "instance", "role"), "{{instance}} {{role}}"),),
          Form.NAMES, tall=True),
), "cluster.enabled")  # fmt: skip

INDEX = Row("The index's life", (
    Chart("Documents", "Documents in the index, by process.", "short", _each("index_documents")),
    Chart("Bytes on disk", "Of the index directory, and what it takes in the end.", "bytes",
          (*_each("index_bytes"),
           Query(summed(known("index_expected_bytes"), "instance"), "{{instance}} in the end"))),
    Chart("Bytes for a document", "Disk by documents; flat when all is well.", "bytes",
          (Query(share(summed(series("index_bytes"), "instance"),
                       summed(series("index_documents"), "instance")), "{{instance}}"),)),
    Chart("Free disk", "Of the index's disk. At the reserve the service pauses by itself.",
          "bytes", _each("disk_free_bytes"), width=6),
    Chart("Age of the oldest document", "How far back the memory reaches.", "s",
          (Query(since("index_oldest_timestamp_seconds", "instance"), "{{instance}}"),), width=6),
    Chart("Windows", "Parts of the memory that go as a whole: 1 without a retention, else up to 5.",
          "short", _each("index_windows"), width=6),
    Chart("Forgotten", "Documents a second that the retention has passed, and that tombstones "
          "named. As many as come new, once the retention is reached.", "cps",
          (Query(rate("expired_documents_total"), "expired"),
           Query(rate("forgotten_documents_total"), "forgotten")), width=6),
    Chart("Behind the horizon", "Judged documents that are too old to be remembered.", "short",
          _each("index_horizon_documents"), width=12),
    Chart("Still to restore", "Changelog records that a start must apply before work begins.",
          "short", _each("restore_remaining_records"), width=12),
    Chart("Changelog offset", "How far the index has come; a process that stands by may follow.",
          "short", _each("changelog_offset"), width=12),
    Chart("New documents", "Records written to the changelog, a second.", "cps",
          (Query(rate("records_produced_total", matching=('destination="changelog"',)),
                 "records"),), width=12),
    Chart("Records in the changelog", "From its beginning to where the index has come: flat once "
          "the retention is reached. To be cut off: over 0 for long, DELETE on it is missing.",
          "short",
          (Query(f"{summed(series('changelog_offset'), 'instance')} - "
                 f"{summed(known('changelog_start_offset'), 'instance')}", "{{instance}}"),
           Query(summed(known("changelog_surplus_records"), "instance"),
                 "{{instance}} to be cut off")), width=12),
    Chart("Bytes to the changelog", "Bytes of batches a second, before compression; times the "
          "retention is what it takes for each copy.", "Bps",
          (Query(rate("changelog_bytes_total"), "bytes"),), width=12),
))  # fmt: skip

ROCKSDB = Row("RocksDB", (
    Chart("Memory", "What RocksDB holds: blocks, write buffers, readers, and the front before "
          "it. Bounded by memory.*, whatever the index's size.", "bytes",
          (Query(summed(known("rocksdb_block_cache_usage")), "block cache"),
           Query(summed(known("rocksdb_cur_size_all_mem_tables")), "write buffers"),
           Query(summed(known("rocksdb_estimate_table_readers_mem")), "table readers"),
           Query(summed(known("rocksdb_front_bytes")), "front")), Form.STACKED),
    Chart("Table files", "Bytes of the files in use.", "bytes",
          _each("rocksdb_live_sst_files_size")),
    Chart("Keys", "About, in all families: band keys outnumber documents.", "short",
          _each("rocksdb_estimate_num_keys")),
    Chart("Waiting for compaction", "Bytes to be rewritten. Growing for hours: the disk is too "
          "slow.", "bytes", _each("rocksdb_estimate_pending_compaction_bytes")),
    Chart("Files of level 0", "Writers slow down from 20 on.", "short",
          _each("rocksdb_num_files_at_level0")),
    Chart("Background work", "Compactions and flushes under way, and buffers waiting.", "short",
          (Query(summed(known("rocksdb_num_running_compactions")), "compactions"),
           Query(summed(known("rocksdb_num_running_flushes")), "flushes"),
           Query(summed(known("rocksdb_num_immutable_mem_table")), "buffers waiting"))),
    Chart("Writes stopped", "1 while RocksDB takes no writes: usually the disk is full.", "none",
          (Query(largest(series("rocksdb_is_write_stopped"), "instance"), "{{instance}}"),),
          Form.NUMBER, limits=((colours.GREEN, 0.0), (colours.RED, 1.0))),
    Chart("Background errors", "Since the index was opened.", "short",
          (Query(largest(series("rocksdb_background_errors"), "instance"), "{{instance}}"),),
          Form.NUMBER, limits=((colours.GREEN, 0.0), (colours.RED, 1.0))),
    Chart("The front lets through", "Share of never-written keys that reach RocksDB. Above some "
          "5 %: give memory.miss_filter more.", "percentunit",
          (Query(largest(series("rocksdb_front_pass_rate"), "instance"), "{{instance}}"),),
          Form.NUMBER, decimals=2),
))  # fmt: skip

PROCESS = Row("Process", (
    Chart("CPU", "Cores in use; the loop is one thread, RocksDB and librdkafka have others.",
          "short", (Query(rate("process_cpu_seconds_total", "instance"), "{{instance}}"),),
          width=6),
    Chart("Memory", "Resident bytes.", "bytes", _each("process_resident_memory_bytes"), width=6),
    Chart("Open files", "RocksDB keeps its table files open.", "short",
          _each("process_open_fds"), width=6),
    Chart("Up since", "Time since the start.", "s",
          (Query(f"time() - {series('process_start_time_seconds')}", "{{instance}}"),), width=6),
    Chart("Version", "Of streamfilter, by process.", "none",
          (Query(largest(series("build_info"), "instance", "version", "python"),
                 "{{instance}} {{version}} (Python {{python}})"),), Form.NAMES, width=12),
    Chart("Processes by state", "One runs and others stand by, always.", "short",
          (Query(f"{summed(series('state'), 'state')} > 0", "{{state}}"),), Form.NUMBER,
          width=12),
))  # fmt: skip

MORE = Row("More", (
    Chart("Records by topic", "With input.topics: all records, and what became of them.", "short",
          tuple(Query(rate(f"topic_{name}_total", "topic"), f"{{{{topic}}}}: {name}")
                for name in ("consumed", "unique", "duplicates", "unjudged", "dead_letters")),
          width=24),
    Chart("Age of the last backup", "Of the newest whole backup in index.backup.target. No line: "
          "this process takes none. Decades: there is none yet.", "s",
          (Query(since("backup_last_timestamp_seconds", "instance"), "{{instance}}"),)),
    Chart("Backups", "Bytes a second to the target, and failures an hour by reason.", "Bps",
          (Query(rate("backup_bytes_total"), "bytes"),
           Query(f'3600 * {rate("backup_failures_total", "reason")}', "{{reason}} an hour"))),
    Chart("Filter's bits a key", "16 or more while memory.miss_filter is large enough.",
          "none",
          (Query(smallest(series("rocksdb_front_density"), "instance"), "{{instance}}"),),
          Form.NUMBER, decimals=1),
), "input.topics, index.backup, or a large index")  # fmt: skip

UID, TITLE = "streamfilter-internals", "streamfilter: internals"
DESCRIPTION = "Kafka client, transactions, RocksDB, the life of the index, the process."
ROWS = (TRANSACTIONS, CLIENT, INDEX, ROCKSDB, PROCESS, EDGES, JUDGE, MORE)
