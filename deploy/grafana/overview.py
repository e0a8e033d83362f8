"""The dashboard *overview*: health, throughput, quality and latency."""

from __future__ import annotations

from deploy.grafana.expressions import (
    RATE,
    buckets,
    growth,
    known,
    largest,
    quantile,
    rate,
    series,
    share,
    since,
    smallest,
    steps,
    summed,
)
from deploy.grafana.panels import Chart, Form, Mark, Query, Row
from streamfilter.monitoring import colours

FIRING = ('alertstate="firing"', 'alertname=~"Streamfilter.*"')
DUPLICATES = ('verdict=~"exact_duplicate|near_duplicate"',)
JUDGED = ('outcome=~"confirmed|rejected"',)
BY_VERDICT = {verdict.value: colour for verdict, colour in colours.BY_VERDICT.items()}
"""Colour values, not Grafana's names: the contrast of its orange on its light panels is only 2.6 to
1."""
BY_DESTINATION = {"unique": BY_VERDICT["unique"], "duplicates": BY_VERDICT["near_duplicate"],
                  "dead_letter": BY_VERDICT["rejected"], "changelog": colours.GREY}  # fmt: skip
RECALL_FLOOR = 0.9
"""The axis starts here: good estimates lie between this and 1, where changes must be visible."""
GOOD_FROM_90 = ((colours.RED, 0.0), (colours.AMBER, 0.9), (colours.GREEN, 0.97))


def _quantiles(name: str) -> tuple[Query, ...]:
    return tuple(Query(quantile(q, name), f"{q:.0%}") for q in (0.5, 0.95, 0.99))


def _state(name: str) -> str:
    return largest(f"{series(name)} == 1", "instance", "state")


HEALTH = Row("Health", (
    Chart("State", "What each process is doing. One works, others stand by; with index.scope: "
          "partition all work. paused:disk and paused:dead_letters wait for you; "
          "unreachable waits for a broker.",
          "none", (Query(_state("state"), "{{instance}} {{state}}"),), Form.NAMES, width=6),
    Chart("Records a second", "Input records whose transaction was committed.",
          "cps", (Query(rate("records_consumed_total"), "records"),), Form.NUMBER, width=3),
    Chart("Withheld", "Share of the records that were duplicates, over the time shown.",
          "percentunit",
          (Query(share(growth("documents_total", matching=DUPLICATES), growth("documents_total")),
                 "withheld"),), Form.NUMBER, width=3, decimals=1),
    Chart("Recall, at least", "Lower end of the audited recall of different texts: of the "
          "arrivals with an original in the index, the share withheld. Does not see texts too "
          "short to be signed; – until a round has ended, and where tombstones or updates forget.",
          "percentunit", (Query(smallest(series("audit_recall_lower")), "at least"),),
          Form.NUMBER, width=3, limits=GOOD_FROM_90, decimals=2),
    Chart("Recall, audited", "Estimate of the same, of the latest rounds of the audit (4,000 to "
          "40,000 arrivals, each held against the whole index). Does not see what comes next: it "
          "speaks of what passed. – until a round has ended, and where tombstones or updates "
          "forget.",
          "percentunit", (Query(smallest(series("audit_recall")), "recall"),),
          Form.NUMBER, width=3, limits=GOOD_FROM_90, decimals=2),
    Chart("Waiting", "Input records behind the end, all partitions of all processes.",
          "short", (Query(summed(known("consumer_lag_records")), "records"),),
          Form.NUMBER, width=3),
    Chart("Last commit", "Time since the newest committed transaction. It grows while nothing "
          "comes in; with records waiting it means that the filter is stuck.", "s",
          (Query(since("last_commit_timestamp_seconds"), "ago"),), Form.NUMBER, width=3),
    Chart("Alerts that fire", "Ours, with how bad they are; what to do stands in the operator's "
          "README, where their runbook_url leads. none: none fires, or Prometheus has no rules. An "
          "alert on a job names no instance: choose All above.", "none",
          (Query(largest(series("ALERTS", *FIRING),
                         "alertname", "severity"), "{{alertname}} ({{severity}})"),
           Query(f"absent({series('ALERTS', *FIRING)})", "none")), Form.NAMES, width=24),
))  # fmt: skip

TRAFFIC = Row("Traffic", (
    Chart("Records by verdict", "What became of the records, a second. Their sum is what was "
          "consumed, in every scrape.", "cps",
          (Query(rate("documents_total", "verdict"), "{{verdict}}"),), Form.STACKED, width=12,
          colours=BY_VERDICT),
    Chart("Share of each verdict", "The same as shares. A step in the duplicates is a changed "
          "source or a replay; see the alert on it.", "percentunit",
          (Query(f"{rate('documents_total', 'verdict')} / ignoring (verdict) group_left () "
                 f"({rate('documents_total')} > 0)", "{{verdict}}"),),
          Form.STACKED, width=12, ceiling=1.0, colours=BY_VERDICT),
    Chart("Bytes consumed", "Bytes of the values of the consumed records.", "Bps",
          (Query(rate("consumed_bytes_total"), "consumed"),), width=6),
    Chart("Records written", "Records written by destination; the changelog gets one for each "
          "new document and one for each batch.", "cps",
          (Query(rate("records_produced_total", "destination"), "{{destination}}"),), width=6,
          colours=BY_DESTINATION),
    Chart("Dead letters", "Records that could not be read, by code. Above "
          "limits.dead_letter_share the service pauses.", "cps",
          (Query(rate("dead_letters_total", "code"), "{{code}}"),), width=6,
          colours={"": colours.RED}),
    Chart("Not judged", "Records forwarded or withheld without a judgement, by reason: empty, "
          "short, tombstones; what tombstones and updates forgot, what was withheld for its "
          "id or a field alone, and tombstones of unknown ids.", "cps",
          (Query(rate("passthrough_total", "reason"), "forwarded: {{reason}}"),
           Query(rate("dropped_total", "reason"), "withheld: {{reason}}"),
           Query(rate("forgotten_documents_total"), "documents forgotten"),
           Query(rate("updates_total"), "updates"),
           Query(rate("same_id_duplicates_total"), "withheld for their ids"),
           Query(rate("same_field_duplicates_total"), "withheld for a field"),
           Query(rate("unknown_tombstones_total"), "tombstones of unknown ids")), width=6),
))  # fmt: skip

QUALITY = Row("Quality: what is missed, what is wrong", (
    Chart("Recall, audited, with its interval", "Share withheld of the arrivals with an original "
          "of another text, with the ends of the 95 % interval. An upper end below the wanted "
          "recall is an alert. Does not see texts too short to be signed, nor originals that "
          "tombstones or updates removed before: only the upper end is shown then. Cut sets (above "
          "1,024 shingles) within .05 of the threshold count as the worse case; "
          "with similarity.shingle.sample_modulus nothing is shown.",
          "percentunit",
          (Query(smallest(series("audit_recall_upper"), "instance"), "{{instance}} upper"),
           Query(smallest(series("audit_recall"), "instance"), "{{instance}}"),
           Query(smallest(series("audit_recall_lower"), "instance"), "{{instance}} lower")),
          ceiling=1.0, floor=RECALL_FLOOR),
    Chart("Precision, audited, with its interval", "Share of the audited near-duplicate verdicts "
          "that are right, with the ends of the 95 % interval. Does not see equal texts (compared "
          "by 128 bits) nor errors of the sketcher. Sets that were cut or sampled: as for recall.",
          "percentunit",
          (Query(smallest(series("audit_precision_upper"), "instance"), "{{instance}} upper"),
           Query(smallest(series("audit_precision"), "instance"), "{{instance}}"),
           Query(smallest(series("audit_precision_lower"), "instance"), "{{instance}} lower")),
          ceiling=1.0, floor=RECALL_FLOOR),
    Chart("Change of the audited quality", "Evidence that recall fell or that more verdicts are "
          "wrong, 0 to 1. At 1 a change is reported (a spike, and an alert), and the sum starts at "
          "0 again. It reports some three times sooner than the intervals. Does not see what the "
          "audit does not see, nor how large a change is.",
          "none",
          (Query(largest(series("audit_change_score"), "instance", "figure"),
                 "{{instance}} {{figure}}"),
           Query(steps("audit_changes_total", "figure"), "{{figure}} changed")), decimals=2),
    Chart("Why duplicates are missed", "Audited arrivals that were missed, by cause, over the "
          "time shown: bands too selective, full buckets, verify.max_candidates, signatures "
          "that looked too unlike. Does not see those that were not chosen: multiply; nor sets "
          "that were cut or sampled.", "short",
          (Query(growth("audit_missed_total", "cause"), "{{cause}}"),), Form.STACKED, width=12),
    Chart("Reliability of the doubt", "Audited near-duplicates, grouped by the "
          "probability of being wrong in their evidence (up to the legend): the mean of it, "
          "and the share that is wrong, over the time shown. If they are far apart, the fixed "
          "prior does not fit this stream. Does not see sets that were cut or sampled.",
          "percentunit",
          (Query(share(growth("reliability_told_total", "told"),
                       growth("reliability_verdicts_total", "told")), "{{told}} expected"),
           Query(share(growth("reliability_wrong_total", "told"),
                       growth("reliability_verdicts_total", "told")), "{{told}} wrong")),
          width=6, ceiling=1.0),
    Chart("Recall of equal texts, audited", "Share withheld of the arrivals whose very text was "
          "in the index. Does not see copies of what is forgotten.", "percentunit",
          (Query(smallest(series("audit_recall_equal_lower")), "at least"),
           Query(smallest(series("audit_recall_equal")), "recall")), width=6, ceiling=1.0,
          floor=RECALL_FLOOR),
    Chart("False positives of the hashing step", "Share of the compared candidates that were "
          "not similar enough. They cost time, not rightness: verification rejects them.",
          "percentunit",
          (Query(share(rate("verifications_total", matching=('outcome="rejected"',)),
                       rate("verifications_total", matching=JUDGED)), "rejected"),),
          ceiling=1.0),
    Chart("Candidates by outcome", "skipped: beyond verify.max_candidates behind a match, or "
          "of a crowd beyond the 128 that share most keys; missing: the document is gone from the "
          "index.", "cps",
          (Query(rate("verifications_total", "outcome"), "{{outcome}}"),), Form.STACKED),
    Chart("Expected wrong verdicts", "Expected number of records withheld wrongly, over the time "
          "shown; 0 as long as texts are compared exactly. As right as p_false_positive of the "
          "evidence is; does not see what that gets wrong.", "short",
          (Query(growth("false_positive_probability_sum_total"), "expected"),), decimals=2),
    Chart("Similarity of confirmed matches", "Verified similarities at or above the threshold. "
          "Much just above it: consider a lower threshold.", "percentunit",
          (Query(buckets("candidate_similarity", 'outcome="confirmed"'), "{{le}}"),),
          Form.HEATMAP),
    Chart("Similarity of rejected candidates", "Verified similarities below the threshold (see "
          "beside). Much just below it are near-duplicates that you let through by choice.",
          "percentunit",
          (Query(buckets("candidate_similarity", 'outcome="rejected"'), "{{le}}"),),
          Form.HEATMAP),
    Chart("Candidates of one document", "Quantiles. A rising tail means that bands are too loose, "
          "or that a flood of variants fills buckets.", "short",
          _quantiles("candidates_per_document")),
    Chart("Threshold", "From which similarity on a document is withheld (similarity.threshold).",
          "none", (Query(largest(series("scheme_info"), "threshold"), "{{threshold}}"),),
          Form.NAMES, width=4),
    Chart("Shape of the index", "Fingerprint, bands and rows; two at once is an alert.", "none",
          (Query(largest(series("scheme_info"), "scheme", "bands", "rows"),
                 "{{scheme}} {{bands}} x {{rows}}"),), Form.NAMES, width=6),
    Chart("Mode", "shadow: everything is forwarded, and only annotated.", "none",
          (Query(largest(series("output_info"), "mode"), "{{mode}}"),), Form.NAMES, width=4),
    Chart("Withheld if it were not shadow", "In output.mode: shadow, what divert would withhold, "
          "over the time shown.", "short",
          (Query(growth("shadow_withheld_total"), "records"),), Form.NUMBER, width=5, decimals=0),
    Chart("Hidden by full buckets", "Forwarded documents listed for fewer than four of their "
          "bands, and for none, over the time shown, counted exactly: copies of them are missed. "
          "Does not see copies that a longer key misses; the audit does.", "short",
          (Query(growth("faintly_listed_documents_total"), "fewer than 4"),
           Query(growth("unlisted_documents_total"), "none")), Form.NUMBER, width=5,
          decimals=0),
))  # fmt: skip

LATENCY = Row("Latency and lag", (
    Chart("From a record's timestamp to its commit", "Quantiles of end to end. Includes the time "
          "a record waited in Kafka.", "s", _quantiles("end_to_end_seconds")),
    Chart("In time", "Share of the records committed within 10 s of their timestamp: what the "
          "burn-rate alerts are about (99 % in 30 days).", "percentunit",
          (Query(share(rate("end_to_end_seconds_bucket", matching=('le="10.0"',)),
                       rate("end_to_end_seconds_count")), "within 10 s"),), ceiling=1.0),
    Chart("Ages when committed", "Where the records' ages fall.", "s",
          (Query(buckets("end_to_end_seconds"), "{{le}}"),), Form.HEATMAP),
    Chart("Lag in records", "Behind the end of the input, by process.", "short",
          (Query(summed(series("consumer_lag_records"), "instance"), "{{instance}}"),), width=12),
    Chart("Lag in seconds", "Age of what the partition that is furthest behind waits for; 0 "
          "when caught up.", "s",
          (Query(largest(series("consumer_lag_seconds"), "instance"), "{{instance}}"),), width=12),
))  # fmt: skip

ASSIGNED = 'event="assigned"'
UID, TITLE = "streamfilter-overview", "streamfilter: overview"
DESCRIPTION = "Health, traffic by verdict, quality of the verdicts, latency and lag."
ROWS = (HEALTH, TRAFFIC, QUALITY, LATENCY)

MARKS = (
    Mark("Restarts", f"changes({series('process_start_time_seconds')}[{RATE}]) > 0", colours.RED),
    Mark(
        "Takeovers",
        f"{steps('rebalances_total', 'instance', matching=(ASSIGNED,))} > 0",
        colours.BLUE,
    ),
)
"""Lines in all panels: a process restarted, or a task was assigned (a start or a takeover)."""
